//! The paths and the names of webhooks: the kind and the id of a handler, in characters that Kubernetes accepts.
//!
//! This module guarantees that a handler has the same path in every process, regardless of other handlers. It must
//! not depend on HTTP.

use crate::handler::webhook::AdmissionKind;

/// Longer ids are shortened, because paths and names of webhooks are limited to 253 characters.
const LONGEST: usize = 80;

/// Returns the path at which the API server calls a handler: `/validate/ID` or `/mutate/ID`.
pub(crate) fn path(kind: AdmissionKind, id: &str) -> String {
    let word = match kind {
        AdmissionKind::Validate => "validate",
        AdmissionKind::Mutate => "mutate",
    };
    format!("/{word}/{}", parts(id).join("/"))
}

/// Returns the name of a handler's webhook, which needs at least three labels: `ID.DOMAIN`.
pub(crate) fn hook_name(id: &str, domain: &str) -> String {
    let dot = if domain.contains('.') { "" } else { ".kopf.rs" };
    format!("{}.{domain}{dot}", parts(id).join("."))
}

/// Splits the id into names that Kubernetes accepts. A hash is appended if more than underscores had to be replaced.
fn parts(id: &str) -> Vec<String> {
    let mut is_changed = id.len() > LONGEST;
    let mut parts: Vec<String> = Vec::new();
    for part in id.split('/') {
        let part: String = part.chars().map(|it| plain(it, &mut is_changed)).collect();
        let labels = part.split('.').map(|label| label.trim_matches('-'));
        let labels: Vec<_> = labels.filter(|label| !label.is_empty()).collect();
        let named = labels.join(".");
        is_changed |= named != part;
        if !named.is_empty() {
            parts.push(named);
        }
    }
    if is_changed {
        let mark = format!("{:04x}", mark(id));
        let mut left = LONGEST;
        for part in &mut parts {
            part.truncate(left);
            left -= part.len();
        }
        parts.retain(|part| !part.is_empty());
        match parts.last_mut() {
            Some(last) => {
                let kept = last.trim_end_matches(['.', '-']);
                *last = format!("{kept}-{mark}");
            }
            None => parts.push(mark),
        }
    }
    parts
}

fn plain(character: char, is_changed: &mut bool) -> char {
    match character {
        'a'..='z' | '0'..='9' | '-' | '.' => character,
        '_' => '-',
        other => {
            *is_changed = true;
            let lower = other.to_ascii_lowercase();
            if lower.is_ascii_lowercase() { lower } else { '-' }
        }
    }
}

/// Returns a hash that distinguishes ids with the same replacement.
fn mark(id: &str) -> u16 {
    let hash =
        id.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let [a, b, c, d] = hash.to_be_bytes();
    u16::from_be_bytes([a ^ c, b ^ d])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_that_kubernetes_takes() {
        for (id, expected) in [
            ("check_size", "/validate/check-size"),
            ("check-size", "/validate/check-size"),
            ("check/spec.size", "/validate/check/spec.size"),
            ("Check", "/validate/check-d4cb"),
            ("check/spec.maxSize", "/validate/check/spec.maxsize-8963"),
            ("_", "/validate/c362"),
            ("a..b", "/validate/a.b-3a30"),
            ("größe", "/validate/gr--e-39a2"),
        ] {
            assert_eq!(path(AdmissionKind::Validate, id), expected, "{id}");
        }
        assert_eq!(path(AdmissionKind::Mutate, "fill"), "/mutate/fill");
        let long = path(AdmissionKind::Mutate, &"x".repeat(300));
        assert_eq!(long.len(), "/mutate/".len() + LONGEST + "-0000".len());
    }

    #[test]
    fn names_have_three_labels_at_least() {
        let name = hook_name("check/spec.size", "auto.kopf.dev");
        assert_eq!(name, "check.spec.size.auto.kopf.dev");
        assert_eq!(hook_name("Check", "mine"), "check-d4cb.mine.kopf.rs");
    }
}
