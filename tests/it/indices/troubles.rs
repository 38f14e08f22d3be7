//! Index functions, keys and values that hang, fail or panic: only their own objects are delayed, and only for a limited time.

use std::hash::{Hash, Hasher};
use std::sync::Mutex;

use kopf_rs::{IndexValues, Registry};
use tokio::time::Instant;

use super::*;
use crate::operating::{KIND, Working};

scenarios! {
    a_function_that_hangs_stops_no_other_object [memory];
    a_function_that_hangs_keeps_no_outcome_from_being_written [memory];
    a_function_that_hangs_costs_no_outcome_of_a_daemon [memory];
    a_function_that_hangs_holds_the_start_up_for_a_minute [memory];
    an_index_function_that_hangs_delays_a_timers_write_for_a_minute [memory];
    the_same_holds_for_a_timer_beside_a_handler [memory];
    a_timer_beside_a_handler_sees_the_index_of_the_state_it_gets [memory];
    a_key_without_a_hash_is_an_error_of_its_function [memory];
    panics_of_clones_block_nothing_else [memory];
    panics_of_drops_block_nothing_else [memory];
    one_object_in_a_thousand_that_cannot_be_indexed_is_reported_once [memory];
}

/// An index function like `by_place` that never returns for the place `bad`.
fn hanging(test: &TestOperator) -> Callback {
    let calls = test.calls.clone();
    indexer_async("by_place", move |cause| {
        let calls = calls.clone();
        async move {
            let place: String = cause.read("spec.place")?;
            if place == "bad" {
                calls.note(format!("hangs for {}", cause.name()));
                std::future::pending::<()>().await;
            }
            Ok::<_, HandlerError>((place, cause.name().to_owned()))
        }
    })
}

async fn a_function_that_hangs_stops_no_other_object(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let registry = Registry::new()
        .index(test.selector(), hanging(&test))
        .on_create(test.selector(), test.waiting("c", &gate));
    let settings = Settings::with(|settings| settings.queueing.worker_limit = Some(1));
    let operator = test.operator(registry).settings(settings);
    let working = Working::start(&test.cluster, operator);
    test.line("All existing objects are indexed").await;
    test.create("first", json!({"place": "x"})).await;
    test.calls_until("c first").await;
    // `stuck` waits for the only worker permit while its next state arrives.
    test.create("stuck", json!({"place": "x"})).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    test.patch("stuck", place("bad")).await;
    test.calls_until("hangs for stuck").await;
    let begun = Instant::now();
    test.create("other", json!({"place": "x"})).await;
    gate.open(3);
    test.calls_until("c other").await;
    assert!(begun.elapsed() < Duration::from_secs(5));
    test.line("Indexer 'by_place' failed with an exception and will ignore it: it has not returned within 60 seconds")
        .await;
    test.calls_until("c stuck").await;
    let waited = begun.elapsed();
    assert!(waited < Duration::from_secs(65), "{waited:?}");
    working.stop().await;
}

async fn a_function_that_hangs_keeps_no_outcome_from_being_written(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let registry = Registry::new()
        .index(test.selector(), hanging(&test))
        .on_create(test.selector(), test.waiting("c", &gate))
        .timer(test.selector(), test.noting("t").interval(1));
    let working = test.start(registry);
    test.create("a", json!({"place": "x"})).await;
    test.calls_until("c a").await;
    test.patch("a", place("bad")).await;
    test.calls_until("hangs for a").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    gate.open(1);
    let begun = Instant::now();
    test.until("it is handled", "a", is_handled).await;
    let waited = begun.elapsed();
    assert!(waited < Duration::from_secs(5), "{waited:?}");
    working.stop().await;
}

