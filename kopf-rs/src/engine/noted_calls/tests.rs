use futures_util::FutureExt as _;

use super::*;
use crate::handler::registry::Registry;
use crate::handler::registry::callback::handler;
use crate::handler::testing::{cause, myapp};
use crate::happening::calls::Stage;
use crate::reaction::input::state_for;

/// A notes file of one test, which several processes open one after the other.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let file = format!("kopf-rs-{name}-{}.calls", std::process::id());
        let path = std::env::temp_dir().join(file);
        let _ = std::fs::remove_file(&path);
        Self(path)
    }

    fn open(&self) -> NotedCalls {
        NotedCalls::open(&self.0, "build-1".to_owned(), Timestamp::UNIX_EPOCH)
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap()
    }

    /// Simulates a process that crashes in a call for each of these objects.
    fn die(&self, uids: &[&str]) {
        let notes = self.open();
        for uid in uids {
            std::mem::forget(begin(&notes, uid));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn call(uid: &str) -> HandlerCall {
    let mut object = myapp();
    object["metadata"]["uid"] = uid.into();
    let create = handler("create", |_| async { Ok(()) });
    let registry = Registry::new().on_create("myapps", create);
    cause(&registry.handlers()[0], object)
}

/// Lets the process live for a while.
async fn live(notes: &NotedCalls) {
    let a_while = NOTED + Duration::from_secs(1);
    let looked_after = tokio::time::timeout(a_while, notes.look_after());
    assert!(looked_after.await.is_err());
}

fn begin<'a>(notes: &'a NotedCalls, uid: &str) -> Noting<'a> {
    let about = Reference { uid: uid.to_owned(), ..Reference::default() };
    notes.begin(&call(uid), &about, &Persistence::named("op"))
}

#[tokio::test(start_paused = true)]
async fn nothing_is_noted_after_a_clean_end() {
    let place = Place::new("clean");
    let notes = place.open();
    begin(&notes, "1").end(true);
    assert_eq!(place.text(), "");
    let other = NotedCalls::open(&place.0, String::new(), Timestamp::UNIX_EPOCH);
    assert!(other.kept.lock().file.is_none(), "another process holds the notes");
    notes.end();
    assert!(!place.0.exists());
}

#[tokio::test(start_paused = true)]
async fn calls_are_noted_for_ten_minutes_and_then_only_those_of_suspects() {
    let place = Place::new("noted");
    place.die(&[]);
    place.die(&["1"]);
    place.die(&["1"]);
    let notes = place.open();
    let before = place.text().len();
    begin(&notes, "2").end(true);
    assert!(place.text().len() > before);
    let late = begin(&notes, "3");
    live(&notes).await;
    late.end(true);
    begin(&notes, "2").end(true);
    let text = place.text();
    assert_eq!(text.lines().count(), 2, "{text}");
    drop(begin(&notes, "1"));
    assert_eq!(place.text().lines().count(), 4);
    begin(&notes, "1").end(true);
    begin(&notes, "1").end(true);
    assert_eq!(place.text().lines().count(), 6);
    notes.end();
    assert!(!place.0.exists());
}

#[tokio::test(start_paused = true)]
async fn suspects_have_turns_and_others_need_none() {
    let place = Place::new("turns");
    place.die(&[]);
    place.die(&["1", "2", "3"]);
    let notes = place.open();
    let first = notes.turn("1").await;
    assert!(first.is_some() && notes.turn("4").await.is_none());
    assert!(notes.turn("2").now_or_never().is_none());
    drop(first);
    // A suspect that takes too long holds the permit for a limited time, counted from its begin.
    let start = Instant::now();
    let mut second = notes.turn("2").await;
    let patience = Duration::from_secs(5);
    let third = tokio::time::timeout(patience, notes.turn("3"));
    assert!(third.await.is_err(), "the second waits for a place");
    notes.begin_turn(&mut second);
    let third = notes.turn("3").await;
    assert!(second.is_some() && third.is_some());
    assert_eq!(start.elapsed().as_secs(), patience.as_secs() + 1);
}

