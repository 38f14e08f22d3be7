//! Calls annotated functions with arguments, as the engine does.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use serde_json::Map;

use crate::handler::callee::Returned;
use crate::handler::registry::Registry;
use crate::handler::subject::Reason;
use crate::handler::testing::{call, cause, myapp};
use crate::object::body::Body;
use crate::object::event::EventType;
use crate::object::resource::Resource;
use crate::prelude::*;

/// Returns the result of the handler `id` of this module for `object`.
fn returned(id: &str, object: Value) -> Returned {
    called(id, object, |_| {}).0
}

fn called(id: &str, object: Value, prepare: impl FnOnce(&mut Cause)) -> (Returned, Patch) {
    let registry = Registry::in_module(module_path!()).unwrap();
    let mut handlers = registry.handlers().iter();
    let mut cause = cause(handlers.find(|handler| &*handler.id == id).unwrap(), object);
    prepare(&mut cause.cause);
    call(&cause)
}

fn message(returned: Returned) -> String {
    match returned {
        Err(HandlerError::Permanent(error)) => error.to_string(),
        other => panic!("expected a permanent error, got {other:?}"),
    }
}

fn with_spec(spec: Value) -> Value {
    let mut object = myapp();
    object["spec"] = spec;
    object
}

// === spec ===

#[derive(Debug, Deserialize)]
struct MyAppSpec {
    image: Option<String>,
    #[serde(default)]
    ports: Vec<u16>,
}

#[on_create("myapps")]
async fn fields(
    #[from(spec.image)] image: &str,
    #[from(spec.replicas)] replicas: Option<u8>,
    #[from(meta.labels)] labels: BTreeMap<String, String>,
    #[from(spec.banner)] banner: Option<&str>,
) -> HandlerResult<Value> {
    Ok(json!([image, replicas, labels, banner]))
}

#[test]
fn fields_of_stanzas_are_received_one_by_one() {
    let all = json!(["nginx:latest", null, {"app": "x"}, "🚀"]);
    assert_eq!(returned("fields", myapp()).unwrap(), Some(all));
    for (spec, expected) in [
        (json!({"image": 5}), "spec.image: expected a string, found integer `5`"),
        (json!({"image": "x", "replicas": "many"}), "spec.replicas: expected u8, found string \"many\""),
        (json!({}), "spec.image: expected a string, found null"),
    ] {
        let mut object = myapp();
        object["spec"] = spec;
        let refused = returned("fields", object).unwrap_err();
        assert_eq!(refused.to_string(), expected);
    }
}

/// The error is logged, and stored in an annotation.
#[test]
fn errors_about_a_secret_redact_its_values() {
    for (spec, expected) in [
        (
            json!({"image": "x", "replicas": "hunter2"}),
            "spec.replicas: expected u8, found a value that is not shown, since the object is a Secret",
        ),
        (
            json!({"image": "x", "replicas": 4711}),
            "spec.replicas: expected u8, found a value that is not shown, since the object is a Secret",
        ),
    ] {
        let mut object = with_spec(spec);
        object["apiVersion"] = json!("v1");
        object["kind"] = json!("Secret");
        let refused = returned("fields", object).unwrap_err();
        assert_eq!(refused.to_string(), expected);
    }
}

#[on_create(plural = "myapps")]
async fn typed(spec: MyAppSpec, name: &str, namespace: Option<&str>) -> HandlerResult<Value> {
    let image = spec.image.ok_or_else(|| PermanentError::new("field spec.image must be provided"))?;
    Ok(json!([image, spec.ports, name, namespace]))
}

#[test]
fn a_spec_is_deserialized() {
    let wanted = json!(["nginx:latest", [], "example-app", "default"]);
    assert_eq!(returned("typed", myapp()).unwrap(), Some(wanted));
    assert_eq!(message(returned("typed", with_spec(json!({})))), "field spec.image must be provided");
}

