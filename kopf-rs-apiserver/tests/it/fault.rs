//! Faults on demand.

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
