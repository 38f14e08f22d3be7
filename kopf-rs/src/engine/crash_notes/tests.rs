use super::*;
use crate::happening::calls::{Stage, UserCode};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;
const ALL: Duration = Duration::from_secs(600);

fn functions(stage: Stage) -> Called {
    Called::Functions { stage, code: vec![UserCode::Storages] }
}

fn call(handler: &str, uid: &str) -> NotedCall {
    NotedCall {
        called: Called::Handler(handler.into()),
        state: "as-it-was".to_owned(),
        object: Reference { name: format!("object-{uid}"), uid: uid.to_owned(), ..Reference::default() },
    }
}

/// One process that begins with the notes of its predecessor: its notes in memory, and the text that it leaves.
struct Life {
    notes: CrashNotes,
    text: String,
}

impl Life {
    fn after(text: &str) -> Self {
        let notes = CrashNotes::after(text, "build-1".to_owned(), NOW);
        let text = notes.text();
        Self { notes, text }
    }

    fn begin(&mut self, handler: &str, uid: &str) -> u64 {
        self.begin_call(call(handler, uid))
    }

    fn begin_functions(&mut self, stage: Stage, uid: &str) -> u64 {
        let called = functions(stage);
        self.begin_call(NotedCall { called, ..call("", uid) })
    }

    fn begin_call(&mut self, call: NotedCall) -> u64 {
        let (number, line) = self.notes.begin(call);
        self.text.push_str(&line);
        number
    }

    fn end(&mut self, number: u64, has_returned: bool) {
        let line = self.notes.end(number, has_returned);
        self.text.push_str(&line.unwrap_or_default());
    }

    fn stop(&mut self) {
        let line = self.notes.stopping();
        self.text.push_str(&line.unwrap_or_default());
    }

    fn suspects(&self) -> Vec<(&str, &str, u32)> {
        let suspects = self.notes.suspects.iter();
        suspects
            .map(|it| {
                let handler = match &it.call.called {
                    Called::Handler(handler) => handler,
                    Called::Functions { .. } => "functions",
                };
                (handler, it.call.object.uid.as_str(), it.crashes)
            })
            .collect()
    }
}

#[test]
fn who_was_running_is_a_suspect_and_at_its_second_crash_suspended() {
    let mut first = Life::after("");
    assert_eq!(first.notes.ends, 1);
    let good = first.begin("good", "1");
    first.begin("bad", "1");
    first.begin("good", "2");
    first.end(good, true);
    let mut second = Life::after(&first.text);
    assert_eq!(second.suspects(), [("bad", "1", 1), ("good", "2", 1)]);
    assert!(second.notes.is_suspect("1") && !second.notes.is_suspect("3"));
    assert_eq!(second.notes.suspended("1"), []);
    let good = second.begin("good", "2");
    second.end(good, true);
    assert!(!second.notes.is_suspect("2"));
    second.begin("bad", "1");
    let third = Life::after(&second.text);
    assert_eq!(third.suspects(), [("bad", "1", 2)]);
    let suspended = Suspension { handler: "bad".into(), state: "as-it-was".to_owned() };
    assert_eq!(third.notes.suspended("1"), [suspended]);
    assert_eq!(third.notes.suspended("3"), []);
}

#[test]
fn of_several_suspects_at_a_time_none_is_suspended_but_their_turns_grow() {
    let mut life = Life::after("");
    life.begin("slow", "1");
    life.begin("slow", "2");
    for turn in [1, 10, 100, 300, 300] {
        let mut next = Life::after(&life.text);
        assert_eq!(next.suspects(), [("slow", "1", 1), ("slow", "2", 1)]);
        assert_eq!(next.notes.turn(ALL), Duration::from_secs(turn));
        next.begin("slow", "1");
        next.begin("slow", "2");
        life = next;
    }
}

#[test]
fn what_was_cut_off_or_asked_to_end_is_no_suspect() {
    let mut life = Life::after("");
    let cut = life.begin("cut", "1");
    life.end(cut, false);
    assert_eq!(Life::after(&life.text).suspects(), []);
    life.begin("slow", "1");
    life.stop();
    life.begin("late", "2");
    let next = Life::after(&life.text);
    assert_eq!((next.suspects(), next.notes.ends), (vec![], 0));
}

#[test]
fn a_suspect_that_is_cut_off_or_not_called_stays_one() {
    let mut life = Life::after("");
    life.begin("bad", "1");
    let mut life = Life::after(&life.text);
    let cut = life.begin("bad", "1");
    life.end(cut, false);
    assert_eq!(Life::after(&life.text).suspects(), [("bad", "1", 1)]);
    life.stop();
    assert_eq!(Life::after(&life.text).suspects(), [("bad", "1", 1)]);
}

