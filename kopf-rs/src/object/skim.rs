//! Skimming JSON text: where the members of an object stand, and nothing of what they mean.
//!
//! Several times faster than reading it. Promises that strings end and brackets balance, so that a text cut short is noticed; what a
//! scalar is, nobody asks until a tree is made. Must not know Kubernetes.

use std::ops::Range;

use memchr::memchr2;

/// A member of an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Member<'a> {
    /// As it is spelled, without its quotes.
    pub(super) key: &'a str,
    /// As it is spelled.
    pub(super) value: &'a str,
    /// Where both stand, in bytes.
    pub(super) at: Range<usize>,
}

/// The members of the object that `text` is; `None` where it is none.
pub(super) fn members(text: &str) -> Option<Vec<Member<'_>>> {
    let mut skim = Skim { text, at: 0 };
    let mut members = Vec::with_capacity(8);
    skim.token(b'{')?;
    while skim.peek()? != b'}' {
        if !members.is_empty() {
            skim.token(b',')?;
        }
        skim.peek()?;
        let begin = skim.at;
        let key = skim.string()?;
        skim.token(b':')?;
        let value = skim.value()?;
        members.push(Member {
            key: &key[1..key.len() - 1],
            value,
            at: begin..skim.at,
        });
    }
    skim.token(b'}')?;
    text[skim.at..].trim_ascii().is_empty().then_some(members)
}

/// The member called `key`, as it is spelled. Where there are several the last one counts, as in a tree.
pub(super) fn find<'m, 'a>(members: &'m [Member<'a>], key: &str) -> Option<&'m Member<'a>> {
    members.iter().rev().find(|member| member.key == key)
}

struct Skim<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Skim<'a> {
    /// The next byte that is not blank.
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

    fn value(&mut self) -> Option<&'a str> {
        match self.peek()? {
            b'"' => return self.string(),
            b'{' | b'[' => {
                let begin = self.at;
                self.nested()?;
                return Some(&self.text[begin..self.at]);
            }
            _ => {}
        }
        let rest = &self.text[self.at..];
        let part_of = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'+' | b'.');
        let length = rest.bytes().take_while(|it| part_of(*it)).count();
        self.at += length;
        (length > 0).then(|| &rest[..length])
    }

    /// To behind the last bracket of the list or object that begins here.
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

    /// With its quotes.
    fn string(&mut self) -> Option<&'a str> {
        let begin = self.at;
        self.token(b'"')?;
        loop {
            let rest = self.text.as_bytes().get(self.at..)?;
            self.at += memchr2(b'"', b'\\', rest)?;
            if self.text.as_bytes()[self.at] == b'"' {
                self.at += 1;
                return Some(&self.text[begin..self.at]);
            }
            self.at += 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<Vec<(&str, &str)>> {
        let members = members(text)?;
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
    fn what_is_cut_or_no_object_is_refused() {
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
        let members = members(r#"{"a":1,"a":2}"#).unwrap();
        assert_eq!(find(&members, "a").unwrap().value, "2");
        assert_eq!(find(&members, "b"), None);
    }
}
