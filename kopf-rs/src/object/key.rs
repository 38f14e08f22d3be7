//! Identifies an object. Keys are small, because every known object has one.

use std::fmt::Write as _;
use std::hash::{BuildHasher as _, RandomState};

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
        let mut digits = text.bytes();
        let mut bytes = [0; 16];
        for (at, byte) in bytes.iter_mut().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) && digits.next()? != b'-' {
                return None;
            }
            *byte = digit(digits.next()?)? << 4 | digit(digits.next()?)?;
        }
        if digits.next().is_some() {
            return None;
        }
        Some(Self::Uuid(bytes))
    }
}

/// Returns the value of a hexadecimal digit in small letters.
fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

/// The objects of a listing, as random digests of eight bytes each: a listing may name hundreds of thousands.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeySet {
    /// The version of the listing; empty if unknown.
    pub(crate) version: String,
    hasher: RandomState,
    /// Sorted, since the last call of `sort`.
    digests: Vec<u64>,
}

impl KeySet {
    /// Returns the end of a listing of this version, without objects.
    pub(crate) fn at(version: String) -> Self {
        Self { version, ..Self::default() }
    }

    /// Adds a key, which is contained after the next call of `sort`.
    pub(crate) fn add(&mut self, key: &Key) {
        let capacity = self.digests.capacity();
        if self.digests.len() == capacity {
            // A listing that never ends may show the same objects again and again.
            self.sort();
            if self.digests.len() > capacity / 2 {
                self.digests.reserve(capacity);
            }
        }
        self.digests.push(self.hasher.hash_one(key));
    }

    pub(crate) fn sort(&mut self) {
        self.digests.sort_unstable();
        self.digests.dedup();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.digests.is_empty()
    }

    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.digests.binary_search(&self.hasher.hash_one(key)).is_ok()
    }
}

impl FromIterator<Key> for KeySet {
    fn from_iter<I: IntoIterator<Item = Key>>(keys: I) -> Self {
        let mut set = Self::default();
        keys.into_iter().for_each(|key| set.add(&key));
        set.sort();
        set
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
        let long = format!("{UID}0");
        let (short, apart) = (&UID[1..], UID.replacen('-', "0", 1));
        for uid in [UID, "no-uuid", "0F8B6C9E-1D2A-4B3C-9D4E-5F60718293A4", "", &long, short, &apart] {
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
    fn a_set_contains_the_keys_that_were_added_in_any_order() {
        let set: KeySet = (0..100).rev().map(|it| Key::of_uid(&it.to_string())).collect();
        let contained = (0..200).filter(|it| set.contains(&Key::of_uid(&it.to_string())));
        assert_eq!(contained.count(), 100);
    }

    #[test]
    fn a_set_does_not_grow_by_keys_that_it_contains() {
        let keys: Vec<Key> = (0..100).map(|it| Key::of_uid(&it.to_string())).collect();
        let mut set = KeySet::default();
        (0..100).flat_map(|_| &keys).for_each(|key| set.add(key));
        assert!(set.digests.capacity() < 500, "{}", set.digests.capacity());
        set.sort();
        assert!(set.digests.len() == keys.len() && keys.iter().all(|key| set.contains(key)));
    }

    #[test]
    fn versions_share_a_key_and_kinds_do_not_without_a_uid() {
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
