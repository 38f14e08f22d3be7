//! Validates the conversion strategy of a definition.
//!
//! Errors match the real server. Never calls the webhook. Independent of versions.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;

use super::one_of;
use crate::object::{Body, at_path};
use crate::rules::names;
use crate::status::Cause;

const FIELD: &str = "spec.conversion";
const CLIENT: &str = "spec.conversion.webhookClientConfig";
const REVIEWS: &str = "spec.conversion.conversionReviewVersions";
const FORM: &str = "; desired format: https://host[/path]";

/// Validates `spec.conversion`.
pub(super) fn check(body: &Body, causes: &mut Vec<Cause>) {
    let Some(conversion) = at_path(body, FIELD).filter(|found| found.is_object()) else {
        return;
    };
    let strategy = conversion["strategy"].as_str().unwrap_or_default();
    let field = format!("{FIELD}.strategy");
    one_of(&field, strategy, &["None", "Webhook"], causes);
    let webhook = conversion.get("webhook").unwrap_or(&Value::Null);
    let client = webhook
        .get("clientConfig")
        .filter(|found| found.is_object());
    let reviews = webhook
        .get("conversionReviewVersions")
        .and_then(Value::as_array);
    let reviews = reviews.map_or(&[][..], Vec::as_slice);
    if strategy == "Webhook" {
        match client {
            None => {
                let message = "required when strategy is set to Webhook";
                causes.push(Cause::required(CLIENT, message));
            }
            Some(client) => check_client(client, causes),
        }
        check_reviews(reviews, causes);
        return;
    }
    let message = "should not be set when strategy is not set to Webhook";
    if client.is_some() {
        causes.push(Cause::forbidden(CLIENT, message));
    }
    if !reviews.is_empty() {
        causes.push(Cause::forbidden(REVIEWS, message));
    }
}

fn check_client(client: &Value, causes: &mut Vec<Cause>) {
    let service = client.get("service").filter(|found| found.is_object());
    match (client.get("url").and_then(Value::as_str), service) {
        (Some(url), None) => check_url(url, &format!("{CLIENT}.url"), causes),
        (None, Some(service)) => check_service(service, causes),
        _ => {
            let message = "exactly one of url or service is required";
            causes.push(Cause::required(CLIENT, message));
        }
    }
}

/// Validates the URL of a webhook.
fn check_url(url: &str, field: &str, causes: &mut Vec<Cause>) {
    let parts = match parse(url) {
        Ok(parts) => parts,
        Err(why) => {
            let message = format!("url must be a valid URL: parse {url:?}: {why}{FORM}");
            causes.push(Cause::required(field, &message));
            return;
        }
    };
    let mut complain = |found: &str, message: &str| {
        causes.push(Cause::invalid(field, &found.into(), message));
    };
    if parts.scheme != "https" {
        let message = format!("'https' is the only allowed URL scheme{FORM}");
        complain(&parts.scheme, &message);
    }
    if parts.host.is_empty() {
        complain("", &format!("host must be specified{FORM}"));
    }
    if let Some(user) = parts.user {
        complain(&user, "user information is not permitted in the URL");
    }
    if !parts.fragment.is_empty() {
        complain(&parts.fragment, "fragments are not permitted in the URL");
    }
    if !parts.query.is_empty() {
        complain(
            &parts.query,
            "query parameters are not permitted in the URL",
        );
    }
}

/// The parts of a URL.
#[derive(Debug, Default)]
struct Parts {
    scheme: String,
    user: Option<String>,
    host: String,
    query: String,
    fragment: String,
}

