//! Applies children for handlers, and deletes them: which requests, how often, and what is remembered of the answers.
//!
//! Whether an object is a child is decided in `object::child`, what to ask for in `reaction::children`. Must not know why a handler wants a child.

mod applying;
mod directory;
mod reading;
mod refusal;
mod removing;
mod sets;
mod stability;
mod task;
mod watched;

use std::fmt;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::cluster::Cluster;
use crate::cluster::watch::WatchEvent;
use crate::engine::children::directory::Directory;
use crate::engine::children::task::{Target, Task};
use crate::engine::children::watched::WatchedChildren;
use crate::handler::child_requests::{
    ChildContext, ChildError, ChildFuture, ChildReply, ChildRequests, ChildWish, OperatorChildren,
};
use crate::object::child::{Belonging, ChildMarks, ChildName, prepared, type_of};
use crate::object::collection::Collection;
use crate::object::essence::Marks;
use crate::object::hierarchy::OwnerFacts;
use crate::object::resource::Resource;
use crate::object::selector::Selector;

/// For so long a kind that is not served is not looked for again.
const LOOK_FOR_KINDS: Duration = Duration::from_secs(5);

/// The operator's way to children.
pub(crate) struct ChildApplier {
    marks: ChildMarks,
    /// The kinds that handlers own or have owned: their children are watched.
    kinds: Vec<Selector>,
    essence: Marks,
    /// Given when the operator begins to serve.
    cluster: OnceLock<Cluster>,
    /// The operator's own runtime, given with it.
    home: OnceLock<Handle>,
    directory: Arc<Directory>,
    watched: WatchedChildren,
    /// Wakes an owner for a child of a kind. Given by the engine.
    wake: OnceLock<Wake>,
    /// Times are told from here.
    begun: Instant,
    /// When a kind was last looked for.
    looked: Mutex<Option<Instant>>,
    /// Another operator is active.
    is_paused: AtomicBool,
}

/// Wakes the owner with this uid for a child of this kind.
type Wake = Box<dyn Fn(&str, &Arc<Resource>) + Send + Sync>;

/// A write of a child that is under way, until it is dropped.
struct Writing<'a> {
    applier: &'a ChildApplier,
    child: ChildName,
    kind: Arc<Resource>,
}

// === impl ===

impl ChildApplier {
    /// Of the operator with this prefix, of which handlers own children of these kinds.
    pub(crate) fn new(prefix: String, kinds: Vec<Selector>) -> Self {
        Self {
            kinds,
            essence: Marks::new(prefix.clone()),
            marks: ChildMarks { manager: prefix },
            cluster: OnceLock::new(),
            home: OnceLock::new(),
            directory: Arc::default(),
            watched: WatchedChildren::default(),
            wake: OnceLock::new(),
            begun: Instant::now(),
            looked: Mutex::default(),
            is_paused: AtomicBool::new(false),
        }
    }

    /// The same for handlers.
    pub(crate) fn for_handlers(self: &Arc<Self>) -> OperatorChildren {
        OperatorChildren(self.clone())
    }

    /// Send requests from now on, on this runtime.
    pub(crate) fn start(&self, cluster: &Cluster) {
        // An operator serves once.
        drop(self.cluster.set(cluster.clone()));
        drop(self.home.set(Handle::current()));
    }

