//! Async handlers that block all threads: the operator names them, and everything else continues.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use kopf_rs::{Callback, Context, Criterion, Registry, handler};
use kopf_rs_tests::{Lines, Program, TestCluster, scenarios};
use serde_json::json;

use crate::cli::{self, PATIENCE};
use crate::health;
use crate::operating::{TestOperator, is_handled};

scenarios! {
    a_handler_that_blocks_is_named_while_it_does [memory];
    a_sub_handler_that_blocks_is_named_and_not_its_parent [memory];
    a_filter_that_blocks_is_named_while_it_does [memory];
    a_predicate_of_a_label_that_blocks_is_named_while_it_does [memory];
    a_patch_function_that_blocks_is_named_while_it_does [memory];
    handlers_that_block_all_threads_are_named_and_block_no_others [tcp];
    an_operator_ends_in_time_despite_blocked_threads [tcp];
    cleanup_handlers_run_despite_blocked_threads [tcp];
}

/// Later than this, a line can come only after the handlers stop blocking, which they never do.
const SOON: Duration = Duration::from_secs(60);

/// Blocks its thread until the operator logs it; returns whether it did.
fn blocking(id: &'static str, lines: &Lines) -> Callback {
    let lines = lines.clone();
    handler(id, move |context: Context| {
        let lines = lines.clone();
        async move {
            let told = format!("Handler '{}' has blocked its thread", context.handler_id());
            // Without an await, no other task runs on this thread until the line is there.
            for _ in 0..SOON.as_millis() / 10 {
                if lines.count(|line| line.contains(&told)) > 0 {
                    return Ok(json!("was told"));
                }
                std::thread::park_timeout(Duration::from_millis(10));
            }
            Ok(json!("was not told"))
        }
    })
}

async fn a_handler_that_blocks_is_named_while_it_does(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let create = blocking("hog", test.cluster.lines());
    let working = test.start(Registry::new().on_create(test.selector(), create));
    test.create("one", json!({})).await;
    let object = test.until("it is handled", "one", is_handled).await;
    working.stop().await;
    assert_eq!(object["status"]["hog"], "was told");
    let told = test.line("Handler 'hog' has blocked its thread for more than 1 s, ").await;
    assert!(told.contains("WARN"), "{told}");
    assert!(told.contains("name=\"one\""), "{told}");
    assert!(told.contains("it/blocking.rs:"), "{told}");
    assert!(told.contains("`tokio::task::spawn_blocking`"), "{told}");
}

async fn a_sub_handler_that_blocks_is_named_and_not_its_parent(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let lines = test.cluster.lines().clone();
    let parent = handler("parent", move |context: Context| {
        let lines = lines.clone();
        async move {
            let subs = context.subhandlers()?;
            subs.add(blocking("child", &lines));
            subs.execute().await?;
            Ok(())
        }
    });
    let working = test.start(Registry::new().on_create(test.selector(), parent));
    test.create("one", json!({})).await;
    let object = test.until("it is handled", "one", is_handled).await;
    working.stop().await;
    assert_eq!(object["status"]["parent/child"], "was told", "{object}");
    let blocked = |line: &str| line.contains("'parent' has blocked");
    assert_eq!(test.cluster.lines().count(blocked), 0);
}