#[test]
fn a_spec_of_another_shape_is_a_permanent_error_that_names_the_path() {
    assert_eq!(
        message(returned("typed", with_spec(json!({"image": 5})))),
        "spec.image: expected a string, found integer `5`"
    );
    assert_eq!(
        message(returned("typed", with_spec(json!({"ports": [80, "http"]})))),
        "spec.ports[1]: expected u16, found string \"http\""
    );
    assert_eq!(
        message(returned("typed", with_spec(json!("text")))),
        "spec: expected struct MyAppSpec, found string \"text\""
    );
}

#[on_create(plural = "myapps")]
#[expect(clippy::too_many_arguments, reason = "one spec in many shapes")]
fn shapes(
    spec: &Value,
    #[from(spec)] lent: &MyAppSpec,
    #[from(spec)] map: &Map<String, Value>,
    #[from(spec)] sorted: BTreeMap<String, String>,
    #[from(status)] maybe: Option<&Value>,
    status: Option<MyAppSpec>,
    #[from(status)] empty: MyAppSpec,
) {
    assert_eq!(spec["image"], "nginx:latest");
    assert_eq!(lent.image.as_deref(), Some("nginx:latest"));
    assert_eq!(map.len(), 2);
    assert_eq!(sorted["banner"], "🚀");
    assert_eq!(maybe, None);
    assert!(status.is_none());
    assert!(empty.image.is_none());
}

#[test]
fn json_is_received_in_any_shape() {
    assert_eq!(returned("shapes", myapp()).unwrap(), None);
}

// === the other data ===

#[on_create(plural = "myapps", param = 42)]
#[expect(clippy::too_many_arguments, reason = "all of them, for once")]
async fn all_of_an_object(
    body: &Body,
    #[from(body)] json: &Value,
    meta: &Value,
    uid: String,
    labels: HashMap<String, String>,
    #[from(labels)] label_map: &Map<String, Value>,
    annotations: BTreeMap<String, String>,
    resource: &Resource,
    memo: Memo,
    param: u64,
    mut retry: u8,
    started: SystemTime,
    #[from(started)] started_text: String,
    runtime: Duration,
    _logger: &Logger,
) {
    assert_eq!(body.name(), "example-app");
    assert_eq!(json["kind"], "MyApp");
    assert_eq!(meta["uid"], uid);
    assert_eq!(labels["app"], label_map["app"]);
    assert!(annotations.is_empty());
    assert_eq!(resource.plural, "myapps");
    assert!(memo.get::<u8>().is_none());
    assert_eq!(param, 42);
    retry += 1;
    assert_eq!(retry, 3);
    assert_eq!(started, SystemTime::UNIX_EPOCH);
    assert_eq!(started_text, "1970-01-01T00:00:00Z");
    assert_eq!(runtime, Duration::from_secs(90));
}

#[test]
fn data_of_an_object_are_received() {
    assert_eq!(returned("all_of_an_object", myapp()).unwrap(), None);
}

#[on_update(plural = "myapps", field = "spec")]
async fn change(
    reason: Reason,
    #[from(reason)] word: &str,
    old: Option<&Value>,
    new: &Value,
    #[from(old)] old_size: Option<u32>,
    diff: &Diff,
) -> HandlerResult<String> {
    assert_eq!((old, old_size, diff.is_empty()), (None, None, true));
    assert_eq!(new["spec"]["image"], "nginx:latest");
    assert_eq!(reason, Reason::Create);
    Ok(word.to_owned())
}

#[test]
fn data_of_a_change_are_received() {
    assert_eq!(returned("change/spec", myapp()).unwrap(), Some(json!("create")));
}

