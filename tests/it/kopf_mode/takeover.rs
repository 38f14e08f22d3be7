//! A Kopf operator is killed and kopf-rs takes over, and vice versa: attempts continue, and no finished handler is called again. The same
//! in the middle of sub-handlers, whose records must be gone at the end.

use std::process::Command;
use std::time::Duration;

use kopf_rs::{Callback, Context, Persistence, Registry, Settings, TemporaryError, handler};
use kopf_rs_tests::{Package, Program, TestCluster, python_for, scenarios};
use serde_json::{Value, json};

use super::script;
use crate::operating::{Calls, TestOperator, Working};

scenarios! {
    kopf_is_killed_and_we_take_over [real];
    we_are_killed_and_kopf_takes_over [real];
    kopf_is_killed_among_sub_handlers_and_we_take_over [real];
    we_are_killed_among_sub_handlers_and_kopf_takes_over [real];
}

const PATIENCE: Duration = Duration::from_secs(60);
const FINALIZER: &str = "kopf.zalando.org/KopfFinalizerMarker";

/// The moment to kill the first operator, and the attempts that the second one has to make.
struct Stage {
    name: &'static str,
    spec: Value,
    /// A condition on the object that holds at that moment, and the last attempt of the first operator.
    ripe: fn(&Value) -> bool,
    seen: &'static str,
    left: &'static [&'static str],
}

fn stages() -> [Stage; 4] {
    let fails = json!({"first": 2, "second": 0});
    [
        Stage {
            name: "before-the-first-attempt-is-written",
            spec: json!({"failures": fails, "hangs": "first 0"}),
            ripe: |object| object["metadata"]["finalizers"] == json!([FINALIZER]),
            seen: "first 0",
            left: &["first 0", "second 0", "first 1", "first 2"],
        },
        Stage {
            name: "between-attempts",
            spec: json!({"failures": {"first": 2, "second": 3}, "hangs": "first 2"}),
            ripe: |object| retries(object, "first") == Some(2) && retries(object, "second") >= Some(1),
            seen: "first 1",
            left: &["first 2"],
        },
        Stage {
            name: "between-handlers",
            spec: json!({"failures": {"first": 0, "second": 2}, "hangs": "second 1"}),
            ripe: |object| record(object, "first")["success"] == true && retries(object, "second") == Some(1),
            seen: "second 0",
            left: &["second 1", "second 2"],
        },
        Stage {
            name: "before-the-last-write",
            spec: json!({"failures": {"first": 1, "second": 0}, "hangs": "first 1"}),
            ripe: |object| record(object, "second")["success"] == true,
            seen: "first 1",
            left: &["first 1"],
        },
    ]
}

/// Returns such stages among sub-handlers of two levels.
fn stages_of_children() -> [Stage; 5] {
    let fails = json!({"parent/one": 1});
    [
        Stage {
            name: "before-the-first-child-is-written",
            spec: json!({"failures": fails, "hangs": "parent/one 0"}),
            ripe: |object| object["metadata"]["finalizers"] == json!([FINALIZER]),
            seen: "parent/one 0",
            left: &["parent/one 0", "parent/two 0", "parent/mid/leaf 0"],
        },
        Stage {
            name: "between-attempts-of-a-child",
            spec: json!({"failures": {"parent/two": 2}, "hangs": "parent/two 2"}),
            ripe: |object| retries(object, "parent/two") == Some(2),
            seen: "parent/two 1",
            left: &["parent/two 2"],
        },
        Stage {
            name: "between-children",
            spec: json!({"failures": fails, "hangs": "parent/two 0"}),
            ripe: |object| retries(object, "parent/one") == Some(1),
            seen: "parent/two 0",
            left: &["parent/two 0", "parent/mid/leaf 0", "parent/one 1"],
        },
        Stage {
            name: "between-attempts-of-a-grandchild",
            spec: json!({"failures": {"parent/mid/leaf": 2}, "hangs": "parent/mid/leaf 2"}),
            ripe: |object| retries(object, "parent/mid/leaf") == Some(2),
            seen: "parent/mid/leaf 1",
            left: &["parent/mid/leaf 2"],
        },
        Stage {
            name: "before-the-last-child-is-written",
            spec: json!({"failures": fails, "hangs": "parent/one 1"}),
            ripe: |object| {
                let done = |id| record(object, id)["success"] == true;
                done("parent/two") && done("parent/mid") && retries(object, "parent/one") == Some(1)
            },
            seen: "parent/one 1",
            left: &["parent/one 1"],
        },
    ]
}

