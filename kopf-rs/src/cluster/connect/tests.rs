use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::Origin;
use super::place::{Place, Surroundings, find};
use super::*;
use crate::cluster::fake::{Answer, Fake};

const TWO_CONTEXTS: &str = "
apiVersion: v1
kind: Config
current-context: dev
contexts:
- {name: dev, context: {cluster: c, user: u, namespace: team}}
- {name: prod, context: {cluster: c, user: u}}
clusters:
- {name: c, cluster: {server: 'http://127.0.0.1:1'}}
users:
- {name: u, user: {}}
";

/// A temporary folder of one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("kopf-rs-{}-{name}", std::process::id()));
        std::fs::create_dir_all(path.join(".kube")).unwrap();
        Self(path)
    }
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn flag(path: &Path) -> ConnectOptions {
    ConnectOptions { kubeconfig: Some(path.to_owned()), ..ConnectOptions::default() }
}

async fn refusal(options: ConnectOptions) -> String {
    match connect(&options).await {
        Ok(_) => panic!("connected"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_places_are_tried_in_order() {
    let folder = Folder::new("order");
    let here = folder.write("here", TWO_CONTEXTS);
    let default = folder.write(".kube/config", TWO_CONTEXTS);
    let mut around = Surroundings {
        kubeconfig: Some(std::env::join_paths([&here, &folder.0.join("missing")]).unwrap()),
        home: Some(folder.0.clone()),
        pod: true,
    };
    let none = ConnectOptions::default();
    let place = |path: &PathBuf, origin| Place::Files(vec![path.clone()], origin);
    assert_eq!(find(&flag(&default), &around).unwrap(), place(&default, Origin::Flag));
    assert_eq!(find(&none, &around).unwrap(), place(&here, Origin::Environment));
    around.kubeconfig = Some("".into());
    assert_eq!(find(&none, &around).unwrap(), place(&default, Origin::Home));
    std::fs::remove_file(&default).unwrap();
    assert_eq!(find(&none, &around).unwrap(), Place::Pod);
    around.pod = false;
    let words = find(&none, &around).unwrap_err().to_string();
    for part in ["$KUBECONFIG is not set", ".kube/config is not there", "--kubeconfig", "--embedded"] {
        assert!(words.contains(part), "{words}");
    }
}

#[tokio::test]
async fn a_missing_or_broken_file_is_named() {
    let folder = Folder::new("broken");
    let missing = folder.0.join("missing");
    assert_eq!(
        refusal(flag(&missing)).await,
        format!("kubeconfig {} (from --kubeconfig) cannot be read: there is no such file", missing.display())
    );
    let broken = folder.write("broken", "contexts: [\n  - {name: ");
    let words = refusal(flag(&broken)).await;
    assert!(words.contains("broken (from --kubeconfig) is not valid"), "{words}");
}

#[tokio::test]
async fn a_missing_context_is_reported_with_the_existing_ones() {
    let folder = Folder::new("context");
    let path = folder.write("config", TWO_CONTEXTS);
    let mut options = flag(&path);
    options.context = Some("stage".into());
    assert_eq!(
        refusal(options).await,
        format!(
            "context \"stage\" is not in kubeconfig {}, which has \"dev\", \"prod\"; choose one of them with --context",
            path.display()
        )
    );
    let path = folder.write("config", &TWO_CONTEXTS.replace("current-context: dev", ""));
    let words = refusal(flag(&path)).await;
    assert!(words.ends_with("has no current-context, but \"dev\", \"prod\"; choose one with --context"));
}

#[tokio::test]
async fn a_file_without_contexts_is_no_kubeconfig() {
    let folder = Folder::new("none");
    for (text, told) in [
        ("apiVersion: v1\nkind: ConfigMap\n", "is not valid: expected `apiVersion: v1` and `kind: Config`"),
        ("kind: Config\n", "crd.yaml has no contexts: is it a kubeconfig?"),
        ("", "crd.yaml has no contexts: is it a kubeconfig?"),
    ] {
        let words = refusal(flag(&folder.write("crd.yaml", text))).await;
        assert!(words.contains(told), "{words}");
    }
}

#[tokio::test]
async fn a_kubeconfig_makes_a_client_with_its_namespace() {
    let folder = Folder::new("client");
    let path = folder.write("config", TWO_CONTEXTS);
    let client = connect(&flag(&path)).await.unwrap().client;
    assert_eq!(client.default_namespace(), "team");
    let words = Cluster::new(client).check().await.unwrap_err().to_string();
    assert!(words.starts_with("unreachable: http://127.0.0.1:1: "), "{words}");
    assert!(words.ends_with("(nothing listens there: is the cluster running?)"), "{words}");
}

#[tokio::test(start_paused = true)]
async fn the_check_distinguishes_refusals_and_other_servers() {
    for (answer, expected) in [
        (Answer::new(200, r#"{"gitVersion":"v1.36.3"}"#), "v1.36.3"),
        (
            Answer::refusal(401, "Unauthorized"),
            "unauthorized: Unauthorized (the server does not know these credentials: are those in the kubeconfig right, and not expired?)",
        ),
        (
            Answer::refusal(404, "page not found"),
            "invalid: there is no /version: no Kubernetes API server is there; check the server in the kubeconfig",
        ),
        (
            Answer::new(200, "<html>hello</html>"),
            "unreachable: the reply is not an object, but begins with \"<html>hello</html>\" (does a proxy or another server answer at the address of the API server?)",
        ),
        (
            Answer::new(200, "{}"),
            "invalid: the answer to /version is not a Kubernetes API server's: check the server in the kubeconfig",
        ),
    ] {
        let fake = Fake::new([answer]);
        let words = fake.cluster().check().await.unwrap_or_else(|error| error.to_string());
        assert_eq!(words, expected);
    }
}

/// Runs a proxy that answers one request itself, and returns the request.
async fn proxy_for_one(listener: tokio::net::TcpListener, answer: &'static str) -> String {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let (stream, _) = listener.accept().await.unwrap();
    let mut stream = BufReader::new(stream);
    let mut asked = String::new();
    while !asked.ends_with("\r\n\r\n") {
        stream.read_line(&mut asked).await.unwrap();
    }
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{answer}", answer.len());
    stream.write_all(answer.as_bytes()).await.unwrap();
    asked
}

fn through(proxy: &str) -> String {
    let server = "server: 'http://127.0.0.1:1'";
    TWO_CONTEXTS.replace(server, &format!("server: 'http://cluster.invalid:6443', proxy-url: '{proxy}'"))
}

#[tokio::test]
async fn a_proxy_is_asked_for_requests_to_a_server_without_tls() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let proxy = tokio::spawn(proxy_for_one(listener, r#"{"gitVersion": "v1.36.3"}"#));
    let folder = Folder::new("proxy");
    let path = folder.write("c", &through(&format!("http://me:secret@127.0.0.1:{port}")));
    let cluster = Cluster::new(connect(&flag(&path)).await.unwrap().client);
    assert_eq!(cluster.check().await.unwrap(), "v1.36.3");
    let asked = proxy.await.unwrap();
    assert!(asked.starts_with("GET http://cluster.invalid:6443/version "), "{asked}");
    assert!(asked.to_lowercase().contains("proxy-authorization: basic bwu6c2vjcmv0"), "{asked}");
}

#[tokio::test]
async fn a_proxy_that_is_not_there_is_named() {
    let folder = Folder::new("no-proxy");
    let path = folder.write("c", &through("http://127.0.0.1:1"));
    let cluster = Cluster::new(connect(&flag(&path)).await.unwrap().client);
    let error = cluster.check().await.unwrap_err().to_string();
    assert!(error.contains("http://cluster.invalid:6443 (through the proxy http://127.0.0.1:1/)"), "{error}");
}

#[tokio::test]
async fn a_proxy_of_another_sort_is_refused() {
    let folder = Folder::new("socks");
    let path = folder.write("c", &through("socks4://me:secret@127.0.0.1:1"));
    let error = refusal(flag(&path)).await;
    assert!(error.contains("`proxy-url`: its scheme is \"socks4\"; expected http://HOST:PORT"), "{error}");
    assert!(!error.contains("secret"), "{error}");
}

/// Creates a self-signed certificate for 127.0.0.1 and its key, in PEM.
fn certificate() -> (String, String) {
    let mut wanted = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    wanted.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let made = wanted.self_signed(&key).unwrap();
    (made.pem(), key.serialize_pem())
}

/// Runs a server that accepts one token and answers this many requests over TLS. Returns the number of refused requests.
async fn knowing(
    listener: tokio::net::TcpListener,
    (certificate, key): (String, String),
    token: &'static str,
    answers: usize,
) -> usize {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider);
    let tls = tls.with_safe_default_protocol_versions().unwrap();
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let tls = tls.with_no_client_auth().with_single_cert(chain, key);
    let tls = tokio_rustls::TlsAcceptor::from(Arc::new(tls.unwrap()));
    let mut refused = 0;
    for _ in 0..answers {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = BufReader::new(tls.accept(stream).await.unwrap());
        let mut asked = String::new();
        while !asked.ends_with("\r\n\r\n") {
            stream.read_line(&mut asked).await.unwrap();
        }
        let is_known = asked.contains(&format!("authorization: Bearer {token}\r\n"));
        refused += usize::from(!is_known);
        let (code, text) = if is_known {
            ("200 OK", r#"{"gitVersion": "v1.36.3"}"#)
        } else {
            ("401 Unauthorized", r#"{"message": "Unauthorized"}"#)
        };
        let answer =
            format!("HTTP/1.1 {code}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{text}", text.len());
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
    }
    refused
}

/// Returns a kubeconfig for a server with this certificate.
fn with_user(port: u16, certificate: &str, user: &str) -> String {
    use base64::Engine as _;
    let data = base64::engine::general_purpose::STANDARD.encode(certificate);
    let server = format!("'https://127.0.0.1:{port}', certificate-authority-data: {data}");
    let text = TWO_CONTEXTS.replace("'http://127.0.0.1:1'", &server);
    text.replace("user: {}", &format!("user: {{{user}}}"))
}

#[tokio::test]
async fn a_refused_token_without_a_replacement_is_an_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let folder = Folder::new("renewed");
    let keys = certificate();
    let path = folder.write("config", &with_user(port, &keys.0, "token: first"));
    let cluster = Cluster::new(connect(&flag(&path)).await.unwrap().client);
    let server = tokio::spawn(knowing(listener, keys, "second", 1));
    let same = cluster.check().await.unwrap_err().to_string();
    assert!(same.starts_with("unauthorized: Unauthorized"), "{same}");
    assert_eq!(server.await.unwrap(), 1, "nothing is sent again");
}

#[tokio::test]
async fn a_refused_request_is_resent_with_the_current_kubeconfig() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let folder = Folder::new("renewed-once");
    let keys = certificate();
    let path = folder.write("config", &with_user(port, &keys.0, "token: first"));
    let cluster = Cluster::new(connect(&flag(&path)).await.unwrap().client);
    folder.write("config", &with_user(port, &keys.0, "token: second"));
    let server = tokio::spawn(knowing(listener, keys, "second", 3));
    for _ in 0..2 {
        assert_eq!(cluster.check().await.unwrap(), "v1.36.3");
    }
    assert_eq!(server.await.unwrap(), 1, "and not each time");
}

#[tokio::test]
async fn a_token_in_a_file_wins_and_loses_its_line_break() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let folder = Folder::new("token-file");
    let keys = certificate();
    folder.write("token", "first\n");
    // The inline token counts only if the file cannot be read.
    let user = "tokenFile: token, token: ignored";
    let path = folder.write("config", &with_user(port, &keys.0, user));
    let cluster = Cluster::new(connect(&flag(&path)).await.unwrap().client);
    let server = tokio::spawn(knowing(listener, keys, "first", 1));
    assert_eq!(cluster.check().await.unwrap(), "v1.36.3");
    assert_eq!(server.await.unwrap(), 0);
}

/// Starts a server with its own authority at this address, which accepts the token `known`.
async fn serving(port: u16) -> kopf_rs_apiserver::Listening {
    let server = kopf_rs_apiserver::ApiServer::new();
    let user = kopf_rs_apiserver::User::new("known").group("system:masters");
    server.add_user("known", user);
    let listening = server.listen(([127, 0, 0, 1], port).into()).await;
    listening.expect("the port is free")
}

#[tokio::test]
async fn authorities_may_be_replaced_while_the_operator_runs() {
    for is_inline in [false, true] {
        let folder = Folder::new(&format!("authority-{is_inline}"));
        let write = |listening: &kopf_rs_apiserver::Listening| {
            let authority = folder.write("ca.crt", listening.authority_pem());
            let inline = listening.kubeconfig();
            let token = inline.replace(listening.token(), "known");
            let mut lines: Vec<String> = token.lines().map(str::to_owned).collect();
            let data = "    certificate-authority-data:";
            for line in lines.iter_mut().filter(|it| it.starts_with(data)) {
                if !is_inline {
                    *line = format!("    certificate-authority: {}", authority.display());
                }
            }
            folder.write("config", &lines.join("\n"))
        };
        let first = serving(0).await;
        let port = first.addr().port();
        let cluster = Cluster::new(connect(&flag(&write(&first))).await.unwrap().client);
        cluster.check().await.unwrap();
        first.shutdown().await;
        let second = serving(port).await;
        let unknown = cluster.check().await.unwrap_err().to_string();
        assert!(unknown.contains("invalid peer certificate"), "{unknown}");
        write(&second);
        tokio::time::pause();
        tokio::time::advance(renewal::PAUSE).await;
        tokio::time::resume();
        let told = cluster.check().await;
        assert!(told.is_ok(), "inline: {is_inline}, {told:?}");
        second.shutdown().await;
    }
}

#[tokio::test]
async fn replaced_client_certificates_are_others() {
    let folder = Folder::new("client-certificates");
    let user = "client-certificate: c.crt, client-key: c.key";
    let (server, _) = certificate();
    let options = flag(&folder.write("config", &with_user(1, &server, user)));
    let replace = || {
        let (certificate, key) = certificate();
        folder.write("c.crt", &certificate);
        folder.write("c.key", &key);
    };
    let digest = || configured(&options).unwrap().access.digest();
    replace();
    let first = digest();
    assert_eq!(first, digest());
    replace();
    assert_ne!(first, digest());
    let (_, other) = certificate();
    folder.write("c.key", &other);
    let words = configured(&options).err().unwrap().to_string();
    let told = "user \"u\": the client key is not the one of the client certificate";
    assert!(words.contains(told), "{words}");
}

#[test]
fn a_service_account_is_read_from_its_pod() {
    let variable = |host: &'static str, port: &'static str| {
        move |name: &str| {
            let value = match name {
                "KUBERNETES_SERVICE_HOST" => host,
                _ => port,
            };
            Some(value.to_owned())
        }
    };
    let told = |host, port| access_in_pod(variable(host, port), None).err().unwrap();
    assert!(told("", "443").starts_with("$KUBERNETES_SERVICE_HOST is not set"));
    assert!(told("10.0.0.1", "x").contains("make no URL"));
    assert!(told("fd00::1", "443").contains("token cannot be read"));
}

#[tokio::test]
async fn passwords_in_urls_are_not_printed() {
    let folder = Folder::new("password");
    let url = "http://me:my-secret@127.0.0.1:1";
    let path = folder.write("config", &TWO_CONTEXTS.replace("http://127.0.0.1:1", url));
    let connection = connect(&flag(&path)).await.unwrap();
    assert!(!connection.server.contains("secret"), "{}", connection.server);
    let cluster = Cluster::new(connection.client);
    let error = cluster.check().await.unwrap_err().to_string();
    assert!(error.contains("http://127.0.0.1:1"), "{error}");
    assert!(!error.contains("secret"), "{error}");
    let info = crate::cluster::credentials::ConnectionInfo::new(url);
    let shown = format!("{info:?}");
    assert!(shown.contains("http://127.0.0.1:1"), "{shown}");
    assert!(!shown.contains("secret"), "{shown}");
}

fn with_plugin(folder: &Folder, script: &str, more: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let plugin = folder.write("plugin", &format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(&plugin, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (certificate, _) = certificate();
    let version = "apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never";
    with_user(1, &certificate, &format!("exec: {{{version}, {more}}}"))
}

#[tokio::test]
async fn a_failing_plugin_is_named_with_the_remedy_but_without_its_output() {
    let answer = |status: &str| {
        format!(
            r#"echo '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{{status}}}}}'"#
        )
    };
    for (script, more, told) in [
        (
            "",
            "command: no-such-plugin, installHint: \"run\\n\\eapt\"",
            "the credential plugin \"no-such-plugin\" is not installed, or not in $PATH; the kubeconfig says how to install it: run apt",
        ),
        ("", "command: ./absent", "/absent\" is not installed, or not in $PATH; install it"),
        (
            "echo my-secret; exit 3",
            "command: ./plugin",
            "gives no credentials: it has ended with exit status: 3",
        ),
        ("echo my-secret", "command: ./plugin", "it has not printed an ExecCredential"),
        (&answer(r#""token":"my-secret\\n""#), "command: ./plugin", "the token has a line break"),
        (&answer(r#""clientKeyData":"my-secret""#), "command: ./plugin", "or a key alone"),
        (&answer(""), "command: ./plugin", "neither a token nor a client certificate"),
    ] {
        let folder = Folder::new("plugin");
        let path = folder.write("config", &with_plugin(&folder, script, more));
        let words = refusal(flag(&path)).await;
        assert!(words.contains(told), "{told}: {words}");
        assert!(words.contains("kubeconfig ") && !words.contains("secret"), "{words}");
    }
}

#[tokio::test]
async fn a_plugin_is_run_again_once_its_token_has_expired() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let folder = Folder::new("plugin-expired");
    let script = r#"echo x >> "$COUNT"
echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"expirationTimestamp":"2001-01-01T00:00:00Z","token":"'$(grep -c x "$COUNT")'"}}'"#;
    let count = folder.0.join("count");
    let more = format!("command: ./plugin, env: [{{name: COUNT, value: '{}'}}]", count.display());
    let keys = certificate();
    let text = with_plugin(&folder, script, &more);
    let user = text.lines().find(|it| it.contains("exec:")).unwrap();
    let whole = with_user(port, &keys.0, "");
    let whole = whole.lines().map(|it| if it.contains("user: {}") { user } else { it });
    let path = folder.write("config", &whole.collect::<Vec<_>>().join("\n"));
    let cluster = Cluster::new(connect(&flag(&path)).await.unwrap().client);
    let server = tokio::spawn(knowing(listener, keys, "2", 1));
    assert_eq!(cluster.check().await.unwrap(), "v1.36.3");
    assert_eq!(server.await.unwrap(), 0);
}
