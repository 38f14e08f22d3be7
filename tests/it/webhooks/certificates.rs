//! The certificates of webhooks: kept, shared, replaced, mended.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kopf_rs::{AdmissionServer, Registry, Settings};
use kopf_rs_tests::{TestCluster, scenarios};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

use super::client::Asker;
use super::endpoint::review;
use super::{VALIDATING, configured, denying, hooks, managed, object, refusal, settings};
use crate::operating::{TestOperator, Working};

scenarios! {
    certificates_are_replaced_while_reviews_continue [tcp real];
    instances_share_their_certificate [tcp];
    a_secret_that_others_spoil_is_repaired [tcp];
    certificates_in_files_are_read_again [tcp real];
    a_new_authority_in_files_is_published_before_it_is_served [tcp real];
    client_certificates_are_wanted_for_reviews [tcp real];
    client_authorities_are_read_again [tcp];
    the_api_server_reaches_each_address [tcp real];
}

/// The port that the operator tells.
async fn port(test: &TestOperator) -> u16 {
    let line = test.line("Admission webhooks are served at port").await;
    let tail = line.split("at port ").nth(1).expect("a port");
    let port = tail.split(',').next().expect("a port");
    port.parse().expect("a number")
}

fn registry(test: &TestOperator) -> Registry {
    Registry::new().on_validate(test.selector(), denying())
}

