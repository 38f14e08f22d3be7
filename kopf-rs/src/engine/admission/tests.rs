//! Tests reviews without a server: request bodies in, answers out.

use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;
use crate::admission::review::tests::creation;
use crate::handler::cause::Cause;
use crate::handler::denial::{AdmissionError, AdmissionErrors};
use crate::handler::error::{PermanentError, TemporaryError};
use crate::handler::logger::tests::Lines;
use crate::handler::operation::Operation;
use crate::handler::options::Callback;
use crate::handler::registry::Registry;
use crate::handler::registry::callback::{handler, handler_blocking};
use crate::happening::meter::{CallEnd, Meter, WhyLeftOut};
use crate::rt::clock::Clock;

const KIND: &str = "kopfexamples";

fn object() -> Value {
    json!({
        "apiVersion": "kopf.dev/v1",
        "kind": "KopfExample",
        "metadata": {"name": "one", "namespace": "default", "labels": {"app": "x"}},
        "spec": {"size": 1},
    })
}

fn reviewer(registry: &Registry) -> Reviewer {
    registry.check().unwrap();
    let group = HandlerGroup {
        handlers: registry.handlers().to_vec(),
        invoker: Arc::new(Invoker::new(Clock::start(), 4, None)),
        context: CauseContext::default(),
    };
    Reviewer::new(group, false)
}

async fn posted(registry: &Registry, path: &str, review: &Value) -> (u16, Value) {
    let (body, connection) = (review.to_string(), ConnectionFacts::default());
    let deadline = Duration::from_secs(2);
    let reviewer = reviewer(registry);
    let reply = reviewer.review(path, body.as_bytes(), connection, deadline).await;
    (reply.status, serde_json::from_slice(&reply.body).unwrap())
}

/// Returns the response to the review of a creation.
async fn response(registry: &Registry, path: &str) -> Value {
    let (status, answer) = posted(registry, path, &creation(&object())).await;
    assert_eq!(status, 200, "{answer}");
    answer["response"].clone()
}

fn ok(id: &str) -> Callback {
    handler(id, |_| async { Ok(()) })
}

/// Denies every review, which shows that the handler was called.
fn denying(id: &str) -> Callback {
    handler(id, |_| async { HandlerResult::Err("called".into()) })
}

type HandlerResult = crate::handler::error::HandlerResult;

#[tokio::test(start_paused = true)]
async fn paths_and_resources_of_other_releases_are_asked_again_and_bad_bodies_refused() {
    let registry = Registry::new().on_validate(KIND, ok("a")).on_validate("pods", ok("b"));
    let review = creation(&object());
    for (path, review, expected) in [
        ("/validate/a", &review, 200),
        ("/validate/c", &review, 503),
        ("/mutate/a", &review, 503),
        ("/", &review, 503),
        ("/validate/b", &review, 503),
        ("/validate/a", &json!({}), 400),
    ] {
        let (status, answer) = posted(&registry, path, review).await;
        assert_eq!(status, expected, "{path} {answer}");
        let kind = if status == 200 { "AdmissionReview" } else { "Status" };
        assert_eq!(answer["kind"], kind);
    }
}

#[tokio::test(start_paused = true)]
async fn several_handlers_behind_one_id_all_run_and_one_denial_is_told() {
    let registry = Registry::new()
        .on_validate(KIND, handler("h", |_| async { HandlerResult::Err("plain".into()) }))
        .on_validate(
            KIND,
            handler("h", |_| async { HandlerResult::Err(TemporaryError::new("later").into()) }),
        )
        .on_validate(
            KIND,
            handler("h", |_| async { HandlerResult::Err(PermanentError::new("never").into()) }),
        )
        .on_validate(
            KIND,
            handler("h", |cause| async move {
                cause.warnings().push("careful");
                HandlerResult::Err(AdmissionError::new("teapot").code(418).into())
            }),
        );
    let response = response(&registry, "/validate/h").await;
    assert_eq!(response["allowed"], false);
    assert_eq!(response["status"], json!({"message": "teapot", "code": 418}));
    assert_eq!(response["warnings"], json!(["careful"]));
}