/// Blocks the calling thread once, until a line with `told` is there or too late.
fn block_until(lines: &Lines, told: &'static str) -> impl Fn() + Clone + Send + Sync + 'static {
    let (lines, is_first) = (lines.clone(), Arc::new(AtomicBool::new(true)));
    move || {
        let mut left = SOON.as_millis() / 10;
        while is_first.load(Relaxed) && left > 0 && lines.count(|line| line.contains(told)) == 0 {
            std::thread::park_timeout(Duration::from_millis(10));
            left -= 1;
        }
        is_first.store(false, Relaxed);
    }
}

const BY_FILTERS: &str =
    "The operator's own thread has been blocked for more than 1 s by the filters of 'slow'";
const BY_PATCHES: &str =
    "The operator's own thread has been blocked for more than 1 s by the patch functions of 'slow'";

async fn a_filter_that_blocks_is_named_while_it_does(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let block = block_until(test.cluster.lines(), BY_FILTERS);
    let slow = handler("slow", async |_: Context| Ok(())).when(move |_| {
        block();
        true
    });
    let working = test.start(Registry::new().on_create(test.selector(), slow));
    test.create("one", json!({})).await;
    test.until("it is handled", "one", is_handled).await;
    working.stop().await;
    let told = test.line(BY_FILTERS).await;
    assert!(told.contains("WARN"), "{told}");
    assert!(told.contains("name=\"one\""), "{told}");
}

async fn a_predicate_of_a_label_that_blocks_is_named_while_it_does(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let block = block_until(test.cluster.lines(), BY_FILTERS);
    let is_blocking = Criterion::matches(move |_| {
        block();
        true
    });
    let slow = handler("slow", async |_: Context| Ok(())).label("any", is_blocking);
    let working = test.start(Registry::new().on_create(test.selector(), slow));
    test.create("one", json!({})).await;
    test.until("it is handled", "one", is_handled).await;
    working.stop().await;
    test.line(BY_FILTERS).await;
}

async fn a_patch_function_that_blocks_is_named_while_it_does(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let block = block_until(test.cluster.lines(), BY_PATCHES);
    let slow = handler("slow", move |context: Context| {
        let block = block.clone();
        async move {
            context.patch(|patch| patch.transform(move |_| block()));
            Ok(())
        }
    });
    let working = test.start(Registry::new().on_create(test.selector(), slow));
    test.create("one", json!({})).await;
    test.until("it is handled", "one", is_handled).await;
    working.stop().await;
    let told = test.line(BY_PATCHES).await;
    assert!(told.contains("WARN") && told.contains("name=\"one\""), "{told}");
}

/// Starts the operator as a separate process, with one object per thread, and waits until handlers block all threads.
async fn hogged(cluster: &TestCluster) -> Program {
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let args =
        ["--kubeconfig", &kubeconfig, "-n", cluster.namespace(), "--liveness", "http://127.0.0.1:0/healthz"];
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    for number in 0..threads {
        create(cluster, "ConfigMap", &format!("stuck-{number}"), "hog").await;
    }
    let program = Program::start(cli::operator("hog", &args), PATIENCE);
    for number in 0..threads {
        let taken = format!("/stuck-{number}] takes a thread");
        let taken = |line: &str| line.contains(&taken);
        program.lines().until("that it blocks", taken).await;
    }
    program
}

async fn create(cluster: &TestCluster, kind: &str, name: &str, label: &str) {
    cluster
        .create(&json!({
            "apiVersion": "v1", "kind": kind,
            "metadata": {"name": name, "labels": {label: "yes"}},
        }))
        .await;
}

async fn handlers_that_block_all_threads_are_named_and_block_no_others(cluster: TestCluster) {
    let program = hogged(&cluster).await;
    let lines = program.lines().with_patience(SOON);
    create(&cluster, "Secret", "other", "seen").await;
    let seen = |line: &str| line.contains("/other] seen meanwhile");
    lines.until("of the other object", seen).await;
    let kept = |object: Option<&serde_json::Value>| {
        object.is_some_and(|object| object["metadata"]["annotations"]["kept"] == "yes")
    };
    cluster.until("it is handled", "secrets", "other", kept).await;
    let told = |line: &str| line.contains("/stuck-0] Handler 'hog' has blocked its thread");
    let told = lines.until("of the watchdog", told).await;
    assert!(told.contains("hog.rs:9:10"), "{told}");
    assert!(told.contains("Make it a `fn` instead of an `async fn`"), "{told}");
    let served = |line: &str| line.contains("Serving health status at ");
    let port = health::port_in(&lines.until("of the endpoint", served).await);
    let is_told = |answer: &health::Answer| {
        let runtime = answer.text.contains("[+]runtime ok");
        runtime && answer.text.contains("[-]handlers failed: handlers block all their threads")
    };
    let answer = async {
        loop {
            let answer = health::get(port, "/livez").await;
            if is_told(&answer) {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    let answer = tokio::time::timeout(SOON, answer).await;
    assert_eq!(answer.expect("it is told").code, 500);
}

async fn an_operator_ends_in_time_despite_blocked_threads(cluster: TestCluster) {
    let mut program = hogged(&cluster).await;
    // All threads are blocked when this one is due.
    create(&cluster, "ConfigMap", "late", "hog").await;
    create(&cluster, "Secret", "other", "seen").await;
    let seen = |line: &str| line.contains("/other] seen meanwhile");
    let lines = program.lines().with_patience(SOON);
    lines.until("of the other object", seen).await;
    program.signal("TERM").await;
    let ended = tokio::time::timeout(SOON, program.ended()).await;
    let said = program.lines().all().join("\n");
    let status = ended.unwrap_or_else(|_| panic!("it does not end:\n{said}"));
    assert_eq!(status.code(), Some(0), "{said}");
    let named = "/stuck-0] Handler 'hog' still runs although the operator stops";
    assert!(said.contains(named), "{said}");
    let never_begun = "/late] Handler 'hog' still runs";
    assert!(!said.contains(never_begun), "{said}");
    let cancelled = "/late] Handler 'hog' is cancelled";
    assert!(said.contains(cancelled), "{said}");
}

async fn cleanup_handlers_run_despite_blocked_threads(cluster: TestCluster) {
    let mut program = hogged(&cluster).await;
    program.signal("TERM").await;
    let ended = tokio::time::timeout(SOON, program.ended()).await;
    let said = program.lines().all().join("\n");
    let status = ended.unwrap_or_else(|_| panic!("it does not end:\n{said}"));
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("cleans up"), "{said}");
}
