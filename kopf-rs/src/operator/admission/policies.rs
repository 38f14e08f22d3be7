//! Keeps the policies of validation rules up to date, removes those of rules that no longer exist, and checks that definitions contain their
//! rules.
//!
//! Policies work without the operator, so they stay when it ends. The newest of several instances decides on the contents and the
//! existence of a policy: see [`crate::admission::instances`]. An instance that ends removes itself from the lists. Must not know how rules
//! become policies.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::OptionFuture;
use serde_json::Value;
use tokio::sync::watch;

use crate::admission::configuration::Found;
use crate::admission::rules::{
    GROUP, PolicySource, RulePolicy, definitions, label, missing_in, names, policies, policy_version,
};
use crate::cluster::Cluster;
use crate::cluster::child::Propagation;
use crate::cluster::error::ClusterError;
use crate::engine::invoke::guarded;
use crate::engine::report::report_of_operator;
use crate::handler::validation_rule::DeclaredRule;
use crate::happening::webhooks::RuleServing;
use crate::health::board::Board;
use crate::object::patch::difference;
use crate::object::resource::Resource;
use crate::operator::admission::driver::{Drivers, Failure, Reconciler};
use crate::operator::admission::managed::panicked;
use crate::operator::admission::managed_object::{
    KeptObject, LOOK, Touched, Unanswered, explained, watch_labelled,
};
use crate::operator::admission::sharing::{Plan, Sharing};
use crate::operator::settings::named_host;
use crate::rt::clock::Clock;

/// The number of operators in this process so far that keep policies.
static KEEPERS: AtomicU32 = AtomicU32::new(0);

/// The kinds of policies and bindings, in the version that the cluster serves.
type Kinds = [Arc<Resource>; 2];

/// Keeps policies as the rules want them, whenever the cluster serves other kinds.
pub(crate) struct PolicyKeeper {
    cluster: Cluster,
    rules: Vec<Arc<DeclaredRule>>,
    /// `OPERATOR.kopf.rs`
    domain: String,
    /// The served resources; `None` until discovery has reported them.
    found: watch::Receiver<Option<Found>>,
    /// Receives the state of the rules for status pages.
    board: Option<Board>,
    sharing: Sharing,
    /// No newer instance has written any policy of the operator, so this one creates the missing ones.
    is_newest: bool,
    /// This instance may be on the list of a policy.
    is_listed: bool,
    unanswered: Unanswered,
    watched: Option<(Kinds, [Touched; 2])>,
    /// The operator may not list policies, and needs none, so it does not watch them either.
    is_needless: bool,
    /// The needed objects that belong to another program, as last seen.
    taken: Vec<String>,
    /// The reports made so far: rules missing in definitions, and rules whose policies belong to another program.
    reported: Vec<RuleServing>,
}

/// A policy or binding of the operator, as found.
struct Own {
    object: KeptObject,
    found: Value,
}

/// The operation on such an object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Keep,
    /// This instance enters itself in the list of instances.
    List,
    Delete,
}

impl Own {
    fn is_policy(&self) -> bool {
        self.object.resource.kind == "ValidatingAdmissionPolicy"
    }
}

impl PolicyKeeper {
    pub(crate) fn new(
        cluster: &Cluster,
        rules: Vec<Arc<DeclaredRule>>,
        domain: String,
        found: watch::Receiver<Option<Found>>,
        board: Option<Board>,
        clock: Clock,
    ) -> Self {
        // Identifies this process among all others. In a Pod, the identity survives restarts of the container.
        let number = KEEPERS.fetch_add(1, Ordering::Relaxed);
        let instance = format!("{}:{}-{number}", named_host("operator"), std::process::id());
        Self {
            cluster: cluster.clone(),
            rules,
            sharing: Sharing::new(&domain, &instance, clock),
            domain,
            found,
            board,
            is_newest: false,
            is_listed: false,
            unanswered: Unanswered::default(),
            watched: None,
            is_needless: false,
            taken: Vec::new(),
            reported: Vec::new(),
        }
    }

    /// Starts to keep the policies up to date.
    pub(crate) fn start(self, backoff: (Duration, Duration)) -> Drivers {
        let mut drivers = Drivers::new(&self.cluster.clone(), backoff);
        drivers.start(self);
        drivers
    }

    /// Returns whether discovery has ended.
    fn is_looked_at(&self) -> bool {
        self.found.borrow().is_some()
    }

