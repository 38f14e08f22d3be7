//! Keeps the policies of validation rules up to date, removes those of rules that no longer exist, and checks that definitions contain their
//! rules.
//!
//! Policies work without the operator, so they stay when it ends. The newest of several instances decides on the contents and the
//! existence of a policy: see [`crate::admission::instances`]. An instance that ends removes itself from the lists. Must not know how rules
//! become policies.

use std::collections::BTreeSet;
use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::OptionFuture;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::admission::instances::Instances;
use crate::admission::rules::{
    GROUP, PolicySource, RulePolicy, definitions, label, merge_to, missing_in, names, policies,
    policy_version,
};
use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::cluster::watch::WatchPace;
use crate::engine::invoke::guarded;
use crate::engine::report::report_of_operator;
use crate::handler::validation_rule::DeclaredRule;
use crate::happening::Happening;
use crate::happening::rules::RuleServing;
use crate::health::board::Board;
use crate::object::resource::Resource;
use crate::operator::admission::managed::Found;
use crate::operator::admission::managed_object::{
    KeptObject, LOOK, Touched, explained, watch_labelled,
};
use crate::operator::admission::sharing::Sharing;
use crate::rt::backoff::Backoff;
use crate::rt::clock::Clock;

/// The delay after a write conflict.
const CONFLICT_RETRY: Duration = Duration::from_millis(20);

/// The parts that a keeper of policies needs.
pub(crate) struct PolicySetup {
    pub(crate) cluster: Cluster,
    pub(crate) rules: Vec<Arc<DeclaredRule>>,
    /// `OPERATOR.kopf.rs`
    pub(crate) domain: String,
    pub(crate) backoff: (Duration, Duration),
    /// The served resources; `None` until discovery has reported them.
    pub(crate) found: watch::Receiver<Option<Found>>,
    /// The prefix of the names of the operator's instances.
    pub(crate) instance: String,
    pub(crate) clock: Clock,
    /// Receives the state of the rules for status pages.
    pub(crate) board: Option<Board>,
}

/// The kinds of policies and bindings, in the version that the cluster serves.
type Kinds = [Arc<Resource>; 2];

/// Keeps policies as the rules want them, whenever the cluster serves other kinds.
pub(crate) struct PolicyKeeper {
    setup: PolicySetup,
    sharing: Sharing,
    /// No newer instance has written any policy of the operator, so this one creates the missing ones.
    is_newest: bool,
    /// This instance may be on the list of a policy.
    is_listed: bool,
    /// The needed objects that belong to another program, as last seen.
    taken: Vec<String>,
    /// The reports made so far: rules missing in definitions, and rules whose policies belong to another program.
    told: Vec<RuleServing>,
}

impl PolicyKeeper {
    pub(crate) fn new(setup: PolicySetup) -> Self {
        let sharing = Sharing::new(&setup.domain, &setup.instance, setup.clock);
        Self {
            setup,
            sharing,
            is_newest: false,
            is_listed: false,
            taken: Vec::new(),
            told: Vec::new(),
        }
    }

