//! Operators with login handlers: they log in at the start and again when credentials expire or are refused, with a limited number of
//! attempts.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kopf_rs::{
    Callback, Client, ConnectionInfo, Operator, OperatorError, PermanentError, Registry, Report, handler,
};
use kopf_rs_apiserver::{ApiServer, Fault, FaultHandle, User};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::operating::{TestOperator, is_handled};

scenarios! {
    a_login_handler_gives_the_credentials [tcp];
    without_credentials_the_operator_ends [tcp];
    a_login_that_fails_permanently_ends_the_operator [tcp];
    credentials_that_have_expired_already_end_the_operator [tcp];
    unusable_credentials_end_the_operator [tcp];
    credentials_that_stay_refused_end_the_operator [tcp];
    refused_credentials_are_replaced_once_for_all [tcp];
    credentials_that_expire_are_replaced [tcp];
    the_highest_priority_is_used_first_and_the_others_without_another_login [tcp];
    a_refusal_of_one_path_refuses_no_credentials [tcp];
    a_server_that_cannot_answer_now_refuses_no_credentials [tcp];
    repeatedly_refused_new_credentials_are_reported [tcp];
    cleanup_handlers_are_not_repeated_without_credentials [tcp];
    a_client_that_outlives_the_operator_is_refused_without_logins [tcp];
    a_startup_handler_that_needs_credentials_does_not_wait_for_ever [tcp];
}

/// Returns the connection data of the cluster's server, without credentials.
fn info(test: &TestOperator) -> ConnectionInfo {
    let kubeconfig = std::fs::read_to_string(test.cluster.kubeconfig());
    let kubeconfig = kubeconfig.expect("a kubeconfig");
    let value = |key: &str| {
        let line = kubeconfig.lines().find_map(|line| line.trim().strip_prefix(key));
        let value = line.unwrap_or_else(|| panic!("no {key} in {kubeconfig}"));
        value.trim().trim_matches('"').to_owned()
    };
    let info = ConnectionInfo::new(value("server:"));
    info.ca_data(value("certificate-authority-data:"))
}

fn server(test: &TestOperator) -> &ApiServer {
    let server = test.cluster.in_process();
    server.expect("this server is in the process")
}

/// Adds an administrator with this token to the server.
fn add_token(test: &TestOperator, token: &str) {
    let user = User::new(token).group("system:masters");
    server(test).add_user(token, user);
}

/// Makes the server refuse the token from now on.
fn refuse(test: &TestOperator, token: &'static str) -> FaultHandle {
    server(test).fault(Fault::answer(401).when(move |entry| entry.user == token))
}

/// A login handler that returns these tokens one after the other, and repeats the last one.
fn giving(test: &TestOperator, id: &str, tokens: &'static [&'static str]) -> Callback {
    let (info, calls) = (info(test), test.calls.clone());
    let (owned, count) = (id.to_owned(), Arc::new(AtomicUsize::new(0)));
    handler(id, move |_| {
        let at = count.fetch_add(1, Relaxed).min(tokens.len() - 1);
        calls.note(format!("{owned} {}", tokens[at]));
        let info = info.clone().token(tokens[at]);
        async move { Ok(Some(info)) }
    })
}

/// An operator with login handlers, as a task.
struct LoggedIn {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<Report, OperatorError>>,
}

impl LoggedIn {
    fn start(operator: Operator) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        Self { stop, task: tokio::spawn(operator.run_logged_in(stopped)) }
    }

    async fn stop(self) {
        drop(self.stop);
        let ended = self.task.await.expect("it does not panic");
        ended.expect("it ends well");
    }

    /// Waits until it ends by itself with an error.
    async fn failed(self) -> String {
        let Self { stop, task } = self;
        let ended = tokio::time::timeout(Duration::from_secs(60), task).await;
        let ended = ended.expect("it ends in time").expect("it does not panic");
        drop(stop);
        let error = ended.expect_err("it does not end well");
        assert!(matches!(error, OperatorError::Login(_)), "{error}");
        error.to_string()
    }
}

