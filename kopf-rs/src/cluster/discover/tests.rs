use super::*;
use crate::cluster::fake::{Answer, Fake};

const CORE: &str = r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[
  {"metadata":{"creationTimestamp":null},"versions":[{"version":"v1","freshness":"Current","resources":[
    {"resource":"pods","responseKind":{"group":"","version":"v1","kind":"Pod"},"scope":"Namespaced","singularResource":"pod",
     "verbs":["list","watch"],"shortNames":["po"],"categories":["all"],
     "subresources":[{"subresource":"status","responseKind":{"kind":"Pod"},"verbs":["patch"]},{"subresource":"log","responseKind":null,"verbs":["get"]}]},
    {"resource":"nodes","responseKind":{"group":"","version":"v1","kind":"Node"},"scope":"Cluster","singularResource":"","verbs":["list"]}]}]}]}"#;

fn named(versions: &str) -> String {
    format!(
        r#"{{"kind":"APIGroupDiscoveryList","items":[{{"metadata":{{"name":"kopf.dev"}},"versions":[{versions}]}}]}}"#
    )
}

fn version(version: &str, freshness: &str, resources: &str) -> String {
    format!(r#"{{"version":"{version}","freshness":"{freshness}","resources":[{resources}]}}"#)
}

const EXAMPLES: &str = r#"{"resource":"kopfexamples","responseKind":{"kind":"KopfExample"},"scope":"Namespaced","singularResource":"kopfexample","verbs":["list"]}"#;

fn names(resources: &[Resource]) -> Vec<String> {
    resources.iter().map(ToString::to_string).collect()
}

#[tokio::test(start_paused = true)]
async fn two_requests_bring_everything_selectors_need() {
    let versions = [version("v1", "Current", EXAMPLES), version("v1beta1", "Current", EXAMPLES)];
    let fake = Fake::new([Answer::new(200, CORE), Answer::new(200, named(&versions.join(",")))]);
    let resources = fake.cluster().discover().await.unwrap();
    assert_eq!(fake.lines(), ["GET /api", "GET /apis"]);
    assert_eq!(
        names(&resources),
        ["pods.v1", "nodes.v1", "kopfexamples.v1.kopf.dev", "kopfexamples.v1beta1.kopf.dev"]
    );
    assert_eq!(
        resources[0],
        Resource {
            version: "v1".into(),
            plural: "pods".into(),
            kind: "Pod".into(),
            singular: "pod".into(),
            short_names: vec!["po".into()],
            categories: vec!["all".into()],
            subresources: vec!["status".into(), "log".into()],
            namespaced: true,
            preferred: true,
            verbs: vec!["list".into(), "watch".into()],
            ..Resource::default()
        }
    );
    assert_eq!(resources[1].singular, "node");
    assert!(!resources[1].namespaced);
    assert!(resources[2].preferred && !resources[3].preferred);
    let accept = fake.seen()[0].headers["accept"].to_str().unwrap().to_owned();
    assert!(accept.starts_with("application/json;g=apidiscovery.k8s.io;v=v2;"), "{accept}");
}

#[tokio::test(start_paused = true)]
async fn a_stale_api_keeps_its_resources_and_affects_no_other() {
    let whole = named(&version("v1", "Current", EXAMPLES));
    let stale = named(&[version("v1", "Stale", ""), version("v2", "Stale", EXAMPLES)].join(","));
    let fake = Fake::new([
        Answer::new(200, CORE),
        Answer::new(200, whole),
        Answer::new(200, CORE),
        Answer::new(200, stale),
    ]);
    let cluster = fake.cluster();
    cluster.discover().await.unwrap();
    let resources = cluster.discover().await.unwrap();
    assert_eq!(
        names(&resources),
        ["pods.v1", "nodes.v1", "kopfexamples.v1.kopf.dev", "kopfexamples.v2.kopf.dev"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_without_aggregation_is_refused_with_the_version_to_use() {
    let fake = Fake::new([
        Answer::new(200, r#"{"kind":"APIVersions","versions":["v1"]}"#),
        Answer::new(200, r#"{"kind":"APIGroupList","groups":[]}"#),
    ]);
    let refused = fake.cluster().discover().await.unwrap_err().to_string();
    for expected in ["/api", "APIGroupDiscoveryList", "1.27", "APIVersions"] {
        assert!(refused.contains(expected), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_discovery_names_the_rule() {
    let refusal = || Answer::refusal(403, "forbidden: User \"system:anonymous\" cannot get path \"/api\"");
    let fake = Fake::new([refusal(), refusal()]);
    let Err(ClusterError::Denied { rule, .. }) = fake.cluster().discover().await else {
        panic!("not denied");
    };
    assert!(rule.contains("nonResourceURLs: [\"/api\""), "{rule}");
}
