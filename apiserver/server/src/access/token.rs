//! The tokens of service accounts: signed for an audience and a lifetime, and optionally bound to an object.
//!
//! Guarantees that a token is valid only as long as its service account, its bound objects and its lifetime last. The server stores no
//! tokens; it verifies their signature. Must not depend on requests.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use rcgen::{KeyPair, PKCS_ED25519, SigningKey as _};
use serde_json::{Value, json};
use uuid::Uuid;

use super::rule::quoted;
use super::user::User;
use crate::object::{Body, at_path, meta_text, metadata, text};
use crate::store::{Store, key};

/// The issuer of tokens, and their default audience.
pub(crate) const AUDIENCE: &str = "https://kubernetes.default.svc";

/// The signature algorithm.
pub(crate) const ALGORITHM: &str = "EdDSA";

/// The key ID in signed tokens.
const KEY_NAME: &str = "kopf-rs-apiserver";

/// The time for which an expired token is still accepted, because clocks differ.
const LEEWAY: SignedDuration = SignedDuration::from_secs(60);

/// The key that signs tokens.
#[derive(Debug)]
pub(crate) struct Signer {
    key: KeyPair,
}

/// The claims of a new token.
#[derive(Clone, Debug)]
pub(crate) struct Grant<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) account: &'a Body,
    pub(crate) audiences: &'a [String],
    pub(crate) seconds: i64,
    /// The objects to which the token is bound: `pod`, `secret` or `node`, with names and uids.
    pub(crate) bound: Vec<(&'static str, Value)>,
}

/// The user of a valid token, and those of the requested audiences for which it is valid.
#[derive(Clone, Debug)]
pub(crate) struct Bearer {
    pub(crate) user: User,
    pub(crate) audiences: Vec<String>,
}

/// The reason why a token is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadToken {
    #[error("invalid bearer token")]
    Unknown,
    #[error("[invalid bearer token, {0}]")]
    Because(String),
}

// === impl Signer ===

impl Signer {
    fn new() -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate_for(&PKCS_ED25519)?;
        Ok(Self { key })
    }

    fn from_pem(key: &str) -> Result<Self, rcgen::Error> {
        let key = KeyPair::from_pem(key)?;
        Ok(Self { key })
    }

    fn sign(&self, content: &str) -> Result<String, rcgen::Error> {
        let signature = self.key.sign(content.as_bytes())?;
        Ok(URL_SAFE_NO_PAD.encode(signature))
    }

    /// Verifies a signature by signing again, since Ed25519 signatures are deterministic.
    fn made(&self, content: &str, signature: &str) -> bool {
        self.sign(content).is_ok_and(|own| own == signature)
    }
}

impl BadToken {
    fn because(why: impl Into<String>) -> Self {
        Self::Because(why.into())
    }
}

/// Returns a new signing key, as PEM.
pub(crate) fn new_key() -> Result<String, rcgen::Error> {
    Ok(Signer::new()?.key.serialize_pem())
}

impl super::Access {
    /// Sets the key that signs tokens.
    pub(crate) fn sign_with(&mut self, key: &str) -> Result<(), rcgen::Error> {
        self.signer = Some(Signer::from_pem(key)?);
        Ok(())
    }
}

/// Issues a token.
pub(crate) fn issue(store: &mut Store, grant: Grant<'_>) -> Result<String, rcgen::Error> {
    let now = store.clock.unix_seconds();
    let name = meta_text(grant.account, "name");
    let mut place = json!({
        "namespace": grant.namespace,
        "serviceaccount": {"name": name, "uid": meta_text(grant.account, "uid")},
    });
    for (word, what) in grant.bound {
        place[word] = what;
    }
    let claims = json!({
        "aud": grant.audiences,
        "exp": now + grant.seconds,
        "iat": now,
        "iss": AUDIENCE,
        "jti": Uuid::new_v4().to_string(),
        "kubernetes.io": place,
        "nbf": now,
        "sub": format!("system:serviceaccount:{}:{name}", grant.namespace),
    });
    let encoded = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
    let header = json!({"alg": ALGORITHM, "kid": KEY_NAME, "typ": "JWT"});
    let content = format!("{}.{}", encoded(&header), encoded(&claims));
    let signature = signer(store)?.sign(&content)?;
    Ok(format!("{content}.{signature}"))
}

/// Returns the public key with which others can verify tokens, as a JSON web key.
pub(crate) fn public_key(store: &mut Store) -> Result<Value, rcgen::Error> {
    let key = signer(store)?.key.public_key_raw();
    Ok(json!({
        "use": "sig", "kty": "OKP", "crv": "Ed25519", "alg": ALGORITHM, "kid": KEY_NAME, "x": URL_SAFE_NO_PAD.encode(key),
    }))
}

/// Returns the signer; creates it on first use.
fn signer(store: &mut Store) -> Result<&Signer, rcgen::Error> {
    let made = match store.access.signer.take() {
        Some(signer) => signer,
        None => Signer::new()?,
    };
    Ok(store.access.signer.insert(made))
}