fn creating(test: &TestOperator) -> Registry {
    Registry::new().on_create(test.selector(), test.noting("create_fn"))
}

/// Checks that the operator handles a new object with that name.
async fn serves(test: &TestOperator, name: &str) {
    test.create(name, json!({})).await;
    test.until("it is handled", name, is_handled).await;
}

/// A handler that sends a request with the operator's client.
fn asking(test: &TestOperator, id: &str) -> Callback {
    test.handler(id, |context| async move {
        let client = Client::clone(&*context.state::<Client>()?);
        client.apiserver_version().await?;
        Ok(Value::Null)
    })
}

fn count(test: &TestOperator, word: &str) -> usize {
    let calls = test.calls.all();
    calls.iter().filter(|call| call.starts_with(word)).count()
}

async fn a_login_handler_gives_the_credentials(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    add_token(&test, "first");
    let registry =
        creating(&test).on_startup(test.noting("startup_fn")).on_login(giving(&test, "login_fn", &["first"]));
    let working = LoggedIn::start(test.operator(registry));
    serves(&test, "a").await;
    working.stop().await;
    let calls = ["startup_fn ", "login_fn first", "create_fn a"];
    assert_eq!(test.calls.all(), calls);
    test.line("Initial authentication has been initiated.").await;
    test.line("Initial authentication has finished.").await;
}

async fn without_credentials_the_operator_ends(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = creating(&test).on_login(test.noting("login_fn"));
    let error = LoggedIn::start(test.operator(registry)).failed().await;
    assert!(error.starts_with("no login handler has returned credentials"), "{error}");
    test.line("no credentials were retrieved from the login handlers").await;
}

async fn a_login_that_fails_permanently_ends_the_operator(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = creating(&test)
        .on_login(
            test.handler("login_fn", |_| async { Err(PermanentError::new("the vault is sealed").into()) }),
        )
        .on_cleanup(test.noting("cleanup_fn"));
    let error = LoggedIn::start(test.operator(registry)).failed().await;
    let told = "login handler 'login_fn' has failed for good";
    assert!(error.starts_with(told), "{error}");
    test.line("Activity 'login_fn' failed permanently: the vault is sealed").await;
    assert_eq!(test.calls.all(), ["login_fn ", "cleanup_fn "]);
}

async fn credentials_that_have_expired_already_end_the_operator(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let given = info(&test).token("first");
    let registry = creating(&test).on_login(handler("login_fn", move |context| {
        let past = context.started() - Duration::from_secs(1);
        let given = given.clone().expiration(past);
        async move { Ok(given) }
    }));
    let error = LoggedIn::start(test.operator(registry)).failed().await;
    let told = "login handler 'login_fn' has returned credentials that have expired already";
    assert!(error.starts_with(told), "{error}");
}

async fn unusable_credentials_end_the_operator(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = creating(&test).on_login(test.handler("login_fn", |_| async { Ok(json!("my-secret")) }));
    let error = LoggedIn::start(test.operator(registry)).failed().await;
    assert!(error.contains("it must return `Option<ConnectionInfo>`"), "{error}");
    assert!(!error.contains("my-secret"), "{error}");
}

async fn credentials_that_stay_refused_end_the_operator(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = creating(&test).on_login(giving(&test, "login_fn", &["wrong"]));
    let error = LoggedIn::start(test.operator(registry)).failed().await;
    let told = "the server has refused the credentials of login handler 'login_fn' (401)";
    assert!(error.starts_with(told), "{error}");
    assert_eq!(test.calls.all(), ["login_fn wrong", "login_fn wrong"]);
    let asked = test.cluster.asked();
    let refused = asked.iter().filter(|it| it.code == 401).count();
    // Discovery sends two requests at once, and the operator also checks whether the server accepts the credentials at all.
    assert!((2..=3).contains(&refused), "{refused}");
}

