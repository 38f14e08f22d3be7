//! Which object is meant: small, for every object has one.

use crate::object::raw::Facts;

/// Which object is meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    kind: u32,
    pub(crate) uid: Uid,
}

/// A uid: 16 bytes where it is a UUID, as on every real server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Uid {
    Uuid([u8; 16]),
    Text(Box<str>),
}

// === impl Key ===

impl Key {
    pub(crate) fn of(kind: u32, facts: &Facts) -> Self {
        let uid = match facts.uid.as_str() {
            "" => Uid::Text(full_name(facts.namespace.as_deref(), &facts.name)),
            uid => Uid::parse(uid).unwrap_or_else(|| Uid::Text(uid.into())),
        };
        Self { kind, uid }
    }
}

impl Uid {
    /// Only the canonical form, so that writing it gives the same text.
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

impl std::fmt::Display for Uid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Uuid(bytes) => {
                for (at, byte) in bytes.iter().enumerate() {
                    let dash = if matches!(at, 4 | 6 | 8 | 10) {
                        "-"
                    } else {
                        ""
                    };
                    write!(f, "{dash}{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

/// `namespace/name`, or `/name`.
pub(crate) fn full_name(namespace: Option<&str>, name: &str) -> Box<str> {
    format!("{}/{name}", namespace.unwrap_or_default()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(uid: &str) -> Facts {
        Facts {
            uid: uid.to_owned(),
            ..Facts::default()
        }
    }

    const UID: &str = "0f8b6c9e-1d2a-4b3c-9d4e-5f60718293a4";

    #[test]
    fn uids_are_small_and_read_back_unharmed() {
        for uid in [UID, "no-uuid", "0F8B6C9E-1D2A-4B3C-9D4E-5F60718293A4"] {
            let key = Key::of(0, &facts(uid));
            assert_eq!(key.uid.to_string(), uid);
        }
    }

    #[test]
    fn keys_of_uuids_take_no_memory_elsewhere() {
        assert!(matches!(Key::of(0, &facts(UID)).uid, Uid::Uuid(_)));
        assert!(size_of::<Key>() <= 32);
    }
}