#[tokio::test(start_paused = true)]
async fn who_is_suspended_stays_so_after_a_clean_end() {
    let place = Place::new("suspended");
    place.die(&[]);
    place.die(&["1"]);
    place.die(&["1"]);
    let notes = place.open();
    let call = call("1");
    let state = state_for(&Persistence::named("op"), &call.handler, call.body());
    let suspended = notes.suspended("1");
    assert_eq!((suspended.len(), &suspended[0].state), (1, &state));
    assert_eq!(notes.news(&call.handler, "1"), Some(2));
    assert_eq!(notes.news(&call.handler, "1"), None);
    notes.stopping();
    notes.end();
    drop(notes);
    let notes = place.open();
    assert_eq!(notes.suspended("1"), suspended);
    begin(&notes, "1").end(true);
    assert_eq!(notes.suspended("1"), []);
    notes.end();
    assert!(!place.0.exists());
}

#[tokio::test(start_paused = true)]
async fn an_object_is_left_alone_in_that_state_until_it_is_deleted() {
    let place = Place::new("left-alone");
    let functions = Called::Functions { stage: Stage::Plan, code: vec![UserCode::Lifecycle] };
    let about = Reference { uid: "1".to_owned(), ..Reference::default() };
    place.die(&[]);
    for _ in 0..2 {
        let notes = place.open();
        let call = || (functions.clone(), "bad".to_owned());
        std::mem::forget(notes.begin_call(&about, call));
    }
    let notes = place.open();
    let quarantined = |uid: &str, state: &str| notes.quarantined(uid, || state.to_owned());
    assert_eq!(quarantined("1", "bad"), Some((vec![UserCode::Lifecycle], 2)));
    assert_eq!(quarantined("1", "good"), None);
    assert_eq!(quarantined("2", "bad"), None);
    assert!(notes.is_quarantine_news("1", false) && !notes.is_quarantine_news("1", false));
    assert!(notes.is_quarantine_news("1", true));
    notes.all_deleted(|object| object.uid == "2");
    assert!(quarantined("1", "bad").is_some());
    notes.all_deleted(|object| object.uid == "1");
    assert_eq!(quarantined("1", "bad"), None);
    notes.end();
    assert!(!place.0.exists());
}

#[tokio::test(start_paused = true)]
async fn notes_made_shorter_still_say_that_the_operator_was_told_to_end() {
    let place = Place::new("stopping");
    place.die(&[]);
    let notes = place.open();
    std::mem::forget(begin(&notes, "slow"));
    notes.stopping();
    let (mut longest, mut calls) = (0, 0);
    while place.text().len() >= longest {
        longest = place.text().len();
        calls += 1;
        begin(&notes, &calls.to_string()).end(true);
        assert!(calls < 10_000, "never made shorter: {longest}");
    }
    drop(notes);
    let notes = place.open();
    assert_eq!(notes.kept.lock().notes.suspects, []);
    notes.end();
}

/// Checks that notes expire by time: no call begins after the first ten minutes that would check the clock.
#[tokio::test(start_paused = true)]
async fn a_call_that_outlives_the_ten_minutes_is_forgotten() {
    let place = Place::new("outlived");
    place.die(&[]);
    place.die(&["slow"]);
    let notes = place.open();
    std::mem::forget(begin(&notes, "slow"));
    live(&notes).await;
    drop(notes);
    let notes = place.open();
    assert_eq!(notes.kept.lock().notes.suspects, []);
    notes.end();
}

#[tokio::test(start_paused = true)]
async fn all_suspects_have_had_their_turns_after_ten_minutes() {
    let place = Place::new("many");
    place.die(&[]);
    let uids: Vec<String> = (0..2000).map(|it| it.to_string()).collect();
    let uids: Vec<&str> = uids.iter().map(String::as_str).collect();
    place.die(&uids);
    place.die(&uids);
    let notes = place.open();
    let start = Instant::now();
    for uid in uids {
        let mut turn = notes.turn(uid).await;
        notes.begin_turn(&mut turn);
        std::mem::forget(turn);
    }
    let seconds = start.elapsed().as_secs();
    assert!(seconds <= NOTED.as_secs(), "{seconds}");
}
