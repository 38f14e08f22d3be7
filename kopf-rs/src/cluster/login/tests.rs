//! Tests logins without a server: clients are built from credentials, and most tests send no request.

use std::collections::VecDeque;

use futures_util::FutureExt;
use jiff::SignedDuration;
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::cluster::login::task::LoginTask;
use crate::rt::rng::Rng;

/// A scripted source: returns the prepared credentials and records the reasons.
#[derive(Clone, Default)]
struct Scripted(Arc<Mutex<Script>>);

#[derive(Default)]
struct Script {
    logins: VecDeque<Vec<Candidate>>,
    asked: Vec<LoginReason>,
    told: Vec<LoginSetback>,
}

impl LoginSource for Scripted {
    fn login(&mut self, why: LoginReason) -> BoxFuture<'_, Result<Vec<Candidate>, String>> {
        let mut script = self.0.lock();
        script.asked.push(why);
        let found = script.logins.pop_front().unwrap_or_default();
        async move { Ok(found) }.boxed()
    }

    fn will_be_asked_again(&mut self, setback: LoginSetback, _: Duration) {
        self.0.lock().told.push(setback);
    }
}

fn candidate(id: &str, token: &str) -> Candidate {
    Candidate { id: id.into(), info: ConnectionInfo::new("http://127.0.0.1:1").token(token) }
}

/// Returns a vault whose logins return these credentials one after the other.
fn vault(logins: Vec<Vec<Candidate>>) -> (Vault, Scripted, AbortOnDropHandle<()>) {
    let source = Scripted::default();
    source.0.lock().logins.extend(logins);
    let vault = Vault::new(Clock::start());
    let task = LoginTask::new(vault.clone(), source.clone(), Arc::new(Rng::new()));
    let task = AbortOnDropHandle::new(tokio::spawn(task.run()));
    (vault, source, task)
}

async fn refuse(vault: &Vault) -> Arc<str> {
    let session = vault.session().await.unwrap();
    let id = session.candidate.id.clone();
    vault.want(LoginReason::Refused(id.clone()), &session);
    // A second refusal of the same credentials has no further effect.
    vault.want(LoginReason::Refused(id.clone()), &session);
    id
}

async fn id(vault: &Vault) -> String {
    let session = vault.session().await.unwrap();
    session.candidate.id.to_string()
}

