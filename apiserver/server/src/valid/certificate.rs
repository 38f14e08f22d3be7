//! Validates certificate signing requests.
//!
//! Only checks that the PEM block is a certificate request, not its content. Never looks at the old object of an update.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::finder::{Finder, child, items, number};
use super::rule::Named;
use crate::object::{Body, text};
use crate::rules::names;

pub(super) const NAMED: Named = &[("request", request)];

/// The usages of a certificate.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

fn request(finder: &mut Finder<'_>, spec: &Body, at: &str) {
    let given = text(spec, "request");
    let plain = STANDARD.decode(given).unwrap_or_default();
    let plain = String::from_utf8_lossy(&plain);
    if !plain.contains("-----BEGIN CERTIFICATE REQUEST-----")
        || !plain.contains("-----END CERTIFICATE REQUEST-----")
    {
        let value = spec.get("request").filter(|_| !given.is_empty());
        let message = "PEM block type must be CERTIFICATE REQUEST";
        finder.invalid(child(at, "request"), value.unwrap_or(&Value::Null), message);
    }
    let usages = items(spec, "usages");
    if usages.is_empty() {
        finder.required(child(at, "usages"), "");
    }
    for (index, usage) in usages.iter().enumerate() {
        let at = format!("{at}.usages[{index}]");
        if !USAGES.iter().any(|known| usage == known) {
            finder.unsupported(at.as_str(), usage, &USAGES);
        }
        if usages[..index].contains(usage) {
            finder.duplicate(at, usage);
        }
    }
    signer(finder, text(spec, "signerName"), &child(at, "signerName"));
    if let Some(seconds) = number(spec, "expirationSeconds").filter(|seconds| *seconds < 600) {
        let message = "may not specify a duration less than 600 seconds (10 minutes)";
        finder.invalid(child(at, "expirationSeconds"), &seconds.into(), message);
    }
}

/// Checks a signer name: a domain and a path of labels joined by dots.
fn signer(finder: &mut Finder<'_>, name: &str, at: &str) {
    if name == "kubernetes.io/legacy-unknown" {
        let message = "the legacy signerName is not allowed via this API version";
        return finder.invalid(at, &name.into(), message);
    }
    if name.is_empty() {
        return finder.required(at, "");
    }
    let parts: Vec<&str> = name.split('/').collect();
    let [domain, path] = parts.as_slice() else {
        let message =
            "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return finder.invalid(at, &name.into(), message);
    };
    let labels = domain.split('.');
    if let Some((label, why)) = labels
        .clone()
        .find_map(|label| Some((label, names::label(label)?)))
    {
        let message = format!("validating label {label:?}: {why}");
        finder.invalid(at, &(*domain).into(), &message);
    }
    if labels.count() < 2 {
        let message = "should be a domain with at least two segments separated by dots";
        finder.invalid(at, &(*domain).into(), message);
    }
    let labels = path.split('.');
    if let Some((label, why)) = labels
        .into_iter()
        .find_map(|label| Some((label, names::subdomain(label)?)))
    {
        let message = format!("validating label {label:?}: {why}");
        finder.invalid(at, &(*path).into(), &message);
    }
}