/// Create objects, all of which are to be refused by the handler, until `done` says so. How many.
async fn refused_until(test: &TestOperator, done: impl Fn() -> bool) -> usize {
    let (path, large) = object(test, "large", &json!({"size": 101}));
    let mut count = 0;
    while !done() {
        match test.cluster.request("POST", &path, Some(&large)).await {
            Err(kube::Error::Api(status)) if status.code == 422 => count += 1,
            other => panic!("review {count}: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    count
}

async fn certificates_are_replaced_while_reviews_continue(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let mut short = settings(&test);
    short.admission.certificate_life = Duration::from_secs(9);
    let mut registry = Registry::new();
    registry = registry.on_validate(test.selector(), denying().ignore_failures(false));
    let working = Working::start(&test.cluster, test.operator(registry).settings(short));
    configured(&test, VALIDATING, 1).await;
    refusal(&test, &json!({"size": 101})).await;
    let lines = test.cluster.lines();
    let served = |number: u32| {
        let line = format!("Certificate number {number} is served");
        lines.count(|it| it.contains(&line)) > 0
    };
    // Ten replacements where it is about the real thing, a few of them elsewhere.
    let last = if test.cluster.real().is_some() { 11 } else { 4 };
    let count = refused_until(&test, || served(last)).await;
    assert!(count > 30, "{count}");
    let bundle = configured(&test, VALIDATING, 1).await[0]["clientConfig"]["caBundle"].clone();
    let size = bundle.as_str().map_or(0, str::len);
    // An authority takes less than 1,100 letters.
    assert!(size < 3 * 1100, "{size}");
    working.stop().await;
}

/// Settings for a Service of the test's namespace.
fn through_service(test: &TestOperator) -> Settings {
    let mut settings = settings(test);
    let namespace = test.cluster.namespace();
    settings.admission.server = Some(AdmissionServer::service(namespace, "hooks"));
    settings.admission.listen = Some("127.0.0.1:0".to_owned());
    settings
}

/// Tell the server where the Service is.
async fn place(test: &TestOperator) {
    let port = port(test).await;
    let server = test.cluster.in_process().expect("the server is in the process");
    let at = ([127, 0, 0, 1], port).into();
    server.place_service(test.cluster.namespace(), "hooks", at);
}

async fn generations(test: &TestOperator) -> (Value, usize) {
    let secret = test.cluster.get("secrets", "tester-webhook").await;
    let data = secret.expect("the Secret is there")["data"].clone();
    let count = data.as_object().map_or(0, |it| it.keys().filter(|key| key.ends_with(".tls.crt")).count());
    (data, count)
}

async fn instances_share_their_certificate(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let start = || {
        let operator = test.operator(registry(&test)).settings(through_service(&test));
        Working::start(&test.cluster, operator)
    };
    let all = [start(), start(), start(), start(), start()];
    configured(&test, VALIDATING, 1).await;
    let lines = test.cluster.lines();
    let are_served = |count| lines.count(|it| it.contains("Admission webhooks are served at port")) == count;
    while !are_served(5) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(generations(&test).await.1, 1);
    let server = test.cluster.in_process().expect("the server is in the process");
    for line in lines.all().iter().filter(|it| it.contains("are served at port")) {
        let tail = line.split("at port ").nth(1).expect("a port");
        let port: u16 = tail.split(',').next().expect("a port").parse().expect("a number");
        server.place_service(test.cluster.namespace(), "hooks", ([127, 0, 0, 1], port).into());
        let refused = refusal(&test, &json!({"size": 101})).await;
        assert_eq!(refused["code"], 422, "{refused}");
    }
    let hook = configured(&test, VALIDATING, 1).await.remove(0);
    assert_eq!(hook["failurePolicy"], "Fail");
    assert_eq!(hook["clientConfig"]["service"]["path"], "/validate/not-too-large");
    for working in all {
        working.kill().await;
    }
    test.cluster.delete(VALIDATING, &managed(&test)).await;
}

async fn a_secret_that_others_spoil_is_repaired(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let operator = test.operator(registry(&test)).settings(through_service(&test));
    let working = Working::start(&test.cluster, operator);
    configured(&test, VALIDATING, 1).await;
    place(&test).await;
    refusal(&test, &json!({"size": 101})).await;
    let (good, _) = generations(&test).await;
    let is_good = |found: Option<&Value>| found.is_some_and(|it| it["data"] == good);
    let (cluster, name) = (&test.cluster, "tester-webhook");
    cluster.delete("secrets", name).await;
    cluster.until("it is back", "secrets", name, is_good).await;
    for spoiled in [
        json!({"1.tls.key": "anVuaw=="}),
        json!({"serving": "Nw=="}),
        json!({"1.json": null, "other": "anVuaw=="}),
    ] {
        cluster.patch("secrets", name, &json!({"data": spoiled})).await;
        cluster.until("it is mended", "secrets", name, is_good).await;
        let refused = refusal(&test, &json!({"size": 101})).await;
        assert_eq!(refused["code"], 422, "{refused}");
    }
    let made = test.cluster.lines().count(|it| it.contains("A certificate for admission webhooks is made"));
    assert_eq!(made, 1);
    working.stop().await;
}

fn write_pair(folder: &Path) {
    let key = KeyPair::generate().expect("a key");
    let names = ["localhost", "127.0.0.1"].map(str::to_owned);
    let params = CertificateParams::new(names.to_vec()).expect("names");
    let mut authority = CertificateParams::new(Vec::new()).expect("no names");
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().expect("a key");
    let root = authority.self_signed(&authority_key).expect("an authority").pem();
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let certificate = params.signed_by(&key, &issuer).expect("a certificate").pem();
    for (name, text) in [("ca.crt", root), ("tls.crt", certificate), ("tls.key", key.serialize_pem())] {
        std::fs::write(folder.join(name), text).expect("a file can be written");
    }
}

fn settings_for_files(test: &TestOperator, folder: &Path) -> Settings {
    let mut settings = settings(test);
    let file = |name: &str| Some(folder.join(name).to_string_lossy().into_owned());
    settings.admission.certificate_file = file("tls.crt");
    settings.admission.key_file = file("tls.key");
    settings.admission.authority_file = file("ca.crt");
    settings
}

async fn certificates_in_files_are_read_again(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let folder = std::env::temp_dir().join(test.cluster.namespace());
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    write_pair(&folder);
    let from_files = settings_for_files(&test, &folder);
    let working = Working::start(&test.cluster, test.operator(registry(&test)).settings(from_files));
    let before = configured(&test, VALIDATING, 1).await;
    refusal(&test, &json!({"size": 101})).await;
    std::fs::write(folder.join("tls.key"), "junk").expect("a file can be written");
    test.line("cannot be read again").await;
    refusal(&test, &json!({"size": 101})).await;
    write_pair(&folder);
    let is_other =
        |found: Option<&Value>| found.is_some_and(|it| !hooks(it).is_empty() && hooks(it) != before);
    let name = managed(&test);
    let until = test.cluster.until("another authority is told", VALIDATING, &name, is_other);
    until.await;
    refusal(&test, &json!({"size": 101})).await;
    working.stop().await;
    std::fs::remove_dir_all(folder).expect("the folder can be removed");
}

async fn the_api_server_reaches_each_address(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    for (host, listen) in [("127.0.0.1", "127.0.0.1:0"), ("::1", "[::1]:0"), ("localhost", "127.0.0.1:0")] {
        let mut at = settings(&test);
        at.admission.server = Some(AdmissionServer::Host(host.to_owned()));
        at.admission.listen = Some(listen.to_owned());
        let working = Working::start(&test.cluster, test.operator(registry(&test)).settings(at));
        configured(&test, VALIDATING, 1).await;
        let refused = refusal(&test, &json!({"size": 101})).await;
        assert_eq!(refused["code"], 422, "{host}: {refused}");
        working.stop().await;
        configured(&test, VALIDATING, 0).await;
    }
}

async fn a_new_authority_in_files_is_published_before_it_is_served(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let folder = std::env::temp_dir().join(test.cluster.namespace());
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    write_pair(&folder);
    let mut from_files = settings_for_files(&test, &folder);
    from_files.admission.propagation = Duration::from_secs(2);
    let refusing = denying().ignore_failures(false);
    let registry = Registry::new().on_validate(test.selector(), refusing);
    let working = Working::start(&test.cluster, test.operator(registry).settings(from_files));
    configured(&test, VALIDATING, 1).await;
    refusal(&test, &json!({"size": 101})).await;
    write_pair(&folder);
    let lines = test.cluster.lines();
    let is_served = || lines.count(|it| it.contains("Certificate number 1 is served")) > 0;
    refused_until(&test, is_served).await;
    let served = tokio::time::Instant::now();
    refused_until(&test, || served.elapsed() > Duration::from_secs(2)).await;
    // Whoever reads the files later is trusted, too.
    let hook = configured(&test, VALIDATING, 1).await.remove(0);
    let bundle = hook["clientConfig"]["caBundle"].as_str().expect("a bundle");
    let bundle = STANDARD.decode(bundle).expect("base64");
    let bundle = String::from_utf8_lossy(&bundle);
    assert_eq!(bundle.matches("BEGIN CERTIFICATE").count(), 2, "{bundle}");
    working.stop().await;
    std::fs::remove_dir_all(folder).expect("the folder can be removed");
}

/// An authority, and a certificate of it with its key, for somebody who asks.
pub(super) fn client_pair() -> [String; 3] {
    let key = KeyPair::generate().expect("a key");
    let mut authority = CertificateParams::new(Vec::new()).expect("no names");
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().expect("a key");
    let root = authority.self_signed(&authority_key);
    let root = root.expect("an authority").pem();
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let mut params = CertificateParams::new(vec!["asker".to_owned()]).expect("a name");
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = params.signed_by(&key, &issuer).expect("a certificate");
    [root, certificate.pem(), key.serialize_pem()]
}

/// An operator that wants to see certificates of the authority in this file.
pub(super) fn start_demanding(test: &TestOperator, file: &Path, registry: Registry) -> Working {
    let mut demanding = settings(test);
    demanding.admission.client_authority_file = Some(file.to_string_lossy().into_owned());
    let refusing = denying().ignore_failures(false);
    let registry = registry.on_validate(test.selector(), refusing);
    Working::start(&test.cluster, test.operator(registry).settings(demanding))
}

async fn client_certificates_are_wanted_for_reviews(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let file = std::env::temp_dir().join(format!("{}.crt", test.cluster.namespace()));
    let [root, certificate, key] = client_pair();
    std::fs::write(&file, root).expect("a file can be written");
    let working = start_demanding(&test, &file, Registry::new());
    let hook = configured(&test, VALIDATING, 1).await.remove(0);
    let refused = refusal(&test, &json!({"size": 1})).await;
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(message.contains("this webhook wants the API server to show a client certificate"), "{refused}");
    let body = review(&test, 1).to_string();
    let asker = Asker::showing(&hook, &certificate, &key);
    assert_eq!(asker.code(body.as_bytes()).await, Some(200));
    let [_, certificate, key] = client_pair();
    let stranger = Asker::showing(&hook, &certificate, &key);
    assert_eq!(stranger.code(body.as_bytes()).await, None);
    working.stop().await;
    std::fs::remove_file(file).expect("the file can be removed");
}

async fn client_authorities_are_read_again(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let file = std::env::temp_dir().join(format!("{}.crt", test.cluster.namespace()));
    let [root, certificate, key] = client_pair();
    std::fs::write(&file, client_pair()[0].as_str()).expect("a file can be written");
    let working = start_demanding(&test, &file, Registry::new());
    let hook = configured(&test, VALIDATING, 1).await.remove(0);
    let asker = Asker::showing(&hook, &certificate, &key);
    let body = review(&test, 1).to_string();
    assert_eq!(asker.code(body.as_bytes()).await, None);
    std::fs::write(&file, "junk").expect("a file can be written");
    test.line("cannot be read again").await;
    std::fs::write(&file, root).expect("a file can be written");
    let accepted = async {
        while asker.code(body.as_bytes()).await != Some(200) {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let patience = test.cluster.server().patience();
    let accepted = tokio::time::timeout(patience, accepted).await;
    accepted.expect("the file is read again");
    working.stop().await;
    std::fs::remove_file(file).expect("the file can be removed");
}