    /// Returns whether there are no rules, and no policies of a former release.
    fn has_nothing_left(&self) -> bool {
        self.rules.is_empty() && self.is_looked_at() && !self.is_listed
    }

    /// Returns the kinds of policies and bindings, as the cluster serves them.
    fn kinds(&self) -> Kinds {
        let found = self.found.borrow();
        let resources = found.as_ref().map_or(&[][..], |it| it.resources.as_slice());
        kinds(policy_version(resources))
    }

    /// Reports the state of the rules. A rule that is not enforced makes the operator unready, unless the operator may not write policies.
    fn publish_to_board(&self, error: Option<&ClusterError>) {
        let Some(board) = self.board.as_ref() else {
            return;
        };
        if self.rules.is_empty() || !self.is_looked_at() {
            return;
        }
        let error = error.filter(|it| !matches!(it, ClusterError::Denied { .. }));
        if !matches!(error, Some(ClusterError::Conflict(_))) {
            let taken = self.taken.first().cloned();
            board.enforces_rules(error.map(ToString::to_string).or(taken));
        }
    }

    /// Writes the list of instances into an object if it differs.
    async fn list(&mut self, own: &Own, plan: &Plan) -> Result<(), ClusterError> {
        let (cluster, unanswered) = (&self.cluster, &mut self.unanswered);
        own.object.carry_out(cluster, Some(&own.found), plan, Value::Null, unanswered).await
    }

    async fn put_all(&mut self) -> Result<(), ClusterError> {
        let found = self.found.borrow_and_update().clone();
        let Some(found) = found else {
            return Ok(());
        };
        let source = PolicySource { rules: &self.rules, found: &found, domain: &self.domain };
        let made = guarded(|| (policies(source), names(source), definitions(source)));
        let (policies, wanted, definitions) = made.map_err(|panic| panicked(&panic))?;
        self.taken.clear();
        // Goes on with the other objects after a failure.
        let own = self.own().await;
        // An operator without policies needs no permission for them, unless a former release has left some.
        self.is_needless = policies.is_empty()
            && matches!(&own, Err((is_binding, error)) if error.is_lasting() && !(*is_binding && self.rules.is_empty()));
        let mut all = match own {
            Ok(own) => self.put_policies(&policies, &wanted, &own).await,
            Err(_) if self.is_needless => Ok(()),
            Err((_, error)) => return Err(unserved(error)),
        };
        for name in definitions {
            all = all.and(self.look_at_definition(name).await);
        }
        all
    }

    /// Writes all policies with their bindings, and removes those of rules that no longer exist.
    async fn put_policies(
        &mut self,
        policies: &[RulePolicy],
        wanted: &BTreeSet<String>,
        all_own: &[Own],
    ) -> Result<(), ClusterError> {
        self.sharing.come(all_own.iter().map(|it| &it.found));
        let plans = all_own.iter();
        let plans = plans.map(|own| self.sharing.plan(Some(&own.found), true, false));
        let plans: Vec<Plan> = plans.collect();
        self.is_newest = plans.iter().all(|it| it.decides);
        let has_rules = !self.rules.is_empty();
        if !has_rules {
            // Even if a newer instance decides, this one continues to watch, and removes itself from the lists at its end.
            self.is_listed = plans.iter().any(|it| it.is_listed);
        }
        // Goes on with the other policies after a failure.
        let mut all = Ok(());
        for policy in policies {
            all = all.and(self.put_both(policy).await);
        }
        let fates = all_own.iter().zip(&plans).map(|(own, plan)| {
            let name = &own.object.name;
            let is_written = policies.iter().any(|it| it.name == *name);
            let decides = plan.decides && (has_rules || self.is_newest);
            if is_written || !decides && !wanted.contains(name) && (has_rules || !plan.is_listed) {
                return Fate::Keep;
            }
            // Other instances would recreate a missing policy. So, without rules, it stays without its binding, and names this instance as
            // the newest.
            let is_shared = !has_rules && own.is_policy() && plan.is_shared;
            // The kinds of a wanted policy are not served at present. Its list would otherwise name instances that are gone, and not this one.
            if wanted.contains(name) || !decides || is_shared { Fate::List } else { Fate::Delete }
        });
        let fates: Vec<Fate> = fates.collect();
        let due = |fate| {
            let all = all_own.iter().zip(&plans).zip(&fates);
            all.filter(move |(_, it)| **it == fate).map(|(it, _)| it)
        };
        // Before the bindings are deleted, so that no other instance recreates them.
        for (own, plan) in due(Fate::List) {
            self.is_listed = true;
            all = all.and(self.list(own, plan).await);
        }
        if has_rules || all.is_ok() {
            for (own, _) in due(Fate::Delete) {
                all = all.and(self.delete(own).await);
                // Without rules, a binding that stays is found again only by its policy.
                if !has_rules && all.is_err() {
                    break;
                }
            }
        }
        all
    }

