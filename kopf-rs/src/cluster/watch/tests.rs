use std::time::Duration;

use super::*;
use crate::cluster::fake::{Answer, Fake, Part};

const END: &str = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;

fn watched() -> Watched {
    watched_in(None)
}

fn watched_in(namespace: Option<&str>) -> Watched {
    let resource = Resource {
        group: "kopf.dev".into(),
        version: "v1".into(),
        plural: "kopfexamples".into(),
        kind: "KopfExample".into(),
        namespaced: true,
        ..Resource::default()
    };
    let namespace = namespace.map(str::to_owned);
    Watched::new(Arc::new(resource), namespace, WatchPace::default())
}

/// Watches for some virtual seconds, and returns the events.
async fn observe(fake: &Fake, seconds: u64) -> Vec<String> {
    observe_in(fake, &watched(), seconds).await
}

async fn observe_in(fake: &Fake, watched: &Watched, seconds: u64) -> Vec<String> {
    let mut told = Vec::new();
    let mut sink = |event| told.push(words(&event));
    let cluster = fake.cluster();
    let watch = cluster.watch(watched, &mut sink);
    let _ = tokio::time::timeout(Duration::from_secs(seconds), watch).await;
    told
}

fn words(event: &WatchEvent) -> String {
    match event {
        WatchEvent::Listing(_) => "listing".into(),
        WatchEvent::Object(kind, raw) => {
            let facts = raw.facts();
            format!("{kind:?} {} {}", facts.name, facts.resource_version)
        }
        WatchEvent::Synced(_) => "synced".into(),
        WatchEvent::Trouble(error) => format!("trouble: {error}"),
        WatchEvent::Resumed => "resumed".into(),
        WatchEvent::Silent => "silent".into(),
        WatchEvent::Bookmark => "bookmark".into(),
    }
}

fn object(name: &str, version: u32) -> String {
    format!(r#"{{"metadata":{{"name":"{name}","uid":"u-{name}","resourceVersion":"{version}"}}}}"#)
}

fn line(kind: &str, name: &str, version: u32) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{}}}\n", object(name, version))
}

fn error(code: u16, message: &str) -> String {
    format!(
        "{{\"type\":\"ERROR\",\"object\":{{\"kind\":\"Status\",\"code\":{code},\"message\":\"{message}\"}}}}\n"
    )
}

fn page(items: &[String], token: &str) -> String {
    format!(
        r#"{{"kind":"KopfExampleList","metadata":{{"resourceVersion":"5","continue":"{token}"}},"items":[{}]}}"#,
        items.join(",")
    )
}

/// An empty streaming list that continues with `rest`.
fn synced(rest: impl IntoIterator<Item = Part>) -> Answer {
    Answer::parts([Part::Text(format!("{END}\n"))].into_iter().chain(rest))
}

fn text(text: impl Into<String>) -> Part {
    Part::Text(text.into())
}

fn wait(seconds: u64) -> Part {
    Part::Wait(Duration::from_secs(seconds))
}

