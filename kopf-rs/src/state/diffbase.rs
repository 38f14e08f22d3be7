//! The last-handled essence.
//!
//! It is stored as compact JSON if small, compressed if larger, and as a digest if even the compressed form does not
//! fit. This module does not know which fields belong to an essence.

use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::object::essence::Essence;

/// The minimum size for compression.
const COMPRESSED_FROM: usize = 16 * 1024;
/// The share of the 256 KiB for all annotations of an object.
pub(crate) const BUDGET: usize = 160 * 1024;
/// The maximum decompressed size: no object can be larger.
const LONGEST: u64 = 16 * 1024 * 1024;
const GZIP: &str = "gz:";
const DIGEST: &str = "digest:";

/// The knowledge about an essence that was, or will be, stored as last-handled.
#[derive(Clone, Debug)]
pub(crate) enum KnownEssence {
    /// The complete essence.
    Whole(Essence),
    /// Only its digest, because the essence was too large or no longer available when it was stored.
    Digest(String),
}

/// The form in which an essence was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Completely.
    Whole,
    /// Only its digest, because the essence would have taken this many bytes.
    Digest { bytes: usize },
}

impl KnownEssence {
    pub(crate) fn digest(&self) -> &str {
        match self {
            Self::Whole(essence) => essence.digest(),
            Self::Digest(digest) => digest,
        }
    }
    /// Returns the complete essence, if it is known.
    pub(crate) fn whole(&self) -> Option<&Essence> {
        match self {
            Self::Whole(essence) => Some(essence),
            Self::Digest(_) => None,
        }
    }
    /// Returns only the digest.
    pub(crate) fn reduced(&self) -> Self {
        Self::Digest(self.digest().to_owned())
    }
    /// Returns true if this is the given essence.
    pub(crate) fn is(&self, essence: &Essence) -> bool {
        match self {
            Self::Whole(whole) => whole.is_same(essence),
            Self::Digest(digest) => digest == essence.digest(),
        }
    }
    /// Returns true if both are equivalent.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match other {
            Self::Whole(essence) => self.is(essence),
            Self::Digest(digest) => self.digest() == digest,
        }
    }
}

pub(super) fn encode(known: &KnownEssence) -> (String, Kept) {
    let essence = match known {
        KnownEssence::Whole(essence) => essence,
        KnownEssence::Digest(digest) => return (format!("{DIGEST}{digest}"), Kept::Whole),
    };
    let text = essence.text();
    if text.len() < COMPRESSED_FROM {
        return (text, Kept::Whole);
    }
    let packed = compress(text.as_bytes());
    if packed.len() <= BUDGET {
        return (packed, Kept::Whole);
    }
    let digest = format!("{DIGEST}{}", essence.digest());
    let bytes = packed.len();
    (digest, Kept::Digest { bytes })
}

pub(crate) fn decode(text: &str) -> Result<KnownEssence, String> {
    if let Some(digest) = text.strip_prefix(DIGEST) {
        return Ok(KnownEssence::Digest(digest.to_owned()));
    }
    let value = match text.strip_prefix(GZIP) {
        Some(packed) => serde_json::from_str(&decompress(packed)?),
        None => serde_json::from_str(text),
    };
    let value: Value = value.map_err(|error| error.to_string())?;
    if value.is_object() {
        Ok(KnownEssence::Whole(Essence::from(value)))
    } else {
        Err("expected a JSON object".to_owned())
    }
}

pub(super) fn compress(bytes: &[u8]) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing into memory does not fail. If it did, reading the text would report the damage.
    let packed = encoder.write_all(bytes).and_then(|()| encoder.finish());
    format!("{GZIP}{}", STANDARD.encode(packed.unwrap_or_default()))
}

fn decompress(packed: &str) -> Result<String, String> {
    let packed = STANDARD.decode(packed).map_err(|error| error.to_string())?;
    let mut text = String::new();
    GzDecoder::new(packed.as_slice())
        .take(LONGEST)
        .read_to_string(&mut text)
        .map_err(|error| error.to_string())?;
    Ok(text)
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::body::Body;
    use crate::object::patch::Patch;
    use crate::state::naming::Annotations;
    use crate::state::storage::EssenceStore;

    fn roundtrip(value: &Value) -> (String, Kept, KnownEssence) {
        let store = EssenceStore::Annotations(Annotations::under("p"));
        let mut patch = Patch::new();
        let last = KnownEssence::Whole(Essence::from(value.clone()));
        let kept = store.store(&last, &Body::new(json!({})), &mut patch).unwrap();
        let read = store.fetch(&Body::new(patch.as_value().clone())).unwrap().unwrap();
        let text = patch["metadata"]["annotations"]["p/last-handled-configuration"].as_str().unwrap();
        (text.to_owned(), kept, read)
    }

    /// Returns text that does not compress.
    pub(crate) fn noise(length: usize) -> String {
        let mut state = 1_u64;
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'!' + u8::try_from(state >> 58).unwrap())
        };
        (0..length).map(next).collect()
    }

    #[test]
    fn grows_from_text_over_gzip_to_a_digest() {
        for (size, prefix, whole) in [
            (10, "{", true),
            (15_000, "{", true),
            (17_000, "gz:", true),
            (150_000, "gz:", true),
            (400_000, "digest:", false),
        ] {
            let value = json!({"spec": {"a": noise(size)}});
            let (text, kept, read) = roundtrip(&value);
            assert!(text.starts_with(prefix), "{size}: {}", &text[..20]);
            assert!(text.len() <= BUDGET);
            assert_eq!(kept == Kept::Whole, whole, "{size}");
            match read {
                KnownEssence::Whole(essence) => assert_eq!(**essence.value(), value),
                KnownEssence::Digest(digest) => assert_eq!(digest, Essence::from(value).digest()),
            }
        }
    }

    #[test]
    fn reads_kopfs_and_refuses_rubbish() {
        assert!(decode(r#"{"spec":{}}"#).is_ok());
        for text in ["", "{", "[]", "null", "gz:", "gz:AAAA", "gz:!", "7"] {
            assert!(decode(text).is_err(), "{text:?}");
        }
        let packed = compress(r#"{"spec":{"a":"a long enough text"}}"#.as_bytes());
        assert!(decode(&packed).is_ok());
        assert!(decode(&packed[..packed.len() - 8]).is_err(), "truncated");
    }
}