async fn refused_credentials_are_replaced_once_for_all(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    add_token(&test, "first");
    add_token(&test, "second");
    let registry = creating(&test)
        .on_update(test.selector(), test.noting("update_fn"))
        .on_event("configmaps", test.handler("map_fn", |_| async { Ok(Value::Null) }))
        .on_login(giving(&test, "login_fn", &["first", "second"]));
    let working = LoggedIn::start(test.operator(registry));
    for name in ["a", "b", "c"] {
        serves(&test, name).await;
    }
    let _refused = refuse(&test, "first");
    // Open watches break and restart with the refused credentials; writes use them, too.
    let cut = server(&test).fault(Fault::reset());
    for name in ["a", "b", "c"] {
        test.patch(name, json!({"spec": {"size": 1}})).await;
    }
    drop(cut);
    serves(&test, "d").await;
    loop {
        let seen = test.calls.all().len();
        if count(&test, "update_fn") >= 3 {
            break;
        }
        test.calls.until(seen + 1).await;
    }
    working.stop().await;
    assert_eq!(count(&test, "login_fn"), 2, "{:?}", test.calls.all());
    assert_eq!((count(&test, "create_fn"), count(&test, "update_fn")), (4, 3));
    test.line("Re-authentication has been initiated: the server has refused the credentials of 'login_fn'.")
        .await;
    let lines = test.cluster.lines();
    let warned = lines.count(|line| line.contains("credentials are refused") || line.contains("is refused"));
    assert_eq!(warned, 0, "{:#?}", lines.all());
}

async fn credentials_that_expire_are_replaced(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    add_token(&test, "first");
    let (given, calls) = (info(&test).token("first"), test.calls.clone());
    let registry = creating(&test).on_login(handler("login_fn", move |context| {
        calls.note("login_fn");
        let given = given.clone();
        let soon = context.started() + Duration::from_secs(1);
        async move { Ok(given.expiration(soon)) }
    }));
    let working = LoggedIn::start(test.operator(registry));
    for at in 0..4 {
        let name = format!("object-{at}");
        serves(&test, &name).await;
        tokio::time::sleep(Duration::from_millis(1100)).await;
    }
    working.stop().await;
    assert_eq!(count(&test, "create_fn"), 4);
    assert!(count(&test, "login_fn") >= 4, "{:?}", test.calls.all());
    test.line("Re-authentication has been initiated: the credentials of 'login_fn' have expired.").await;
}

async fn the_highest_priority_is_used_first_and_the_others_without_another_login(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    add_token(&test, "low");
    add_token(&test, "high");
    let login = |id: &'static str, priority| {
        let (given, calls) = (info(&test).token(id).priority(priority), test.calls.clone());
        handler(id, move |_| {
            calls.note(format!("login {id}"));
            let given = given.clone();
            async move { Ok(given) }
        })
    };
    let registry = creating(&test).on_login(login("low", 1)).on_login(login("high", 10));
    let working = LoggedIn::start(test.operator(registry));
    serves(&test, "a").await;
    let journal = test.cluster.journal().expect("a journal");
    let by_low = || journal.entries().iter().filter(|entry| entry.user == "low").count();
    assert_eq!(by_low(), 0);
    let _refused = refuse(&test, "high");
    serves(&test, "b").await;
    working.stop().await;
    assert!(by_low() > 0);
    assert_eq!(count(&test, "login "), 2, "{:?}", test.calls.all());
}

async fn a_refusal_of_one_path_refuses_no_credentials(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    add_token(&test, "first");
    let refused = server(&test).fault(Fault::answer(401).plural("configmaps"));
    let registry = creating(&test).on_event("configmaps", test.noting("map_fn")).on_login(giving(
        &test,
        "login_fn",
        &["first"],
    ));
    let working = LoggedIn::start(test.operator(registry));
    serves(&test, "a").await;
    test.line("is refused").await;
    assert!(refused.hits() > 0);
    drop(refused);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}});
    test.cluster.create(&map).await;
    test.calls_until("map_fn map").await;
    working.stop().await;
    assert_eq!(count(&test, "login_fn"), 1, "{:?}", test.calls.all());
}

