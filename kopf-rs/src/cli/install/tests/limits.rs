//! The limits of installations and removals: objects of other installations, operators and users stay, and their number costs few requests.

use super::*;

const ROLES: &str = "rbac.authorization.k8s.io/v1";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

/// Returns a client that awaits a function before each request. The function gets the method and the target.
fn watched<F: Future<Output = ()> + Send + 'static>(
    server: &ApiServer,
    before: impl Fn(String) -> F + Clone + Send + Sync + 'static,
) -> Client {
    let service = server.service();
    let service = tower::service_fn(move |request: http::Request<_>| {
        let before = before(format!("{} {}", request.method(), request.uri()));
        let mut service = service.clone();
        async move {
            before.await;
            service.call(request).await
        }
    });
    Client::new(service, "default")
}

/// Returns a client that records its requests.
fn recorded(server: &ApiServer) -> (Client, Arc<Mutex<Vec<String>>>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let known = lines.clone();
    let client = watched(server, move |line| {
        known.lock().push(line);
        std::future::ready(())
    });
    (client, lines)
}

async fn footprint(server: &ApiServer) -> Footprint {
    operator().footprint(client(server)).await.unwrap()
}

async fn has(server: &ApiServer, key: &str) -> bool {
    state(server).await.keys().any(|it| it.contains(key))
}

#[tokio::test(start_paused = true)]
async fn a_removal_disarms_only_the_installation_that_it_removes() {
    let server = server();
    let mut hooks = webhooks();
    hooks["metadata"]["annotations"]["op.kopf.rs/instances"] = "{}".into();
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    // Another tool has installed this operator, so its objects have no labels.
    ask(&server, Method::POST, path, &hooks).await;
    remove(client(&server), UNINSTALL).await.with(&["The operator op is not installed."]);
    assert!(has(&server, "webhook").await);
    apply(client(&server), INSTALL, &manifests("op:1").await).await.with(&[]);
    let mistyped = remove_in(client(&server), Some("opp"), UNINSTALL, footprint(&server).await).await;
    mistyped.failed(&["--install-namespace is opp", "the operator op is installed: op"]);
    apply(client(&server), INSTALL, &manifests_in(Some("team"), "op:1").await).await.with(&[]);
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    ask(&server, Method::POST, leases, &json!({"metadata": {"name": "op"}})).await;
    let mut footprint = footprint(&server).await;
    footprint.lease.0 = Some("default".to_owned());
    let one = remove_in(client(&server), Some("team"), UNINSTALL, footprint).await;
    one.with(&["The operator op is removed from the namespace team."]);
    assert!(has(&server, "webhook").await && has(&server, "leases").await);
}

#[tokio::test(start_paused = true)]
async fn a_removal_names_handled_objects_that_keep_the_finalizer() {
    let server = server();
    apply(client(&server), INSTALL, &manifests("op:1").await).await.with(&[]);
    let secret = json!({"metadata": {"name": "s", "finalizers": ["op.kopf.rs/finalizer"]}});
    ask(&server, Method::POST, SECRETS, &secret).await;
    let flags = InstallingFlags { delete_objects: true, ..UNINSTALL };
    // The operator runs, and then it does not run.
    for _ in 0..2 {
        let mut footprint = footprint(&server).await;
        footprint.handled.push(Resource::built_in("", "Secret", true));
        let removed = remove_in(client(&server), None, flags, footprint).await;
        removed.with(&[]);
        let kept = "kept: 1 objects with the operator's finalizer: secret/s (namespace default)";
        assert!(removed.lines.iter().any(|it| it.starts_with(kept)), "{:#?}", removed.lines);
    }
}

#[tokio::test(start_paused = true)]
async fn objects_that_appear_during_the_removal_keep_their_definition() {
    let server = Arc::new(server());
    apply(client(&server), INSTALL, &manifests("op:1").await).await.with(&[]);
    let creating = watched(&server, {
        let server = server.clone();
        move |line| {
            let server = server.clone();
            async move {
                if line.starts_with("DELETE ") && line.contains("/deployments/op") {
                    create_demo(&server, "late").await;
                }
            }
        }
    });
    let refused = remove(creating, InstallingFlags { crds: true, ..UNINSTALL }).await;
    refused.failed(&["--crds would delete 1 objects", "demo.example.com/late", "The definitions are kept"]);
    assert!(has(&server, "demos.v1.example.com \"default\" \"late\"").await);
}

