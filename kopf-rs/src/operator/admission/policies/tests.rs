//! Tests of an instance without rules that finds a policy of a former release, on the server in the process.

use futures_util::future::join;
use kopf_rs_apiserver::{ApiServer, Fault, FaultHandle, Verb};
use serde_json::json;
use tokio::time::timeout;

use super::*;
use crate::cluster::Client;
use crate::operator::admission::managed_object::tests::{enter, enter_late, entered};

const DOMAIN: &str = "op.kopf.rs";
const POLICIES: &str = "validatingadmissionpolicies";
const BINDINGS: &str = "validatingadmissionpolicybindings";

fn refused(server: &ApiServer, verb: Verb, plural: &str) -> FaultHandle {
    server.fault(Fault::answer(403).on(verb).plural(plural))
}

/// Returns an instance without rules, after a former release has written a policy and its binding.
async fn keeper(server: &ApiServer) -> PolicyKeeper {
    let cluster = Cluster::new(Client::new(server.service(), "default"));
    let rule =
        json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]});
    let policy =
        json!({"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]});
    let binding = json!({"policyName": "gone.op.kopf.rs", "validationActions": ["Deny"]});
    for (kind, spec) in kinds(None).into_iter().zip([policy, binding]) {
        let metadata = json!({"name": "gone.op.kopf.rs", "labels": {label(DOMAIN): "true"}});
        let object =
            json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": metadata, "spec": spec});
        cluster.apply_manifest(&object).await.unwrap();
    }
    let found = watch::channel(Some(Found::default())).1;
    let keeper = PolicyKeeper::new(&cluster, Vec::new(), DOMAIN.to_owned(), found, None, Clock::start());
    PolicyKeeper { sharing: Sharing::new(DOMAIN, "one", Clock::start()), ..keeper }
}

/// Returns the number of policies and of bindings.
async fn counts(keeper: &PolicyKeeper) -> [usize; 2] {
    let (cluster, label) = (&keeper.cluster, label(DOMAIN));
    let [policies, bindings] = kinds(None);
    [
        cluster.list_kept(&policies, &label).await.unwrap().len(),
        cluster.list_kept(&bindings, &label).await.unwrap().len(),
    ]
}

/// Without its policy, the binding would never be found again.
#[tokio::test(start_paused = true)]
async fn a_policy_stays_while_its_binding_cannot_be_deleted() {
    let server = ApiServer::new();
    let mut keeper = keeper(&server).await;
    let refusal = refused(&server, Verb::Delete, BINDINGS);
    assert!(keeper.reconcile().await.is_err());
    assert_eq!(counts(&keeper).await, [1, 1]);
    refusal.clear();
    assert!(keeper.reconcile().await.is_ok());
    assert_eq!(counts(&keeper).await, [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn only_an_instance_that_finds_a_policy_needs_the_right_to_list_bindings() {
    let server = ApiServer::new();
    let mut keeper = keeper(&server).await;
    let _bindings = refused(&server, Verb::List, BINDINGS);
    let denied = keeper.reconcile().await;
    assert!(matches!(denied, Err(Failure::Retry(ClusterError::Denied { .. }))));
    let _policies = refused(&server, Verb::List, POLICIES);
    assert!(keeper.reconcile().await.is_ok());
}

/// Otherwise no other instance decides for the time after which one counts as gone.
#[tokio::test(start_paused = true)]
async fn a_write_that_the_end_has_cut_off_leaves_no_instance_on_the_list() {
    let server = ApiServer::new();
    let mut keeper = keeper(&server).await;
    let cluster = keeper.cluster.clone();
    let [policies, _] = kinds(None);
    let policy = KeptObject::of(policies, "gone.op.kopf.rs");
    enter(&cluster, &policy, "other").await;
    let late = Fault::delay(Duration::from_secs(60)).on(Verb::Patch);
    let late = server.fault(late.plural(POLICIES));
    let second = Duration::from_secs(1);
    assert!(timeout(second, keeper.reconcile()).await.is_err());
    assert_eq!(late.hits(), 1);
    late.clear();
    let (left, ()) = join(keeper.release(&mut false), enter_late(&cluster, &policy)).await;
    assert!(left.is_ok());
    let list = entered(&cluster, &policy).await;
    assert!(list.contains("other") && !list.contains("one"), "{list}");
}