#[on_event(plural = "myapps")]
async fn watch(r#type: EventType, #[from(event_type)] word: Option<&str>, event: Value) {
    assert_eq!(r#type, EventType::Listed);
    assert_eq!(word, None);
    assert_eq!(event["type"], Value::Null);
    assert_eq!(event["object"]["metadata"]["name"], "example-app");
}

#[test]
fn data_of_an_event_are_received() {
    assert_eq!(returned("watch", myapp()).unwrap(), None);
}

#[on_create(plural = "myapps")]
async fn namespaced(_namespace: &str) {}

#[test]
fn a_missing_namespace_is_a_permanent_error() {
    let mut object = myapp();
    object["metadata"]["namespace"] = Value::Null;
    assert_eq!(
        message(returned("namespaced", object)),
        "the handler asks for `namespace`, but the object is cluster-scoped; take `namespace` as an `Option`"
    );
}

#[on_startup(param = "hello")]
async fn begin(activity: &str, param: &str) -> HandlerResult<String> {
    Ok(format!("{activity} {param}"))
}

#[test]
fn activities_know_their_name() {
    let wanted = json!("startup hello");
    assert_eq!(returned("begin", myapp()).unwrap(), Some(wanted));
}

// === by type ===

struct Db(&'static str);

struct App(String);

impl FromCause<'_> for App {
    fn from_cause(cause: &Cause) -> HandlerResult<Self> {
        Ok(Self(cause.labels()["app"].to_string()))
    }
}

#[on_create(plural = "myapps")]
async fn injected(db: State<Db>, app: App, cause: &Cause, #[inject] name_: State<Db>) {
    assert_eq!(db.0, name_.0);
    assert_eq!(db.0, "url");
    assert_eq!(app.0, "\"x\"");
    assert_eq!(cause.handler_id(), "injected");
}

#[test]
fn values_of_the_operator_are_received_by_type() {
    let give = |cause: &mut Cause| {
        let extensions = &mut cause.context.extensions;
        Arc::make_mut(extensions).insert(Db("url"));
    };
    assert_eq!(called("injected", myapp(), give).0.unwrap(), None);
    let message = message(returned("injected", myapp()));
    assert!(message.contains("tests::Db`, but the operator has none"), "{message}");
}

// === what handlers say ===

#[on_create(plural = "myapps")]
async fn patches(patch: &mut Patch, spec: &Value) {
    patch["status"] = json!({"image": spec["image"]});
}

#[test]
fn a_patch_is_filled() {
    let (_, patch) = called("patches", myapp(), |_| {});
    assert_eq!(patch.as_value(), &json!({"status": {"image": "nginx:latest"}}));
}

#[on_create(plural = "myapps")]
async fn local_box(name: &str) -> Result<u8, Box<dyn std::error::Error>> {
    if name.is_empty() { Ok(1) } else { Err(TemporaryError::new("not yet").delay(5))? }
}

#[on_create(plural = "myapps")]
async fn sent_box() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    Err("anything")?
}

#[on_create(plural = "myapps")]
fn own_error() -> Result<(), PermanentError> {
    Err(PermanentError::new("never"))
}

#[on_create(plural = "myapps")]
async fn nothing() -> HandlerResult<Option<u8>> {
    Ok(None)
}

#[on_create(plural = "myapps")]
async fn with_anyhow(name: &str) -> anyhow::Result<()> {
    let refused = if name == "example-app" { Err(TemporaryError::new("not yet").delay(5)) } else { Ok(()) };
    refused.context("while looking around")
}

#[on_create(plural = "myapps")]
async fn foreign_errors() -> HandlerResult {
    Err(anyhow::Error::new(PermanentError::new("never")))?
}

#[test]
fn anyhow_hides_no_meaning() {
    let Err(HandlerError::Temporary(error)) = returned("with_anyhow", myapp()) else {
        panic!("expected a temporary error");
    };
    assert_eq!(error.delay_wanted(), Duration::from_secs(5));
    assert_eq!(error.to_string(), "while looking around: not yet");
    assert_eq!(message(returned("foreign_errors", myapp())), "never");
}

#[test]
fn any_error_type_is_understood() {
    assert!(matches!(
        returned("local_box", myapp()),
        Err(HandlerError::Temporary(error)) if error.delay_wanted() == Duration::from_secs(5)
    ));
    assert!(matches!(returned("sent_box", myapp()), Err(HandlerError::Arbitrary(_))));
    assert_eq!(message(returned("own_error", myapp())), "never");
    assert_eq!(returned("nothing", myapp()).unwrap(), None);
}

#[tokio::test]
async fn handlers_are_still_functions() {
    let spec = MyAppSpec { image: None, ports: vec![] };
    assert!(typed(spec, "example-app", None).await.is_err());
    assert!(own_error().is_err());
}
