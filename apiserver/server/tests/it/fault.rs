//! Injected faults.

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use serde_json::json;
use tokio::time::Instant;
use tower::ServiceExt;

use super::{APPS, Lines, MAPS, MERGE, app, ask, ask_as, done, get, map, with_crd};
use kopf_rs_apiserver::{ApiServer, Fault, Verb};

#[tokio::test]
async fn the_nth_request_is_refused_so_many_times() {
    let server = with_crd().await;
    done(&server, "POST", APPS, app("x")).await;
    let fault = server.fault(
        Fault::answer(429)
            .retry_after(Duration::from_secs(3))
            .on(Verb::Patch)
            .plural("myapps")
            .nth(2)
            .times(1),
    );
    let uri = format!("{APPS}/x");
    let mut codes = Vec::new();
    for n in 0..3 {
        codes.push(
            ask_as(&server, "PATCH", &uri, MERGE, json!({"spec": {"n": n}}))
                .await
                .0,
        );
    }
    assert_eq!(codes, [200, 429, 200]);
    assert_eq!(fault.hits(), 1);
}

#[tokio::test]
async fn an_answer_may_be_lost_after_the_write() {
    let server = ApiServer::new();
    let fault = server.fault(Fault::answer_after_write(500).on(Verb::Create));
    assert_eq!(ask(&server, "POST", MAPS, map("m")).await.0, 500);
    fault.clear();
    assert_eq!(get(&server, &format!("{MAPS}/m")).await.0, 200);
    let entry = &server.journal().writes()[0];
    assert!(entry.changed && entry.code == 500);
}