/// Verifies a token for any of these audiences, and returns its user.
pub(crate) fn read(store: &Store, token: &str, audiences: &[String]) -> Result<Bearer, BadToken> {
    let claims = claims(store, token)?;
    let given = texts(claims.get("aud"));
    let wanted: Vec<String> = audiences
        .iter()
        .filter(|audience| given.contains(audience))
        .cloned()
        .collect();
    if wanted.is_empty() {
        return Err(BadToken::because(format!(
            "token audiences {} is invalid for the target audiences {}",
            quoted(&given),
            quoted(audiences)
        )));
    }
    check_time(store, &claims)?;
    let user = check_bonds(store, &claims)?;
    Ok(Bearer {
        user,
        audiences: wanted,
    })
}

fn claims(store: &Store, token: &str) -> Result<Body, BadToken> {
    let (content, signature) = token.rsplit_once('.').ok_or(BadToken::Unknown)?;
    let (_, payload) = content.split_once('.').ok_or(BadToken::Unknown)?;
    let payload = URL_SAFE_NO_PAD.decode(payload);
    let claims = payload.map_err(|_| BadToken::Unknown)?;
    let claims: Body = serde_json::from_slice(&claims).map_err(|_| BadToken::Unknown)?;
    if text(&claims, "iss") != AUDIENCE {
        return Err(BadToken::Unknown);
    }
    let signer = store.access.signer.as_ref();
    if signer.is_some_and(|signer| signer.made(content, signature)) {
        return Ok(claims);
    }
    Err(BadToken::because(
        "go-jose/go-jose: error in cryptographic primitive",
    ))
}

fn texts(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    let items = items.filter_map(Value::as_str);
    items.map(str::to_owned).collect()
}

fn check_time(store: &Store, claims: &Body) -> Result<(), BadToken> {
    let end = claims
        .get("exp")
        .and_then(Value::as_i64)
        .unwrap_or_default();
    let end = Timestamp::from_second(end).unwrap_or(Timestamp::MIN);
    let last = end.saturating_add(LEEWAY).unwrap_or(end);
    if store.clock.now() > last {
        return Err(BadToken::because("service account token has expired"));
    }
    Ok(())
}

/// Checks that all objects to which the token is bound still exist with the same uid.
fn check_bonds(store: &Store, claims: &Body) -> Result<User, BadToken> {
    let empty = Body::new();
    let place = claims.get("kubernetes.io").and_then(Value::as_object);
    let place = place.unwrap_or(&empty);
    let part = |word: &str| place.get(word).and_then(Value::as_object);
    let namespace = text(place, "namespace");
    let account = part("serviceaccount").unwrap_or(&empty);
    let (name, uid) = (text(account, "name"), text(account, "uid"));
    let found = found(store, "serviceaccounts", Some(namespace), name)
        .ok_or_else(|| BadToken::because(format!("serviceaccounts {name:?} not found")))?;
    let now_uid = meta_text(&found, "uid");
    if now_uid != uid {
        return Err(BadToken::because(format!(
            "service account UID ({now_uid}) does not match claim ({uid})"
        )));
    }
    let mut user = User::service_account(namespace, name)
        .uid(uid)
        .authenticated();
    let prefix = "authentication.kubernetes.io";
    let mut note = |key: &str, value: String| {
        if !value.is_empty() {
            user.extra.insert(format!("{prefix}/{key}"), vec![value]);
        }
    };
    note("credential-id", format!("JTI={}", text(claims, "jti")));
    for (word, plural) in [("secret", "secrets"), ("pod", "pods")] {
        let Some(bond) = part(word) else { continue };
        if !is_alive(store, plural, namespace, bond) {
            return Err(BadToken::because(
                "service account token has been invalidated",
            ));
        }
        if word == "pod" {
            note("pod-name", text(bond, "name").to_owned());
            note("pod-uid", text(bond, "uid").to_owned());
        }
    }
    if let Some(node) = part("node") {
        note("node-name", text(node, "name").to_owned());
        note("node-uid", text(node, "uid").to_owned());
    }
    Ok(user)
}

fn is_alive(store: &Store, plural: &str, namespace: &str, bond: &Body) -> bool {
    let Some(object) = found(store, plural, Some(namespace), text(bond, "name")) else {
        return false;
    };
    let deleted = metadata(&object).map_or("", |meta| text(meta, "deletionTimestamp"));
    let gone = deleted.parse::<Timestamp>().is_ok_and(|at| {
        let last = at.saturating_add(LEEWAY).unwrap_or(at);
        store.clock.now() > last
    });
    meta_text(&object, "uid") == text(bond, "uid") && !gone
}

/// Returns a core object.
pub(crate) fn found(
    store: &Store,
    plural: &str,
    namespace: Option<&str>,
    name: &str,
) -> Option<Body> {
    let kind = store.kinds.kind("", "v1", plural)?;
    let stored = store.get(kind.collection, &key(namespace, name))?;
    Some(stored.body())
}

/// Returns the claims of a token that is bound to a Pod: the Pod and its node.
pub(crate) fn pod_bonds(pod: &Body) -> Vec<(&'static str, Value)> {
    let mut bonds = vec![("pod", bond(pod))];
    let node = at_path(pod, ".spec.nodeName").and_then(Value::as_str);
    if let Some(node) = node.filter(|node| !node.is_empty()) {
        bonds.push(("node", json!({"name": node})));
    }
    bonds
}

/// Returns the name and uid of an object to which a token is bound.
pub(crate) fn bond(object: &Body) -> Value {
    json!({"name": meta_text(object, "name"), "uid": meta_text(object, "uid")})
}