#[test]
fn another_build_begins_anew() {
    let mut life = Life::after("");
    life.begin("bad", "1");
    let notes = CrashNotes::after(&life.text, "build-2".to_owned(), NOW);
    assert_eq!((notes.suspects.as_slice(), notes.ends), (&[][..], 1));
}

#[test]
fn what_cannot_be_read_is_passed_over() {
    let mut life = Life::after("nonsense\n{\"begun\":7}\n");
    life.begin("bad", "1");
    let cut = life.text.len();
    life.begin("good", "2");
    let text = &life.text[..cut + 9];
    assert_eq!(Life::after(text).suspects(), [("bad", "1", 1)]);
    assert_eq!(Life::after("").notes.turn(ALL), Duration::from_secs(1));
}

#[test]
fn a_text_made_shorter_says_the_same() {
    let mut life = Life::after("");
    life.begin("bad", "1");
    let mut life = Life::after(&life.text);
    life.begin("bad", "1");
    let short = life.notes.text();
    assert_eq!(Life::after(&short).suspects(), [("bad", "1", 2)]);
    assert_eq!(Life::after(&life.text).notes, Life::after(&short).notes);
    let mut life = Life::after(&short);
    assert!(life.notes.lived() && !life.notes.lived());
    let next = Life::after(&life.notes.text());
    assert_eq!((next.suspects(), next.notes.ends), (vec![("bad", "1", 2)], 1));
}

#[test]
fn functions_are_told_from_handlers_and_by_what_runs_them() {
    let mut life = Life::after("");
    for crashes in [1, 2] {
        let plan = life.begin_functions(Stage::Plan, "1");
        life.end(plan, true);
        let handler = life.begin("functions", "1");
        life.end(handler, true);
        life.begin_functions(Stage::Patch, "1");
        life = Life::after(&life.text);
        assert_eq!(life.suspects(), [("functions", "1", crashes)]);
        assert_eq!(life.notes.suspended("1"), []);
        let condemned = life.notes.condemned_functions("1").count();
        assert_eq!(condemned, usize::from(crashes == 2));
    }
    let suspect = &life.notes.suspects[0];
    assert_eq!(suspect.call.called, functions(Stage::Patch));
}

#[test]
fn what_was_called_for_a_deleted_object_is_forgotten() {
    let mut life = Life::after("");
    life.begin("bad", "1");
    life.begin("bad", "2");
    let mut life = Life::after(&life.text);
    assert_eq!(life.notes.deleted("3"), None);
    let deleted = life.notes.deleted("1").unwrap();
    assert_eq!(life.suspects(), [("bad", "2", 1)]);
    life.text.push_str(&deleted);
    life.stop();
    assert_eq!(Life::after(&life.text).suspects(), [("bad", "2", 1)]);
}

#[test]
fn what_an_earlier_start_has_found_out_is_no_news() {
    let mut life = Life::after("");
    life.begin("bad", "1");
    let mut life = Life::after(&life.text);
    assert!(life.notes.suspects[0].is_news);
    life.stop();
    assert!(!Life::after(&life.text).notes.suspects[0].is_news);
}

#[test]
fn a_call_that_was_running_for_long_is_no_suspect_of_a_later_end() {
    let mut life = Life::after("");
    life.begin("slow", "1");
    let mut life = Life::after(&life.text);
    assert_eq!(life.suspects(), [("slow", "1", 1)]);
    life.begin("slow", "1");
    life.notes.lived();
    let life = Life::after(&life.notes.text());
    assert_eq!((life.suspects(), life.notes.ends), (vec![], 1));
}

#[test]
fn a_suspect_that_was_called_beside_a_new_call_is_not_suspended_for_that() {
    let mut life = Life::after("");
    life.begin("slow", "1");
    let mut life = Life::after(&life.text);
    life.begin("slow", "1");
    life.begin("new", "2");
    let text = life.text;
    let mut life = Life::after(&text);
    assert_eq!(life.suspects(), [("slow", "1", 1), ("new", "2", 1)]);
    assert_eq!(life.notes.suspended("1"), []);
    // Alone, the new call is found as quickly as any other.
    life.begin("new", "2");
    let next = Life::after(&life.text);
    assert_eq!(next.suspects(), [("slow", "1", 1), ("new", "2", 2)]);
    // Beside other calls once more, the first call is the culprit.
    let mut life = Life::after(&text);
    life.begin("slow", "1");
    life.begin("newer", "3");
    let next = Life::after(&life.text);
    let others = [("new", "2", 1), ("newer", "3", 1)];
    assert_eq!(next.suspects(), [&[("slow", "1", 2)], &others[..]].concat());
}