    /// Do this on the operator's own runtime: a request under way has one of few places, and handlers may block all threads of theirs, or not await
    /// what they have begun.
    fn at_home<T: Send + 'static>(
        &self,
        doing: impl Future<Output = Result<T, ChildError>> + Send + 'static,
    ) -> ChildFuture<T> {
        let home = self.home.get();
        let task = home.map(|home| AbortOnDropHandle::new(home.spawn(doing)));
        Box::pin(async move {
            match task.ok_or(ChildError::NoOperator)?.await {
                Ok(done) => done,
                Err(ended) if ended.is_panic() => resume_unwind(ended.into_panic()),
                // The runtime is gone.
                Err(_) => Err(ChildError::NoOperator),
            }
        })
    }

    /// Another operator is active from now on, or is no more: children are its business.
    pub(super) fn pause(&self, is_paused: bool) {
        self.is_paused.store(is_paused, Ordering::Relaxed);
    }

    /// Asked before each write, and not only of the first: a pause may begin between the apply of a set and its deletions.
    fn may_write(&self) -> bool {
        !self.is_paused.load(Ordering::Relaxed)
    }

    /// The label of all children, as a selector.
    pub(super) fn label(&self) -> String {
        format!("{}=true", self.marks.label())
    }

    /// Wake owners like this.
    pub(super) fn wakes(&self, wake: impl Fn(&str, &Arc<Resource>) + Send + Sync + 'static) {
        // There is one engine.
        drop(self.wake.set(Box::new(wake)));
    }

    /// Call before a watch of children begins.
    pub(super) fn open(&self, of: &Collection, is_read: bool) {
        self.watched.open(of, is_read);
    }

    /// A watch of children is ended.
    pub(super) fn close(&self, of: &Collection) {
        self.watched.close(of);
    }

    /// What a watch of children tells: the uids of the owners that it concerns.
    pub(super) fn on_event(&self, of: &Collection, event: &WatchEvent) -> Vec<String> {
        let mut owners = self.watched.on_event(of, event, &self.marks);
        if matches!(event, WatchEvent::Synced) {
            let is_there = |uid: &str, state: &str| self.watched.shows(of, uid, state);
            owners.extend(self.directory.changed(of, is_there));
            owners.sort_unstable();
            owners.dedup();
        }
        owners
    }

    /// Whether the children of a resource are watched, once it is served.
    fn is_watched(&self, resource: &Resource) -> bool {
        self.kinds.iter().any(|kind| kind.names(resource))
    }

    async fn task<'a>(&'a self, wish: &'a ChildWish) -> Result<Task<'a>, ChildError> {
        let cluster = self.cluster.get().ok_or(ChildError::NoOperator)?;
        let context = &wish.context;
        let owner = OwnerFacts::of(&context.owner)?;
        let (api_version, kind) = type_of(&wish.object)?;
        let resource = self.resource(cluster, api_version, kind).await?;
        let belonging = Belonging {
            ownership: context.ownership,
            set: wish.in_set.then_some(&*context.handler_id),
        };
        let object = wish.object.clone();
        let namespaced = resource.namespaced;
        let (child, body) = prepared(object, namespaced, &owner, belonging, &self.marks)?;
        let target = Target {
            cluster,
            resource,
            child,
            logger: &context.logger,
        };
        Ok(Task {
            target,
            owner,
            body,
            managers: None,
            version: None,
            wish,
        })
    }

    /// The resource of a kind, which may be served since the last discovery.
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
        Err(ChildError::KindMissing {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        })
    }

    fn may_look_for_kinds(&self) -> bool {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
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
        applier.watched.begin(&target.child);
        Self {
            applier,
            child: target.child.clone(),
            kind: Arc::new(target.resource.clone()),
        }
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        for owner in self.applier.watched.end(&self.child) {
            if let Some(wake) = self.applier.wake.get() {
                wake(&owner, &self.kind);
            }
        }
    }
}

impl ChildRequests for ChildApplier {
    fn apply(self: Arc<Self>, wish: ChildWish) -> ChildFuture<ChildReply> {
        let applier = self.clone();
        self.at_home(async move { applier.apply_child(&wish).await })
    }

    fn set(self: Arc<Self>, objects: Vec<Value>, of: ChildContext) -> ChildFuture<Vec<ChildReply>> {
        let applier = self.clone();
        self.at_home(async move { applier.apply_set(objects, of).await })
    }

    fn read(self: Arc<Self>, wish: ChildWish) -> ChildFuture<Option<Value>> {
        let applier = self.clone();
        self.at_home(async move { applier.read_child(&wish).await })
    }

    fn read_applied(self: Arc<Self>, api_version: String, child: ChildName) -> ChildFuture<Value> {
        let applier = self.clone();
        self.at_home(async move { applier.read_object(&api_version, &child).await })
    }

    fn delete(self: Arc<Self>, wish: ChildWish) -> ChildFuture<bool> {
        let applier = self.clone();
        self.at_home(async move { applier.delete_child(&wish).await })
    }

    fn orphan(self: Arc<Self>, wish: ChildWish) -> ChildFuture<bool> {
        let applier = self.clone();
        self.at_home(async move { applier.orphan_child(&wish).await })
    }
}

impl fmt::Debug for ChildApplier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildApplier")
            .field("marks", &self.marks)
            .finish_non_exhaustive()
    }
}
