//! The endpoint itself: what strangers send it, and who waits for them.

use std::time::Duration;

use kopf_rs::{Registry, handler};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::certificates::{client_pair, start_demanding};
use super::client::{Asker, answer};
use super::converting::{self, converted_by_webhook, registry, serve};
use super::{VALIDATING, configured, denying, start};
use crate::operating::{Gate, TestOperator};

scenarios! {
    bad_requests_have_their_codes [tcp];
    foreign_clients_block_no_other_client [tcp];
    too_many_idle_connections_block_no_client [tcp];
    a_conversion_proves_no_stranger [tcp];
    bodies_that_do_not_come_keep_no_other_from_being_read [tcp];
    unread_answers_give_way [tcp];
    a_connection_that_rests_is_kept [tcp];
    pending_reviews_are_answered_while_the_operator_ends [tcp];
    an_answer_that_is_read_slowly_is_complete_while_the_operator_ends [tcp];
    requests_that_meet_the_end_of_their_connection_are_to_be_repeated [tcp];
}

/// A review of the creation of an object.
pub(super) fn review(test: &TestOperator, padding: usize) -> Value {
    let object = json!({
        "apiVersion": format!("{}/v1", test.group), "kind": "KopfExample",
        "metadata": {"name": "one", "namespace": test.cluster.namespace()},
        "spec": {"text": "x".repeat(padding)},
    });
    let kind = json!({"group": test.group, "version": "v1", "kind": "KopfExample"});
    let resource = json!({"group": test.group, "version": "v1", "resource": "kopfexamples"});
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "kind": kind, "resource": resource, "requestKind": kind,
            "requestResource": resource, "name": "one", "namespace": test.cluster.namespace(), "operation": "CREATE",
            "userInfo": {"username": "admin"}, "object": object, "oldObject": null, "dryRun": false, "options": {},
        },
    })
}

async fn bad_requests_have_their_codes(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_validate(test.selector(), denying());
    let working = start(&test, registry, VALIDATING, 1).await;
    let asker = Asker::of(&configured(&test, VALIDATING, 1).await[0]);
    let good = |padding| review(&test, padding).to_string().into_bytes();
    for (padding, code) in [(1, 200), (3 << 20, 200), (6 << 20, 200), (8 << 20, 413)] {
        assert_eq!(asker.post(&good(padding)).await.0, code, "{padding}");
    }
    let own = "/validate/not-too-large";
    let packed = "Content-Encoding: gzip\r\n";
    for (method, path, headers, body, code) in [
        ("POST", own, packed, good(1), 415),
        ("GET", own, "", Vec::new(), 405),
        ("PUT", own, "", good(1), 405),
        ("POST", own, "", b"junk".to_vec(), 400),
        ("POST", own, "", Vec::new(), 400),
        ("POST", "/validate/other", "", good(1), 503),
        ("POST", "/", "", good(1), 503),
    ] {
        let answered = asker.ask(method, path, headers, &body).await;
        assert_eq!(answered.0, code, "{method} {path} {headers}: {answered:?}");
    }
    let mut without_user = review(&test, 1);
    without_user["request"]["userInfo"] = Value::Null;
    let without_user = without_user.to_string();
    assert_eq!(asker.post(without_user.as_bytes()).await.0, 400);
    // And it goes on.
    let (_, answer) = asker.post(&good(1)).await;
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!(answer["response"]["allowed"], true, "{answer}");
    working.stop().await;
}

async fn foreign_clients_block_no_other_client(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_validate(test.selector(), denying());
    let working = start(&test, registry, VALIDATING, 1).await;
    let asker = Asker::of(&configured(&test, VALIDATING, 1).await[0]);
    let mut silent = Vec::new();
    for number in 0..300 {
        let mut stream = asker.dial().await;
        match number % 3 {
            0 => {}
            1 => stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("garbage is read"),
            // The begin of a handshake.
            _ => stream.write_all(&[22, 3, 1, 2, 0, 1]).await.expect("a begin is read"),
        }
        silent.push(stream);
    }
    let mut half = asker.connect().await;
    half.write_all(b"POST /validate/not-too-large HTTP/1.1\r\nHost:").await.expect("it is read");
    let body = review(&test, 1).to_string();
    for _ in 0..20 {
        assert_eq!(asker.post(body.as_bytes()).await.0, 200);
    }
    // All of them are hung up on.
    let hung_up = async {
        for mut stream in silent {
            let _ = stream.read(&mut [0; 64]).await;
        }
        let _ = half.read(&mut [0; 64]).await;
    };
    let hung_up = tokio::time::timeout(Duration::from_secs(60), hung_up).await;
    hung_up.expect("nobody keeps a connection by saying nothing");
    assert_eq!(asker.post(body.as_bytes()).await.0, 200);
    working.stop().await;
}