#[tokio::test(start_paused = true)]
async fn a_shared_definition_keeps_the_labels_of_both_operators() {
    let server = server();
    let metadata = json!({"name": "other", "namespace": "default"});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
    let other = vec![account, definition()];
    apply(client(&server), INSTALL, &manifests("op:1").await).await.with(&[]);
    let applied = collected(client(&server), 60, async |site| {
        applying::apply(site, "other", INSTALL, other.clone()).await
    });
    applied.await.with(&[]);
    let stored = state(&server).await;
    let (_, stored) = stored.iter().find(|(key, _)| key.contains("demos.example.com")).unwrap();
    let labels = json!({"op.kopf.rs/installed-in": "op", "other.kopf.rs/installed-in": "default"});
    assert_eq!(stored["metadata"]["labels"], labels);
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_another_operator_has_is_not_deleted() {
    let server = server();
    apply(client(&server), INSTALL, &manifests("op:1").await).await.with(&[]);
    let label = json!({"metadata": {"name": "other", "labels": {"other.kopf.rs/installed-in": "default"}}});
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/demos.example.com";
    ask(&server, Method::PATCH, path, &json!({"metadata": {"labels": label["metadata"]["labels"]}})).await;
    ask(&server, Method::POST, ACCOUNTS, &label).await;
    for flags in
        [InstallingFlags { crds: true, ..UNINSTALL }, InstallingFlags { delete_objects: true, ..UNINSTALL }]
    {
        let refused = remove(client(&server), flags).await;
        refused.failed(&[
            "demos.example.com",
            "serviceaccount/other (namespace default)",
            "Nothing has been",
        ]);
    }
    // The label stays if the other operator is removed without --crds.
    ask(&server, Method::DELETE, &format!("{ACCOUNTS}/other"), &json!({})).await;
    remove(client(&server), UNINSTALL_ALL).await.with(&[]);
    assert!(!has(&server, "demos.example.com").await);
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_breaks_stored_objects_causes_a_warning() {
    let server = server();
    let objects = async |of: &str| {
        let size = json!({"type": "object", "properties": {"size": {"type": of}}});
        let mut objects = manifests("op:1").await;
        let definition = objects.iter_mut().find(|it| it["kind"] == "CustomResourceDefinition").unwrap();
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = size;
        objects
    };
    apply(client(&server), INSTALL, &objects("integer").await).await.with(&[]);
    for flags in [InstallingFlags { dry_run: true, ..UPGRADE }, UPGRADE] {
        let upgraded = apply(client(&server), flags, &objects("string").await).await;
        upgraded.with(&[]);
        let warning =
            "warning: this breaks stored objects: demos.example.com: spec.versions[v1].schema spec.size: ";
        assert!(upgraded.lines.iter().any(|it| it.starts_with(warning)), "{:#?}", upgraded.lines);
    }
}

#[tokio::test(start_paused = true)]
async fn an_adoption_takes_nothing_from_another_installation() {
    for label in ["op.kopf.rs/installed-in", "other.kopf.rs/installed-in"] {
        let server = server();
        let objects = manifests("op:1").await;
        let namespace = json!({"metadata": {"name": "op"}});
        ask(&server, Method::POST, "/api/v1/namespaces", &namespace).await;
        let account = json!({"metadata": {"name": "op", "labels": {label: "elsewhere"}}});
        ask(&server, Method::POST, "/api/v1/namespaces/op/serviceaccounts", &account).await;
        let before = state(&server).await;
        for adopt in [false, true] {
            let refused = apply(client(&server), InstallingFlags { adopt, ..INSTALL }, &objects).await;
            refused.failed(&[
                "serviceaccount/op",
                "another installation: uninstall it",
                "Nothing has been changed",
            ]);
        }
        assert_eq!(state(&server).await, before);
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_namespace_is_named_before_anything_is_applied() {
    let server = server();
    let role = json!({
        "apiVersion": ROLES, "kind": "Role", "metadata": {"name": "op", "namespace": "absent"}, "rules": [],
    });
    let objects = [manifests("op:1").await, vec![role]].concat();
    let before = state(&server).await;
    for flags in [INSTALL, InstallingFlags { dry_run: true, ..INSTALL }] {
        let refused = apply(client(&server), flags, &objects).await;
        refused.failed(&["the namespace absent does not exist", "nothing has been changed"]);
        assert_eq!(state(&server).await, before);
    }
}

#[tokio::test(start_paused = true)]
async fn many_objects_cost_no_more_questions_and_lists() {
    let server = server();
    apply(client(&server), INSTALL, &manifests("op:1").await).await.with(&[]);
    let mut reviews = Vec::new();
    for name in ["a", "b"] {
        create_demo(&server, name).await;
        let (client, requests) = recorded(&server);
        remove(client, InstallingFlags { dry_run: true, ..UNINSTALL_ALL }).await.with(&[]);
        reviews.push(requests.lock().iter().filter(|it| it.contains("selfsubjectaccessreviews")).count());
    }
    assert_eq!(reviews[0], reviews[1]);
    let (client, requests) = recorded(&server);
    let delete = InstallingFlags { delete_objects: true, ..UNINSTALL };
    remove(client, delete).await.failed(&["60 seconds (--timeout)", "demo.example.com/a"]);
    let lists = requests.lock().iter().filter(|it| it.starts_with("GET /apis/example.com/v1/demos?")).count();
    assert!(lists < 10, "{lists} lists of all objects");
}

#[tokio::test(start_paused = true)]
async fn a_dry_removal_names_the_lease_and_the_secret() {
    let server = server();
    apply(client(&server), INSTALL, &manifests("op:1").await).await.with(&[]);
    let named = |name: &str| json!({"metadata": {"name": name}});
    let leases = "/apis/coordination.k8s.io/v1/namespaces/op/leases";
    ask(&server, Method::POST, leases, &named("op")).await;
    ask(&server, Method::POST, "/api/v1/namespaces/op/secrets", &named("op-webhook")).await;
    let lines = ["lease.coordination.k8s.io/op", "secret/op-webhook"];
    let shown = remove(client(&server), InstallingFlags { dry_run: true, ..UNINSTALL }).await;
    shown.with(&lines.map(|it| format!("{it} would be deleted")).each_ref().map(|it| &**it));
    let removed = remove(client(&server), UNINSTALL).await;
    removed.with(&lines.map(|it| format!("{it} deleted")).each_ref().map(|it| &**it));
}
