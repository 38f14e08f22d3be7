//! The formats of fields, such as names, ports, paths and addresses, with the real server's errors.
//!
//! Empty strings pass wherever they pass in the real server. Independent of the location of a field.

use std::net::IpAddr;

use serde_json::Value;

use super::cron;
use super::finder::Finder;
use crate::rules::names;

const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
pub(super) const ADDRESS: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const BITS: &str = "must not have bits set beyond the prefix length";
const BLOCK: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// Returns true for formats that the table may use.
#[cfg(test)]
pub(super) fn is_known(name: &str) -> bool {
    "absolute cidr configkey driver endpoint env family full fullhost fulllabel fullname host innerpath ip label labelkey labels localpath mode name nobacksteps partition policytype port portname portref prefixed qualified schedule segment share subdomain wildhost zone"
        .split(' ')
        .any(|known| known == name)
}

/// Adds errors if the value does not match the format.
pub(super) fn check(finder: &mut Finder<'_>, format: &str, at: &str, value: &Value) {
    match (format, value) {
        ("driver", Value::String(name)) if name.len() > 63 => finder.too_long(at, 63),
        ("prefixed", Value::String(path)) => check_prefixed(finder, at, path),
        ("labels", Value::Object(labels)) => check_labels(finder, at, labels),
        ("portref", Value::Number(_)) | ("port", _) => check_port(finder, at, value),
        ("portref", Value::String(name)) => finder.all(at, value, port_name(name)),
        ("partition", _) => {
            let fits = value
                .as_i64()
                .is_some_and(|number| (0..=255).contains(&number));
            finder.all(
                at,
                value,
                told(!fits, "must be between 1 and 255, inclusive"),
            );
        }
        ("mode", _) => {
            let mode = value.as_i64().unwrap_or(-1);
            let message = "must be a number between 0 and 0777 (octal), both inclusive";
            let fits = (0..=0o777).contains(&mode);
            finder.all(at, value, told(!fits, message));
        }
        ("share", _) => check_share(finder, at, value),
        ("full", Value::String(text)) => {
            let over = percent(text).is_some_and(|part| part > 100);
            finder.all(at, value, told(over, "must not be greater than 100%"));
        }
        ("family", _) if value != "IPv4" && value != "IPv6" => {
            finder.unsupported(at, value, &["IPv4", "IPv6"]);
        }
        ("policytype", _) if value != "Ingress" && value != "Egress" => {
            finder.unsupported(at, value, &["Ingress", "Egress"]);
        }
        (_, Value::String(text)) => {
            let messages = of_text(format, text);
            finder.all(at, value, messages);
        }
        _ => {}
    }
}

/// Returns the errors of a string; only formats of required fields reject an empty one.
fn of_text(format: &str, text: &str) -> Vec<String> {
    let optional = !matches!(
        format,
        "name"
            | "ip"
            | "endpoint"
            | "absolute"
            | "labelkey"
            | "zone"
            | "fullhost"
            | "fulllabel"
            | "fullname"
    );
    if text.is_empty() && optional {
        return Vec::new();
    }
    let one = |message: Option<String>| message.into_iter().collect();
    match format {
        "absolute" => told(!text.starts_with('/'), "must be an absolute path"),
        "cidr" => match block(text) {
            None => told(true, BLOCK),
            Some(block) => told(!is_network(block), BITS),
        },
        "configkey" => config_key(text),
        "endpoint" => endpoint(text),
        "env" => told(
            !text.chars().all(|c| matches!(c, ' '..='~') && c != '='),
            "a valid environment variable name must consist only of printable ASCII characters other than '='",
        ),
        "host" if text.parse::<IpAddr>().is_ok() => {
            let mut messages = vec!["must be a DNS name, not an IP address".to_owned()];
            messages.extend(names::subdomain(text));
            messages
        }
        "host" | "wildhost" | "fullhost" if text.contains('*') => {
            told(!is_wildcard(text), WILDCARD)
        }
        "host" | "wildhost" | "fullhost" | "subdomain" | "name" | "fullname" => {
            one(names::subdomain(text))
        }
        "ip" => told(text.parse::<IpAddr>().is_err(), ADDRESS),
        "label" | "fulllabel" => one(names::label(text)),
        "labelkey" => names::qualified(text),
        "innerpath" => inner_path(text),
        "localpath" => local_path(text),
        "nobacksteps" => back_steps(text),
        "portname" => port_name(text),
        "driver" => one(names::subdomain(&text.to_lowercase())),
        "qualified" => names::qualified(&text.to_lowercase()),
        "schedule" => cron::complaints(text),
        "segment" => one(names::path_segment(text)),
        "zone" => cron::zone(text),
        _ => Vec::new(),
    }
}

