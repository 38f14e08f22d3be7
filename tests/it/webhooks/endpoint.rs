//! The endpoint itself: what strangers send it, and who waits for them.

use std::time::Duration;

use kopf_rs::{Registry, handler};
use kopf_rs_tests::{TestCluster, scenarios};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::client::{Asker, answer};
use super::{VALIDATING, configured, denying, start};
use crate::operating::{Gate, TestOperator};

scenarios! {
    bad_requests_have_their_codes [tcp];
    strangers_keep_nobody_from_being_answered [tcp];
    a_connection_that_rests_is_kept [tcp];
    what_was_asked_is_answered_while_the_operator_ends [tcp];
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
        ("POST", "/validate/other", "", good(1), 404),
        ("POST", "/", "", good(1), 404),
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

async fn strangers_keep_nobody_from_being_answered(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_validate(test.selector(), denying());
    let working = start(&test, registry, VALIDATING, 1).await;
    let asker = Asker::of(&configured(&test, VALIDATING, 1).await[0]);
    let mut silent = Vec::new();
    for number in 0..300 {
        let mut stream = asker.dial().await;
        match number % 3 {
            0 => {}
            1 => stream
                .write_all(b"GET / HTTP/1.1\r\n\r\n")
                .await
                .expect("garbage is read"),
            // The begin of a handshake.
            _ => stream
                .write_all(&[22, 3, 1, 2, 0, 1])
                .await
                .expect("a begin is read"),
        }
        silent.push(stream);
    }
    let mut half = asker.connect().await;
    half.write_all(b"POST /validate/not-too-large HTTP/1.1\r\nHost:")
        .await
        .expect("it is read");
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

async fn a_connection_that_rests_is_kept(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let registry = Registry::new().on_validate(test.selector(), denying());
    let working = start(&test, registry, VALIDATING, 1).await;
    let asker = Asker::of(&configured(&test, VALIDATING, 1).await[0]);
    let mut stream = asker.connect().await;
    let body = review(&test, 1).to_string();
    // API servers keep connections for 90 seconds.
    for pause in [0, 91, 0] {
        tokio::time::sleep(Duration::from_secs(pause)).await;
        let head = format!(
            "POST /validate/not-too-large?timeout=10s HTTP/1.1\r\nHost: hooks\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream
            .write_all(head.as_bytes())
            .await
            .expect("the connection is there");
        stream
            .write_all(body.as_bytes())
            .await
            .expect("the connection is there");
        let mut piece = [0; 4096];
        let size = stream.read(&mut piece).await.expect("an answer");
        assert!(
            piece[..size].starts_with(b"HTTP/1.1 200"),
            "after {pause} s"
        );
    }
    working.stop().await;
}

async fn what_was_asked_is_answered_while_the_operator_ends(cluster: TestCluster) {
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
