use super::*;

const GROUP: &str = "kopf.dev";

/// A schedule with its definitions watched, and times in milliseconds.
struct Played {
    schedule: DiscoverySchedule,
    start: Instant,
}

impl Played {
    fn new() -> Self {
        let mut played =
            Self { schedule: DiscoverySchedule::new(Duration::from_secs(60), true), start: Instant::now() };
        played.on(0, &discovered(&[], true));
        played.on(0, &Event::DefinitionsListing);
        played
    }

    /// Returns the schedule after the definitions are listed and the discoveries due for that have ended.
    fn listed() -> Self {
        let mut played = Self::new();
        played.on(0, &Event::DefinitionsListed);
        assert_eq!(played.discover(0, &discovered(&[], true)), None);
        played
    }

    fn on(&mut self, at: u64, event: &Event<'_>) -> Option<u64> {
        let next = self.schedule.on(event, self.start + Duration::from_millis(at));
        let next = next?.duration_since(self.start).as_millis();
        Some(next.try_into().expect("a few seconds"))
    }

    fn discover(&mut self, at: u64, outcome: &Event<'_>) -> Option<u64> {
        assert_eq!(self.on(at, &Event::Discovering), None);
        self.on(at, outcome)
    }
}

fn resource() -> Resource {
    Resource { group: GROUP.to_owned(), plural: "kopfexamples".to_owned(), ..Resource::default() }
}

fn exists() -> Event<'static> {
    Event::DefinitionExists { name: "kopfexamples.kopf.dev", is_served: false }
}

fn discovered(resources: &[Resource], is_unresolved: bool) -> Event<'_> {
    Event::Discovered { resources, is_unresolved }
}

fn failed(seconds: u64, is_transient: bool) -> Event<'static> {
    Event::Failed { pause: Duration::from_secs(seconds), is_transient }
}

#[test]
fn a_failed_discovery_is_repeated_however_often_it_fails() {
    for is_transient in [true, false] {
        let mut played = Played::listed();
        played.on(0, &exists());
        let mut at = 100;
        for _ in 0..50 {
            let next = played.discover(at, &failed(30, is_transient));
            assert_eq!(next, Some(at + 30_000));
            at += 30_000;
        }
        let resources = [resource()];
        let next = played.discover(at, &discovered(&resources, false));
        let confirmed = is_transient.then_some(at + 3000);
        assert_eq!(next, confirmed, "found at the first success");
    }
}

#[test]
fn an_announced_resource_is_looked_for_less_and_less_often() {
    let mut played = Played::listed();
    assert_eq!(played.on(1000, &exists()), Some(1100));
    assert_eq!(played.on(1050, &exists()), Some(1100), "one for both");
    let mut at = 1100;
    for pause in [200, 400, 800, 1600, 3200] {
        let next = played.discover(at, &discovered(&[], true));
        assert_eq!(next, Some(at + pause));
        at += pause;
    }
    assert_eq!(played.discover(at, &discovered(&[], true)), None);
}

#[test]
fn what_is_found_is_confirmed_once() {
    let mut played = Played::listed();
    played.on(0, &exists());
    let resources = [resource()];
    let found = discovered(&resources, false);
    assert_eq!(played.discover(100, &found), Some(3100));
    assert_eq!(played.discover(3100, &found), None);
}

#[test]
fn a_change_of_what_is_served_is_looked_at_too() {
    let mut played = Played::listed();
    for event in [
        Event::DefinitionExists { name: "kopfexamples.kopf.dev", is_served: true },
        Event::DefinitionDeleted { name: "kopfexamples.kopf.dev" },
    ] {
        assert_eq!(played.on(0, &event), Some(100));
        assert_eq!(played.discover(100, &discovered(&[], false)), Some(3100));
        assert_eq!(played.discover(3100, &discovered(&[], false)), None);
    }
}

#[test]
fn a_server_that_fails_is_left_alone_whatever_is_announced() {
    let mut played = Played::listed();
    played.on(0, &exists());
    assert_eq!(played.discover(100, &failed(20, true)), Some(20_100));
    assert_eq!(played.on(5000, &exists()), Some(20_100));
    let next = played.discover(20_100, &discovered(&[], true));
    assert_eq!(next, Some(20_300), "it is still looked for");
}

#[test]
fn what_is_announced_during_a_discovery_leads_to_another_one() {
    let mut played = Played::listed();
    played.on(0, &exists());
    assert_eq!(played.on(100, &Event::Discovering), None);
    assert_eq!(played.on(150, &exists()), Some(250));
    let resources = [resource()];
    let next = played.on(200, &discovered(&resources, false));
    assert_eq!(next, Some(250));
}

#[test]
fn without_a_watch_of_definitions_there_is_an_interval() {
    let mut played = Played::new();
    let next = played.on(0, &Event::DefinitionsUnwatchable);
    assert_eq!(next, Some(60_000));
    let next = played.on(1000, &Event::DefinitionsUnwatchable);
    assert_eq!(next, Some(60_000), "told again");
    let next = played.discover(60_000, &discovered(&[], true));
    assert_eq!(next, Some(120_000));
    let next = played.discover(120_000, &failed(30, true));
    assert_eq!(next, Some(150_000));
}

#[test]
fn a_missing_resource_is_looked_for_with_growing_pauses() {
    let mut played = Played::listed();
    let resources = [resource()];
    let mut at = 0;
    for doublings in (0..=9).chain([9, 9]) {
        let next = played.on(at, &Event::ResourceMissing);
        assert_eq!(next, Some(at + 100 * 2_u64.pow(doublings)));
        at = next.unwrap_or_default();
        assert_eq!(played.discover(at, &discovered(&resources, false)), None);
    }
    played.on(at, &exists());
    played.discover(at + 100, &discovered(&resources, false));
    assert_eq!(
        played.on(at + 100, &Event::ResourceMissing),
        Some(at + 200),
        "a change of the definition begins anew"
    );
}

#[test]
fn the_first_listing_is_looked_into_only_where_something_is_missing() {
    let mut played = Played::new();
    played.on(0, &discovered(&[], false));
    played.on(0, &exists());
    assert_eq!(played.on(0, &Event::DefinitionsListed), None);
    let mut played = Played::new();
    assert_eq!(played.on(0, &exists()), None);
    assert_eq!(played.on(0, &Event::DefinitionsListed), Some(100));
}

#[test]
fn what_an_operator_that_is_to_end_waits_for() {
    let mut played = Played::new();
    assert!(!played.schedule.is_settled(), "the definitions are unknown");
    let mut played_without = Played::listed();
    assert!(played_without.schedule.is_settled(), "nothing is announced");
    played_without.on(0, &Event::ResourceMissing);
    assert!(!played_without.schedule.is_settled(), "it may come back");
    played.on(0, &exists());
    played.on(0, &Event::DefinitionsListed);
    assert!(!played.schedule.is_settled(), "its definition is there");
    for _ in 0..20 {
        played.discover(0, &failed(1, true));
    }
    assert!(!played.schedule.is_settled(), "an outage ends");
    for _ in 0..3 {
        played.discover(0, &discovered(&[], true));
    }
    assert!(played.schedule.is_settled(), "it does not come");
    let mut played = Played::new();
    played.on(0, &Event::DefinitionsUnwatchable);
    assert!(played.schedule.is_settled());
    let ignored = DiscoverySchedule::new(Duration::from_secs(60), false);
    assert!(ignored.is_settled());
}