    /// Keeps the policies up to date until `stop`.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        stop.run_until_cancelled(self.keep()).await;
        self.leave().await;
    }

    /// Keeps the policies up to date for ever.
    async fn keep(&mut self) {
        let (first, longest) = self.setup.backoff;
        let (mut backoff, mut conflicts) = (
            Backoff::new(first, longest),
            Backoff::new(CONFLICT_RETRY, longest),
        );
        let mut told = None;
        let mut watched: Option<(Kinds, [Touched; 2])> = None;
        loop {
            let done = self.reconcile().await;
            self.tell_board(done.as_ref().err());
            let pause = match done {
                Ok(()) if self.has_nothing_left() => return,
                Ok(()) => {
                    backoff.reset();
                    conflicts.reset();
                    told = None;
                    // Polls, because no event reports that an object of another program is gone.
                    let look = if self.taken.is_empty() {
                        Duration::MAX
                    } else {
                        LOOK
                    };
                    self.sharing.pause().min(look)
                }
                // Another writer has changed it in the meantime.
                Err(ClusterError::Conflict(_)) => conflicts.next_pause(self.setup.cluster.rng()),
                Err(error) => {
                    let asked_for = error.retry_after().unwrap_or_default();
                    let pause = backoff.next_pause_after(asked_for, self.setup.cluster.rng());
                    // Each kind of failure is reported once, until it is over.
                    if told.replace(discriminant(&error)) != Some(discriminant(&error)) {
                        let error = explained(&error);
                        report(RuleServing::Failed { error, pause });
                    }
                    pause
                }
            };
            let kinds = self.is_looked_at().then(|| self.kinds());
            if watched.as_ref().map(|(kinds, _)| kinds) != kinds.as_ref() {
                watched = kinds.map(|kinds| (kinds.clone(), self.watch(kinds)));
            }
            let touched = OptionFuture::from(watched.as_ref().map(|(_, touched)| any(touched)));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                Ok(()) = self.setup.found.changed() => {}
                Some(()) = touched => {}
            }
        }
    }

    fn watch(&self, kinds: Kinds) -> [Touched; 2] {
        let label = label(&self.setup.domain);
        kinds.map(|kind| watch_labelled(&self.setup.cluster, kind, &label, WatchPace::default()))
    }

    /// Returns whether discovery has ended.
    fn is_looked_at(&self) -> bool {
        self.setup.found.borrow().is_some()
    }

    /// Returns whether there are no rules, and no policies of a former release.
    fn has_nothing_left(&self) -> bool {
        self.setup.rules.is_empty() && self.is_looked_at() && !self.is_listed
    }

    /// Returns the kinds of policies and bindings, as the cluster serves them.
    fn kinds(&self) -> Kinds {
        let found = self.setup.found.borrow();
        let resources = found.as_ref().map_or(&[][..], |it| it.resources.as_slice());
        kinds(policy_version(resources))
    }

    /// Reports the state of the rules. A rule that is not enforced makes the operator unready, unless the operator may not write policies.
    fn tell_board(&self, error: Option<&ClusterError>) {
        let Some(board) = self.setup.board.as_ref() else {
            return;
        };
        if self.setup.rules.is_empty() || !self.is_looked_at() {
            return;
        }
        let error = error.filter(|it| !matches!(it, ClusterError::Denied { .. }));
        if !matches!(error, Some(ClusterError::Conflict(_))) {
            let taken = self.taken.first().cloned();
            board.enforces_rules(error.map(ToString::to_string).or(taken));
        }
    }

    /// Removes this instance from the lists at its end, so that the newest of the others decides. Retries after write conflicts, because a
    /// list that still names the newest instance would keep all others from deciding; the caller bounds the time of these retries.
    async fn leave(&mut self) {
        if !self.is_listed {
            return;
        }
        let mut conflicts = Backoff::new(CONFLICT_RETRY, self.setup.backoff.1);
        while let Err(ClusterError::Conflict(_)) = self.leave_lists().await {
            tokio::time::sleep(conflicts.next_pause(self.setup.cluster.rng())).await;
        }
    }

    async fn leave_lists(&mut self) -> Result<(), ClusterError> {
        // Goes on with the other objects after a failure.
        let mut all_left = Ok(());
        for (kind, object) in self.own().await? {
            let all = self.sharing.instances(Some(&object));
            if self.sharing.is_in(&all) {
                let left = self.sharing.left(&all);
                all_left = all_left.and(self.list(&kind, &object, &left).await);
            }
        }
        all_left
    }

    /// Writes the list of instances into an object.
    async fn list(
        &self,
        kind: &Arc<Resource>,
        object: &Value,
        instances: &Instances,
    ) -> Result<(), ClusterError> {
        let metadata = &object["metadata"];
        let kept = kept(kind, metadata["name"].as_str().unwrap_or_default());
        let annotations = self.sharing.annotations(instances);
        let version = &metadata["resourceVersion"];
        let merge = json!({"metadata": {"resourceVersion": version, "annotations": annotations}});
        self.setup.cluster.merge_kept(kept.path(), &merge).await?;
        Ok(())
    }

    async fn reconcile(&mut self) -> Result<(), ClusterError> {
        let found = self.setup.found.borrow_and_update().clone();
        let Some(found) = found else {
            return Ok(());
        };
        if self.setup.rules.is_empty() {
            return self.prune_all().await;
        }
        let source = PolicySource {
            rules: &self.setup.rules,
            resources: &found.resources,
            domain: &self.setup.domain,
            namespaces: found.namespaces.as_ref(),
            namespace_expression: None,
        };
        let made = guarded(|| (policies(source), names(source), definitions(source)));
        let (policies, wanted, definitions) = made.map_err(|panic| {
            let error = format!("a function that selects resources has panicked: {panic}");
            ClusterError::Invalid(error)
        })?;
        let own = match self.own().await {
            Ok(own) => own,
            // An operator without policies needs no permission for them.
            Err(ClusterError::Denied { .. } | ClusterError::NotFound(_)) if policies.is_empty() => {
                Vec::new()
            }
            Err(error) => return Err(unserved(error)),
        };
        let objects: Vec<_> = own.iter().map(|(_, object)| object.clone()).collect();
        self.sharing.come(&objects);
        self.is_newest = objects.iter().all(|it| {
            let instances = self.sharing.instances(Some(it));
            self.sharing.decides(&instances)
        });
        // Goes on with the other policies after a failure.
        let mut all = Ok(());
        self.taken.clear();
        for policy in &policies {
            all = all.and(self.put_both(policy).await);
        }
        all = all.and(self.prune(&wanted, &policies, own).await);
        for name in definitions {
            all = all.and(self.look_at_definition(name).await);
        }
        all
    }

    /// Returns the policies and bindings of the operator, the bindings first.
    async fn own(&self) -> Result<Vec<(Arc<Resource>, Value)>, ClusterError> {
        let [policies, bindings] = self.kinds();
        let mut all = Vec::new();
        for kind in [bindings, policies] {
            let own = self.own_of(&kind).await?.into_iter();
            all.extend(own.map(|it| (kind.clone(), it)));
        }
        Ok(all)
    }

    async fn own_of(&self, kind: &Resource) -> Result<Vec<Value>, ClusterError> {
        let label = label(&self.setup.domain);
        let mut own = self.setup.cluster.list_kept(kind, &label).await?;
        own.retain(|it| self.is_own(it));
        Ok(own)
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
        let object = kept(kind, &policy.name);
        let cluster = self.setup.cluster.clone();
        let found = match cluster.look_at(object.path(), false).await {
            Ok(found) if !self.is_own(&found) => {
                let (rule, policy) = (policy.rule.clone(), shown(kind, &policy.name));
                self.taken.push(format!(
                    "{policy} is there already, and was not made by this operator"
                ));
                self.tell_once(RuleServing::Taken { rule, policy });
                return Ok(false);
            }
            Ok(found) => Some(found),
            Err(ClusterError::NotFound(_)) if self.is_newest => None,
            // A newer release has no such rule.
            Err(ClusterError::NotFound(_)) => return Ok(true),
            Err(error) => return Err(error),
        };
        let instances = self.sharing.instances(found.as_ref());
        let joined = self.sharing.joined(&instances);
        let annotations = self.sharing.annotations(&joined);
        self.is_listed = true;
        let is_new = found.is_none();
        if let Some(found) = found {
            let is_kept = found["spec"] == wanted["spec"] || !self.sharing.decides(&instances);
            if is_kept {
                if joined != instances {
                    self.list(kind, &found, &joined).await?;
                }
                return Ok(true);
            }
            let version = &found["metadata"]["resourceVersion"];
            let spec = merge_to(&found["spec"], &wanted["spec"]);
            let merge = json!({
                "metadata": {"resourceVersion": version, "annotations": annotations},
                "spec": spec,
            });
            cluster.merge_kept(object.path(), &merge).await?;
        } else {
            let mut content = wanted.clone();
            content["metadata"]["annotations"] = annotations;
            let created = cluster.create_kept(object.path(), &content).await;
            created.map_err(unserved)?;
        }
        report(RuleServing::Written {
            policy: shown(kind, &policy.name),
            is_new,
        });
        Ok(true)
    }

    fn tell_once(&mut self, serving: RuleServing) {
        if !self.told.contains(&serving) {
            self.told.push(serving.clone());
            report(serving);
        }
    }

    fn is_own(&self, found: &Value) -> bool {
        found["metadata"]["labels"][label(&self.setup.domain)] == "true"
    }

    /// Removes the objects of rules that no longer exist, the bindings first, because a policy alone has no effect. Keeps objects of newer
    /// instances. Updates the lists of objects that stay although their kinds are not served at present, which would otherwise name
    /// instances that are gone, and not this one.
    async fn prune(
        &mut self,
        wanted: &BTreeSet<String>,
        policies: &[RulePolicy],
        own: Vec<(Arc<Resource>, Value)>,
    ) -> Result<(), ClusterError> {
        for (kind, object) in own {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let instances = self.sharing.instances(Some(&object));
            if wanted.contains(name) {
                if !policies.iter().any(|it| it.name == name) {
                    let joined = self.sharing.joined(&instances);
                    self.is_listed = true;
                    if joined != instances {
                        self.list(&kind, &object, &joined).await?;
                    }
                }
            } else if self.sharing.decides(&instances) {
                self.delete(&kind, &object).await?;
            }
        }
        Ok(())
    }

    /// Sends a heartbeat if necessary, since a newer instance decides.
    async fn give_signs(&mut self, own: &[(Arc<Resource>, Value)]) -> Result<(), ClusterError> {
        for (kind, object) in own {
            let all = self.sharing.instances(Some(object));
            let joined = self.sharing.joined(&all);
            if self.sharing.is_in(&all) && joined != all {
                self.list(kind, object, &joined).await?;
            }
        }
        Ok(())
    }

    /// Stops the enforcement of all rules, because this release has none. Other instances would create missing objects anew, so while there
    /// are some, policies stay without bindings and name this instance as the newest one.
    async fn prune_all(&mut self) -> Result<(), ClusterError> {
        let [policies, _] = self.kinds();
        match self.own_of(&policies).await {
            // Checked by policies only, because a binding alone is meaningless.
            Ok(own) if own.is_empty() => {
                self.is_listed = false;
                return Ok(());
            }
            Ok(_) => {}
            // An operator without policies needs no permission for them.
            Err(error) if error.is_lasting() => return Ok(()),
            Err(error) => return Err(error),
        }
        let own = self.own().await?;
        let objects: Vec<_> = own.iter().map(|(_, object)| object.clone()).collect();
        self.sharing.come(&objects);
        // Even if a newer instance decides, this one goes on watching, and removes itself from the lists at its end.
        self.is_listed = objects.iter().any(|object| {
            let all = self.sharing.instances(Some(object));
            self.sharing.is_in(&all)
        });
        // Before the bindings are deleted, so that no other instance creates them anew.
        let mut shared = BTreeSet::new();
        for (kind, object) in own.iter().filter(|(kind, _)| *kind == policies) {
            let all = self.sharing.instances(Some(object));
            if !self.sharing.decides(&all) {
                return self.give_signs(&own).await;
            }
            if !self.sharing.left(&all).is_empty() {
                let joined = self.sharing.joined(&all);
                self.is_listed = true;
                if joined != all {
                    self.list(kind, object, &joined).await?;
                }
                shared.insert(object["metadata"]["name"].to_string());
            }
        }
        for (kind, object) in &own {
            let is_kept =
                *kind == policies && shared.contains(&object["metadata"]["name"].to_string());
            if !is_kept {
                self.delete(kind, object).await?;
            }
        }
        Ok(())
    }

    async fn delete(&self, kind: &Arc<Resource>, object: &Value) -> Result<(), ClusterError> {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let kept = kept(kind, text("name"));
        let cluster = &self.setup.cluster;
        let deleted = cluster.delete(kept.path(), text("uid"), text("resourceVersion"));
        match deleted.await {
            Ok(_) => report(RuleServing::Deleted {
                policy: shown(kind, text("name")),
            }),
            Err(ClusterError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Reports the rules that a definition lacks. Only the program that registers a definition changes it.
    async fn look_at_definition(&mut self, name: String) -> Result<(), ClusterError> {
        let found = definition(&self.setup.cluster, &name).await?;
        let Some(found) = found else {
            return Ok(());
        };
        for rule in missing_in(&found, &self.setup.rules) {
            let definition = name.clone();
            self.tell_once(RuleServing::Missing { rule, definition });
        }
        Ok(())
    }
}

/// Returns a definition as served; `None` if it does not exist or may not be read.
pub(super) async fn definition(
    cluster: &Cluster,
    name: &str,
) -> Result<Option<Value>, ClusterError> {
    let kind = Resource::built_in("apiextensions.k8s.io", "CustomResourceDefinition", false);
    let object = kept(&Arc::new(kind), name);
    match cluster.look_at(object.path(), false).await {
        Ok(found) => Ok(Some(found)),
        Err(ClusterError::NotFound(_) | ClusterError::Denied { .. }) => Ok(None),
        Err(error) => Err(error),
    }
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

fn kept(kind: &Arc<Resource>, name: &str) -> KeptObject {
    KeptObject {
        resource: kind.clone(),
        namespace: None,
        name: name.to_owned(),
    }
}

/// Returns the name for people.
fn shown(kind: &Resource, name: &str) -> String {
    format!("{} {name}", kind.kind)
}

fn report(happening: RuleServing) {
    report_of_operator(&Happening::Rules(happening));
}
