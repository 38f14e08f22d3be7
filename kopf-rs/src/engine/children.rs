//! Applies and deletes children on behalf of handlers: sends the requests, repeats them, and remembers the answers.
//!
//! `object::child` decides which objects are children, `reaction::children` decides which request to send. Must not know why a handler wants
//! a child.

mod applying;
pub(super) mod child_table;
mod directory;
mod reading;
mod recreating;
mod refusal;
mod removing;
mod sets;
mod task;
mod watched;

use std::fmt;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::Cluster;
use crate::cluster::watch::WatchEvent;
use crate::engine::children::child_table::{AppliedState, ChildNews};
use crate::engine::children::directory::Directory;
use crate::engine::children::task::{Target, Task};
use crate::engine::children::watched::SharedChildren;
use crate::engine::follower::EngineWatch;
use crate::engine::object_table::StreamId;
use crate::engine::owners::{OwnerNews, Owners};
use crate::handler::child_requests::{
    ChildContext, ChildError, ChildFuture, ChildReply, ChildRequests, ChildWish, OperatorChildren,
};
use crate::object::child::{Belonging, ChildMarks, ChildName, prepared, type_of};
use crate::object::essence::Marks;
use crate::object::hierarchy::OwnerFacts;
use crate::object::resource::Resource;
use crate::object::selector::Selector;

/// Minimum interval between two discoveries that search for an unknown kind.
const LOOK_FOR_KINDS: Duration = Duration::from_secs(5);

/// Sends the requests for children of one operator.
pub(crate) struct ChildApplier {
    marks: ChildMarks,
    /// The kinds that handlers own or have owned. Their children are watched.
    kinds: Vec<Selector>,
    essence: Marks,
    /// Set when the operator begins to serve.
    cluster: OnceLock<Cluster>,
    /// The operator's own runtime, set together with the cluster.
    home: OnceLock<Handle>,
    directory: Arc<Directory>,
    watched: Arc<SharedChildren>,
    /// The owners to wake. Set by the engine.
    owners: OnceLock<Weak<Owners>>,
    /// The origin of all durations in this module.
    begun: Instant,
    /// When discovery last searched for an unknown kind.
    looked: Mutex<Option<Instant>>,
    /// Another operator is active.
    is_paused: AtomicBool,
}

/// Marks a write of a child as in flight until it is dropped.
struct Writing<'a> {
    applier: &'a ChildApplier,
    child: ChildName,
    kind: Arc<Resource>,
}

// === impl ===

impl ChildApplier {
    /// Creates the applier of the operator with this prefix, whose handlers own children of these kinds.
    pub(crate) fn new(prefix: String, kinds: Vec<Selector>) -> Self {
        let watched = Arc::<SharedChildren>::default();
        Self {
            kinds,
            essence: Marks::new(prefix.clone()),
            marks: ChildMarks { manager: prefix },
            cluster: OnceLock::new(),
            home: OnceLock::new(),
            directory: Arc::new(Directory::new(watched.clone())),
            watched,
            owners: OnceLock::new(),
            begun: Instant::now(),
            looked: Mutex::default(),
            is_paused: AtomicBool::new(false),
        }
    }

    /// Returns the interface that handlers use.
    pub(crate) fn for_handlers(self: &Arc<Self>) -> OperatorChildren {
        OperatorChildren(self.clone())
    }

    /// Sends requests to this cluster from now on, on the present runtime.
    pub(crate) fn start(&self, cluster: &Cluster) {
        // Set once, since an operator serves once.
        drop(self.cluster.set(cluster.clone()));
        drop(self.home.set(Handle::current()));
    }

