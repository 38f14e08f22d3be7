//! Logins without a server: a client is made of credentials, and sends nothing.

use std::sync::Mutex;

use futures_util::FutureExt;
use jiff::SignedDuration;
use tokio_util::task::AbortOnDropHandle;

use super::*;

/// Gives what is in it, and notes why it was asked.
#[derive(Clone, Default)]
struct Scripted(Arc<Mutex<Script>>);

#[derive(Default)]
struct Script {
    logins: VecDeque<Vec<Candidate>>,
    asked: Vec<Why>,
}

impl LoginSource for Scripted {
    fn login(&mut self, why: Why) -> BoxFuture<'_, Result<Vec<Candidate>, String>> {
        let mut script = self.0.lock().unwrap();
        script.asked.push(why);
        let found = script.logins.pop_front().unwrap_or_default();
        async move { Ok(found) }.boxed()
    }
}

fn candidate(id: &str, token: &str) -> Candidate {
    Candidate {
        id: id.into(),
        info: ConnectionInfo::new("http://127.0.0.1:1").token(token),
    }
}

/// A vault whose logins bring these credentials, one after the other.
fn vault(logins: Vec<Vec<Candidate>>) -> (Vault, Scripted, AbortOnDropHandle<()>) {
    let source = Scripted::default();
    source.0.lock().unwrap().logins.extend(logins);
    let vault = Vault::new(Clock::start());
    let task = vault.task(source.clone(), Arc::new(Rng::new()));
    let task = AbortOnDropHandle::new(tokio::spawn(task.run()));
    (vault, source, task)
}

async fn refuse(vault: &Vault) -> Arc<str> {
    let session = vault.session().await.unwrap();
    let id = session.candidate.id.clone();
    vault.want(Why::Refused(id.clone()), &session);
    // A second one that was refused with them wants nothing more.
    vault.want(Why::Refused(id.clone()), &session);
    id
}

async fn id(vault: &Vault) -> String {
    let session = vault.session().await.unwrap();
    session.candidate.id.to_string()
}

#[tokio::test(start_paused = true)]
async fn nobody_logs_in_before_a_request_and_one_login_serves_all() {
    let (vault, source, _task) = vault(vec![vec![candidate("a", "1")]]);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(source.0.lock().unwrap().asked, []);
    let (one, other) = tokio::join!(id(&vault), id(&vault));
    assert_eq!((one.as_str(), other.as_str()), ("a", "a"));
    assert_eq!(source.0.lock().unwrap().asked, [Why::First]);
}

#[tokio::test(start_paused = true)]
async fn what_is_left_is_used_before_another_login() {
    let mut best = candidate("b", "2");
    best.info = best.info.priority(5);
    let logins = vec![vec![candidate("a", "1"), best], vec![candidate("c", "3")]];
    let (vault, source, _task) = vault(logins);
    for expected in ["b", "a"] {
        assert_eq!(&*refuse(&vault).await, expected);
    }
    assert_eq!(id(&vault).await, "c");
    let asked = [Why::First, Why::Refused("a".into())];
    assert_eq!(source.0.lock().unwrap().asked, asked);
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_is_not_tried_again() {
    let again = candidate("a", "1");
    let again = Candidate {
        info: again.info.priority(7),
        ..again
    };
    let (vault, _, _task) = vault(vec![vec![candidate("a", "1")], vec![again]]);
    refuse(&vault).await;
    let error = vault.session().await.map(|_| ()).unwrap_err().to_string();
    let told = "the server has refused the credentials of login handler 'a' (401)";
    assert!(error.starts_with(told), "{error}");
    assert_eq!(vault.failed().await, error);
}

#[tokio::test(start_paused = true)]
async fn logins_whose_credentials_are_refused_at_once_are_paced() {
    let logins = (0..8).map(|it| vec![candidate("a", &it.to_string())]);
    let (vault, _, _task) = vault(logins.collect());
    let begun = Instant::now();
    for _ in 0..7 {
        refuse(&vault).await;
        id(&vault).await;
    }
    assert!(
        begun.elapsed() > Duration::from_secs(30),
        "{:?}",
        begun.elapsed()
    );
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
    let asked = [Why::First, Why::Expired("a".into())];
    assert_eq!(source.0.lock().unwrap().asked, asked);
}

#[tokio::test(start_paused = true)]
async fn what_can_make_no_client_is_told_with_its_handler() {
    let mut bad = candidate("a", "1");
    bad.info = bad.info.ca_path("/no/such/file");
    let (vault, ..) = &vault(vec![vec![bad]]);
    let error = vault.session().await.map(|_| ()).unwrap_err().to_string();
    let told = "the credentials of login handler 'a' cannot be used: ";
    assert!(error.starts_with(told), "{error}");
    assert!(error.contains("/no/such/file"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_login_that_is_over() {
    let (vault, _, task) = vault(Vec::new());
    drop(task);
    let error = vault.session().await.map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "the operator has ended");
}
