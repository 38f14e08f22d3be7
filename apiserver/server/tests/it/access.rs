//! Users and permissions, in memory and under virtual time.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use kopf_rs_apiserver::{ApiServer, ApiService, User};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::{MAPS, done, map};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

async fn ask_of(
    service: ApiService,
    (method, uri): (&str, &str),
    token: &str,
    body: &Value,
) -> (u16, Value) {
    let mut request = Request::builder().method(method).uri(uri);
    request = request.header("content-type", "application/json");
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let body = Full::new(Bytes::from(body.to_string()));
    let response = service.oneshot(request.body(body).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn grant(server: &ApiServer, user: &str, verbs: &[&str]) {
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "maps"}, "rules": rules});
    done(server, "POST", &format!("{RBAC}/clusterroles"), role).await;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "maps"},
        "roleRef": {"kind": "ClusterRole", "name": "maps"}, "subjects": [{"kind": "User", "name": user}],
    });
    done(
        server,
        "POST",
        &format!("{RBAC}/clusterrolebindings"),
        binding,
    )
    .await;
}

#[tokio::test]
async fn a_user_may_what_roles_say_from_the_next_request_on() {
    let server = ApiServer::new();
    let jane = || server.service().as_user(User::new("jane"));
    let (code, refusal) = ask_of(jane(), ("GET", MAPS), "", &Value::Null).await;
    assert_eq!(code, 403);
    assert_eq!(
        refusal["message"],
        r#"configmaps is forbidden: User "jane" cannot list resource "configmaps" in API group "" in the namespace "default""#
    );
    grant(&server, "jane", &["list"]).await;
    assert_eq!(ask_of(jane(), ("GET", MAPS), "", &Value::Null).await.0, 200);
    assert_eq!(ask_of(jane(), ("POST", MAPS), "", &map("m")).await.0, 403);
    let role = format!("{RBAC}/clusterroles/maps");
    done(&server, "DELETE", &role, Value::Null).await;
    let (code, refusal) = ask_of(jane(), ("GET", MAPS), "", &Value::Null).await;
    assert_eq!(code, 403);
    let message = refusal["message"].as_str().unwrap();
    let why = r#": RBAC: clusterrole.rbac.authorization.k8s.io "maps" not found"#;
    assert!(message.ends_with(why), "{message}");
    assert_eq!(server.journal().entries()[0].user, "jane");
}

#[tokio::test]
async fn a_token_is_a_users_in_memory_too() {
    let server = ApiServer::new();
    server.add_user("secret", User::new("jane").group("developers"));
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews");
    let (code, answer) = ask_of(server.service(), path, "secret", &review).await;
    assert_eq!(code, 201);
    assert_eq!(
        answer["status"]["userInfo"],
        json!({"username": "jane", "groups": ["developers", "system:authenticated"]})
    );
    assert_eq!(
        ask_of(server.service(), path, "wrong", &review).await.0,
        401
    );
}

#[tokio::test(start_paused = true)]
async fn a_token_of_a_service_account_ends_when_it_says() {
    let server = ApiServer::new();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    done(&server, "POST", accounts, account).await;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}});
    let answer = done(&server, "POST", &format!("{accounts}/robot/token"), request).await;
    let token = answer["status"]["token"].as_str().unwrap();
    grant(&server, "system:serviceaccount:default:robot", &["list"]).await;
    let list = || ask_of(server.service(), ("GET", MAPS), token, &Value::Null);
    assert_eq!(list().await.0, 200);
    tokio::time::sleep(Duration::from_secs(655)).await;
    assert_eq!(list().await.0, 200, "clocks may differ by a minute");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (code, refusal) = list().await;
    assert_eq!(
        (code, refusal["reason"].as_str()),
        (401, Some("Unauthorized"))
    );
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let answer = done(&server, "POST", path, review).await;
    assert_eq!(
        answer["status"]["error"],
        "[invalid bearer token, service account token has expired]"
    );
}
