//! Applies children for handlers, and deletes them: which requests, how often, and what is remembered of the answers.
//!
//! Whether an object is a child is decided in `object::child`, what to ask for in `reaction::children`. Must not know why a handler wants a child.

mod directory;
mod refusal;
mod stability;
mod watched;

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::cluster::Cluster;
use crate::cluster::child::{ApplyReply, ApplyRequest, ObjectPath};
use crate::cluster::error::ClusterError;
use crate::cluster::watch::WatchEvent;
use crate::engine::children::directory::{Directory, OfOwner, Owned};
use crate::engine::children::refusal::{refused, refused_as_first};
use crate::engine::children::watched::{Known, WatchedChildren};
use crate::engine::report::report;
use crate::handler::child_requests::{
    ChildError, ChildFuture, ChildReply, ChildRequests, ChildWish, OperatorChildren,
};
use crate::happening::Happening;
use crate::happening::children::ChildHappening;
use crate::object::child::{
    ChildMarks, ChildName, ChildSight, Claim, claim, prepared, released, type_of, was_there,
};
use crate::object::collection::Collection;
use crate::object::essence::{Essence, Marks, digest};
use crate::object::hierarchy::OwnerFacts;
use crate::object::resource::Resource;
use crate::reaction::children::{AppliedFacts, Author, ChildrenMemory, Step};
use crate::rt::backoff::Backoff;

/// Requests for one child, before its handler is told that there is no end to it.
const TRIES: u32 = 8;
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// A server that wants to be left alone for longer is the handler's business.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(10);
/// For so long a kind that is not served is not looked for again.
const LOOK_FOR_KINDS: Duration = Duration::from_secs(5);

/// The operator's way to children.
pub(crate) struct ChildApplier {
    marks: ChildMarks,
    essence: Marks,
    /// Given when the operator begins to serve.
    cluster: OnceLock<Cluster>,
    directory: Arc<Directory>,
    watched: WatchedChildren,
    /// Wakes an owner for a child of a kind. Given by the engine.
    wake: OnceLock<Wake>,
    /// Times are told from here.
    begun: Instant,
    /// When a kind was last looked for.
    looked: Mutex<Option<Instant>>,
}

/// Wakes the owner with this uid for a child of this kind.
type Wake = Box<dyn Fn(&str, &Arc<Resource>) + Send + Sync>;

/// A write of a child that is under way, until it is dropped.
struct Writing<'a> {
    applier: &'a ChildApplier,
    child: ChildName,
    kind: Arc<Resource>,
}

/// One child that is asked for.
struct Task<'a> {
    cluster: &'a Cluster,
    resource: Resource,
    owner: OwnerFacts,
    child: ChildName,
    body: Value,
    wish: &'a ChildWish,
}

// === impl ===

impl ChildApplier {
    /// Of the operator with this prefix.
    pub(crate) fn new(prefix: String) -> Self {
        Self {
            essence: Marks::new(prefix.clone()),
            marks: ChildMarks { manager: prefix },
            cluster: OnceLock::new(),
            directory: Arc::default(),
            watched: WatchedChildren::default(),
            wake: OnceLock::new(),
            begun: Instant::now(),
            looked: Mutex::default(),
        }
    }

    /// The same for handlers.
    pub(crate) fn for_handlers(self: &Arc<Self>) -> OperatorChildren {
        OperatorChildren(self.clone())
    }