#[tokio::test(start_paused = true)]
async fn a_login_waits_for_a_request_and_serves_all() {
    let (vault, source, _task) = vault(vec![vec![candidate("a", "1")]]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(source.0.lock().asked, []);
    let (one, other) = tokio::join!(id(&vault), id(&vault));
    assert_eq!((one.as_str(), other.as_str()), ("a", "a"));
    assert_eq!(source.0.lock().asked, [LoginReason::First]);
}

#[tokio::test(start_paused = true)]
async fn remaining_credentials_are_used_before_another_login() {
    let mut best = candidate("b", "2");
    best.info = best.info.priority(5);
    let logins = vec![vec![candidate("a", "1"), best], vec![candidate("c", "3")]];
    let (vault, source, _task) = vault(logins);
    for expected in ["b", "a"] {
        assert_eq!(&*refuse(&vault).await, expected);
    }
    assert_eq!(id(&vault).await, "c");
    let asked = [LoginReason::First, LoginReason::Refused("a".into())];
    assert_eq!(source.0.lock().asked, asked);
}

#[tokio::test(start_paused = true)]
async fn refused_credentials_are_not_tried_again() {
    let again = candidate("a", "1");
    let again = Candidate { info: again.info.priority(7), ..again };
    let (vault, _, _task) = vault(vec![vec![candidate("a", "1")], vec![again]]);
    refuse(&vault).await;
    let error = vault.session().await.map(|_| ()).unwrap_err().to_string();
    let told = "the server has refused the credentials of login handler 'a' (401)";
    assert!(error.starts_with(told), "{error}");
    assert_eq!(vault.failed().await, error);
}

#[tokio::test(start_paused = true)]
async fn logins_with_refused_credentials_are_paced() {
    let logins = (0..8).map(|it| vec![candidate("a", &it.to_string())]);
    let (vault, source, _task) = vault(logins.collect());
    let begun = Instant::now();
    for _ in 0..7 {
        refuse(&vault).await;
        id(&vault).await;
    }
    assert!(begun.elapsed() > Duration::from_secs(30), "{:?}", begun.elapsed());
    let told = |times| LoginSetback::Refused { id: "a".into(), times };
    let all: Vec<_> = (2..=7).map(told).collect();
    assert_eq!(source.0.lock().told, all);
}

#[tokio::test(start_paused = true)]
async fn credentials_are_used_until_they_expire() {
    let clock = Clock::start();
    let mut soon = candidate("a", "1");
    soon.info.expiration = Some(clock.now() + SignedDuration::from_secs(3));
    let (vault, source, _task) = vault(vec![vec![soon], vec![candidate("b", "2")]]);
    for (pause, expected) in [(0, "a"), (2, "a"), (2, "b"), (600, "b")] {
        tokio::time::sleep(Duration::from_secs(pause)).await;
        assert_eq!(id(&vault).await, expected);
    }
    let asked = [LoginReason::First, LoginReason::Expired("a".into())];
    assert_eq!(source.0.lock().asked, asked);
}

/// Covers a machine that was suspended, or whose clock was corrected, since the start of the operator.
#[tokio::test]
async fn credentials_expire_by_the_clock_that_they_are_dated_by() {
    for (behind, expires_in, expected) in [(1, -1, false), (1, 30, true), (-1, 30, true)] {
        let source = Scripted::default();
        let mut dated = candidate("a", "1");
        let expires_in = SignedDuration::from_mins(expires_in);
        dated.info.expiration = Some(jiff::Timestamp::now() + expires_in);
        source.0.lock().logins.push_back(vec![dated]);
        let clock = Clock::behind_the_wall(SignedDuration::from_hours(behind));
        let vault = Vault::new(clock);
        let task = LoginTask::new(vault.clone(), source, Arc::new(Rng::new()));
        let _task = AbortOnDropHandle::new(tokio::spawn(task.run()));
        let session = vault.session().await;
        let told = session.as_ref().err().map(ToString::to_string);
        assert_eq!(session.is_ok(), expected, "{behind} h, {expires_in:#}: {told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn unusable_credentials_are_reported_with_their_handler() {
    let mut bad = candidate("a", "1");
    bad.info = bad.info.ca_path("/no/such/file");
    let (vault, ..) = &vault(vec![vec![bad]]);
    let error = vault.session().await.map(|_| ()).unwrap_err().to_string();
    let told = "the credentials of login handler 'a' cannot be used: ";
    assert!(error.starts_with(told), "{error}");
    assert!(error.contains("/no/such/file"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn no_request_waits_after_the_last_login() {
    let (vault, _, task) = vault(Vec::new());
    drop(task);
    let error = vault.session().await.map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), ENDED);
}

#[tokio::test(start_paused = true)]
async fn short_lived_credentials_are_requested_with_growing_pauses() {
    #[derive(Default)]
    struct Hasty(usize, Arc<std::sync::atomic::AtomicUsize>);

    impl LoginSource for Hasty {
        fn login(&mut self, _: LoginReason) -> BoxFuture<'_, Result<Vec<Candidate>, String>> {
            self.0 += 1;
            self.1.store(self.0, std::sync::atomic::Ordering::Relaxed);
            let mut found = candidate("a", &self.0.to_string());
            let soon = Clock::start().now() + SignedDuration::from_millis(20);
            found.info.expiration = Some(soon);
            async move { Ok(vec![found]) }.boxed()
        }

        fn will_be_asked_again(&mut self, setback: LoginSetback, _: Duration) {
            assert!(matches!(setback, LoginSetback::ShortLived { .. }), "{setback:?}");
        }
    }

    let source = Hasty::default();
    let logins = source.1.clone();
    let vault = Vault::new(Clock::start());
    let task = LoginTask::new(vault.clone(), source, Arc::new(Rng::new()));
    let _task = AbortOnDropHandle::new(tokio::spawn(task.run()));
    let asking = async {
        loop {
            drop(vault.session().await);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let asked = tokio::time::timeout(Duration::from_secs(60), asking).await;
    assert!(asked.is_err(), "it goes on");
    let logins = logins.load(std::sync::atomic::Ordering::Relaxed);
    assert!((3..=12).contains(&logins), "{logins} logins in a minute");
}

#[tokio::test(start_paused = true)]
async fn after_the_end_credentials_are_used_as_long_as_they_are_good() {
    let (vault, _, task) = vault(vec![vec![candidate("a", "1")]]);
    assert_eq!(id(&vault).await, "a");
    drop(task);
    tokio::task::yield_now().await;
    assert_eq!(id(&vault).await, "a");
    let session = vault.session().await.unwrap();
    vault.want(LoginReason::Refused("a".into()), &session);
    let next = tokio::time::timeout(Duration::from_secs(60), vault.session()).await;
    let error = next.expect("nobody waits").map(|_| ()).unwrap_err();
    let told = "the operator has ended";
    assert!(error.to_string().starts_with(told), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_has_worked_is_not_ended_by_one_login() {
    let refused = candidate("a", "1");
    let logins = vec![vec![refused.clone()], vec![refused], vec![], vec![candidate("a", "2")]];
    let (vault, source, _task) = vault(logins);
    id(&vault).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    refuse(&vault).await;
    assert_eq!(id(&vault).await, "a");
    let told = source.0.lock().told.clone();
    assert_eq!(told.len(), 2, "{told:?}");
    let of_both = told.iter().all(|it| matches!(it, LoginSetback::Unusable(_)));
    assert!(of_both, "{told:?}");
    // From now on, logins return nothing.
    tokio::time::sleep(Duration::from_secs(600)).await;
    refuse(&vault).await;
    let error = vault.session().await.map(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with("no login handler has returned"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_has_worked_survives_files_that_are_being_replaced() {
    let mut missing = candidate("a", "2");
    missing.info = missing.info.ca_path("/no/such/file");
    let logins = vec![vec![candidate("a", "1")], vec![missing], vec![candidate("a", "3")]];
    let (vault, source, _task) = vault(logins);
    id(&vault).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    refuse(&vault).await;
    assert_eq!(id(&vault).await, "a");
    let told = source.0.lock().told.clone();
    assert!(matches!(&told[..], [LoginSetback::Unusable(why)] if why.contains("/no/such/file")), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stopping_operator_does_not_wait_long_for_a_login() {
    struct Silent;

    impl LoginSource for Silent {
        fn login(&mut self, _: LoginReason) -> BoxFuture<'_, Result<Vec<Candidate>, String>> {
            std::future::pending().boxed()
        }

        fn will_be_asked_again(&mut self, _: LoginSetback, _: Duration) {}
    }

    let vault = Vault::new(Clock::start());
    let task = LoginTask::new(vault.clone(), Silent, Arc::new(Rng::new()));
    let _task = AbortOnDropHandle::new(tokio::spawn(task.run()));
    let hoping = vault.hope_for(Duration::from_secs(30));
    let error = tokio::select! {
        never = hoping => match never {},
        session = vault.session() => session.map(|_| ()).unwrap_err(),
    };
    let told = "its login handlers have given no credentials within 30 seconds";
    assert!(error.to_string().contains(told), "{error}");
}

/// Starts a server with its own authority at this address, which accepts the token `known`.
async fn serving(port: u16) -> kopf_rs_apiserver::Listening {
    let server = kopf_rs_apiserver::ApiServer::new();
    let user = kopf_rs_apiserver::User::new("known").group("system:masters");
    server.add_user("known", user);
    let listening = server.listen(([127, 0, 0, 1], port).into()).await;
    listening.expect("the port is free")
}

async fn a_minute_later() {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(60)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_login_is_made_where_the_certificate_of_the_server_is_not_trusted_any_more() {
    let first = serving(0).await;
    let port = first.addr().port();
    let candidate = |listening: &kopf_rs_apiserver::Listening| {
        let info = ConnectionInfo::new(format!("https://127.0.0.1:{port}"));
        let info = info.ca_data(listening.authority_pem()).token("known");
        let id = "a".into();
        vec![Candidate { id, info }]
    };
    let (vault, source, _task) = vault(vec![candidate(&first), candidate(&first)]);
    let cluster = crate::cluster::Cluster::new(vault.client());
    cluster.discover().await.unwrap();
    first.shutdown().await;
    let second = serving(port).await;
    source.0.lock().logins.push_back(candidate(&second));
    for _ in 0..2 {
        // There is no login right away, nor for a while after a login without new authorities.
        let unknown = cluster.discover().await.unwrap_err().to_string();
        assert!(unknown.contains("invalid peer certificate"), "{unknown}");
        a_minute_later().await;
    }
    let told = cluster.discover().await.map(drop);
    assert!(told.is_ok(), "{told:?}");
    let asked = |why: LoginReason| vec![LoginReason::First, why.clone(), why];
    let distrusted = LoginReason::Distrusted("a".into());
    assert_eq!(source.0.lock().asked, asked(distrusted));
    second.shutdown().await;
}

/// Variables belong to a whole process, so that a process of its own has this one.
#[test]
fn the_namespace_of_the_client_is_the_one_of_the_pod() {
    const INSIDE: &str = "KOPF_RS_TEST_POD";
    if let Ok(expected) = std::env::var(INSIDE) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _entered = runtime.enter();
        let client = Vault::new(Clock::start()).client();
        assert_eq!(client.default_namespace(), expected);
        // The Lease is kept there.
        let cluster = crate::cluster::Cluster::new(client);
        assert_eq!(cluster.own_namespace(), Some(&*expected));
        return;
    }
    let name = concat!(module_path!(), "::the_namespace_of_the_client_is_the_one_of_the_pod");
    let (_, name) = name.split_once("::").unwrap();
    let mut tests = std::process::Command::new(std::env::current_exe().unwrap());
    tests.args(["--exact", name]);
    let inside = tests.envs([(INSIDE, "team"), ("POD_NAMESPACE", "team")]);
    let said = String::from_utf8(inside.output().unwrap().stdout).unwrap();
    assert!(said.contains("1 passed"), "{said}");
}
