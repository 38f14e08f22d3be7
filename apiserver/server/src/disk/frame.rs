//! Frames: texts with a length and a checksum, each on a separate line.
//!
//! Guarantees that a frame is read as it was written or not at all, and distinguishes an incomplete frame from a damaged one.
//! Must not depend on the texts.

use crate::object::write_json;

/// The header `LLLLLLLL CCCCCCCC `: length and checksum in hexadecimal.
const HEAD: usize = 18;

/// The reason why no further frame can be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// All frames were read.
    Complete,
    /// The rest is the beginning of a frame.
    Torn,
    /// The rest is damaged.
    Damaged(&'static str),
}

/// The frames of a file.
pub(super) struct Frames<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Appends a frame whose text `fill` writes.
pub(super) fn write(into: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = into.len();
    into.extend_from_slice(&[b' '; HEAD]);
    fill(into);
    let text = &into[start + HEAD..];
    let head = format!("{:08x} {:08x} ", text.len(), crc32fast::hash(text));
    into[start..start + HEAD].copy_from_slice(head.as_bytes());
    into.push(b'\n');
}

/// Appends a frame with the JSON of a value.
pub(super) fn write_value<T: serde::Serialize>(into: &mut Vec<u8>, value: &T) {
    write(into, |text| write_json(text, value));
}

// === impl Frames ===

impl<'a> Frames<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns the offset of the next frame.
    pub(super) fn offset(&self) -> usize {
        self.at
    }

    pub(super) fn next(&mut self) -> Result<&'a [u8], End> {
        let rest = &self.bytes[self.at..];
        if rest.is_empty() {
            return Err(End::Complete);
        }
        // After a crash of the machine, a file may end with zeros that were never written.
        if rest.iter().all(|byte| *byte == 0) {
            return Err(End::Torn);
        }
        let Some((head, rest)) = rest.split_at_checked(HEAD) else {
            return Err(End::Torn);
        };
        let (length, sum) = numbers(head).ok_or(End::Damaged("no change begins there"))?;
        if rest.len() <= length {
            return Err(End::Torn);
        }
        let text = &rest[..length];
        if crc32fast::hash(text) != sum || rest[length] != b'\n' {
            let last = rest.len() == length + 1;
            return Err(if last {
                End::Torn
            } else {
                End::Damaged("the checksum of that change is another one")
            });
        }
        self.at += HEAD + length + 1;
        Ok(text)
    }
}

fn numbers(head: &[u8]) -> Option<(usize, u32)> {
    let head = std::str::from_utf8(head).ok()?;
    let (length, sum) = head.strip_suffix(' ')?.split_once(' ')?;
    let length = u32::from_str_radix(length, 16).ok()?;
    Some((
        usize::try_from(length).ok()?,
        u32::from_str_radix(sum, 16).ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, usize, End) {
        let mut frames = Frames::new(bytes);
        let mut texts = Vec::new();
        loop {
            match frames.next() {
                Ok(text) => texts.push(text.to_vec()),
                Err(end) => return (texts, frames.offset(), end),
            }
        }
    }

    #[test]
    fn frames_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        write(&mut bytes, |text| text.extend_from_slice(b"one"));
        write_value(&mut bytes, &"two");
        let all = bytes.len();
        let (texts, offset, end) = read(&bytes);
        assert_eq!(texts, [b"one".to_vec(), b"\"two\"".to_vec()]);
        assert_eq!((offset, end), (all, End::Complete));
    }

    #[test]
    fn every_beginning_of_a_frame_is_torn_and_nothing_else_is() {
        let mut bytes = Vec::new();
        write(&mut bytes, |text| text.extend_from_slice(b"first"));
        let first = bytes.len();
        write(&mut bytes, |text| text.extend_from_slice(b"second"));
        for cut in first + 1..bytes.len() {
            let (texts, offset, end) = read(&bytes[..cut]);
            assert_eq!((texts.len(), offset, end), (1, first, End::Torn), "{cut}");
        }
        for at in 0..first {
            let mut other = bytes.clone();
            other[at] ^= 0x10;
            let (texts, offset, end) = read(&other);
            // A length that reaches beyond the end of the file looks like an incomplete frame.
            let cut_off = at < 8 && end == End::Torn;
            assert!(
                texts.is_empty() && offset == 0 && (cut_off || matches!(end, End::Damaged(_))),
                "{at}: {end:?}"
            );
        }
    }
}