    /// Runs a request on the operator's own runtime. A request in flight holds one of few connections, while handlers may block all threads
    /// of their own runtime or stop polling a future.
    fn on_engine_runtime<T: Send + 'static>(
        &self,
        doing: impl Future<Output = Result<T, ChildError>> + Send + 'static,
    ) -> ChildFuture<T> {
        let home = self.home.get();
        let task = home.map(|home| AbortOnDropHandle::new(home.spawn(doing.boxed())));
        Box::pin(async move {
            match task.ok_or(ChildError::NoOperator)?.await {
                Ok(done) => done,
                Err(ended) if ended.is_panic() => resume_unwind(ended.into_panic()),
                // The runtime has shut down.
                Err(_) => Err(ChildError::NoOperator),
            }
        })
    }

    /// Stops or resumes writing: while another operator is active, that one writes children.
    pub(super) fn pause(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Relaxed);
        if !is_paused {
            self.begin_term();
        }
    }

    /// Begins a term after another instance or operator was active. That one may have changed children in ways that our watches have not
    /// reported yet, so children without events since then count as unknown.
    pub(super) fn begin_term(&self) {
        self.watched.lock().table.begin_term();
    }

    /// Returns whether writes are allowed. Checked before each write, because a pause may begin between the apply of a set and its
    /// deletions.
    fn may_write(&self) -> bool {
        !self.is_paused.load(Ordering::Relaxed)
    }

    /// Returns the label of all children, as a selector.
    pub(super) fn label(&self) -> String {
        format!("{}=true", self.marks.label())
    }

    /// Wakes these owners from now on.
    pub(super) fn wakes(&self, owners: &Arc<Owners>) {
        // Set once, since there is one engine.
        drop(self.owners.set(Arc::downgrade(owners)));
    }

    /// Registers a watch of children; call it before the watch begins.
    pub(super) fn open(&self, watch: &EngineWatch, is_read: bool, replaces: Option<StreamId>) {
        let of = watch.collection.clone();
        self.watched.lock().open(watch.stream, of, is_read, replaces);
    }

    /// Forgets a watch of children that has ended.
    pub(super) fn close(&self, watch: &EngineWatch) {
        self.watched.lock().close(watch.stream);
    }

    /// Processes one event of a watch of children, and wakes the owners concerned.
    pub(super) fn on_event(&self, watch: &EngineWatch, event: &WatchEvent) {
        let of = &watch.collection;
        let found = self.watched.lock().on_event(watch.stream, event, &self.marks);
        let Some((mut news, with_more)) = found else {
            return;
        };
        if matches!(event, WatchEvent::Synced(_)) {
            let watched = self.watched.lock();
            let is_there = |uid: &str, applied: &AppliedState| watched.table.is_intact(uid, applied);
            let changed = self.directory.changed(of, is_there).into_iter();
            news.extend(changed.map(|(owner, uid)| ChildNews { owner, child: watched.table.version(uid) }));
            drop(watched);
            news.sort_unstable();
            news.dedup();
        }
        self.tell(news, OwnerNews::Changed, &of.resource);
        for owner in with_more {
            self.tell_one(OwnerNews::LeftOver(owner), &of.resource);
        }
    }

    /// Wakes the owners of children of this kind.
    fn tell(&self, news: Vec<ChildNews>, what: impl Fn(ChildNews) -> OwnerNews, kind: &Arc<Resource>) {
        for news in news {
            self.tell_one(what(news), kind);
        }
    }

    fn tell_one(&self, news: OwnerNews, kind: &Arc<Resource>) {
        if let Some(owners) = self.owners.get().and_then(Weak::upgrade) {
            owners.tell(news, kind);
        }
    }

    /// Returns whether children of this resource are watched as soon as it is served.
    fn is_watched(&self, resource: &Resource) -> bool {
        self.kinds.iter().any(|kind| kind.names(resource))
    }

    async fn task<'a>(&'a self, wish: &'a ChildWish) -> Result<Task<'a>, ChildError> {
        let cluster = self.cluster.get().ok_or(ChildError::NoOperator)?;
        let context = &wish.context;
        let owner = OwnerFacts::of(&context.owner)?;
        let (api_version, kind) = type_of(&wish.object)?;
        let resource = self.resource(cluster, api_version, kind).await?;
        let belonging =
            Belonging { ownership: context.ownership, set: wish.in_set.then_some(&*context.handler_id) };
        let object = wish.object.clone();
        let namespaced = resource.namespaced;
        let (child, body) = prepared(object, namespaced, &owner, belonging, &self.marks)?;
        let target = Target { cluster, resource, child, logger: &context.logger };
        Ok(Task { target, owner, body, managers: None, version: None, wish })
    }

    /// Returns the resource of a kind. Repeats discovery if the kind is unknown, since it may be served by now.
    async fn resource(
        &self,
        cluster: &Cluster,
        api_version: &str,
        kind: &str,
    ) -> Result<Resource, ChildError> {
        if let Some(known) = cluster.discovered_kind(api_version, kind) {
            return Ok(known);
        }
        if self.may_look_for_kinds() && cluster.discover().await.is_ok() {
            let found = cluster.discovered_kind(api_version, kind);
            if let Some(found) = found {
                return Ok(found);
            }
        }
        Err(ChildError::KindMissing { api_version: api_version.to_owned(), kind: kind.to_owned() })
    }

    fn may_look_for_kinds(&self) -> bool {
        let mut looked = self.looked.lock();
        let now = Instant::now();
        let may = looked.is_none_or(|at| now.duration_since(at) >= LOOK_FOR_KINDS);
        if may {
            *looked = Some(now);
        }
        may
    }
}

impl<'a> Writing<'a> {
    fn begin(applier: &'a ChildApplier, target: &Target<'_>) -> Self {
        applier.watched.lock().begin(&target.child);
        Self { applier, child: target.child.clone(), kind: Arc::new(target.resource.clone()) }
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let news = self.applier.watched.lock().end(&self.child);
        self.applier.tell(news, OwnerNews::Changed, &self.kind);
    }
}

impl ChildRequests for ChildApplier {
    fn apply(self: Arc<Self>, wish: ChildWish) -> ChildFuture<ChildReply> {
        let applier = self.clone();
        self.on_engine_runtime(async move { applier.apply_child(&wish).await })
    }

    fn set(self: Arc<Self>, objects: Vec<Value>, of: ChildContext) -> ChildFuture<Vec<ChildReply>> {
        let applier = self.clone();
        self.on_engine_runtime(async move { applier.apply_set(objects, of).await })
    }

    fn read(self: Arc<Self>, wish: ChildWish) -> ChildFuture<Option<Value>> {
        let applier = self.clone();
        self.on_engine_runtime(async move { applier.read_child(&wish).await })
    }

    fn list(self: Arc<Self>, wish: ChildWish) -> ChildFuture<Vec<Value>> {
        let applier = self.clone();
        self.on_engine_runtime(async move { applier.list_children(&wish).await })
    }

    fn read_applied(self: Arc<Self>, api_version: String, child: ChildName) -> ChildFuture<Value> {
        let applier = self.clone();
        self.on_engine_runtime(async move { applier.read_object(&api_version, &child).await })
    }

    fn delete(self: Arc<Self>, wish: ChildWish) -> ChildFuture<bool> {
        let applier = self.clone();
        self.on_engine_runtime(async move { applier.delete_child(&wish).await })
    }

    fn orphan(self: Arc<Self>, wish: ChildWish) -> ChildFuture<bool> {
        let applier = self.clone();
        self.on_engine_runtime(async move { applier.orphan_child(&wish).await })
    }
}

impl fmt::Debug for ChildApplier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildApplier").field("marks", &self.marks).finish_non_exhaustive()
    }
}
