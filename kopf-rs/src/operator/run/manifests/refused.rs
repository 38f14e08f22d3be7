//! Tests of manifests: kinds and flags that are refused, and objects that cert-manager replaces.

use kopf_rs_apiserver::ApiServer;

use super::*;
use crate::handler::filter::PRESENT;
use crate::handler::registry::Registry;
use crate::handler::registry::callback::handler;

#[tokio::test]
async fn cert_manager_takes_the_place_of_the_operator() {
    let registry = || {
        Registry::new().on_validate("configmaps", handler("check", |_| async { Ok(()) }).label("a", PRESENT))
    };
    let printed = async |registry: Registry| {
        let client = Client::new(ApiServer::new().service(), "default");
        let install = Install { has_cert_manager: true, ..Install::default() };
        Operator::new(registry).name("op").manifests(client, install).await
    };
    let objects = printed(registry()).await.unwrap().objects;
    let of = |kind: &str| objects.iter().find(|it| it["kind"] == kind).unwrap();
    let annotations = &of("ValidatingWebhookConfiguration")["metadata"]["annotations"];
    assert_eq!(annotations["cert-manager.io/inject-ca-from"], "op/op-webhook");
    assert_eq!(of("Certificate")["spec"]["secretName"], "op-webhook");
    let roles = objects.iter().filter(|it| it["rules"].is_array());
    let needless = ["secrets", "validatingwebhookconfigurations"];
    assert!(
        roles.clone().all(|it| needless.iter().all(|name| !it.to_string().contains(name))),
        "{objects:?}"
    );
    let none = printed(Registry::new().on_event("pods", handler("f", |_| async { Ok(()) }))).await;
    assert!(none.unwrap_err().to_string().contains("or leave out --cert-manager"));
}

#[tokio::test]
async fn kinds_that_cannot_be_served_are_errors() {
    let does_nothing = |id: &str| handler(id, |_| async { Ok(()) });
    for (registry, expected) in [
        (Registry::new().on_event("componentstatuses", does_nothing("f")), "Non-watchable resources"),
        (
            Registry::new().on_event("pods", does_nothing("f").requires("create pod")),
            "`requires` of 'f' names \"pod\", and the core group has no such resource",
        ),
        (
            Registry::new().on_event("pods", does_nothing("f").requires("get deploys.apps")),
            "and apps has no such resource",
        ),
    ] {
        let client = Client::new(ApiServer::new().service(), "default");
        let refused = Operator::new(registry).name("op").manifests(client, Install::default()).await;
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
    }
    let elsewhere = Registry::new().on_event("pods", does_nothing("f").requires("get as.not.served"));
    let client = Client::new(ApiServer::new().service(), "default");
    assert!(Operator::new(elsewhere).name("op").manifests(client, Install::default()).await.is_ok());
}

#[cfg(feature = "metrics")]
#[tokio::test]
async fn prometheus_reads_the_metrics_as_they_are_served() {
    let client = Client::new(ApiServer::new().service(), "default");
    let registry = Registry::new().on_event("pods", handler("f", |_| async { Ok(()) }));
    let operator = Operator::new(registry).name("op").metrics("https://0.0.0.0:9443/metrics");
    let install = Install { is_monitored: true, ..Install::default() };
    let printed = operator.manifests(client, install).await.unwrap().objects;
    let monitor = printed.iter().find(|it| it["kind"] == "PodMonitor").unwrap();
    assert_eq!(monitor["spec"]["podMetricsEndpoints"][0]["scheme"], "https");
    let policy = printed.iter().find(|it| it["kind"] == "NetworkPolicy").unwrap();
    assert_eq!(policy["spec"]["ingress"][0]["ports"][1]["port"], "metrics");
}