/// Returns the relevant query parameters of a request, without the jittered one.
fn without_timeout(line: &str) -> String {
    let (before, after) = line.split_once("&timeoutSeconds=").unwrap();
    format!("{before}{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_turns_into_the_watch() {
    let lines = [
        line("ADDED", "a", 3),
        line("ADDED", "b", 4),
        format!("{END}\n"),
        line("MODIFIED", "a", 6),
        line("ADDED", "c", 7),
        line("DELETED", "b", 8),
    ];
    let fake = Fake::new([Answer::live(&lines.concat())]);
    let told = observe(&fake, 10).await;
    assert_eq!(
        told,
        ["listing", "Listed a 3", "Listed b 4", "synced", "Modified a 6", "Added c 7", "Deleted b 8"]
    );
    assert_eq!(
        fake.lines().iter().map(|line| without_timeout(line)).collect::<Vec<_>>(),
        [
            "GET /apis/kopf.dev/v1/kopfexamples?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streaming_lists_is_asked_for_pages_and_remembered() {
    let fake = Fake::new([
        Answer::refusal(422, "sendInitialEvents is forbidden"),
        Answer::new(200, page(&[object("a", 1), object("b", 2)], "to/ken")),
        Answer::new(200, page(&[object("c", 3)], "")),
        Answer::parts([text(line("ADDED", "d", 6)), Part::Text(error(410, "too old"))]),
        Answer::new(200, page(&[], "")),
    ]);
    let told = observe(&fake, 10).await;
    assert_eq!(
        told,
        ["listing", "Listed a 1", "Listed b 2", "Listed c 3", "synced", "Added d 6", "listing", "synced"]
    );
    let lines = fake.lines();
    assert_eq!(lines[1], "GET /apis/kopf.dev/v1/kopfexamples?limit=500");
    assert_eq!(lines[2], "GET /apis/kopf.dev/v1/kopfexamples?limit=500&continue=to%2Fken");
    assert!(lines[3].ends_with("&resourceVersion=5"), "{}", lines[3]);
    assert_eq!(lines[4], lines[1], "the refusal is remembered");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_streaming_lists_is_listed_by_pages() {
    let plain_watch = || Answer::live(&line("ADDED", "a", 1));
    let fake = Fake::new([plain_watch(), plain_watch(), Answer::new(200, page(&[object("a", 1)], ""))]);
    let told = observe(&fake, 60).await;
    assert_eq!(
        told,
        [
            "listing",
            "Listed a 1",
            "trouble: unreachable: the listing has broken off",
            "listing",
            "Listed a 1",
            "listing",
            "Listed a 1",
            "synced",
            "resumed"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_expired_page_starts_the_listing_over_and_in_the_end_in_one_piece() {
    let first_page = || Answer::new(200, page(&[object("a", 1)], "t"));
    let expired = || Answer::refusal(410, "the provided continue parameter is too old");
    let fake = Fake::new([
        Answer::refusal(400, "no streaming"),
        first_page(),
        expired(),
        first_page(),
        expired(),
        Answer::new(200, page(&[object("a", 1), object("b", 2)], "")),
    ]);
    let told = observe(&fake, 30).await;
    assert_eq!(
        told,
        ["listing", "Listed a 1", "listing", "Listed a 1", "listing", "Listed a 1", "Listed b 2", "synced"]
    );
    assert_eq!(fake.lines()[5], "GET /apis/kopf.dev/v1/kopfexamples");
}

/// Returns the uids that the ends of listings name within ten seconds.
async fn named_by_listings(fake: &Fake) -> Vec<Vec<&'static str>> {
    let mut named = Vec::new();
    let mut sink = |event| {
        if let WatchEvent::Synced(listed) = event {
            let uids = ["u-a", "u-b", "u-c", "u-d", "u-e"];
            named.push(uids.into_iter().filter(|uid| listed.contains(&Key::of_uid(uid))).collect());
        }
    };
    let (cluster, watched) = (fake.cluster(), watched());
    let watch = cluster.watch(&watched, &mut sink);
    let _ = tokio::time::timeout(Duration::from_secs(10), watch).await;
    named
}

#[tokio::test(start_paused = true)]
async fn a_listing_names_only_the_objects_that_it_has_shown() {
    let broken = line("ADDED", "a", 3) + &line("ADDED", "b", 4);
    let whole = [
        line("ADDED", "b", 4),
        line("ADDED", "c", 5),
        line("DELETED", "c", 6),
        format!("{END}\n"),
        line("ADDED", "d", 7),
        error(410, "too old resource version"),
    ];
    let again = line("ADDED", "e", 8) + END + "\n";
    let fake = Fake::new([
        Answer::parts([text(broken), Part::Break]),
        Answer::new(200, whole.concat()),
        Answer::live(&again),
    ]);
    assert_eq!(named_by_listings(&fake).await, [vec!["u-b", "u-c"], vec!["u-e"]]);
}

/// Otherwise, all objects would count as deleted.
#[tokio::test(start_paused = true)]
async fn a_listing_that_ends_twice_names_its_objects_once() {
    let end = END.replace(r#""5""#, r#""""#) + "\n";
    let fake = Fake::new([Answer::live(&(line("ADDED", "a", 3) + &end + &end))]);
    assert_eq!(named_by_listings(&fake).await, [["u-a"]]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_leads_to_a_listing_wherever_it_is_reported() {
    for gone in [
        Answer::refusal(410, "too old resource version"),
        Answer::new(200, error(410, "too old resource version")),
    ] {
        let fake = Fake::new([
            synced([text(line("ADDED", "a", 6))]),
            gone,
            Answer::live(&format!("{}{END}\n", line("ADDED", "a", 6))),
        ]);
        let told = observe(&fake, 10).await;
        assert_eq!(told, ["listing", "synced", "Added a 6", "listing", "Listed a 6", "synced"]);
        assert!(fake.lines()[1].ends_with("&resourceVersion=6"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_line_cut_in_the_middle_is_asked_for_again() {
    let whole = line("MODIFIED", "a", 7);
    for cut in [Some(Part::Break), None] {
        let half = text(&whole[..whole.len() / 2]);
        let fake = Fake::new([
            synced([text(line("ADDED", "a", 6)), half].into_iter().chain(cut)),
            Answer::live(&whole),
        ]);
        let told = observe(&fake, 10).await;
        assert_eq!(told, ["listing", "synced", "Added a 6", "Modified a 7"]);
        assert!(fake.lines()[1].ends_with("&resourceVersion=6"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_last_line_without_its_line_feed_counts_when_it_is_whole() {
    let whole = line("MODIFIED", "a", 7);
    let fake = Fake::new([synced([text(whole.trim_end())])]);
    assert_eq!(observe(&fake, 10).await, ["listing", "synced", "Modified a 7"]);
    assert!(fake.lines()[1].ends_with("&resourceVersion=7"));
}

#[tokio::test(start_paused = true)]
async fn bookmarks_move_the_version_and_count_as_signs_of_life() {
    let bookmark = |version: u32| {
        text(format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"{version}\"}}}}}}\n"
        ))
    };
    let fake = Fake::new([synced([wait(60), bookmark(10), wait(60), bookmark(20), Part::Hang])]);
    observe(&fake, 180).await;
    assert_eq!(fake.lines().len(), 1, "not silent yet");
    let fake = Fake::new([synced([wait(60), bookmark(10), Part::Hang])]);
    assert_eq!(observe(&fake, 140).await, ["listing", "synced", "bookmark", "silent"]);
    let seen = fake.seen();
    assert_eq!(seen[1].at.as_secs(), 130);
    assert!(seen[1].line.ends_with("&resourceVersion=10"));
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_reconnected_without_a_listing() {
    let fake = Fake::new([synced([Part::Hang]), Answer::live(&line("ADDED", "a", 6))]);
    assert_eq!(observe(&fake, 100).await, ["listing", "synced", "silent", "Added a 6"]);
    assert_eq!(fake.seen()[1].at.as_secs(), 70);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_never_answered_is_in_trouble_within_half_a_minute() {
    let fake = Fake::new([synced([]), Answer::stuck(), Answer::live(&line("ADDED", "a", 6))]);
    let told = observe(&fake, 35).await;
    assert_eq!(
        told,
        [
            "listing",
            "synced",
            "trouble: unreachable: no answer to a watch within 30 seconds",
            "resumed",
            "Added a 6"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn streams_that_end_immediately_are_never_asked_for_in_a_hot_loop() {
    let fake = Fake::new([synced([])].into_iter().chain((0..5000).map(|_| Answer::new(200, ""))));
    observe(&fake, 60).await;
    let requests = fake.lines().len();
    assert!((25..100).contains(&requests), "{requests} requests a minute");
}

#[tokio::test(start_paused = true)]
async fn listings_that_expire_immediately_are_never_asked_for_in_a_hot_loop() {
    let both = || [synced([]), Answer::new(200, error(410, "gone"))];
    let fake = Fake::new((0..5000).flat_map(|_| both()));
    observe(&fake, 600).await;
    let requests = fake.lines().len();
    assert!(requests < 120, "{requests} requests in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn listings_without_a_version_are_never_asked_for_in_a_hot_loop() {
    let versionless = Answer::new(200, r#"{"metadata":{},"items":[]}"#);
    let refusal = Answer::refusal(400, "no streaming");
    let fake = Fake::new(std::iter::once(refusal).chain(std::iter::repeat_n(versionless, 1000)));
    let told = observe(&fake, 60).await;
    assert!(fake.lines().len() < 30, "{} requests", fake.lines().len());
    let troubles = told.iter().filter(|it| it.starts_with("trouble")).count();
    assert_eq!(troubles, 1, "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_has_lived_is_resumed_immediately() {
    let fake = Fake::new([synced([wait(30)]), Answer::live("")]);
    observe(&fake, 40).await;
    let at = fake.seen()[1].at;
    assert!(at <= Duration::from_millis(30_100), "{at:?}");
}

#[tokio::test(start_paused = true)]
async fn trouble_and_its_end_are_reported_once() {
    let busy = || Answer::refusal(503, "starting").header("retry-after", "2");
    let fake = Fake::new([
        Answer::none(),
        Answer::none(),
        busy(),
        busy(),
        Answer::refusal(404, "no such kind"),
        synced([Part::Hang]),
    ]);
    let told = observe(&fake, 69).await;
    assert_eq!(told.len(), 6, "{told:?}");
    assert!(told[0].starts_with("trouble: unreachable:"), "{told:?}");
    assert_eq!(
        told[1..],
        [
            "trouble: the server cannot answer now (503): starting",
            "trouble: not found: no such kind",
            "listing",
            "synced",
            "resumed"
        ]
    );
    let seen = fake.seen();
    assert!(seen[3].at >= seen[2].at + Duration::from_secs(2), "Retry-After is obeyed");
}

#[tokio::test(start_paused = true)]
async fn an_absurd_retry_after_is_obeyed_for_five_minutes_at_most() {
    for seconds in ["86400", "18446744073709551615"] {
        let busy = Answer::refusal(503, "later").header("retry-after", seconds);
        let fake = Fake::new([busy, synced([Part::Hang])]);
        let told = observe(&fake, 400).await;
        assert_eq!(told[1..4], ["listing", "synced", "resumed"], "{seconds}");
        let at = fake.seen()[1].at;
        assert!(at >= Duration::from_secs(300), "{at:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_recovery_is_reported() {
    let fake = Fake::new([synced([]), Answer::none(), Answer::live("")]);
    let told = observe(&fake, 10).await;
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told[2].starts_with("trouble: unreachable"));
    assert_eq!(told[3], "resumed");
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_watch_names_the_rule_and_continues() {
    let refusal = || {
        Answer::refusal(
            403,
            "kopfexamples.kopf.dev is forbidden: User \"op\" cannot watch resource \"kopfexamples\"",
        )
    };
    let fake = Fake::new((0..50).map(|_| refusal()).chain([synced([Part::Hang])]));
    let mut rules = Vec::new();
    let mut synced = false;
    let mut sink = |event| match event {
        WatchEvent::Trouble(ClusterError::Denied { rule, .. }) => rules.push(rule),
        WatchEvent::Synced(_) => synced = true,
        _ => {}
    };
    let (cluster, watched) = (fake.cluster(), watched());
    let watch = cluster.watch(&watched, &mut sink);
    let _ = tokio::time::timeout(Duration::from_secs(1500), watch).await;
    assert!(synced);
    assert_eq!(
        rules,
        [
            "to a ClusterRole bound to this operator:\n  - apiGroups: [\"kopf.dev\"]\n    resources: [\"kopfexamples\"]\n    verbs: [\"list\", \"watch\"]"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_invalid_line_is_reported_and_leads_to_a_new_listing() {
    let fake = Fake::new([
        synced([text("<html>sorry</html>\n"), text(line("ADDED", "lost", 6))]),
        synced([text(line("ADDED", "a", 7)), Part::Hang]),
    ]);
    let told = observe(&fake, 10).await;
    assert_eq!(told.len(), 7, "{told:?}");
    assert!(told[2].starts_with("trouble: invalid: a line of 18 bytes is not a watch event"));
    assert_eq!(told[3..], ["listing", "synced", "resumed", "Added a 7"]);
}

#[tokio::test(start_paused = true)]
async fn an_error_event_that_stays_leads_to_a_listing() {
    let fake = Fake::new([
        synced([text(error(500, "cannot decode"))]),
        Answer::new(200, error(500, "cannot decode")),
        synced([Part::Hang]),
    ]);
    let told = observe(&fake, 10).await;
    assert_eq!(
        told,
        [
            "listing",
            "synced",
            "trouble: the server cannot answer now (500): cannot decode",
            "listing",
            "synced",
            "resumed"
        ]
    );
    assert!(fake.lines()[1].ends_with("&resourceVersion=5"));
}

#[tokio::test(start_paused = true)]
async fn a_server_older_than_our_version_is_listed_again() {
    let fake = Fake::new([
        synced([text(line("ADDED", "a", 900))]),
        Answer::refusal(504, "Timeout: Too large resource version: 900, current: 12"),
        synced([Part::Hang]),
    ]);
    let told = observe(&fake, 10).await;
    assert_eq!(told[4..], ["listing", "synced", "resumed"]);
}

#[tokio::test(start_paused = true)]
async fn lines_of_any_length_in_any_chunks_arrive() {
    let long = format!(
        r#"{{"type":"ADDED","object":{{"metadata":{{"name":"big","uid":"u","resourceVersion":"6"}},"data":"{}"}}}}"#,
        "é".repeat(2_000_000)
    ) + "\n";
    let chunks = long.as_bytes().chunks(100_001);
    let chunks: Vec<Part> = chunks.map(|chunk| Part::Bytes(chunk.to_vec())).collect();
    let fake = Fake::new([synced(chunks.into_iter().chain([Part::Hang]))]);
    assert_eq!(observe(&fake, 10).await, ["listing", "synced", "Added big 6"]);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_type_is_left_out() {
    let fake = Fake::new([synced([
        text("{\"type\":\"MOVED\",\"object\":{}}\n"),
        text(line("ADDED", "a", 6)),
        Part::Hang,
    ])]);
    assert_eq!(observe(&fake, 10).await, ["listing", "synced", "Added a 6"]);
}

#[tokio::test(start_paused = true)]
async fn items_of_pages_get_the_kind_that_servers_leave_out() {
    let fake = Fake::new([Answer::refusal(422, "no"), Answer::new(200, page(&[object("a", 1)], ""))]);
    let mut texts = Vec::new();
    let mut sink = |event| {
        if let WatchEvent::Object(_, raw) = event {
            texts.push(raw.text().to_owned());
        }
    };
    let (cluster, watched) = (fake.cluster(), watched_in(Some("prod")));
    let watch = cluster.watch(&watched, &mut sink);
    let _ = tokio::time::timeout(Duration::from_secs(5), watch).await;
    assert!(texts[0].starts_with(r#"{"apiVersion":"kopf.dev/v1","kind":"KopfExample","#));
    assert_eq!(fake.lines()[1], "GET /apis/kopf.dev/v1/namespaces/prod/kopfexamples?limit=500");
}

#[tokio::test(start_paused = true)]
async fn the_server_timeout_is_jittered_below_the_cut_of_middleboxes() {
    let fake = Fake::new([synced([])].into_iter().chain((0..40).map(|_| Answer::new(200, ""))));
    observe(&fake, 60).await;
    let mut timeouts: Vec<u32> = fake
        .lines()
        .iter()
        .map(|line| {
            let (_, rest) = line.split_once("timeoutSeconds=").unwrap();
            rest.split('&').next().unwrap().parse().unwrap()
        })
        .collect();
    timeouts.sort_unstable();
    assert!(timeouts.iter().all(|seconds| (199..=235).contains(seconds)), "{timeouts:?}");
    timeouts.dedup();
    assert!(timeouts.len() > 3, "{timeouts:?}");
}

#[tokio::test(start_paused = true)]
async fn watches_that_the_server_delays_return_at_different_times() {
    let mut moments = Vec::new();
    for _ in 0..16 {
        let busy = Answer::refusal(429, "slow down").header("retry-after", "100");
        let fake = Fake::new([busy]);
        observe(&fake, 200).await;
        moments.push(fake.seen()[1].at);
    }
    moments.sort();
    let (first, last) = (moments[0], moments[15]);
    assert!(first >= Duration::from_secs(100), "{first:?}");
    assert!(last > first + Duration::from_secs(5), "{moments:?}");
    assert!(last < Duration::from_secs(130), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn a_listing_waits_for_its_consumer() {
    const MUCH: usize = 1 << 20;
    let streamed = || {
        let lines = [line("ADDED", "a", 3), line("ADDED", "b", 4)];
        let lines = lines.map(text).into_iter();
        let end = format!("{END}\n{}", line("ADDED", "c", 6));
        Fake::new([Answer::parts(lines.chain([text(end), Part::Hang]))])
    };
    let paged = || {
        Fake::new([
            Answer::refusal(422, "sendInitialEvents is forbidden"),
            Answer::new(200, page(&[object("a", 3)], "more")),
            Answer::new(200, page(&[object("b", 4)], "")),
            Answer::live(&line("ADDED", "c", 6)),
        ])
    };
    for fake in [streamed(), paged()] {
        let flow = Flow::default();
        let mut all = Vec::new();
        let mut waiting = Some(flow.load(MUCH));
        let mut told = Vec::new();
        let mut sink = |event| told.push((words(&event), Instant::now()));
        let watched = Watched { flow: flow.clone(), ..watched() };
        let cluster = fake.cluster();
        let started = Instant::now();
        let takes_in = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            waiting.take();
            // From now on the consumer takes nothing. The watch waits for it only once.
            all.push(flow.load(MUCH));
            tokio::time::sleep(Duration::from_secs(9)).await;
        };
        tokio::select! {
            never = cluster.watch(&watched, &mut sink) => match never {},
            () = takes_in => {}
        }
        let at = |name: &str| {
            let found = told.iter().find(|(words, _)| words.contains(name));
            found.map(|(_, at)| (*at - started).as_millis())
        };
        let (a, b, c) = (at(" a "), at(" b "), at(" c "));
        assert_eq!((a, c), (Some(0), Some(1500)), "{told:?}");
        assert!(b == Some(500) || b == Some(1500), "{told:?}");
    }
}
