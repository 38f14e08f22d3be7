//! Writes the policies of validation rules at the start, takes away those of rules that are no more, and looks whether definitions hold theirs.
//!
//! Policies need no answer of anybody, so they stay when the operator ends. Must not know how rules become policies.

use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::admission::rules::{
    PolicySource, RulePolicy, definitions, label, merge_to, missing_in, names, policies,
};
use crate::cluster::Cluster;
use crate::cluster::error::ClusterError;
use crate::engine::invoke::guarded;
use crate::engine::report::report_of_operator;
use crate::handler::validation_rule::DeclaredRule;
use crate::happening::Happening;
use crate::happening::rules::RuleServing;
use crate::object::resource::Resource;
use crate::operator::admission::looked_after::{KeptObject, explained};
use crate::operator::admission::managed::Found;
use crate::rt::backoff::Backoff;

const GROUP: &str = "admissionregistration.k8s.io";
/// After so short a time whoever was outrun looks again.
const OUTRUN: Duration = Duration::from_millis(20);

/// What policies are written with.
pub(crate) struct PolicySetup {
    pub(crate) cluster: Cluster,
    pub(crate) rules: Vec<Arc<DeclaredRule>>,
    /// `OPERATOR.kopf.rs`
    pub(crate) domain: String,
    pub(crate) backoff: (Duration, Duration),
    /// What the cluster serves, once that is known.
    pub(crate) found: watch::Receiver<Option<Found>>,
}

/// Keeps policies as the rules want them, whenever the cluster serves other kinds.
pub(crate) struct PolicyKeeper {
    setup: PolicySetup,
    /// The rules that were told to be missing in definitions.
    told: Vec<String>,
}

impl PolicyKeeper {
    pub(crate) fn new(setup: PolicySetup) -> Self {
        Self {
            setup,
            told: Vec::new(),
        }
    }

