//! Validates names, label values and qualified names, with the real server's messages.
//!
//! A name is valid if there is no message. Must not depend on the place of a name.

use crate::kind::Kind;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Validates the name of an object.
pub(crate) fn object_name(kind: &Kind, name: &str) -> Option<String> {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "namespaces" | "services") => label(name),
        ("rbac.authorization.k8s.io", _) => path_segment(name),
        _ => subdomain(name),
    }
}

/// Validates a DNS subdomain.
pub(crate) fn subdomain(name: &str) -> Option<String> {
    if name.len() > 253 {
        return Some("must be no more than 253 characters".to_owned());
    }
    let fits = !name.is_empty() && name.split('.').all(is_label);
    (!fits).then(|| SUBDOMAIN.to_owned())
}

/// Validates an RFC 1123 label.
pub(crate) fn label(name: &str) -> Option<String> {
    if name.len() > 63 {
        return Some(too_long(63));
    }
    if name.contains('.') {
        return Some("must not contain dots".to_owned());
    }
    (!is_label(name)).then(|| LABEL.to_owned())
}

/// Validates an RFC 1035 label, which begins with a letter.
pub(crate) fn dns_1035(name: &str) -> Option<String> {
    if name.len() > 63 {
        return Some("must be no more than 63 characters".to_owned());
    }
    let fits = is_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase());
    (!fits).then(|| LABEL_1035.to_owned())
}

fn is_label(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty() && name.chars().all(inner) && !name.starts_with('-') && !name.ends_with('-')
}

/// Validates the name of a Service.
pub(crate) fn service(name: &str) -> Option<String> {
    label(name)
}

/// Validates a path segment.
pub(crate) fn path_segment(name: &str) -> Option<String> {
    match name {
        "." | ".." => Some(format!("may not be '{name}'")),
        _ => name
            .chars()
            .find(|c| matches!(c, '/' | '%'))
            .map(|c| format!("may not contain '{c}'")),
    }
}

/// Validates a qualified name: `name` or `prefix/name`.
pub(crate) fn qualified(name: &str) -> Vec<String> {
    let mut messages = Vec::new();
    let (prefix, local) = match name.split_once('/') {
        Some((_, rest)) if rest.contains('/') => {
            return vec![format!(
                "a valid label key {QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some((prefix, local)) => (Some(prefix), local),
        None => (None, name),
    };
    match prefix {
        Some("") => messages.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => messages.extend(subdomain(prefix).map(|m| format!("prefix part {m}"))),
        None => {}
    }
    if local.is_empty() {
        messages.push("name part must be non-empty".to_owned());
    } else if local.len() > 63 {
        messages.push(format!("name part {}", too_long(63)));
    }
    if !is_word(local) {
        messages.push(format!("name part {QUALIFIED}"));
    }
    messages
}

/// Validates the value of a label.
pub(crate) fn label_value(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > 63 {
        messages.push(too_long(63));
    }
    if !value.is_empty() && !is_word(value) {
        messages.push(LABEL_VALUE.to_owned());
    }
    messages
}

fn is_word(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    text.chars().all(|c| edge(c) || "-_.".contains(c))
        && text.starts_with(edge)
        && text.ends_with(edge)
}

fn too_long(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qualified_names_by_table() {
        for (name, valid) in [
            ("a", true),
            ("a.b/c_D-1", true),
            ("demo.kopf.rs/finalizer", true),
            ("", false),
            ("/a", false),
            ("a/", false),
            ("a/b/c", false),
            ("-a", false),
            ("A.b/c", false),
            ("a b", false),
        ] {
            assert_eq!(qualified(name).is_empty(), valid, "{name}");
        }
    }

    #[test]
    fn subdomains_by_table() {
        for (name, valid) in [
            ("a", true),
            ("a-b.c1", true),
            ("A", false),
            ("a..b", false),
            ("a-", false),
            ("a_b", false),
        ] {
            assert_eq!(subdomain(name).is_none(), valid, "{name}");
        }
        assert!(subdomain(&"a".repeat(254)).is_some());
    }
}