    /// Returns the policies and bindings of the operator, the bindings first, because a policy alone has no effect. An error says whether it
    /// is about the bindings.
    async fn own(&self) -> Result<Vec<Own>, (bool, ClusterError)> {
        let [policies, bindings] = self.kinds();
        let label = label(&self.domain);
        let mut all = Vec::new();
        for kind in [policies, bindings] {
            let listed = self.cluster.list_kept(&kind, &label).await;
            let is_binding = kind.kind.ends_with("Binding");
            let listed = listed.map_err(|error| (is_binding, error))?;
            let own = listed.into_iter().filter(|it| self.is_own(it));
            let own = own.map(|found| {
                let name = found["metadata"]["name"].as_str().unwrap_or_default();
                let object = KeptObject::of(kind.clone(), name);
                Own { object, found }
            });
            drop(all.splice(0..0, own));
            // Without rules, a binding alone is meaningless.
            if all.is_empty() && self.rules.is_empty() {
                break;
            }
        }
        Ok(all)
    }

    /// Writes a policy and its binding; the policy first, because a binding alone is meaningless.
    async fn put_both(&mut self, policy: &RulePolicy) -> Result<(), ClusterError> {
        let [policies, bindings] = self.kinds();
        if self.put(&policies, &policy.policy, policy).await? {
            self.put(&bindings, &policy.binding, policy).await?;
        }
        Ok(())
    }

    /// Writes this object, unless a newer instance decides. Returns `false` if the object belongs to another program.
    async fn put(
        &mut self,
        kind: &Arc<Resource>,
        wanted: &Value,
        policy: &RulePolicy,
    ) -> Result<bool, ClusterError> {
        let object = KeptObject::of(kind.clone(), &policy.name);
        let found = object.look(&self.cluster).await?;
        match &found {
            Some(found) if !self.is_own(found) => {
                let (rule, policy) = (policy.rule.clone(), object.shown());
                self.taken.push(format!("{policy} is there already, and was not made by this operator"));
                self.report_once(RuleServing::Taken { rule, policy });
                return Ok(false);
            }
            // A newer release has no such rule.
            None if !self.is_newest => return Ok(true),
            _ => {}
        }
        let is_right = found.as_ref().is_some_and(|it| it["spec"] == wanted["spec"]);
        let plan = self.sharing.plan(found.as_ref(), is_right, false);
        let mut content = wanted.clone();
        if let Some(found) = &found {
            content["spec"] = difference(&found["spec"], &wanted["spec"]).into();
        }
        self.is_listed = true;
        let (cluster, unanswered) = (&self.cluster, &mut self.unanswered);
        let written = object.carry_out(cluster, found.as_ref(), &plan, content, unanswered);
        written.await.map_err(unserved)?;
        if !plan.writes {
            return Ok(true);
        }
        report_of_operator(&RuleServing::Written { policy: object.shown(), is_new: found.is_none() });
        Ok(true)
    }

    fn report_once(&mut self, serving: RuleServing) {
        if !self.reported.contains(&serving) {
            report_of_operator(&serving);
            self.reported.push(serving);
        }
    }

    fn is_own(&self, found: &Value) -> bool {
        found["metadata"]["labels"][label(&self.domain)] == "true"
    }

