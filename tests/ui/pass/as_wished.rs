//! What authors of operators wished to write: each of these did not compile, or did something else, before.

use kopf_rs::Registry;
use kopf_rs::prelude::*;

/// A selector is written once.
const EXAMPLES: (&str, &str, &str) = ("kopf.dev", "v1", "kopfexamples");
const PLURAL: &str = "kopfexamples";
const WORDS: [&str; 2] = ["kopf.dev", "kopfexamples"];

mod kinds {
    use k8s_openapi::api::core::v1::ConfigMap;

    /// A type in capitals is a type all the same.
    pub(crate) type CM = ConfigMap;
    pub(crate) const PODS: &str = "pods";
}

#[on_create(EXAMPLES)]
#[on_update(PLURAL)]
#[on_resume(WORDS, when = |cause| cause.name() != "x")]
#[on_delete(kinds::CM, when = |_| true)]
#[on_event(kinds::PODS, when = |cause: &Cause| cause.name() != "x")]
async fn selected(logger: Logger) {
    info!(logger, "of one of several selectors");
}

/// `Patch` is the framework's, whatever else is imported by that name.
mod beside_kube {
    use kopf_rs::prelude::*;
    use kube::api::{Api, Patch, PatchParams};

    type ConfigMap = k8s_openapi::api::core::v1::ConfigMap;

    #[on_create("kopfexamples")]
    async fn patches_another(patch: &mut Patch, client: Client, namespace: &str) -> HandlerResult {
        patch["status"]["children"] = json!(1);
        let maps = Api::<ConfigMap>::namespaced(client, namespace);
        let labelled = Patch::Merge(json!({"metadata": {"labels": {"seen": "yes"}}}));
        maps.patch("x", &PatchParams::default(), &labelled).await?;
        Ok(())
    }
}

/// Imported by name, it is used.
mod by_name {
    use kopf_rs::{Patch, on_create};

    #[on_create("kopfexamples")]
    fn patches(patch: &mut Patch) {
        patch.transform(|_| {});
    }
}

/// How often a handler was called for one object.
#[derive(Clone, Default)]
struct Count(u32);

#[on_update("kopfexamples", id = "watch")]
async fn watch_fields(diff: &Diff, reason: Reason, memo: Memo, patch: &mut Patch) {
    if diff.touches("spec.go") && reason == "update" {
        memo.update::<Count>(|count| count.0 += 1);
    }
    for item in diff {
        if item.field == "spec.go" && item.op == "change" {
            patch["status"]["went"] = json!(item.new);
        }
    }
    std::future::ready(()).await;
}

#[on_event("kopfexamples", id = "seen")]
fn seen(event_type: EventType, name: &str) {
    if event_type == "DELETED" {
        info!("{name} is gone");
    }
    // As with tracing's own macros:
    warn!(?event_type, "{name} was seen");
    debug!(target: "mine", size = 1, "seen");
    error!(%name, "seen");
    info!(size = 1, "seen");
}

/// An absent label is `None`, or `null`.
#[on_create("kopfexamples", id = "labelled", when = |cause| cause.labels()["x"] != "y")]
#[on_update("kopfexamples", id = "labelled", when = |cause| cause.labels().get("x") == Some("y"))]
async fn labelled(labels: &Labels, annotations: Labels, patch: &mut Patch) {
    if labels["app"] == "web" && annotations.get("example.com/owner").is_none() {
        patch.set("metadata.annotations.example.com/owner", "nobody");
        patch.set("status.n", 1);
        patch.set(["status", "hosts"], ["a", "b"]);
    }
}

/// Fields of stanzas are arguments, too.
#[on_create("kopfexamples", id = "fields")]
async fn fields(
    #[from(spec.items)] items: Vec<String>,
    #[from(spec.owner)] owner: Option<&str>,
    #[from(status.phase)] phase: &str,
    #[from(meta.generation)] generation: Option<u64>,
    #[from(spec.hosts)] hosts: &[String],
) -> HandlerResult<Value> {
    Ok(json!([items, owner, phase, generation, hosts]))
}

/// A cause can be made by hand.
#[on_delete("kopfexamples", id = "place")]
async fn place(cause: &Cause) -> HandlerResult<u32> {
    if cause.reason() == Some(Reason::Create) && cause.retry() > 1 {
        fail!("there is no place for {}", cause.name());
    }
    Ok(cause.retry())
}

#[tokio::test]
async fn unit_tests_need_no_cluster() {
    let mut patch = Patch::new();
    labelled(&Labels::from([("app", "web")]), Labels::new(), &mut patch).await;
    assert_eq!(patch["status"], json!({"n": 1, "hosts": ["a", "b"]}));
    let object = json!({"metadata": {"name": "one", "labels": {"x": "y"}}});
    let cause = Cause::of(object).reason(Reason::Create).retry(2);
    let error = place(&cause).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no place for one");
    assert!(cause.labels()["z"].is_null());
}

#[test]
fn no_change_of_a_memo_is_lost() {
    let memo = Memo::default();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    memo.update::<Count>(|count| count.0 += 1);
                }
            });
        }
    });
    assert_eq!(memo.get::<Count>().map(|count| count.0), Some(400));
}

/// All in the prelude.
#[on_startup(errors = permanent)]
fn names(settings: StartupSettings) {
    let _: Option<(Body, Subhandlers, Callback)> = None;
    settings.change(|settings| settings.execution.lifecycle = Lifecycle::Asap);
    let _ = (ErrorsMode::Ignored, Persistence::kopf());
    let _ = handler("closure", async |_| Ok(()));
}

#[test]
fn all_are_registered() {
    let registry = Registry::in_module(module_path!()).unwrap();
    assert_eq!(registry.len(), 14);
}