fn record(object: &Value, id: &str) -> Value {
    let key = format!("kopf.zalando.org/{}", id.replace('/', "."));
    let text = object["metadata"]["annotations"][key].as_str();
    text.map_or(Value::Null, |text| serde_json::from_str(text).expect("JSON"))
}

fn retries(object: &Value, id: &str) -> Option<u64> {
    record(object, id)["retries"].as_u64()
}

/// Returns whether the object is handled and has no progress left.
fn is_done(object: &Value) -> bool {
    let annotations = object["metadata"]["annotations"].as_object();
    let handled = "kopf.zalando.org/last-handled-configuration";
    annotations.is_some_and(|all| all.contains_key(handled) && all.len() == 1)
}

/// An operator of either framework.
enum Side {
    Kopf(Box<Program>),
    Ours(Working, Calls),
}

impl Side {
    async fn kopf(test: &TestOperator, handlers: &str) -> Option<Self> {
        let mut command = Command::new(python_for("takeover", Package::Kopf)?);
        command.args(["-m", "kopf", "run", "--standalone", "--verbose", "-n", test.cluster.namespace()]);
        command.arg(script(handlers));
        command.env("KUBECONFIG", test.cluster.kubeconfig()).env("TAKEOVER_GROUP", &test.group);
        let program = Program::start(command, PATIENCE);
        let watching = |line: &str| line.contains("Starting the watch-stream for kopfexamples");
        program.lines().until("that Kopf watches", watching).await;
        Some(Self::Kopf(Box::new(program)))
    }

    fn ours(test: &TestOperator, handlers: fn(&TestOperator, &Calls) -> Registry) -> Self {
        let calls = Calls::new(test.cluster.lines());
        let registry = handlers(test, &calls);
        let settings = Settings::with(|it| it.persistence = Some(Persistence::kopf()));
        Self::Ours(Working::start(&test.cluster, test.operator(registry).settings(settings)), calls)
    }

    /// Returns all attempts for the object so far, as `handler retry`.
    fn attempts(&self, name: &str) -> Vec<String> {
        let lines = match self {
            Self::Kopf(program) => program.lines().all(),
            Self::Ours(_, calls) => calls.all(),
        };
        let attempt = |line: &String| {
            let (_, rest) = line.split_once("attempt ")?;
            let [id, object, retry] = rest.split(' ').collect::<Vec<_>>().try_into().ok()?;
            (object == name).then(|| format!("{id} {}", retry.trim()))
        };
        lines.iter().filter_map(attempt).collect()
    }

    async fn until_attempted(&self, name: &str, attempt: &str) {
        let (id, retry) = attempt.split_once(' ').expect("two words");
        let wanted = format!("attempt {id} {name} {retry}");
        match self {
            Self::Kopf(program) => {
                program.lines().until(&wanted, |line| line.contains(&wanted)).await;
            }
            Self::Ours(_, calls) => {
                let mut count = 1;
                while !calls.until(count).await.contains(&wanted) {
                    count += 1;
                }
            }
        }
    }

    async fn kill(self) {
        match self {
            Self::Kopf(mut program) => {
                program.signal("KILL").await;
                program.ended().await;
            }
            Self::Ours(working, _) => working.kill().await,
        }
    }
}

/// Returns the handlers of `tests/kopf/takeover.py`.
fn handlers(test: &TestOperator, calls: &Calls) -> Registry {
    let create = |id| attempting(id, calls);
    Registry::new()
        .on_create(test.selector(), create("first"))
        .on_create(test.selector(), create("second"))
        .on_update(test.selector(), create("resize").field("spec.size"))
        .on_delete(test.selector(), create("remove"))
}

/// Returns the handlers of `tests/kopf/children.py`.
fn parents(test: &TestOperator, calls: &Calls) -> Registry {
    let child = |id| attempting(id, calls);
    let middle = parent("mid", vec![child("parent/mid/leaf")]);
    let children = vec![child("parent/one"), child("parent/two"), middle];
    let (resize, remove) = (child("resize").field("size"), child("remove"));
    Registry::new()
        .on_create(test.selector(), parent("parent", children))
        .on_update(test.selector(), parent("change", vec![resize]).field("spec"))
        .on_delete(test.selector(), parent("end", vec![remove]))
}

fn parent(id: &str, children: Vec<Callback>) -> Callback {
    handler(id, move |context: Context| {
        let children = children.clone();
        async move {
            let subs = context.subhandlers()?;
            for child in children {
                subs.add(child);
            }
            Ok(())
        }
    })
}