fn told(wrong: bool, message: &str) -> Vec<String> {
    if wrong {
        vec![message.to_owned()]
    } else {
        Vec::new()
    }
}

/// Adds errors for invalid labels.
pub(super) fn check_labels(
    finder: &mut Finder<'_>,
    at: &str,
    labels: &serde_json::Map<String, Value>,
) {
    for (key, value) in labels {
        finder.all(at, &key.as_str().into(), names::qualified(key));
        let text = value.as_str().unwrap_or_default();
        finder.all(at, value, names::label_value(text));
    }
}

fn check_port(finder: &mut Finder<'_>, at: &str, value: &Value) {
    if !value
        .as_i64()
        .is_some_and(|port| (1..=65535).contains(&port))
    {
        finder.invalid(at, value, "must be between 1 and 65535, inclusive");
    }
}

fn check_share(finder: &mut Finder<'_>, at: &str, value: &Value) {
    match value {
        Value::String(text) => finder.all(at, value, told(percent(text).is_none(), PERCENT)),
        _ if value.as_i64().is_some_and(|number| number < 0) => {
            finder.invalid(at, value, "must be greater than or equal to 0");
        }
        _ => {}
    }
}

/// Parses a percentage.
pub(super) fn percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%')?;
    let fits = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    fits.then(|| digits.parse().unwrap_or(i64::MAX))
}

fn port_name(name: &str) -> Vec<String> {
    let mut messages = Vec::new();
    let mut say = |wrong: bool, message: &str| messages.extend(told(wrong, message));
    let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    say(name.len() > 15, "must be no more than 15 characters");
    say(
        name.is_empty() || !name.chars().all(is_fine),
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
    );
    say(
        !name.chars().any(|c| c.is_ascii_lowercase()),
        "must contain at least one letter (a-z)",
    );
    say(name.contains("--"), "must not contain consecutive hyphens");
    say(
        name.starts_with('-') || name.ends_with('-'),
        "must not begin or end with a hyphen",
    );
    messages
}

/// Returns the errors of a key of a `ConfigMap` or Secret.
pub(super) fn config_key(key: &str) -> Vec<String> {
    let mut messages = Vec::new();
    messages.extend(told(key.len() > 253, "must be no more than 253 characters"));
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    messages.extend(told(key.is_empty() || !key.chars().all(fits), CONFIG_KEY));
    messages.extend(match key {
        "." => told(true, "must not be '.'"),
        ".." => told(true, "must not be '..'"),
        _ => told(key.starts_with(".."), "must not start with '..'"),
    });
    messages
}

fn back_steps(path: &str) -> Vec<String> {
    told(
        path.split('/').any(|part| part == ".."),
        "must not contain '..'",
    )
}

/// Returns the errors of a path inside a volume.
pub(super) fn inner_path(path: &str) -> Vec<String> {
    let mut messages = told(path.starts_with('/'), "must be a relative path");
    messages.extend(back_steps(path));
    messages
}

fn local_path(path: &str) -> Vec<String> {
    let mut messages = inner_path(path);
    let reserved = path.starts_with("..") && path != ".." && !path.starts_with("../");
    messages.extend(told(reserved, "must not start with '..'"));
    messages
}

fn is_wildcard(host: &str) -> bool {
    let rest = host.strip_prefix("*.");
    rest.is_some_and(|rest| names::subdomain(rest).is_none())
}

/// Parses a CIDR block into its address and prefix length.
pub(super) fn block(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let (address, length): (IpAddr, u8) = (address.parse().ok()?, length.parse().ok()?);
    let most = if address.is_ipv4() { 32 } else { 128 };
    (length <= most).then_some((address, length))
}

/// Parses an address under the rules for Services.
pub(super) fn legacy_address(text: &str) -> Result<IpAddr, &'static str> {
    match text.parse() {
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => {
            Err("must not be an IPv4-mapped IPv6 address")
        }
        Ok(address) => Ok(address),
        Err(_) if without_zeros(text).parse::<IpAddr>().is_ok() => Err("must not have leading 0s"),
        Err(_) => Err(ADDRESS),
    }
}

