//! Identifies an object. Keys are small, because every known object has one.

use std::fmt::Write as _;

use crate::object::raw::Facts;
use crate::object::resource::Resource;

/// Identifies an object by its uid, whatever API version it is seen in.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Key {
    /// A uid that is a UUID, as on every real server: 16 bytes.
    Uuid([u8; 16]),
    /// Any other uid.
    Text(Box<str>),
    /// Without a uid: group, plural, namespace and name.
    Named(Box<str>),
}

// === impl Key ===

impl Key {
    pub(crate) fn of(resource: &Resource, facts: &Facts) -> Self {
        match facts.uid.as_str() {
            "" => {
                let name = full_name(facts.namespace.as_deref(), &facts.name);
                let Resource { group, plural, .. } = resource;
                Self::Named(format!("{group}/{plural}/{name}").into())
            }
            uid => Self::of_uid(uid),
        }
    }

    /// Returns the key of the object with this uid.
    pub(crate) fn of_uid(uid: &str) -> Self {
        Self::parse(uid).unwrap_or_else(|| Self::Text(uid.into()))
    }

    /// Returns the uid as the object has it; empty without one.
    pub(crate) fn uid(&self) -> String {
        match self {
            Self::Named(_) => String::new(),
            Self::Text(text) => text.to_string(),
            Self::Uuid(bytes) => {
                let mut text = String::with_capacity(36);
                for (at, byte) in bytes.iter().enumerate() {
                    if matches!(at, 4 | 6 | 8 | 10) {
                        text.push('-');
                    }
                    // Writing to a string never fails.
                    let _ = write!(text, "{byte:02x}");
                }
                text
            }
        }
    }

    /// Accepts only the canonical form, so that formatting the key restores the text.
    fn parse(text: &str) -> Option<Self> {
        let canonical = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-');
        if text.len() != 36 || !text.bytes().all(canonical) {
            return None;
        }
        let mut bytes = [0; 16];
        let mut digits = text.split('-');
        let mut filled = 0;
        for length in [8, 4, 4, 4, 12] {
            let group = digits.next().filter(|group| group.len() == length)?;
            for at in (0..length).step_by(2) {
                bytes[filled] = u8::from_str_radix(group.get(at..at + 2)?, 16).ok()?;
                filled += 1;
            }
        }
        Some(Self::Uuid(bytes))
    }
}

/// Returns `namespace/name`, or `/name`.
pub(crate) fn full_name(namespace: Option<&str>, name: &str) -> Box<str> {
    format!("{}/{name}", namespace.unwrap_or_default()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(uid: &str) -> Facts {
        Facts { uid: uid.to_owned(), ..Facts::default() }
    }

    const UID: &str = "0f8b6c9e-1d2a-4b3c-9d4e-5f60718293a4";

    fn key(uid: &str) -> Key {
        Key::of(&Resource::default(), &facts(uid))
    }

    #[test]
    fn uids_are_small_and_read_back_unharmed() {
        for uid in [UID, "no-uuid", "0F8B6C9E-1D2A-4B3C-9D4E-5F60718293A4", ""] {
            assert_eq!(key(uid).uid(), uid);
            assert_eq!(Key::of_uid(uid) == key(uid), !uid.is_empty(), "{uid}");
        }
    }

    #[test]
    fn keys_of_uuids_take_no_memory_elsewhere() {
        assert!(matches!(key(UID), Key::Uuid(_)));
        assert!(size_of::<Key>() <= 24);
    }

    #[test]
    fn versions_of_a_kind_do_not_tell_objects_apart_and_kinds_do_where_there_is_no_uid() {
        let resource = |version: &str, plural: &str| Resource {
            version: version.to_owned(),
            plural: plural.to_owned(),
            ..Resource::default()
        };
        let key = |version, plural| Key::of(&resource(version, plural), &facts(""));
        assert_eq!(key("v1", "pods"), key("v2", "pods"));
        assert_ne!(key("v1", "pods"), key("v1", "secrets"));
    }
}