#[tokio::test]
async fn a_connection_is_dropped_before_or_after_the_write() {
    for (fault, code) in [(Fault::drop_before(), 404), (Fault::drop_after(), 200)] {
        let server = ApiServer::new();
        let handle = server.fault(fault.on(Verb::Create));
        let request = http::Request::post(MAPS)
            .body(Full::new(bytes::Bytes::from(map("m").to_string())))
            .unwrap();
        assert!(server.service().oneshot(request).await.is_err());
        drop(handle);
        assert_eq!(get(&server, &format!("{MAPS}/m")).await.0, code);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_slow_in_virtual_time() {
    let server = ApiServer::new();
    let _fault = server.fault(Fault::delay(Duration::from_secs(100)));
    let start = Instant::now();
    get(&server, MAPS).await;
    assert_eq!(start.elapsed(), Duration::from_secs(100));
}

#[tokio::test(start_paused = true)]
async fn open_watches_are_cut_stalled_reset_or_gone() {
    let server = ApiServer::new();
    let uri = format!("{MAPS}?watch=1");
    let mut watch = Lines::open(&server, &uri).await;
    done(&server, "POST", MAPS, map("a")).await;
    assert_eq!(watch.brief().await, "ADDED a");

    let stall = server.fault(Fault::stall().plural("configmaps"));
    done(&server, "POST", MAPS, map("b")).await;
    let silent = tokio::time::timeout(Duration::from_secs(600), watch.next()).await;
    assert!(silent.is_err());
    stall.clear();
    assert_eq!(watch.brief().await, "ADDED b");

    let cut = server.fault(Fault::cut().times(1));
    assert_eq!(watch.next().await, None);
    assert_eq!(cut.hits(), 1);

    let mut watch = Lines::open(&server, &uri).await;
    assert_eq!(watch.brief().await, "ADDED a");
    let _gone = server.fault(Fault::gone().times(1));
    assert_eq!(watch.next().await.unwrap()["object"]["code"], 410);
    assert_eq!(watch.next().await, None);

    let _two = server.fault(Fault::cut_after(1).times(1));
    let mut watch = Lines::open(&server, &uri).await;
    assert_eq!(watch.brief().await, "ADDED a");
    assert_eq!(watch.next().await, None);

    let mut watch = Lines::open(&server, &uri).await;
    let _reset = server.fault(Fault::reset().times(1));
    assert!(watch.body.frame().await.unwrap().is_err());
}

#[tokio::test]
async fn chance_comes_from_a_seed() {
    let codes = async |seed: u64| {
        let server = ApiServer::new();
        let fault = server.fault(Fault::answer(503).on(Verb::List).chance(0.3, seed));
        let mut codes = String::new();
        for _ in 0..200 {
            codes.push(if get(&server, MAPS).await.0 == 503 {
                'x'
            } else {
                '.'
            });
        }
        assert_eq!(fault.hits(), codes.matches('x').count());
        codes
    };
    let first = codes(7).await;
    assert_eq!(first, codes(7).await);
    assert_ne!(first, codes(8).await);
    let hits = first.matches('x').count();
    assert!((40..80).contains(&hits), "{hits} of 200");
}

#[tokio::test]
async fn a_fault_is_scripted_by_anything_in_the_request() {
    let server = ApiServer::new();
    let _fault = server.fault(Fault::answer(409).when(|request| {
        request
            .body
            .as_ref()
            .is_some_and(|body| body["data"]["a"] == "2")
    }));
    let mut second = map("b");
    second["data"]["a"] = "2".into();
    assert_eq!(ask(&server, "POST", MAPS, map("a")).await.0, 201);
    assert_eq!(ask(&server, "POST", MAPS, second).await.0, 409);
    assert_eq!(get(&server, &format!("{MAPS}/b")).await.0, 404);
}

#[tokio::test]
async fn refusals_look_like_the_real_ones() {
    let server = ApiServer::new();
    for (code, reason) in [
        (401, "Unauthorized"),
        (409, "Conflict"),
        (410, "Expired"),
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
    ] {
        let _fault = server.fault(Fault::answer(code));
        let (answered, body) = get(&server, MAPS).await;
        assert_eq!((answered, body["reason"].as_str()), (code, Some(reason)));
        assert_eq!(
            (&body["kind"], &body["code"]),
            (&json!("Status"), &json!(code))
        );
    }
    let _fault = server.fault(Fault::answer(429).retry_after(Duration::from_secs(7)));
    let request = http::Request::get(MAPS)
        .body(Full::new(bytes::Bytes::new()))
        .unwrap();
    let response = server.service().oneshot(request).await.unwrap();
    assert_eq!(response.headers()["retry-after"], "7");
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_late_and_the_write_is_not() {
    let server = ApiServer::new();
    let _fault = server.fault(Fault::delay_answer(Duration::from_secs(60)).on(Verb::Create));
    let create = ask(&server, "POST", MAPS, map("m"));
    let early = tokio::time::timeout(Duration::from_secs(59), create).await;
    assert!(early.is_err(), "no answer yet");
    assert_eq!(get(&server, &format!("{MAPS}/m")).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn events_of_one_kind_come_after_later_ones_of_another() {
    const SECRETS: &str = "/api/v1/namespaces/default/secrets";
    let server = ApiServer::new();
    let mut maps = Lines::open(&server, &format!("{MAPS}?watch=1")).await;
    let mut secrets = Lines::open(&server, &format!("{SECRETS}?watch=1")).await;
    let late = server.fault(Fault::late(Duration::from_secs(30)).plural("configmaps"));
    done(&server, "POST", MAPS, map("first")).await;
    done(&server, "POST", MAPS, map("second")).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "third"}});
    done(&server, "POST", SECRETS, secret).await;

    let start = Instant::now();
    let early = tokio::time::timeout(Duration::from_secs(29), maps.next()).await;
    assert!(early.is_err(), "the events of this kind are held back");
    assert_eq!(secrets.brief().await, "ADDED third");
    assert_eq!(maps.brief().await, "ADDED first");
    assert_eq!(start.elapsed(), Duration::from_secs(30));
    assert_eq!(maps.brief().await, "ADDED second");
    done(&server, "POST", MAPS, map("fourth")).await;
    let early = tokio::time::timeout(Duration::from_secs(1), maps.next()).await;
    assert!(early.is_err(), "held back as well");
    late.clear();
    assert_eq!(maps.brief().await, "ADDED fourth");
    assert_eq!(
        start.elapsed(),
        Duration::from_secs(31),
        "what was held back comes at once"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_in_time_though_its_events_are_late() {
    let server = ApiServer::new();
    done(&server, "POST", MAPS, map("a")).await;
    let uri = format!("{MAPS}?watch=1&timeoutSeconds=20");
    for late in [5, 19, 30] {
        let _late = server.fault(Fault::late(Duration::from_secs(late)));
        let start = Instant::now();
        let mut watch = Lines::open(&server, &uri).await;
        if late < 20 {
            assert_eq!(watch.brief().await, "ADDED a");
        }
        assert_eq!(watch.next().await, None, "late by {late}");
        assert_eq!(start.elapsed(), Duration::from_secs(20), "late by {late}");
    }
    // When a fault is removed, a delayed watch may have ended already.
    let late = server.fault(Fault::late(Duration::from_secs(30)));
    let mut watch = Lines::open(&server, &uri).await;
    let early = tokio::time::timeout(Duration::from_secs(10), watch.next()).await;
    assert!(early.is_err());
    late.clear();
    assert_eq!(watch.brief().await, "ADDED a");
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn events_come_twice() {
    let server = ApiServer::new();
    let mut watch = Lines::open(&server, &format!("{MAPS}?watch=1")).await;
    let repeat = server.fault(Fault::repeat());
    done(&server, "POST", MAPS, map("a")).await;
    assert_eq!(watch.next().await, watch.next().await);
    repeat.clear();
    done(&server, "POST", MAPS, map("b")).await;
    done(&server, "POST", MAPS, map("c")).await;
    assert_eq!(watch.brief().await, "ADDED b");
    assert_eq!(watch.brief().await, "ADDED c");
}

#[tokio::test(start_paused = true)]
async fn the_clock_jumps() {
    let server = ApiServer::new();
    let created = async |name: &str| {
        let made = done(&server, "POST", MAPS, map(name)).await;
        let stamp = made["metadata"]["creationTimestamp"]
            .as_str()
            .unwrap()
            .to_owned();
        stamp.parse::<jiff::Timestamp>().unwrap().as_second()
    };
    let first = created("a").await;
    server.jump_clock(3600);
    assert_eq!(created("b").await - first, 3600);
    let _back = server.fault(Fault::jump_clock(-7200).on(Verb::Create).times(1));
    assert_eq!(created("c").await - first, -3600);
    assert_eq!(created("d").await - first, -3600);
}

#[tokio::test]
async fn history_is_compacted_when_a_watch_begins() {
    let server = ApiServer::new();
    let first = done(&server, "POST", MAPS, map("a")).await;
    done(&server, "POST", MAPS, map("b")).await;
    let from = first["metadata"]["resourceVersion"].as_str().unwrap();
    let uri = format!("{MAPS}?watch=1&resourceVersion={from}");
    let mut watch = Lines::open(&server, &uri).await;
    assert_eq!(watch.brief().await, "ADDED b");
    let compaction = server.fault(Fault::compact().on(Verb::Watch).times(1));
    let mut late = Lines::open(&server, &uri).await;
    assert_eq!(late.next().await.unwrap()["object"]["reason"], "Expired");
    assert_eq!(compaction.hits(), 1);
    done(&server, "POST", MAPS, map("c")).await;
    assert_eq!(watch.brief().await, "ADDED c", "an open watch goes on");
}

#[tokio::test]
async fn an_answer_that_is_no_code_is_an_error() {
    let server = ApiServer::new();
    let _fault = server.fault(Fault::answer(1000));
    assert_eq!(get(&server, MAPS).await.0, 500);
}

#[tokio::test(start_paused = true)]
async fn what_is_due_after_a_jump_of_the_clock_is_done_though_nobody_asks() {
    let server = ApiServer::new();
    let events = "/api/v1/namespaces/default/events";
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}});
    done(&server, "POST", events, event).await;
    let mut watch = Lines::open(&server, &format!("{events}?watch=1&timeoutSeconds=7200")).await;
    assert_eq!(watch.brief().await, "ADDED e");
    let _fault = server.fault(Fault::jump_clock(4000).plural("configmaps"));
    let begin = Instant::now();
    get(&server, MAPS).await;
    assert_eq!(watch.brief().await, "DELETED e");
    assert!(
        begin.elapsed() < Duration::from_secs(60),
        "{:?}",
        begin.elapsed()
    );
}