/// An aggregated API refuses a request, and the server is too busy to answer whether it accepts the credentials.
async fn a_server_that_cannot_answer_now_refuses_no_credentials(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    add_token(&test, "first");
    let refused = server(&test).fault(Fault::answer(401).plural("configmaps"));
    let busy = server(&test).fault(Fault::answer(503).plural("selfsubjectreviews"));
    let registry = creating(&test).on_event("configmaps", test.noting("map_fn")).on_login(giving(
        &test,
        "login_fn",
        &["first"],
    ));
    let working = LoggedIn::start(test.operator(registry));
    test.create("a", json!({})).await;
    test.until("it is handled", "a", is_handled).await;
    test.line("is refused").await;
    assert!(busy.hits() > 0);
    drop((refused, busy));
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}});
    test.cluster.create(&map).await;
    test.calls_until("map_fn map").await;
    working.stop().await;
    assert_eq!(count(&test, "login_fn"), 1, "{:?}", test.calls.all());
}

async fn repeatedly_refused_new_credentials_are_reported(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    add_token(&test, "right");
    let (given, calls) = (info(&test), test.calls.clone());
    let is_mended = Arc::new(AtomicBool::new(false));
    let (mended, logins) = (is_mended.clone(), AtomicUsize::new(0));
    let registry = creating(&test).on_login(handler("login_fn", move |_| {
        let at = logins.fetch_add(1, Relaxed);
        calls.note("login_fn");
        let token = if mended.load(Relaxed) { "right".to_owned() } else { format!("wrong-{at}") };
        let given = given.clone().token(token);
        async move { Ok(given) }
    }));
    let working = LoggedIn::start(test.operator(registry));
    let told = "The server has refused the credentials of login handler 'login_fn' 2 times in a row (401), others each time";
    let line = test.line(told).await;
    assert!(line.contains("the next login is in"), "{line}");
    is_mended.store(true, Relaxed);
    serves(&test, "a").await;
    working.stop().await;
}

async fn cleanup_handlers_are_not_repeated_without_credentials(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = creating(&test)
        .on_login(giving(&test, "login_fn", &["wrong"]))
        .on_cleanup(asking(&test, "cleanup_fn"));
    let error = LoggedIn::start(test.operator(registry)).failed().await;
    let told = "the server has refused the credentials of login handler 'login_fn' (401)";
    assert!(error.starts_with(told), "{error}");
    assert_eq!(count(&test, "cleanup_fn"), 1);
    test.line("Activity 'cleanup_fn' failed with an exception and will stop now").await;
}

async fn a_client_that_outlives_the_operator_is_refused_without_logins(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    add_token(&test, "first");
    let kept = Arc::new(Mutex::new(None));
    let keep = kept.clone();
    let registry = creating(&test)
        .on_startup(handler("startup_fn", move |context| {
            let keep = keep.clone();
            async move {
                let client = Client::clone(&*context.state::<Client>()?);
                *keep.lock().expect("nobody panics") = Some(client);
                Ok(())
            }
        }))
        .on_login(giving(&test, "login_fn", &["first", "second"]));
    let working = LoggedIn::start(test.operator(registry));
    serves(&test, "a").await;
    working.stop().await;
    let client = kept.lock().expect("nobody panics").take();
    let client = client.expect("there was a startup");
    let asked = client.apiserver_version().await;
    assert!(asked.is_ok(), "its credentials are still good: {asked:?}");
    let _refused = refuse(&test, "first");
    let asked = tokio::time::timeout(Duration::from_secs(20), client.apiserver_version()).await;
    let error = asked.expect("it does not wait").expect_err("401");
    let error = format!("{error:?}");
    assert!(error.contains("the operator has ended"), "{error}");
}

async fn a_startup_handler_that_needs_credentials_does_not_wait_for_ever(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = creating(&test)
        .on_login(giving(&test, "login_fn", &["wrong"]))
        .on_startup(asking(&test, "startup_fn"));
    let error = LoggedIn::start(test.operator(registry)).failed().await;
    let told = "the server has refused the credentials of login handler 'login_fn' (401)";
    assert!(error.starts_with(told), "{error}");
}
