//! Scans JSON text for the positions of an object's members without interpreting values.
//!
//! This is several times faster than parsing. This module guarantees that strings are terminated and brackets are
//! balanced, so that truncated text is detected; scalars are checked only when a tree is built. It must not depend on
//! Kubernetes.

use std::ops::Range;

/// A member of an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member<'a> {
    /// The raw key without its quotes.
    pub(super) key: &'a str,
    /// The raw value.
    pub(super) value: &'a str,
    /// The byte range of both in the text.
    pub(super) at: Range<usize>,
}

/// The members of one object.
pub(super) type Members<'a> = Vec<Member<'a>>;

/// Returns the members of the object `text`, and those of the object at each step of `path`, which are empty if there is no such object.
/// Returns `None` if the text is not an object.
pub(super) fn members<'a>(text: &'a str, path: &[&str]) -> Option<Vec<Members<'a>>> {
    let mut skim = Skim { text, at: 0 };
    let levels = (0..=path.len()).map(|_| Vec::with_capacity(16));
    let mut levels: Vec<_> = levels.collect();
    skim.peek()?;
    skim.object(path, &mut levels)?;
    text[skim.at..].trim_ascii().is_empty().then_some(levels)
}

/// Returns the raw member called `key`. The last duplicate counts, as in a tree.
pub(super) fn find<'m, 'a>(members: &'m [Member<'a>], key: &str) -> Option<&'m Member<'a>> {
    members.iter().rev().find(|member| member.key == key)
}

struct Skim<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Skim<'a> {
    /// Returns the next non-blank byte.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        let blanks = rest.iter().take_while(|it| it.is_ascii_whitespace());
        let blanks = blanks.count();
        self.at += blanks;
        rest.get(blanks).copied()
    }

    fn token(&mut self, expected: u8) -> Option<()> {
        let found = self.peek()? == expected;
        self.at += usize::from(found);
        found.then_some(())
    }

    /// Fills the first level with the members of the object that starts here, and the other levels along the `path`.
    fn object(&mut self, path: &[&str], levels: &mut [Members<'a>]) -> Option<()> {
        let (members, deeper) = levels.split_first_mut()?;
        members.clear();
        self.token(b'{')?;
        while self.peek()? != b'}' {
            if !members.is_empty() {
                self.token(b',')?;
                self.peek()?;
            }
            let begin = self.at;
            let key = self.string()?;
            let key = &key[1..key.len() - 1];
            self.token(b':')?;
            let is_object = self.peek()? == b'{';
            let from = self.at;
            match path.split_first() {
                Some((step, path)) if *step == key && is_object => self.object(path, deeper)?,
                _ => self.value()?,
            }
            members.push(Member { key, value: &self.text[from..self.at], at: begin..self.at });
        }
        self.token(b'}')
    }

    /// Advances past the value that starts here.
    fn value(&mut self) -> Option<()> {
        let rest = &self.text.as_bytes()[self.at..];
        match rest.first()? {
            b'"' => self.string().map(|_| ()),
            b'{' | b'[' => self.nested(),
            _ => {
                let plain = |it: &&u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'+' | b'.');
                let length = rest.iter().take_while(plain).count();
                self.at += length;
                (length > 0).then_some(())
            }
        }
    }

    /// Advances past the closing bracket of the list or object that starts here.
    fn nested(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.text.as_bytes().get(self.at)? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }

    /// Returns the string that starts here, with its quotes.
    fn string(&mut self) -> Option<&'a str> {
        let bytes = self.text.as_bytes();
        let begin = self.at;
        if *bytes.get(begin)? != b'"' {
            return None;
        }
        let mut at = begin + 1;
        loop {
            at += sign(bytes.get(at..)?)?;
            if bytes[at] == b'"' {
                self.at = at + 1;
                return Some(&self.text[begin..self.at]);
            }
            at += 2;
        }
    }
}

/// Returns the position of the first quote or backslash. Starts with eight bytes at a time, because most strings are too short for a wider
/// search.
pub(super) fn sign(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const SHORT: usize = 4;
    const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);
    // The lowest remaining high bit marks the first zero byte; higher bits may be false positives.
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let (words, _) = bytes.as_chunks::<8>();
    let words = &words[..words.len().min(SHORT)];
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = zero(word ^ (ONES * u64::from(b'"'))) | zero(word ^ (ONES * u64::from(b'\\')));
        if found != 0 {
            return Some(at * 8 + (found.trailing_zeros() / 8) as usize);
        }
    }
    let rest = words.len() * 8;
    memchr::memchr2(b'"', b'\\', &bytes[rest..]).map(|at| rest + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<Vec<(&str, &str)>> {
        let members = members(text, &[])?.remove(0);
        let mut pairs = Vec::new();
        for Member { key, value, at } in members {
            assert!(text[at.clone()].starts_with('"') && text[at].ends_with(value));
            pairs.push((key, value));
        }
        Some(pairs)
    }

    #[test]
    fn members_are_found_as_they_are_spelled() {
        assert_eq!(found(" { } "), Some(vec![]));
        assert_eq!(
            found(r#"{"a":1,"b\"":"é\\\"}","c" : {"d":["]",{}]}, "e":-1.5e+3 ,"f":null}"#),
            Some(vec![
                ("a", "1"),
                ("b\\\"", r#""é\\\"}""#),
                ("c", r#"{"d":["]",{}]}"#),
                ("e", "-1.5e+3"),
                ("f", "null"),
            ])
        );
    }

    #[test]
    fn truncated_text_and_other_values_are_refused() {
        let whole = r#"{"a":{"b":[1,"x\n"]},"c":true}"#;
        assert!(found(whole).is_some());
        for end in 0..whole.len() {
            assert_eq!(found(&whole[..end]), None, "{}", &whole[..end]);
        }
        for text in [
            "[]",
            "1",
            "null",
            "{}{}",
            "{}x",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1 2}"#,
            "{a:1}",
            r#"{"a":1}}"#,
            r#"{,"a":1}"#,
            r#"{"a":1,}"#,
            "{\"a\":\"\\",
            "{\"a\":\"\\é",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[test]
    fn the_last_of_several_counts() {
        let levels = members(r#"{"a":{"b":0},"a":{"c":2}}"#, &["a"]).unwrap();
        assert_eq!(find(&levels[0], "a").unwrap().value, r#"{"c":2}"#);
        assert_eq!(find(&levels[1], "c").unwrap().value, "2");
        assert_eq!(find(&levels[1], "b"), None);
    }

    #[test]
    fn a_path_leads_down() {
        let text = r#"{"a":1,"m":{"x": 1,"n":{"y":2}},"z":3}"#;
        let levels = members(text, &["m", "n"]).unwrap();
        let keys = |level: &Members<'_>| level.iter().map(|it| it.key).collect::<String>();
        assert_eq!(levels.iter().map(keys).collect::<Vec<_>>(), ["amz", "xn", "y"]);
        let deep = &levels[2][0];
        assert_eq!(&text[deep.at.clone()], r#""y":2"#);
        let levels = members(r#"{"m":7}"#, &["m", "n"]).unwrap();
        assert!(levels[1].is_empty() && levels[2].is_empty());
    }

    #[test]
    fn signs_are_found_wherever_they_stand() {
        for length in 0..140 {
            for mark in [b'"', b'\\'] {
                for at in 0..length {
                    let mut bytes = vec![0xFF - mark; length];
                    bytes[at] = mark;
                    bytes[length - 1] = mark;
                    assert_eq!(sign(&bytes), Some(at));
                }
            }
            assert_eq!(sign(&vec![b'#'; length]), None);
        }
    }
}
