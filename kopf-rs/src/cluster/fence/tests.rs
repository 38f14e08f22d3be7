use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::cluster::Cluster;
use crate::object::lease::LeaseTimes;

/// The targets and bodies that a server has received.
type Seen = Arc<Mutex<Vec<String>>>;

/// A server whose connections take a while to open.
fn server(connects_in: Duration) -> (Client, Seen) {
    let seen = Seen::default();
    let noted = seen.clone();
    let service = service_fn(move |request: Request<Body>| {
        let seen = noted.clone();
        async move {
            tokio::time::sleep(connects_in).await;
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let body = String::from_utf8_lossy(&body).into_owned();
            seen.lock().push(format!("{} {body}", parts.uri));
            Ok::<_, kube::Error>(Response::new(Body::from(b"{}".to_vec())))
        }
    });
    (Client::new(service, "default"), seen)
}

fn term(number: u64, fence: &Fence) -> Term {
    Term {
        number,
        stamp: fence.now(),
        times: LeaseTimes {
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        },
    }
}

fn fenced(client: Client) -> (Cluster, Fence) {
    let fence = Fence::closed(Clock::start(), None);
    (Cluster::new(client).fenced(Some(fence.clone())), fence)
}

#[tokio::test(start_paused = true)]
async fn a_write_needs_a_term_and_gives_the_server_no_more_time_than_that_has() {
    let (client, seen) = server(Duration::ZERO);
    let (cluster, fence) = fenced(client);
    let event = json!({"note": "n"});
    let refused = cluster.send_event("ns", None, &event).await.unwrap_err();
    assert!(matches!(refused, ClusterError::Fenced), "{refused:?}");
    fence.set(Some(term(1, &fence)));
    cluster.send_event("ns", None, &event).await.unwrap();
    tokio::time::sleep(Duration::from_secs(7)).await;
    cluster.send_event("ns", None, &event).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let late = cluster.send_event("ns", None, &event).await.unwrap_err();
    assert!(late.is_transient(), "{late:?}");
    let path = "/apis/events.k8s.io/v1/namespaces/ns/events?fieldManager=kopf-rs";
    let expected =
        ["10000ms", "3000ms"].map(|timeout| format!("{path}&timeout={timeout} {{\"note\":\"n\"}}"));
    assert_eq!(*seen.lock(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waited_for_its_connection_is_sent_only_within_the_term() {
    let wait = Duration::from_secs(3);
    for (number, is_sent) in [(None, false), (Some(1), true), (Some(2), false)] {
        let (client, seen) = server(wait);
        let (cluster, fence) = fenced(client);
        fence.set(Some(term(1, &fence)));
        let renewed = async {
            tokio::time::sleep(wait / 2).await;
            // Either not renewed, or renewed, or lost and acquired again.
            if let Some(number) = number {
                fence.set(Some(term(number, &fence)));
            }
        };
        let event = json!({});
        let (answer, ()) = tokio::join!(cluster.send_event("ns", None, &event), renewed);
        assert_eq!(answer.is_ok(), is_sent, "{number:?}: {answer:?}");
        assert_eq!(seen.lock().len(), usize::from(is_sent), "{number:?}");
        let is_void = matches!(answer, Err(ClusterError::Fenced));
        assert_eq!(is_void, number == Some(2), "{number:?}: {answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_can_be_had_once_more_for_other_credentials() {
    let fence = Fence::closed(Clock::start(), None);
    fence.set(Some(term(1, &fence)));
    let pass = fence.pass(None).unwrap();
    let request = Request::new(Body::empty());
    let request = pass.guard(request, Bytes::from_static(b"abc")).await;
    let (parts, body) = request.into_parts();
    let copy = copy_of(&parts, &body).await.unwrap();
    assert_eq!(HttpBody::size_hint(&copy).exact(), Some(3));
    fence.set(None);
    assert!(copy.collect().await.is_err());
    assert!(matches!(pass.why_kept_back(), Some(ClusterError::Fenced)));
}