/// Splits a URL as Go does.
fn parse(url: &str) -> Result<Parts, String> {
    if url.chars().any(char::is_control) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (scheme, rest) = match rest.find([':', '/']) {
        Some(0) if rest.starts_with(':') => return Err("missing protocol scheme".to_owned()),
        Some(at) if rest[at..].starts_with(':') && is_scheme(&rest[..at]) => {
            (rest[..at].to_lowercase(), &rest[at + 1..])
        }
        Some(at) if rest[at..].starts_with(':') && !rest[..at].contains('/') => {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
        _ => (String::new(), rest),
    };
    let authority = rest
        .strip_prefix("//")
        .map(|rest| rest.split('/').next().unwrap_or_default());
    let (user, host) = match authority.unwrap_or_default().rsplit_once('@') {
        Some((user, host)) => (Some(user.to_owned()), host),
        None => (None, authority.unwrap_or_default()),
    };
    if host.contains(' ') {
        return Err("invalid character \" \" in host name".to_owned());
    }
    Ok(Parts {
        scheme,
        user,
        host: host.to_owned(),
        query: query.to_owned(),
        fragment: fragment.to_owned(),
    })
}

fn is_scheme(text: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(letter)
}

fn check_service(service: &Value, causes: &mut Vec<Cause>) {
    let at = |name: &str| format!("{CLIENT}.service.{name}");
    let text = |name: &str| service[name].as_str().unwrap_or_default();
    for name in ["name", "namespace"] {
        // The real server has a bug here: it checks each field but reports the other one.
        let other = if name == "name" { "namespace" } else { "name" };
        if text(other).is_empty() {
            causes.push(Cause::required(at(name), ""));
        }
    }
    let port = service.get("port").and_then(Value::as_i64).unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let message = "port is not valid: must be between 1 and 65535, inclusive";
        causes.push(Cause::invalid(at("port"), &port.into(), message));
    }
    let path = text("path");
    let mut complain = |message: &str| {
        causes.push(Cause::invalid(at("path"), &path.into(), message));
    };
    if matches!(path, "" | "/") {
        return;
    }
    if path == "//" {
        return complain("segment[0] may not be empty");
    }
    if !path.starts_with('/') {
        complain("must start with a '/'");
    }
    let mut letters = path.chars();
    letters.next();
    let inner = letters.as_str();
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    for (at, step) in inner.split('/').enumerate() {
        if step.is_empty() {
            complain(&format!("segment[{at}] may not be empty"));
        } else if let Some(why) = names::subdomain(step) {
            complain(&format!("segment[{at}]: {why}"));
        }
    }
}

fn check_reviews(reviews: &[Value], causes: &mut Vec<Cause>) {
    if reviews.is_empty() {
        causes.push(Cause::required(REVIEWS, ""));
        return;
    }
    for (at, review) in reviews.iter().enumerate() {
        let field = format!("{REVIEWS}[{at}]");
        if reviews[..at].contains(review) {
            causes.push(Cause::invalid(field, review, "duplicate version"));
        } else if let Some(why) = names::dns_1035(review.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid(field, review, &why));
        }
    }
    let known = |review: &Value| matches!(review.as_str(), Some("v1" | "v1beta1"));
    if !reviews.iter().any(known) {
        let message = "must include at least one of v1, v1beta1";
        causes.push(Cause::invalid(REVIEWS, &Value::from(reviews), message));
    }
}

/// Returns the CA bundle for the webhook, if the definition has one.
pub(super) fn authorities(body: &Body) -> Option<&str> {
    let found = at_path(body, "spec.conversion.webhook.clientConfig.caBundle");
    found
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
}

/// Returns true if the text is a base64-encoded PEM bundle that starts with a valid certificate.
pub(super) fn is_bundle(text: &str) -> bool {
    let bytes = STANDARD.decode(text).unwrap_or_default();
    let mut found = CertificateDer::pem_slice_iter(&bytes);
    found.next().is_some_and(|first| first.is_ok())
}

/// Returns an error for an invalid CA bundle.
pub(super) fn bad_bundle(body: &Body) -> Option<Cause> {
    let found = authorities(body).filter(|text| !is_bundle(text))?;
    let message = "unable to load root certificates: unable to parse bytes as PEM block";
    Some(Cause::invalid(
        format!("{CLIENT}.caBundle"),
        &found.into(),
        message,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_by_table() {
        for (url, expected) in [
            ("https://a/convert", ""),
            (
                "http://a",
                "'https' is the only allowed URL scheme; desired format: https://host[/path]",
            ),
            (
                "https:///x",
                "host must be specified; desired format: https://host[/path]",
            ),
            (
                "https://a/x?q=1",
                "query parameters are not permitted in the URL",
            ),
        ] {
            let mut causes = Vec::new();
            check_url(url, "u", &mut causes);
            let told: Vec<&str> = causes.iter().map(|cause| cause.message.as_str()).collect();
            assert!(
                told.len() <= 1 && told.join("").ends_with(expected),
                "{url}: {told:?}"
            );
            assert_eq!(told.is_empty(), expected.is_empty(), "{url}");
        }
    }
}