    /// Send requests from now on.
    pub(crate) fn start(&self, cluster: &Cluster) {
        // An operator serves once.
        drop(self.cluster.set(cluster.clone()));
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

    /// A watch of children is about to begin.
    pub(super) fn open(&self, of: &Collection, is_read: bool) {
        self.watched.open(of, is_read);
    }

    /// A watch of children is ended.
    pub(super) fn close(&self, of: &Collection) {
        self.watched.close(of);
    }

    /// What a watch of children tells: the uids of the owners that it concerns.
    pub(super) fn on_event(&self, of: &Collection, event: &WatchEvent) -> Vec<String> {
        self.watched.on_event(of, event, &self.marks)
    }

    async fn task<'a>(&'a self, wish: &'a ChildWish) -> Result<Task<'a>, ChildError> {
        let cluster = self.cluster.get().ok_or(ChildError::NoOperator)?;
        let owner = OwnerFacts::of(&wish.owner)?;
        let (api_version, kind) = type_of(&wish.object)?;
        let resource = self.resource(cluster, api_version, kind).await?;
        let object = wish.object.clone();
        let namespaced = resource.namespaced;
        let (child, body) = prepared(object, namespaced, &owner, wish.ownership, &self.marks)?;
        Ok(Task {
            cluster,
            resource,
            owner,
            child,
            body,
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

    async fn apply_child(&self, wish: &ChildWish) -> Result<ChildReply, ChildError> {
        if wish.owner.is_deleting() {
            return Err(ChildError::OwnerTerminating);
        }
        let mut task = self.task(wish).await?;
        let of_owner = wish.memo.get_or_default::<OfOwner>();
        let owned = Owned {
            uid: task.owner.uid.clone(),
            shown: format!("{} `{}`", task.owner.kind, task.owner.name),
        };
        if let Err(other) = of_owner.claim(&self.directory, &task.child, &owned) {
            return Err(task.not_ours(format!("a child of {}", other.shown)));
        }
        let wanted = Wanted {
            digest: digest(&task.body),
            author: Author {
                handler: wish.handler_id.clone(),
                state: self.state_of_owner(wish),
            },
        };
        if let Some(reply) = self.skipped(&task, &of_owner, &wanted) {
            task.is_stable();
            return Ok(reply);
        }
        let age = self.begun.elapsed();
        if let Some(withheld) = task.withheld(&of_owner, &wanted, age) {
            return Err(withheld);
        }
        let _writing = Writing::begin(self, &task);
        let applied = self.pursue(&mut task, &of_owner, &wanted).await;
        match &applied {
            Err(ChildError::Vanished(child)) => of_owner.with(|it| it.forget(child)),
            Err(ChildError::NotOurs { child, .. }) => of_owner.release(child),
            _ => {}
        }
        let reply = applied?;
        Ok(self.done(task, &of_owner, wanted, reply))
    }

    /// The child, where no request would change anything: it is as it was after the last apply, which wanted the same.
    fn skipped(&self, task: &Task<'_>, of_owner: &OfOwner, wanted: &Wanted) -> Option<ChildReply> {
        let facts = of_owner.with(|it| it.as_wanted(&task.child, &wanted.digest).cloned())?;
        let known = self.watched.known(&task.child, &facts.uid, &facts.state);
        (known == Known::There { is_intact: true }).then(|| ChildReply {
            api_version: task.resource.api_version(),
            child: task.child.clone(),
            uid: facts.uid,
            resource_version: facts.resource_version,
            created: false,
            object: None,
        })
    }

    /// The first request. A child that its watch does not show may have lost its label, or be gone.
    fn first_step(&self, task: &Task<'_>, of_owner: &OfOwner, wanted: &Wanted) -> Step {
        let first = |it: &mut ChildrenMemory| it.step(&task.child, &wanted.digest, &wanted.author);
        match of_owner.with(first) {
            Step::Again { uid } => match self.watched.known(&task.child, &uid, "") {
                Known::Absent | Known::Terminating => Step::Look,
                Known::Nothing | Known::There { .. } => Step::Again { uid },
            },
            step => step,
        }
    }

    fn done(
        &self,
        task: Task<'_>,
        of_owner: &OfOwner,
        wanted: Wanted,
        reply: ApplyReply,
    ) -> ChildReply {
        let sight = ChildSight::of(&reply.object, &self.marks);
        let facts = wanted.applied_as(&sight);
        let (uid, resource_version) = (facts.uid.clone(), facts.resource_version.clone());
        let changed = of_owner.with(|it| it.applied(&task.child, facts));
        let is_own = reply.created || changed == Some(true);
        self.watched.replied(&task.child, sight, is_own);
        let child = task.child.clone();
        task.tell(match (reply.created, changed) {
            (true, _) => ChildHappening::Created(child),
            (false, Some(false)) => ChildHappening::Unchanged(child),
            (false, _) => ChildHappening::Changed(child),
        });
        ChildReply {
            api_version: task.resource.api_version(),
            child: task.child,
            uid,
            resource_version,
            created: reply.created,
            object: Some(reply.object),
        }
    }

    /// Send requests until one of them has applied the child, or nothing can.
    async fn pursue(
        &self,
        task: &mut Task<'_>,
        of_owner: &OfOwner,
        wanted: &Wanted,
    ) -> Result<ApplyReply, ChildError> {
        let mut step = self.first_step(task, of_owner, wanted);
        let mut backoff = Backoff::new(PAUSES.0, PAUSES.1);
        for _ in 0..TRIES {
            let tried = match step.clone() {
                Step::TwoAuthors { first } => {
                    return Err(ChildError::TwoAuthors {
                        child: task.child.clone(),
                        first,
                        second: wanted.author.handler.clone(),
                    });
                }
                Step::Look => self.look(task).await.map(Err),
                Step::First => {
                    of_owner.with(|it| it.attempted(&task.child));
                    self.first(task).await.map(Ok)
                }
                Step::Again { uid } => self.again(task, uid).await.map(Ok),
            };
            let (error, landed) = match tried {
                Ok(Ok(reply)) => return Ok(reply),
                Ok(Err(next)) => {
                    step = next;
                    continue;
                }
                Err(Trouble::Final(error)) => return Err(error),
                Err(Trouble::Repeat { error, landed }) => (error, landed),
            };
            if step == Step::First && landed {
                step = Step::Look;
            }
            let asked_for = error.retry_after().unwrap_or_default();
            if asked_for > LONGEST_RETRY_AFTER {
                return Err(task.not_now(&error));
            }
            sleep(backoff.next_pause_after(asked_for, task.cluster.rng())).await;
        }
        let error = format!("the server has not taken it in {TRIES} requests");
        let child = task.child.clone();
        Err(ChildError::NotNow { child, error })
    }

    fn state_of_owner(&self, wish: &ChildWish) -> String {
        let essence = Essence::of(&wish.owner, None, &self.essence, |_| {});
        essence.digest().to_owned()
    }

    /// What to do next, by what has the child's name.
    async fn look(&self, task: &Task<'_>) -> Result<Step, Trouble> {
        let found = match task.cluster.look_at(task.path(), true).await {
            Ok(found) => found,
            Err(ClusterError::NotFound(_)) => return Ok(Step::First),
            Err(error) => return Err(trouble(&task.child, error)),
        };
        match claim(&found, &task.owner, task.wish.ownership, &self.marks) {
            Claim::Ours => {
                let uid = found["metadata"]["uid"].as_str().unwrap_or_default();
                let uid = uid.to_owned();
                Ok(Step::Again { uid })
            }
            Claim::Terminating => {
                let child = task.child.clone();
                Err(Trouble::Final(ChildError::Terminating(child)))
            }
            Claim::Stranger(why) => Err(Trouble::Final(task.not_ours(why))),
        }
    }

    /// An apply that takes nothing from others.
    async fn first(&self, task: &Task<'_>) -> Result<ApplyReply, Trouble> {
        let applied = task
            .cluster
            .apply(self.request(task, &task.body, false))
            .await;
        let reply = applied.map_err(|error| match refused_as_first(&task.child, &error) {
            Some(refused) => Trouble::Final(refused),
            None => trouble(&task.child, error),
        })?;
        if reply.created {
            return Ok(reply);
        }
        let Some(why) = was_there(&reply.object, &self.marks) else {
            return Ok(reply);
        };
        let bare = released(&reply.object);
        let release = task.cluster.apply(self.request(task, &bare, false)).await;
        let why = match release {
            Ok(_) => why,
            Err(error) => format!("{why}; what was added to it could not be taken back: {error}"),
        };
        Err(Trouble::Final(task.not_ours(why)))
    }

    /// An apply of a child that is known.
    async fn again(&self, task: &mut Task<'_>, uid: String) -> Result<ApplyReply, Trouble> {
        task.body["metadata"]["uid"] = uid.into();
        let applied = task
            .cluster
            .apply(self.request(task, &task.body, true))
            .await;
        applied.map_err(|error| match error {
            ClusterError::Conflict(_) | ClusterError::OtherObject(_) => {
                Trouble::Final(ChildError::Vanished(task.child.clone()))
            }
            error => trouble(&task.child, error),
        })
    }

    fn request<'a>(&'a self, task: &'a Task<'_>, body: &'a Value, force: bool) -> ApplyRequest<'a> {
        ApplyRequest {
            object: task.path(),
            manager: &self.marks.manager,
            force,
            body,
        }
    }

    async fn delete_child(&self, wish: &ChildWish) -> Result<bool, ChildError> {
        let task = self.task(wish).await?;
        let mut backoff = Backoff::new(PAUSES.0, PAUSES.1);
        for _ in 0..TRIES {
            let error = match self.try_to_delete(&task).await {
                Ok(deleted) => {
                    let of_owner = wish.memo.get_or_default::<OfOwner>();
                    of_owner.with(|it| it.forget(&task.child));
                    return Ok(deleted);
                }
                Err(error) => error,
            };
            if !error.is_transient() && !matches!(error, ClusterError::Conflict(_)) {
                return Err(refused(&task.child, &error));
            }
            let asked_for = error.retry_after().unwrap_or_default();
            if asked_for > LONGEST_RETRY_AFTER {
                return Err(task.not_now(&error));
            }
            sleep(backoff.next_pause_after(asked_for, task.cluster.rng())).await;
        }
        let error = format!("it is not deleted after {TRIES} requests");
        let child = task.child;
        Err(ChildError::NotNow { child, error })
    }

    async fn try_to_delete(&self, task: &Task<'_>) -> Result<bool, ClusterError> {
        let found = match task.cluster.look_at(task.path(), true).await {
            Err(ClusterError::NotFound(_)) => return Ok(false),
            found => found?,
        };
        match claim(&found, &task.owner, task.wish.ownership, &self.marks) {
            Claim::Ours => {}
            Claim::Terminating => return Ok(true),
            Claim::Stranger(why) => {
                let child = task.child.clone();
                task.tell(ChildHappening::NotDeleted { child, why });
                return Ok(false);
            }
        }
        let text = |key: &str| found["metadata"][key].as_str().unwrap_or_default();
        let deleted = task
            .cluster
            .delete(task.path(), text("uid"), text("resourceVersion"))
            .await;
        match deleted {
            Ok(()) | Err(ClusterError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        task.tell(ChildHappening::Deleted(task.child.clone()));
        Ok(true)
    }

    async fn read_child(&self, api_version: &str, child: &ChildName) -> Result<Value, ChildError> {
        let cluster = self.cluster.get().ok_or(ChildError::NoOperator)?;
        let resource = self.resource(cluster, api_version, &child.kind).await?;
        let object = ObjectPath {
            resource: &resource,
            namespace: child.namespace.as_deref(),
            name: &child.name,
        };
        let read = cluster.look_at(object, false).await;
        read.map_err(|error| ChildError::NotNow {
            child: child.clone(),
            error: error.to_string(),
        })
    }
}

impl<'a> Writing<'a> {
    fn begin(applier: &'a ChildApplier, task: &Task<'_>) -> Self {
        applier.watched.begin(&task.child);
        Self {
            applier,
            child: task.child.clone(),
            kind: Arc::new(task.resource.clone()),
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

/// Why a request has not done what it was for.
enum Trouble {
    /// It may be repeated; whether it may have been carried out.
    Repeat {
        error: ClusterError,
        landed: bool,
    },
    Final(ChildError),
}

fn trouble(child: &ChildName, error: ClusterError) -> Trouble {
    let is_for_good = refusal::is_for_good(&error);
    let is_outdated = matches!(error, ClusterError::Conflict(_));
    if !is_for_good && (error.is_transient() || is_outdated) {
        let landed = error.may_have_landed();
        Trouble::Repeat { error, landed }
    } else {
        Trouble::Final(refused(child, &error))
    }
}

/// What a handler wants of a child.
struct Wanted {
    digest: String,
    author: Author,
}

impl Wanted {
    fn applied_as(self, sight: &ChildSight) -> AppliedFacts {
        AppliedFacts {
            uid: sight.uid.clone(),
            resource_version: sight.version.clone(),
            state: sight.state.clone(),
            digest: self.digest,
            author: self.author,
        }
    }
}

impl Task<'_> {
    fn path(&self) -> ObjectPath<'_> {
        ObjectPath {
            resource: &self.resource,
            namespace: self.child.namespace.as_deref(),
            name: &self.child.name,
        }
    }

    fn tell(&self, happening: ChildHappening) {
        report(&self.wish.logger, &Happening::Child(happening));
    }

    fn not_ours(&self, why: String) -> ChildError {
        let child = self.child.clone();
        ChildError::NotOurs { child, why }
    }

    fn not_now(&self, error: &ClusterError) -> ChildError {
        ChildError::NotNow {
            child: self.child.clone(),
            error: error.to_string(),
        }
    }
}

impl ChildRequests for ChildApplier {
    fn apply(self: Arc<Self>, wish: ChildWish) -> ChildFuture<ChildReply> {
        Box::pin(async move { self.apply_child(&wish).await })
    }

    fn read(self: Arc<Self>, api_version: String, child: ChildName) -> ChildFuture<Value> {
        Box::pin(async move { self.read_child(&api_version, &child).await })
    }

    fn delete(self: Arc<Self>, wish: ChildWish) -> ChildFuture<bool> {
        Box::pin(async move { self.delete_child(&wish).await })
    }
}

impl fmt::Debug for ChildApplier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildApplier")
            .field("marks", &self.marks)
            .finish_non_exhaustive()
    }
}