#[tokio::test(start_paused = true)]
async fn a_panic_and_a_hang_are_failures_unless_another_handler_denies() {
    let panics = || {
        handler("h", |cause| async move {
            assert_eq!(cause.name(), "two", "oops");
            Ok(())
        })
    };
    let hangs = || handler("h", |_| async { std::future::pending::<HandlerResult>().await });
    for (failing, expected) in [
        (panics(), "the admission handler 'h' has panicked"),
        (hangs(), "has not returned within 2.0 seconds"),
    ] {
        let registry = Registry::new().on_validate(KIND, failing.clone());
        let (status, answer) = posted(&registry, "/validate/h", &creation(&object())).await;
        assert_eq!((status, &answer["kind"]), (500, &json!("Status")));
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains(expected), "{message}");
        let registry = Registry::new().on_validate(KIND, denying("h")).on_validate(KIND, failing);
        let response = response(&registry, "/validate/h").await;
        assert_eq!(response["status"]["message"], "called");
    }
    let registry = Registry::new().on_validate(KIND, ok("h").when(|_| panic!("oops")));
    let (status, answer) = posted(&registry, "/validate/h", &creation(&object())).await;
    assert_eq!(status, 500);
    assert!(answer["message"].as_str().unwrap().contains("a filter"));
}

#[tokio::test(start_paused = true)]
async fn changes_are_answered_as_a_patch_and_those_in_vain_name_the_handler() {
    let setting = |id: &str, patch: Value| {
        handler(id, move |cause| {
            let patch = patch.clone();
            async move {
                cause.patch(|it| it.merge(patch));
                Ok(())
            }
        })
    };
    let registry = Registry::new()
        .on_mutate(KIND, setting("m", json!({"spec": {"size": 2}})))
        .on_mutate(KIND, setting("m", json!({"spec": {"colour": "red"}})))
        .on_mutate(KIND, setting("name", json!({"metadata": {"name": "two"}})))
        .on_mutate(KIND, ok("none"))
        .on_validate(KIND, setting("v", json!({"spec": {"size": 2}})));
    let changed = response(&registry, "/mutate/m").await;
    let patch = STANDARD.decode(changed["patch"].as_str().unwrap()).unwrap();
    let patch: Value = serde_json::from_slice(&patch).unwrap();
    let expected = json!([
        {"op": "replace", "path": "/spec/size", "value": 2},
        {"op": "add", "path": "/spec/colour", "value": "red"},
    ]);
    assert_eq!(patch, expected);
    assert!(response(&registry, "/mutate/none").await.get("patch").is_none());
    for (path, expected) in [
        ("/mutate/name", "'name' has changed the object in vain: metadata.name"),
        ("/validate/v", "'v' has changed the object in vain: what validates"),
    ] {
        let (status, answer) = posted(&registry, path, &creation(&object())).await;
        let message = answer["message"].as_str().unwrap();
        assert!(status == 500 && message.contains(expected), "{message}");
    }
}

/// Reviews of several changes of one object.
struct Asked {
    creation: Value,
    /// The update removes a label from the object.
    update: Value,
    dying: Value,
    deletion: Value,
    status: Value,
}

impl Asked {
    fn new() -> Self {
        let mut update = creation(&object());
        update["request"]["operation"] = json!("UPDATE");
        update["request"]["oldObject"] = object();
        update["request"]["oldObject"]["metadata"]["labels"] = json!({"old": "y"});
        let mut dying = update.clone();
        let since = &mut dying["request"]["oldObject"]["metadata"]["deletionTimestamp"];
        *since = json!("2026-01-01T00:00:00Z");
        let mut deletion = creation(&Value::Null);
        deletion["request"]["operation"] = json!("DELETE");
        deletion["request"]["oldObject"] = object();
        let mut status = update.clone();
        status["request"]["subResource"] = json!("status");
        Self { creation: creation(&object()), update, dying, deletion, status }
    }
}

async fn check_selected(callback: Callback, review: &Value, is_called: bool) {
    let registry = Registry::new().on_validate(KIND, callback);
    let handler = registry.handlers()[0].clone();
    let path = route::path(AdmissionKind::Validate, &handler.id);
    let (status, answer) = posted(&registry, &path, review).await;
    let allowed = &answer["response"]["allowed"];
    let request = &review["request"];
    assert_eq!((status, allowed), (200, &json!(!is_called)), "{request}");
}