/// A handler that fails as often as the spec demands, and hangs at the attempt that the spec names. The last part of `id` is its own id.
fn attempting(id: &'static str, calls: &Calls) -> Callback {
    let calls = calls.clone();
    let own = id.rsplit('/').next().unwrap_or(id);
    handler(own, move |context: Context| {
        let (name, retry) = (context.name(), context.retry());
        calls.note(format!("attempt {id} {name} {retry}"));
        async move {
            let spec: Value = context.spec()?;
            if spec["hangs"] == format!("{id} {}", context.retry()) {
                std::future::pending::<()>().await;
            }
            if u64::from(context.retry()) < spec["failures"][id].as_u64().unwrap_or(0) {
                Err(TemporaryError::new("not yet").delay(1))?;
            }
            Ok(())
        }
    })
}

async fn kopf_is_killed_and_we_take_over(cluster: TestCluster) {
    we_take_over(cluster, "takeover.py", handlers, &stages()).await;
}

async fn we_are_killed_and_kopf_takes_over(cluster: TestCluster) {
    kopf_takes_over(cluster, "takeover.py", handlers, &stages()).await;
}

async fn kopf_is_killed_among_sub_handlers_and_we_take_over(cluster: TestCluster) {
    we_take_over(cluster, "children.py", parents, &stages_of_children()).await;
}

async fn we_are_killed_among_sub_handlers_and_kopf_takes_over(cluster: TestCluster) {
    kopf_takes_over(cluster, "children.py", parents, &stages_of_children()).await;
}

type Handlers = fn(&TestOperator, &Calls) -> Registry;

async fn we_take_over(cluster: TestCluster, script: &str, handlers: Handlers, stages: &[Stage]) {
    let test = TestOperator::of(cluster).await;
    for stage in stages {
        let Some(kopf) = Side::kopf(&test, script).await else {
            return;
        };
        let ours = || async { Side::ours(&test, handlers) };
        take_over(&test, stage, kopf, ours).await;
    }
}

async fn kopf_takes_over(cluster: TestCluster, script: &str, handlers: Handlers, stages: &[Stage]) {
    let test = TestOperator::of(cluster).await;
    if python_for("takeover", Package::Kopf).is_none() {
        return;
    }
    for stage in stages {
        let kopf = || async { Side::kopf(&test, script).await.expect("Kopf is there") };
        take_over(&test, stage, Side::ours(&test, handlers), kopf).await;
    }
}

/// Kills the first operator at the stage; the second one must make exactly the remaining attempts.
async fn take_over(test: &TestOperator, stage: &Stage, first: Side, second: impl AsyncFn() -> Side) {
    let name = stage.name;
    test.create(name, stage.spec.clone()).await;
    first.until_attempted(name, stage.seen).await;
    let before = test.until("the stage", name, stage.ripe).await;
    first.kill().await;
    // Only the first operator was to hang.
    test.patch(name, json!({"spec": {"hangs": null}})).await;
    let second = second().await;
    let after = test.until("it is done", name, is_done).await;
    let attempts = second.attempts(name);
    let all = ["first", "second", "parent/one", "parent/two", "parent/mid/leaf"];
    let finished: Vec<_> = all.into_iter().filter(|id| record(&before, id)["success"] == true).collect();
    for id in finished {
        let again = attempts.iter().any(|attempt| attempt.starts_with(&format!("{id} ")));
        assert!(!again, "{name}: {id} was done, and again {attempts:?}");
    }
    for attempt in stage.left {
        assert!(attempts.iter().any(|it| it == attempt), "{name}: {attempt} is not in {attempts:?}");
    }
    assert_none_is_repeated(name, &attempts);
    assert_eq!(after["metadata"]["finalizers"], json!([FINALIZER]));
    // The first framework accepts the state of the second: it has no work left, and it detects a change.
    test.patch(name, json!({"spec": {"size": 1}})).await;
    second.until_attempted(name, "resize 0").await;
    test.until("the change is handled", name, |object| is_done(object) && size_handled(object)).await;
    test.delete(name).await;
    second.until_attempted(name, "remove 0").await;
    test.until_gone(name).await;
    second.kill().await;
}

fn size_handled(object: &Value) -> bool {
    let text = &object["metadata"]["annotations"]["kopf.zalando.org/last-handled-configuration"];
    text.as_str().is_some_and(|text| text.contains("\"size\":1"))
}

fn assert_none_is_repeated(name: &str, attempts: &[String]) {
    for (number, attempt) in attempts.iter().enumerate() {
        assert!(!attempts[..number].contains(attempt), "{name}: {attempt} twice in {attempts:?}");
    }
}
