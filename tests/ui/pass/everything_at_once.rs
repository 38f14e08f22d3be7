//! Every attribute, every selector form, every option.

use std::time::Duration;

use kopf_rs::prelude::*;

const GROUP: &str = "kopf.dev";
const PATIENCE: Duration = Duration::from_secs(5);

fn is_long(value: Option<&Value>) -> bool {
    let text = value.and_then(Value::as_str);
    text.is_some_and(|text| text.len() > 9)
}

fn is_ours(cause: &Cause) -> bool {
    cause.name().starts_with("ours-")
}

#[on_create(GROUP, "v1", "kopfexamples")]
#[on_update("kopf.dev/v1", "kopfexamples", when = is_ours)]
#[on_resume("kopfexamples.kopf.dev", deleted)]
#[on_delete(group = GROUP, singular = "kopfexample", optional = false)]
#[on_field(shortcut = "kex", field = ("spec", "a.b"), old = PRESENT, new = 5)]
#[on_create(everything, annotations = {"x": is_long, "y": |y| y.is_none()})]
#[on_create("apps", everything, retries = 3, param = 7)]
#[on_create(k8s_openapi::api::core::v1::Pod, timeout = PATIENCE, backoff = 0.5, errors = ignored)]
fn all(reason: Reason, memo: Memo, param: Option<u8>) -> HandlerResult<Option<u8>> {
    let _ = (reason, memo);
    Ok(param)
}

#[on_event(category = "all", field = "spec.x", value = is_long)]
fn watch(event_type: EventType) -> Result<(), Box<dyn std::error::Error>> {
    let _ = event_type;
    Ok(())
}

#[on_startup(id = "before")]
#[on_cleanup(id = "after")]
async fn announce(settings: StartupSettings, client: &Client, activity: &str) {
    std::future::ready(()).await;
    let _ = (settings, client, activity);
}

#[index("kopfexamples")]
fn r#where(name: String) -> (String, String) {
    (name, "here".to_owned())
}

#[on_update("kopfexamples")]
fn keywords(r#where: Index<String, String>, #[from(spec.gen)] generation: Option<u64>) {
    let _ = (r#where, generation);
}

#[test]
fn all_are_registered() {
    let registry = kopf_rs::Registry::in_module(module_path!()).unwrap();
    assert_eq!(registry.len(), 13);
}