/// The operator stops while the daemon's result waits until its object is indexed.
async fn a_function_that_hangs_costs_no_outcome_of_a_daemon(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let (place_is_free, daemon_ends) = (Gate::closed(), Gate::closed());
    let gate = daemon_ends.clone();
    let daemon = test.handler("d", move |context| {
        let gate = gate.clone();
        async move {
            gate.pass().await;
            context.patch(|patch| patch.set("status.done", true));
            Ok(Value::Null)
        }
    });
    let creating = test.waiting("c", &place_is_free);
    let registry = Registry::new()
        .index(test.selector(), hanging(&test))
        .daemon(test.selector(), daemon.when(|it| it.name() == "stuck"))
        .on_create(test.selector(), creating.when(|it| it.name() == "first"));
    let settings = Settings::with(|settings| settings.queueing.worker_limit = Some(1));
    let operator = test.operator(registry).settings(settings);
    let working = Working::start(&test.cluster, operator);
    test.create("stuck", json!({"place": "x"})).await;
    test.calls_until("d stuck").await;
    test.create("first", json!({"place": "x"})).await;
    test.calls_until("c first").await;
    // The daemon's result waits for the only worker permit while the next state of its object arrives.
    daemon_ends.open(1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    test.patch("stuck", place("bad")).await;
    test.calls_until("hangs for stuck").await;
    place_is_free.open(1);
    test.until("it is handled", "first", is_handled).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    working.stop().await;
    assert_eq!(test.get("stuck").await["status"]["done"], true);
}

async fn a_function_that_hangs_holds_the_start_up_for_a_minute(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    test.create("a", json!({"place": "bad"})).await;
    test.create("b", json!({"place": "x"})).await;
    let registry =
        Registry::new().index(test.selector(), hanging(&test)).on_event(test.selector(), showing(&test, "e"));
    let begun = Instant::now();
    let working = test.start(registry);
    test.calls_until("e b x:b").await;
    test.calls_until("e a x:b").await;
    let waited = begun.elapsed();
    let expected = Duration::from_secs(59)..Duration::from_secs(65);
    assert!(expected.contains(&waited), "{waited:?}");
    working.stop().await;
}

/// A timer that moves the object `a` to the place for which [`hanging`] hangs.
fn spoiling(test: &TestOperator) -> Callback {
    let calls = test.calls.clone();
    let spoils = handler("t", move |cause| {
        let calls = calls.clone();
        async move {
            let place: String = cause.read("spec.place")?;
            calls.note(format!("t {} at {place}", cause.name()));
            if cause.name() == "a" {
                cause.patch(|patch| patch.set("spec.place", "bad"));
            }
            Ok(())
        }
    });
    spoils.interval(1)
}

async fn an_index_function_that_hangs_delays_a_timers_write_for_a_minute(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry =
        Registry::new().index(test.selector(), hanging(&test)).timer(test.selector(), spoiling(&test));
    let working = test.start(registry);
    for name in ["a", "b"] {
        test.create(name, json!({"place": "x"})).await;
    }
    test.calls_until("hangs for a").await;
    let begun = Instant::now();
    test.calls_until("t a at bad").await;
    let waited = begun.elapsed();
    assert!(waited < Duration::from_secs(65), "{waited:?}");
    let calls = test.calls.all();
    let others = calls.iter().filter(|call| *call == "t b at x").count();
    assert!(others > 40, "{others} calls for another object meanwhile");
    working.stop().await;
}

async fn the_same_holds_for_a_timer_beside_a_handler(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let registry = Registry::new()
        .index(test.selector(), hanging(&test))
        .on_create(test.selector(), test.waiting("c", &gate))
        .timer(test.selector(), spoiling(&test));
    let working = test.start(registry);
    test.create("a", json!({"place": "x"})).await;
    test.calls_until("c a").await;
    test.calls_until("hangs for a").await;
    let begun = Instant::now();
    test.calls_until("t a at bad").await;
    let waited = begun.elapsed();
    assert!(waited < Duration::from_secs(65), "{waited:?}");
    gate.open(1);
    test.until("it is handled", "a", is_handled).await;
    working.stop().await;
}

async fn a_timer_beside_a_handler_sees_the_index_of_the_state_it_gets(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let calls = test.calls.clone();
    let looks = handler("looks", move |cause| {
        let place: Option<String> = cause.read("spec.place").ok();
        calls.note(format!("at {} of {}", place.unwrap_or_default(), shown(&cause)));
        async { Ok(()) }
    });
    let writes = handler("writes", |cause| async move {
        let size: u32 = cause.read("spec.size")?;
        cause.patch(|patch| patch.set("spec.size", size + 1));
        Ok(())
    });
    let registry = Registry::new()
        .index(test.selector(), by_place())
        .on_create(test.selector(), test.waiting("c", &gate))
        .timer(test.selector(), looks.interval(0.1))
        .timer(test.selector(), writes.interval(2));
    let working = test.start(registry);
    test.create("a", json!({"place": "x", "size": 1})).await;
    test.calls_until("c a").await;
    test.calls_until("at x of x:a").await;
    // With the watch stalled, the operator's writes conflict with a state that it has not seen.
    let _silent = server(&test).fault(Fault::stall().plural(KIND));
    tokio::time::sleep(Duration::from_millis(50)).await;
    let conflict = Fault::answer(409).on(Verb::Patch).plural(KIND);
    let conflict = conflict.when(|it| it.user_agent.as_deref() != Some(TestCluster::USER_AGENT));
    test.patch("a", place("y")).await;
    let conflicts = server(&test).fault(conflict.times(8));
    test.calls_until("at y of y:a").await;
    assert!(conflicts.hits() > 1);
    gate.open(1);
    working.stop().await;
    let calls = test.calls.all();
    assert!(!calls.contains(&"at y of x:a".to_owned()), "{calls:?}");
}

/// A key whose hash function panics for `bad`.
#[derive(Clone, PartialEq, Eq)]
struct Moody(String);

impl Hash for Moody {
    fn hash<H: Hasher>(&self, state: &mut H) {
        assert_ne!(self.0, "bad", "no hash for it");
        self.0.hash(state);
    }
}

async fn a_key_without_a_hash_is_an_error_of_its_function(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    for (name, place) in [("a", "x"), ("b", "bad"), ("c", "x")] {
        test.create(name, json!({"place": place})).await;
    }
    let index = indexer("by_mood", |cause| {
        let place: String = cause.read("spec.place")?;
        Ok::<_, HandlerError>((Moody(place), cause.name().to_owned()))
    });
    let registry = Registry::new().index(test.selector(), index).on_event(test.selector(), test.noting("e"));
    let working = test.start(registry);
    for call in ["e a", "e b", "e c"] {
        test.calls_until(call).await;
    }
    test.line("Indexer 'by_mood' failed with an exception and will ignore it: panicked").await;
    test.create("d", json!({"place": "bad"})).await;
    test.calls_until("e d").await;
    test.patch("b", place("x")).await;
    working.stop().await;
}

/// A value that panics when it is cloned or dropped, if its object is named `clone` or `drop`.
struct Fragile(String);

impl Clone for Fragile {
    fn clone(&self) -> Self {
        assert_ne!(self.0, "clone", "there is no second one");
        Self(self.0.clone())
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        let is_well = self.0 != "drop" || std::thread::panicking();
        assert!(is_well, "it does not go");
    }
}

fn fragile() -> Callback {
    indexer("fragile", |cause| {
        let place: String = cause.read("spec.place")?;
        Ok::<_, HandlerError>((place, Fragile(cause.name().to_owned())))
    })
}

async fn panics_of_clones_block_nothing_else(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    // Keeps the values that were read, so that a change of the index has to copy them.
    let kept = Arc::new(Mutex::new(Vec::<IndexValues<Fragile>>::new()));
    let (keeping, calls) = (kept.clone(), test.calls.clone());
    let event = handler("e", move |cause| {
        let index: Index<String, Fragile> = cause.index("fragile").expect("there is one");
        let mut kept = keeping.lock().expect("nobody panics");
        kept.extend(["x", "y"].map(|place| index.get(place)));
        calls.note(format!("e {}", cause.name()));
        async { Ok(()) }
    });
    let registry = Registry::new().index(test.selector(), fragile()).on_event(test.selector(), event);
    let working = test.start(registry);
    for (name, place) in [("clone", "x"), ("a", "x"), ("b", "y"), ("c", "y")] {
        test.create(name, json!({"place": place})).await;
        test.calls_until(&format!("e {name}")).await;
    }
    test.line("The index 'fragile' is not complete: a key or value has panicked: ").await;
    working.stop().await;
    let kept = kept.lock().expect("nobody panics");
    assert_eq!(kept.last().map(IndexValues::len), Some(2));
}

async fn panics_of_drops_block_nothing_else(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry =
        Registry::new().index(test.selector(), fragile()).on_event(test.selector(), test.noting("e"));
    let working = test.start(registry);
    test.create("drop", json!({"place": "x"})).await;
    test.calls_until("e drop").await;
    test.patch("drop", place("y")).await;
    test.calls.until(2).await;
    test.delete("drop").await;
    test.calls.until(3).await;
    test.create("a", json!({"place": "y"})).await;
    test.calls_until("e a").await;
    working.stop().await;
    let told = |line: &str| line.contains("has panicked when it was dropped: ");
    assert_eq!(test.cluster.lines().count(told), 2);
}

async fn one_object_in_a_thousand_that_cannot_be_indexed_is_reported_once(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    for number in 0..1000 {
        test.create(&format!("n{number:03}"), json!({"place": "x"})).await;
    }
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = attempts.clone();
    let index = indexer("by_place", move |cause| {
        counted.fetch_add(1, Ordering::Relaxed);
        let place: String = cause.read("spec.place")?;
        if cause.name() == "n500" {
            return Err(HandlerError::from(PermanentError::new("it is odd")));
        }
        Ok((place, cause.name().to_owned()))
    });
    let calls = test.calls.clone();
    let event = handler("e", move |cause| {
        let index: Index<String, String> = cause.index("by_place").expect("there is one");
        calls.note(format!("{} sees {}", cause.name(), index.get("x").len()));
        async { Ok(()) }
    });
    let registry = Registry::new().index(test.selector(), index).on_event(test.selector(), event);
    let working = test.start(registry);
    let calls = test.calls.until(1000).await;
    assert!(calls.iter().all(|it| it.ends_with(" sees 999")), "{calls:?}");
    test.patch("n500", place("y")).await;
    test.calls.until(1001).await;
    working.stop().await;
    let told = |line: &str| line.contains("Indexer 'by_place' failed permanently: it is odd");
    assert_eq!(test.cluster.lines().count(told), 1);
    assert_eq!(attempts.load(Ordering::Relaxed), 1000);
}