    async fn delete(&self, own: &Own) -> Result<(), ClusterError> {
        let text = |field: &str| own.found["metadata"][field].as_str().unwrap_or_default();
        let (cluster, object) = (&self.cluster, &own.object);
        let deleted =
            cluster.delete(object.path(), text("uid"), text("resourceVersion"), Propagation::Background);
        match deleted.await {
            Ok(_) => report_of_operator(&RuleServing::Deleted { policy: object.shown() }),
            Err(ClusterError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Reports the rules that a definition lacks. Only the program that registers a definition changes it.
    async fn look_at_definition(&mut self, name: String) -> Result<(), ClusterError> {
        let found = definition(&self.cluster, &name).await?;
        let Some(found) = found else {
            return Ok(());
        };
        for rule in missing_in(&found, &self.rules) {
            let definition = name.clone();
            self.report_once(RuleServing::Missing { rule, definition });
        }
        Ok(())
    }
}

impl Reconciler for PolicyKeeper {
    async fn reconcile(&mut self) -> Result<Duration, Failure> {
        let done = self.put_all().await;
        self.publish_to_board(done.as_ref().err());
        done?;
        if self.has_nothing_left() {
            return Ok(Duration::MAX);
        }
        // Polls, because no event reports that an object of another program is gone.
        let look = if self.taken.is_empty() { Duration::MAX } else { LOOK };
        Ok(self.sharing.pause().min(look))
    }

    async fn changed(&mut self) {
        if self.has_nothing_left() {
            self.watched = None;
            return pending().await;
        }
        let kinds = (self.is_looked_at() && !self.is_needless).then(|| self.kinds());
        if self.watched.as_ref().map(|(kinds, _)| kinds) != kinds.as_ref() {
            let label = label(&self.domain);
            let watch = |kind| watch_labelled(&self.cluster, kind, &label);
            self.watched = kinds.map(|kinds| (kinds.clone(), kinds.map(watch)));
        }
        let touched = OptionFuture::from(self.watched.as_ref().map(|(_, touched)| any(touched)));
        tokio::select! {
            Ok(()) = self.found.changed() => {}
            Some(()) = touched => {}
            else => pending().await,
        }
    }

    fn report(&mut self, error: &ClusterError, pause: Duration) {
        let error = explained(error);
        report_of_operator(&RuleServing::Failed { error, pause });
    }

    /// Removes this instance from the lists, so that the newest of the others decides.
    async fn leave(&mut self) -> Result<bool, ClusterError> {
        // Goes on with the other objects after a failure.
        let mut all_left = Ok(false);
        let own = if self.is_listed { self.own().await.map_err(|(_, error)| error)? } else { Vec::new() };
        for own in own {
            let plan = self.sharing.plan(Some(&own.found), true, true);
            if plan.is_listed {
                let left = self.list(&own, &plan).await;
                all_left = all_left.and(left.map(|()| false));
            }
        }
        all_left
    }

    fn may_arrive(&self) -> bool {
        self.is_listed && !self.unanswered.is_empty()
    }
}

/// Returns a definition as served; `None` if it does not exist or may not be read.
pub(super) async fn definition(cluster: &Cluster, name: &str) -> Result<Option<Value>, ClusterError> {
    let object = KeptObject::definition(name);
    match object.look(cluster).await {
        Err(ClusterError::Denied { .. }) => Ok(None),
        looked => looked,
    }
}

/// Returns the definitions of these names that the server has.
#[cfg(feature = "cli")]
pub(crate) async fn served_definitions(
    cluster: &Cluster,
    names: &[&str],
) -> Result<Vec<Value>, ClusterError> {
    let mut found = Vec::new();
    for name in names {
        found.extend(KeptObject::definition(name).look(cluster).await?);
    }
    Ok(found)
}

/// Explains a 404: a server that does not know policies answers that they are not found.
fn unserved(error: ClusterError) -> ClusterError {
    match error {
        ClusterError::NotFound(why) => ClusterError::Invalid(format!(
            "the API server serves ValidatingAdmissionPolicy neither in {GROUP}/v1, as Kubernetes does from 1.30 on, nor in {GROUP}/v1beta1, which \
             1.28 and 1.29 can be told to serve (`--runtime-config`), so these rules are not enforced: {why}. Upgrade the cluster, or write the rules as \
             handlers with `#[on_validate]`"
        )),
        error => error,
    }
}

/// Returns the kinds of policies and bindings, in this version or the newest one.
pub(crate) fn kinds(version: Option<&str>) -> [Arc<Resource>; 2] {
    let policies = Resource {
        plural: "validatingadmissionpolicies".to_owned(),
        ..Resource::built_in(GROUP, "ValidatingAdmissionPolicy", false)
    };
    let bindings = Resource::built_in(GROUP, "ValidatingAdmissionPolicyBinding", false);
    [policies, bindings].map(|mut kind| {
        if let Some(version) = version {
            version.clone_into(&mut kind.version);
        }
        Arc::new(kind)
    })
}

/// Waits until any object of both kinds may have changed.
async fn any([policies, bindings]: &[Touched; 2]) {
    tokio::select! {
        () = policies.touched() => {}
        () = bindings.touched() => {}
    }
}

#[cfg(test)]
mod tests;