#[tokio::test(start_paused = true)]
async fn all_is_selected_in_the_process_too() {
    use Operation::{Create, Delete, Update};
    let asked = Asked::new();
    let Asked { creation, update, dying, deletion, status } = &asked;
    let made = || denying("h");
    check_selected(made(), creation, true).await;
    check_selected(made().operations([Update]), creation, false).await;
    check_selected(made().operations([Update, Create]), creation, true).await;
    check_selected(made().subresource("status"), creation, false).await;
    check_selected(made().subresource("status"), status, true).await;
    check_selected(made().subresource("*"), status, true).await;
    check_selected(made().subresource("*"), creation, true).await;
    check_selected(made(), status, false).await;
    check_selected(made(), deletion, true).await;
    check_selected(made(), update, true).await;
    check_selected(made(), dying, false).await;
    check_selected(made().deleted(), dying, true).await;
    for (operations, is_called) in
        [(vec![], false), (vec![Delete], true), (vec![Delete, Delete], true), (vec![Delete, Create], false)]
    {
        let registry = Registry::new().on_mutate(KIND, made().operations(operations));
        let (_, answer) = posted(&registry, "/mutate/h", deletion).await;
        assert_eq!(answer["response"]["allowed"], json!(!is_called));
    }
}

#[tokio::test(start_paused = true)]
async fn objects_are_selected_by_all_filters() {
    let asked = Asked::new();
    let Asked { creation, update, .. } = &asked;
    let made = || denying("h");
    check_selected(made().label("app", "x"), creation, true).await;
    check_selected(made().label("app", "y"), creation, false).await;
    check_selected(made().label("old", "y"), update, true).await;
    let both = made().label("old", "y").label("app", "x");
    check_selected(both, update, false).await;
    check_selected(made().annotation("a", "x"), creation, false).await;
    check_selected(made().field("spec.size"), creation, true).await;
    check_selected(made().field("spec.size").value(2), creation, false).await;
    check_selected(made().field("spec.colour"), creation, false).await;
    let named = made().when(|cause| cause.name() == "one");
    check_selected(named, creation, true).await;
    check_selected(made().when(Cause::dryrun), creation, false).await;
}

#[tokio::test(start_paused = true)]
async fn handlers_are_told_of_the_request() {
    let told = handler("h", |cause| async move {
        let user = cause.userinfo().username;
        let about = (cause.operation(), cause.dryrun(), cause.subresource().is_none());
        assert_eq!(about, (Some(Operation::Create), true, true));
        assert_eq!((user.as_str(), cause.name()), ("me", "one"));
        assert_eq!((cause.old(), cause.new()), (None, Some(&object())));
        assert_eq!(cause.headers()["user-agent"], "kube-apiserver-admission");
        assert_eq!(cause.sslpeer(), &json!({"certificate": "x"}));
        assert!(cause.diff().touches("spec.size"));
        Ok(())
    });
    let registry = Registry::new().on_validate(KIND, told);
    let mut review = creation(&object());
    review["request"]["dryRun"] = json!(true);
    let connection = ConnectionFacts {
        headers: vec![("User-Agent".into(), "kube-apiserver-admission".into())],
        sslpeer: Some(json!({"certificate": "x"})),
    };
    let body = review.to_string();
    let deadline = Duration::from_secs(2);
    let reviewer = reviewer(&registry);
    let asked = reviewer.review("/validate/h", body.as_bytes(), connection, deadline);
    let reply = asked.await;
    assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
}

/// Records of each review whether it was allowed, and its code. Counts failures of handlers.
#[derive(Debug, Default)]
struct Reviews(Mutex<Vec<(bool, u16)>>, AtomicUsize);