/// Returns the error of a CIDR block under the rules for Services.
pub(super) fn legacy_block(text: &str) -> Option<&'static str> {
    let (address, length) = text.split_once('/').unwrap_or_default();
    let plain = format!("{}/{}", without_zeros(address), without_zeros(length));
    let Some(found) = block(&plain) else {
        return Some(BLOCK);
    };
    let mapped = matches!(found.0, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    match plain == text {
        false => Some("must not have leading 0s in IP or prefix length"),
        true if mapped => Some("must not have an IPv4-mapped IPv6 address"),
        true => Some(BITS).filter(|_| !is_network(found)),
    }
}

/// Removes leading zeros from decimal parts.
fn without_zeros(text: &str) -> String {
    let plain = |part: &str| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0".to_owned(),
        rest => rest.to_owned(),
    };
    if text.contains(':') {
        return text.to_owned();
    }
    let parts: Vec<String> = text.split('.').map(plain).collect();
    parts.join(".")
}

/// Returns true if no bit after the prefix is set.
fn is_network((address, length): (IpAddr, u8)) -> bool {
    let length = u32::from(length);
    match address {
        IpAddr::V4(v4) => v4.to_bits().checked_shl(length).unwrap_or_default() == 0,
        IpAddr::V6(v6) => v6.to_bits().checked_shl(length).unwrap_or_default() == 0,
    }
}

/// Returns true for exactly one IPv4 and one IPv6 block.
pub(super) fn are_of_both_families(blocks: &[Value]) -> bool {
    let family = |found: &Value| Some(block(found.as_str()?)?.0.is_ipv4());
    let families: Vec<_> = blocks.iter().map(family).collect();
    matches!(families.as_slice(), [Some(one), Some(two)] if one != two)
}

fn endpoint(text: &str) -> Vec<String> {
    let Ok(address) = text.parse::<IpAddr>() else {
        return vec![ADDRESS.to_owned(), "must be a valid IP address".to_owned()];
    };
    reachable(address, text)
}

/// Returns errors if other hosts cannot reach the address.
pub(super) fn reachable(address: IpAddr, text: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if address.is_unspecified() {
        messages.push(format!("may not be unspecified ({text})"));
    }
    let link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    messages.extend(told(
        address.is_loopback(),
        "may not be in the loopback range (127.0.0.0/8, ::1/128)",
    ));
    messages.extend(told(
        link_local,
        "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
    ));
    let many = match address {
        IpAddr::V4(v4) => v4.octets().starts_with(&[224, 0, 0]),
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    };
    messages.extend(told(
        many,
        "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
    ));
    messages
}

/// Checks a domain-prefixed path; errors concern the domain or the path.
fn check_prefixed(finder: &mut Finder<'_>, at: &str, path: &str) {
    let Some((host, rest)) = path
        .split_once('/')
        .filter(|(host, rest)| !host.is_empty() && !rest.is_empty())
    else {
        let message = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return finder.invalid(at, &path.into(), message);
    };
    if let Some(message) = names::subdomain(host) {
        finder.invalid(at, &host.into(), &message);
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c);
    if !rest.chars().all(fits) {
        let message =
            "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
        finder.invalid(at, &rest.into(), message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_by_table() {
        for (format, text, complaints) in [
            ("portname", "http", 0),
            ("portname", "80", 1),
            ("portname", "-a--b", 2),
            ("configkey", "a.b_C-1", 0),
            ("configkey", "..", 1),
            ("configkey", "a b", 1),
            ("cidr", "10.0.0.0/8", 0),
            ("cidr", "10.0.0.0/33", 1),
            ("wildhost", "*.a.b", 0),
            ("wildhost", "a.*.b", 1),
            ("env", "A=B", 1),
            ("env", "a b", 0),
            ("localpath", "..a", 1),
            ("localpath", "a/../b", 1),
            ("subdomain", "", 0),
            ("name", "", 1),
        ] {
            assert_eq!(of_text(format, text).len(), complaints, "{format} {text}");
        }
        assert_eq!(percent("25%"), Some(25));
        assert_eq!(percent("25"), None);
    }
}
