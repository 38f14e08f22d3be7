//! A webhook for tests: HTTPS on a free port, with an answer for each path.
//!
//! Paths such as `/allow` and `/deny` give the answer in their name; `/echo` denies with the request as its message, so that a comparison of the
//! answers compares the requests of two servers. `/convert` converts custom resources. Must not know servers.

mod convert;

use std::convert::Infallible;
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A webhook that runs for as long as the process.
#[derive(Debug, Clone)]
pub struct Webhook {
    url: String,
    authority: String,
}

impl Webhook {
    /// Returns the webhook that all tests of this process share.
    ///
    /// # Panics
    ///
    /// Panics if no port or certificate is available.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Webhook> = OnceLock::new();
        SHARED.get_or_init(|| {
            let (sender, receiver) = std::sync::mpsc::channel();
            // It needs a separate thread, because the runtime of a test ends with the test.
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a runtime can be built");
                runtime.block_on(serve(&sender));
            });
            receiver.recv().expect("the webhook starts")
        })
    }

    /// Returns its URL without a path.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the certificate authority for a `caBundle`.
    #[must_use]
    pub fn authority(&self) -> &str {
        &self.authority
    }
}

async fn serve(started: &std::sync::mpsc::Sender<Webhook>) {
    let (config, authority) = identity().expect("certificates can be made");
    let listener = TcpListener::bind(("127.0.0.1", 0))
        .await
        .expect("a free port can be listened on");
    let address = listener.local_addr().expect("it has an address");
    let webhook = Webhook {
        url: format!("https://{address}"),
        authority: STANDARD.encode(authority),
    };
    started.send(webhook).expect("somebody waits for it");
    let tls = TlsAcceptor::from(Arc::new(config));
    while let Ok((stream, _)) = listener.accept().await {
        let tls = tls.clone();
        tokio::spawn(async move {
            if let Ok(stream) = tls.accept(stream).await {
                let served = http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service_fn(answer));
                // Ignore errors here: the client reports them.
                let _ended = served.await;
            }
        });
    }
}

fn identity() -> Result<(rustls::ServerConfig, String), Box<dyn std::error::Error>> {
    let mut root = CertificateParams::new(Vec::new())?;
    root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root_key = KeyPair::generate()?;
    let authority = root.self_signed(&root_key)?.pem();
    let issuer = Issuer::new(root, root_key);
    let names = ["127.0.0.1", "localhost", "hook.default.svc"].map(str::to_owned);
    let leaf_key = KeyPair::generate()?;
    let certificate = CertificateParams::new(names.to_vec())?.signed_by(&leaf_key, &issuer)?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(leaf_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    Ok((config, authority))
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let asked = request.into_body().collect().await;
    let asked = asked
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    let review: Value = serde_json::from_slice(&asked).unwrap_or_default();
    let (code, text) = match path.as_str() {
        "/500" | "/500-in-words" => (500, "kaboom".to_owned()),
        "/404" => (404, "nope".to_owned()),
        "/nojson" => (200, "7".to_owned()),
        "/never" => std::future::pending().await,
        "/convert" => match convert::answer(&review) {
            Some(answer) => answer,
            None => std::future::pending().await,
        },
        path => (200, said(path, &review["request"]).to_string()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    let kind = if path.ends_with("in-words") {
        "text/plain"
    } else {
        "application/json"
    };
    response.headers_mut().insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static(kind),
    );
    Ok(response)
}

/// Returns the review that answers a request.
fn said(place: &str, request: &Value) -> Value {
    let mut response = json!({"uid": request["uid"], "allowed": true});
    let mut patch = |operations: Value| {
        let encoded = STANDARD.encode(operations.to_string());
        response["patch"] = encoded.into();
        response["patchType"] = "JSONPatch".into();
    };
    match place {
        "/label" => {
            patch(json!([{"op": "add", "path": "/metadata/labels/hooked", "value": "yes"}]));
        }
        "/data" => patch(json!([{"op": "add", "path": "/data/hooked", "value": "yes"}])),
        "/count" => {
            let so_far = request["object"]["data"]["count"].as_str();
            let count = format!("{}i", so_far.unwrap_or_default());
            patch(json!([{"op": "add", "path": "/data/count", "value": count}]));
        }
        "/misfit" => patch(json!([{"op": "replace", "path": "/data", "value": 7}])),
        "/untested" => patch(json!([{"op": "test", "path": "/data/none", "value": "x"}])),
        "/untyped" => {
            patch(json!([]));
            response["patchType"] = Value::Null;
        }
        _ => {}
    }
    let denied = match place {
        "/deny" => json!({"message": "no such thing", "code": 418, "reason": "Teapot"}),
        "/plain" => json!({}),
        "/reason" => json!({"reason": "because"}),
        "/details" => {
            let causes = json!([{"field": "a", "message": "b"}]);
            json!({"message": "m", "reason": "Invalid", "code": 422, "details": {"causes": causes}})
        }
        "/echo" => json!({"message": echo(request)}),
        _ => Value::Null,
    };
    if !denied.is_null() {
        response["allowed"] = false.into();
        response["status"] = denied;
    }
    match place {
        "/warn" => {
            response["warnings"] = json!(["one", "two \"x\""]);
            response["auditAnnotations"] = json!({"k": "v"});
        }
        "/uid" => response["uid"] = "other".into(),
        "/absent" => response = Value::Null,
        _ => {}
    }
    let version = if place == "/old" { "v1beta1" } else { "v1" };
    if place == "/bare" {
        return json!({"response": response});
    }
    json!({"apiVersion": format!("admission.k8s.io/{version}"), "kind": "AdmissionReview", "response": response})
}

/// Returns a request without server-generated values and with sorted keys.
fn echo(request: &Value) -> String {
    let mut request = request.clone();
    request["uid"] = Value::Null;
    for part in ["object", "oldObject"] {
        if let Some(Value::Object(meta)) = request.pointer_mut(&format!("/{part}/metadata")) {
            meta.remove("managedFields");
            meta.remove("resourceVersion");
        }
    }
    sorted(&request).to_string()
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sorted).collect(),
        Value::Object(map) => {
            let ordered: std::collections::BTreeMap<&String, Value> = map
                .iter()
                .map(|(key, value)| (key, sorted(value)))
                .collect();
            ordered
                .into_iter()
                .map(|(key, value)| (key.clone(), value))
                .collect()
        }
        other => other.clone(),
    }
}