    /// Keep them right for ever.
    pub(crate) async fn run(mut self) {
        let (first, longest) = self.setup.backoff;
        let (mut backoff, mut conflicts) =
            (Backoff::new(first, longest), Backoff::new(OUTRUN, longest));
        let mut told = None;
        loop {
            let pause = match self.reconcile().await {
                Ok(()) => {
                    backoff.reset();
                    conflicts.reset();
                    told = None;
                    Duration::MAX
                }
                // Somebody else was faster.
                Err(ClusterError::Conflict(_)) => conflicts.next_pause(self.setup.cluster.rng()),
                Err(error) => {
                    let asked_for = error.retry_after().unwrap_or_default();
                    let pause = backoff.next_pause_after(asked_for, self.setup.cluster.rng());
                    // Each kind of failure once, until it is over.
                    if told.replace(discriminant(&error)) != Some(discriminant(&error)) {
                        let error = explained(&error);
                        report(RuleServing::Failed { error, pause });
                    }
                    pause
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                Ok(()) = self.setup.found.changed() => {}
            }
        }
    }

    async fn reconcile(&mut self) -> Result<(), ClusterError> {
        let found = self.setup.found.borrow_and_update().clone();
        let Some(found) = found else {
            return Ok(());
        };
        let source = PolicySource {
            rules: &self.setup.rules,
            resources: &found.resources,
            domain: &self.setup.domain,
            namespaces: found.namespaces.as_ref(),
        };
        let made = guarded(|| (policies(source), definitions(source)));
        let (policies, definitions) = made.map_err(|panic| {
            let error = format!("a function that selects resources has panicked: {panic}");
            ClusterError::Invalid(error)
        })?;
        // Whatever becomes of one of them, the others are done.
        let mut all = Ok(());
        for policy in &policies {
            all = all.and(self.put_both(policy).await);
        }
        match self.prune(source).await {
            // Who writes no policies needs no permission for them.
            Err(ClusterError::Denied { .. }) if policies.is_empty() => {}
            pruned => all = all.and(pruned),
        }
        for name in definitions {
            all = all.and(self.look_at_definition(name).await);
        }
        all
    }

    /// The policy first: a binding alone has no meaning.
    async fn put_both(&self, policy: &RulePolicy) -> Result<(), ClusterError> {
        let [policies, bindings] = kinds();
        if self.put(&policies, &policy.policy, policy).await? {
            self.put(&bindings, &policy.binding, policy).await?;
        }
        Ok(())
    }

    /// Make it so that this object is there. `false`: it is somebody else's.
    async fn put(
        &self,
        kind: &Arc<Resource>,
        wanted: &Value,
        policy: &RulePolicy,
    ) -> Result<bool, ClusterError> {
        let object = kept(kind, &policy.name);
        let cluster = &self.setup.cluster;
        let is_new = match cluster.look_at(object.path(), false).await {
            Ok(found) if !self.is_own(&found) => {
                report(RuleServing::Taken {
                    rule: policy.rule.clone(),
                    policy: shown(kind, &policy.name),
                });
                return Ok(false);
            }
            Ok(found) if found["spec"] == wanted["spec"] => return Ok(true),
            Ok(found) => {
                let version = &found["metadata"]["resourceVersion"];
                let spec = merge_to(&found["spec"], &wanted["spec"]);
                let merge = json!({"metadata": {"resourceVersion": version}, "spec": spec});
                cluster.merge_kept(object.path(), &merge).await?;
                false
            }
            Err(ClusterError::NotFound(_)) => {
                cluster.create_kept(object.path(), wanted).await?;
                true
            }
            Err(error) => return Err(error),
        };
        report(RuleServing::Written {
            policy: shown(kind, &policy.name),
            is_new,
        });
        Ok(true)
    }

    fn is_own(&self, found: &Value) -> bool {
        found["metadata"]["labels"][label(&self.setup.domain)] == "true"
    }

    /// Take away what was made of rules that are no more, the bindings first: a policy alone has no effect.
    async fn prune(&self, source: PolicySource<'_>) -> Result<(), ClusterError> {
        let wanted = guarded(|| names(source)).unwrap_or_default();
        let cluster = &self.setup.cluster;
        let [policies, bindings] = kinds();
        for kind in [bindings, policies] {
            let own = cluster.list_kept(&kind, &label(&self.setup.domain)).await?;
            for object in own {
                let metadata = &object["metadata"];
                let text = |field: &str| metadata[field].as_str().unwrap_or_default();
                let name = text("name");
                if wanted.contains(name) || !self.is_own(&object) {
                    continue;
                }
                let object = kept(&kind, name);
                let deleted = cluster.delete(object.path(), text("uid"), text("resourceVersion"));
                match deleted.await {
                    Ok(_) => report(RuleServing::Deleted {
                        policy: shown(&kind, name),
                    }),
                    Err(ClusterError::NotFound(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Say which rules it lacks. It is changed by whoever has registered it, and by nobody else.
    async fn look_at_definition(&mut self, name: String) -> Result<(), ClusterError> {
        let found = definition(&self.setup.cluster, &name).await?;
        let Some(found) = found else {
            return Ok(());
        };
        for rule in missing_in(&found, &self.setup.rules) {
            let told = format!("{name} {rule}");
            if !self.told.contains(&told) {
                self.told.push(told);
                let definition = name.clone();
                report(RuleServing::Missing { rule, definition });
            }
        }
        Ok(())
    }
}

/// A definition as it is served; `None` where it may not be read, or there is none.
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

/// The kinds of policies and bindings.
fn kinds() -> [Arc<Resource>; 2] {
    let policies = Resource {
        plural: "validatingadmissionpolicies".to_owned(),
        ..Resource::built_in(GROUP, "ValidatingAdmissionPolicy", false)
    };
    let bindings = Resource::built_in(GROUP, "ValidatingAdmissionPolicyBinding", false);
    [policies, bindings].map(Arc::new)
}

fn kept(kind: &Arc<Resource>, name: &str) -> KeptObject {
    KeptObject {
        resource: kind.clone(),
        namespace: None,
        name: name.to_owned(),
    }
}

/// For people.
fn shown(kind: &Resource, name: &str) -> String {
    format!("{} {name}", kind.kind)
}

fn report(happening: RuleServing) {
    report_of_operator(&Happening::Rules(happening));
}