impl Meter for Reviews {
    fn review_ends(&self, _: &str, allowed: bool, code: u16, _: Duration) {
        self.0.lock().push((allowed, code));
    }
    fn handler_retries(&self, _: &str) {}
    fn handler_fails(&self, _: &str) {
        self.1.fetch_add(1, Ordering::Relaxed);
    }
    fn events_dropped(&self, _: u64, _: WhyLeftOut) {}
    fn worker_panicked(&self) {}
    fn call_begins(&self, _: &str) -> u64 {
        0
    }
    fn call_ends(&self, _: u64, _: &'static str, _: Option<CallEnd>) {}
    fn state_taken(&self, _: Duration) {}
    fn change_handled(&self, _: &Resource, _: Duration) {}
    fn request_begins(&self) {}
    fn request_ends(
        &self,
        _: &'static str,
        _: (Option<&Resource>, Option<&str>),
        _: Option<u16>,
        _: Duration,
    ) {
    }
    fn throttled(&self, _: Duration) {}
    fn event_posted(&self) {}
    fn leased(&self, _: &str) {}
    fn lease_renewed(&self, _: &str, _: Duration) {}
    fn fenced(&self, _: &'static str) {}
}

/// A denial is a regular outcome and no failure. The metrics contain the code that the client sees.
#[tokio::test(start_paused = true)]
async fn a_denial_is_told_as_no_failure_and_counted_with_its_code() {
    let lines = Lines::default();
    // With a single subscriber, threads without one would switch off the events that they register first.
    let _second = tracing::Dispatch::new(lines.clone());
    let _captured = tracing::subscriber::set_default(lines.clone());
    let denying =
        handler("h", |_| async { HandlerResult::Err(AdmissionError::new("too large").code(422).into()) });
    let failing = handler("failing", |_| async { HandlerResult::Err(PermanentError::new("no").into()) });
    let registry = Registry::new()
        .on_validate(KIND, denying)
        .on_validate(KIND, ok("allowing"))
        .on_validate(KIND, failing);
    let reviews = Arc::new(Reviews::default());
    let mut reviewer = reviewer(&registry);
    let invoker = Invoker::new(reviewer.invoker.clock, 4, None);
    reviewer.invoker = Arc::new(invoker.metered(Some(reviews.clone())));
    for path in ["/validate/h", "/validate/allowing"] {
        let (body, connection) = (creation(&object()).to_string(), ConnectionFacts::default());
        let reply = reviewer.review(path, body.as_bytes(), connection, Duration::from_secs(2));
        assert_eq!(reply.await.status, 200);
    }
    let counted = reviews.0.lock().clone();
    assert_eq!(counted, [(false, 422), (true, 200)]);
    let told = lines.0.lock().clone();
    let denied = |it: &String| it.starts_with("INFO ") && it.contains("has denied the request: too large");
    assert_eq!(told.iter().filter(|it| denied(it)).count(), 1, "{told:?}");
    assert!(!told.iter().any(|it| it.starts_with("ERROR ")), "{told:?}");
    assert_eq!(reviews.1.load(Ordering::Relaxed), 0);
    let body = creation(&object()).to_string();
    let deadline = Duration::from_secs(2);
    reviewer.review("/validate/failing", body.as_bytes(), ConnectionFacts::default(), deadline).await;
    assert_eq!(reviews.1.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn errors_of_fields_and_blocking_handlers_are_answered() {
    let registry = Registry::new().on_validate(
        KIND,
        handler_blocking("h", |_, _| {
            let mut errors = AdmissionErrors::new();
            errors.required("spec.image", "");
            errors.into_result()?;
            Ok(())
        }),
    );
    let response = response(&registry, "/validate/h").await;
    assert_eq!(response["status"]["code"], 422);
    assert_eq!(response["status"]["details"]["causes"][0]["field"], "spec.image");
}

#[tokio::test(start_paused = true)]
async fn resources_are_known_by_what_discovery_says() {
    let registry = Registry::new().on_validate("kex", ok("h")).on_validate("pods", ok("other"));
    let mut reviewer = reviewer(&registry);
    let body = creation(&object()).to_string();
    let ask = async |reviewer: &Reviewer, path: &str| {
        let connection = ConnectionFacts::default();
        let deadline = Duration::from_secs(2);
        let reply = reviewer.review(path, body.as_bytes(), connection, deadline);
        reply.await.status
    };
    assert_eq!(ask(&reviewer, "/validate/h").await, 503);
    // The name may be a short name of the resource, which is unknown before discovery.
    reviewer.has_discovery = true;
    assert_eq!(ask(&reviewer, "/validate/h").await, 503);
    assert_eq!(ask(&reviewer, "/validate/none").await, 503);
    reviewer.served(vec![Resource {
        group: "kopf.dev".to_owned(),
        version: "v1".to_owned(),
        plural: "kopfexamples".to_owned(),
        short_names: vec!["kex".to_owned()],
        ..Resource::default()
    }]);
    assert_eq!(ask(&reviewer, "/validate/h").await, 200);
    assert_eq!(ask(&reviewer, "/validate/other").await, 503);
}