/// Whether the other end has hung up by now.
fn is_closed(stream: &tokio::net::TcpStream) -> bool {
    matches!(stream.try_read(&mut [0; 64]), Ok(0))
        || stream.try_read(&mut [0; 64]).is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock)
}

type Stream = tokio_rustls::client::TlsStream<tokio::net::TcpStream>;

/// Ask over a connection that goes on, and await the answer.
async fn is_answered(stream: &mut Stream, asked: &str) {
    let sent = stream.write_all(asked.as_bytes()).await;
    sent.expect("it is there");
    let mut piece = [0; 4096];
    let size = stream.read(&mut piece).await.expect("an answer");
    let piece = String::from_utf8_lossy(&piece[..size]);
    assert!(piece.starts_with("HTTP/1.1 200"), "{piece}");
}

/// A request to convert an object that is in this version already.
fn conversion(test: &TestOperator, note: &str, connection: &str) -> String {
    let api_version = format!("{}/v1", test.group);
    let object = json!({
        "apiVersion": api_version, "kind": "KopfExample", "metadata": {"name": "one", "namespace": "default", "uid": "1"},
        "spec": {"host": "a", "port": 1, "note": note},
    });
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": api_version, "objects": [object]},
    });
    let (body, kind) = (review.to_string(), test.kind());
    let length = body.len();
    format!(
        "POST /convert/{kind}?timeout=30s HTTP/1.1\r\nHost: hooks\r\nConnection: {connection}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// API servers show no certificate where they ask for conversions: nothing tells them from strangers there.
async fn a_conversion_proves_no_stranger(cluster: TestCluster) {
    let test = serve(cluster, "v1").await;
    let file = std::env::temp_dir().join(format!("{}.crt", test.cluster.namespace()));
    let [root, certificate, key] = client_pair();
    std::fs::write(&file, root).expect("a file can be written");
    let working = start_demanding(&test, &file, registry(&test));
    let hook = configured(&test, VALIDATING, 1).await.remove(0);
    let asker = Asker::showing(&hook, &certificate, &key);
    let mut certified = asker.connect().await;
    let body = review(&test, 1).to_string();
    let request = format!(
        "POST /validate/not-too-large?timeout=10s HTTP/1.1\r\nHost: hooks\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    is_answered(&mut certified, &request).await;
    let mut stranger = Asker::of(&hook).connect().await;
    is_answered(&mut stranger, &conversion(&test, "", "keep-alive")).await;
    let mut others = Vec::new();
    for _ in 0..1200 {
        others.push(asker.dial().await);
    }
    let mut piece = [0; 64];
    let hung_up = tokio::time::timeout(Duration::from_secs(60), stranger.read(&mut piece)).await;
    let hung_up = hung_up.expect("it gives way to others");
    assert!(!matches!(hung_up, Ok(1..)), "{hung_up:?}");
    is_answered(&mut certified, &request).await;
    working.stop().await;
    std::fs::remove_file(file).expect("the file can be removed");
}

async fn unread_answers_give_way(cluster: TestCluster) {
    let test = serve(cluster, "v1").await;
    let working = converting::start(&test, registry(&test)).await;
    let asker = Asker::of(&converted_by_webhook(&test).await["webhook"]);
    let size = 6_900_000;
    let request = conversion(&test, &"x".repeat(size), "close");
    let mut unread = Vec::new();
    for _ in 0..11 {
        let mut stream = asker.connect().await;
        // The last of them may be refused.
        let _ = stream.write_all(request.as_bytes()).await;
        unread.push(stream);
    }
    let small = conversion(&test, &"x".repeat(size / 2), "close");
    let started = tokio::time::Instant::now();
    let code = async || {
        let mut stream = asker.connect().await;
        let _ = stream.write_all(small.as_bytes()).await;
        answer(stream).await.0
    };
    while code().await != 200 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    let mut whole = 0;
    for mut stream in unread {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        whole += usize::from(bytes.len() > size);
    }
    // There is room for no more than that.
    assert!(whole <= 9, "{whole}");
    working.stop().await;
}

async fn too_many_idle_connections_block_no_client(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_validate(test.selector(), denying());
    let working = start(&test, registry, VALIDATING, 1).await;
    let asker = Asker::of(&configured(&test, VALIDATING, 1).await[0]);
    let body = review(&test, 1).to_string();
    let head = format!(
        "POST /validate/not-too-large?timeout=10s HTTP/1.1\r\nHost: hooks\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut kept = asker.connect().await;
    let request = format!("{head}{body}");
    let ask = async |stream: &mut Stream| is_answered(stream, &request).await;
    ask(&mut kept).await;
    let begun = tokio::time::Instant::now();
    let mut silent = Vec::new();
    for _ in 0..1200 {
        silent.push(asker.dial().await);
    }
    // Nobody waits until strangers are hung up on for their silence, and who was there before goes on.
    assert_eq!(asker.post(body.as_bytes()).await.0, 200);
    ask(&mut kept).await;
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(silent.iter().any(is_closed));
    working.stop().await;
}

async fn bodies_that_do_not_come_keep_no_other_from_being_read(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_validate(test.selector(), denying());
    let working = start(&test, registry, VALIDATING, 1).await;
    let asker = Asker::of(&configured(&test, VALIDATING, 1).await[0]);
    let size = 7_000_000;
    let head =
        format!("POST /validate/not-too-large HTTP/1.1\r\nHost: hooks\r\nContent-Length: {size}\r\n\r\n");
    let begin = vec![b' '; size - 1];
    let mut stalled = Vec::new();
    // More than there is room for: the last of them may be refused.
    for _ in 0..5 {
        let mut stream = asker.connect().await;
        stream.write_all(head.as_bytes()).await.expect("it is read");
        let _ = stream.write_all(&begin).await;
        stalled.push(stream);
    }
    let body = review(&test, 6 << 20).to_string();
    let started = tokio::time::Instant::now();
    while asker.post(body.as_bytes()).await.0 != 200 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    drop(stalled);
    working.stop().await;
}

async fn a_connection_that_rests_is_kept(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_validate(test.selector(), denying());
    let working = start(&test, registry, VALIDATING, 1).await;
    let asker = Asker::of(&configured(&test, VALIDATING, 1).await[0]);
    let (mut used, mut spare) = (asker.connect().await, asker.connect().await);
    let body = review(&test, 1).to_string();
    let size = body.len();
    let head = "POST /validate/not-too-large?timeout=10s HTTP/1.1\r\nHost: hooks";
    let request = format!("{head}\r\nContent-Length: {size}\r\n\r\n{body}");
    is_answered(&mut used, &request).await;
    // API servers keep connections for 90 seconds.
    tokio::time::sleep(Duration::from_secs(91)).await;
    is_answered(&mut used, &request).await;
    is_answered(&mut spare, &request).await;
    working.stop().await;
}

async fn pending_reviews_are_answered_while_the_operator_ends(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let own = gate.clone();
    let waiting = handler("waiting", move |_| {
        let gate = own.clone();
        async move {
            gate.pass().await;
            Ok(())
        }
    });
    let registry = Registry::new().on_validate(test.selector(), waiting.timeout(30));
    let working = start(&test, registry, VALIDATING, 1).await;
    let asker = Asker::of(&configured(&test, VALIDATING, 1).await[0]);
    let mut stream = asker.connect().await;
    let body = review(&test, 1).to_string();
    let head = format!(
        "POST /validate/waiting?timeout=30s HTTP/1.1\r\nHost: hooks\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.expect("it is read");
    stream.write_all(body.as_bytes()).await.expect("it is read");
    test.line("is invoked").await;
    let stopped = tokio::spawn(working.stop());
    configured(&test, VALIDATING, 0).await;
    gate.open(1);
    let (code, answer) = answer(stream).await;
    assert_eq!(code, 200, "{answer}");
    stopped.await.expect("the operator ends");
}

async fn an_answer_that_is_read_slowly_is_complete_while_the_operator_ends(cluster: TestCluster) {
    let test = serve(cluster, "v1").await;
    let working = converting::start(&test, registry(&test)).await;
    let asker = Asker::of(&converted_by_webhook(&test).await["webhook"]);
    let size = 6_900_000;
    let (mut slow, mut spare) = (asker.connect().await, asker.connect().await);
    let request = conversion(&test, &"x".repeat(size), "close");
    slow.write_all(request.as_bytes()).await.expect("it is read");
    let mut answer = vec![0; 12];
    slow.read_exact(&mut answer).await.expect("the answer begins");
    let stopped = tokio::spawn(working.stop());
    // The end closes idle connections.
    let _ = spare.read_to_end(&mut Vec::new()).await;
    let _ = slow.read_to_end(&mut answer).await;
    assert!(answer.len() > size, "{}", answer.len());
    stopped.await.expect("the operator ends");
}

/// API servers repeat a request that is refused with `Retry-After`, and no request whose connection ends without an answer.
async fn requests_that_meet_the_end_of_their_connection_are_to_be_repeated(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_validate(test.selector(), denying());
    let working = start(&test, registry, VALIDATING, 1).await;
    let asker = Asker::of(&configured(&test, VALIDATING, 1).await[0]);
    let (mut used, spare) = (asker.connect().await, asker.connect().await);
    let body = review(&test, 1).to_string();
    let size = body.len();
    let head = "POST /validate/not-too-large?timeout=10s HTTP/1.1\r\nHost: hooks";
    let request = format!("{head}\r\nContent-Length: {size}\r\n\r\n{body}");
    is_answered(&mut used, &request).await;
    let stopped = tokio::spawn(working.stop());
    used.get_ref().0.readable().await.expect("the end is announced");
    used.write_all(request.as_bytes()).await.expect("it is still read");
    for mut stream in [used, spare] {
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("Retry-After"), "{answer:?}");
    }
    stopped.await.expect("the operator ends");
}
