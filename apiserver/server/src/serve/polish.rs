//! Post-processes finished answers: indents JSON for people, and computes entity tags for unchanged answers.
//!
//! Guarantees that the content stays the same. Must not depend on the meaning of answers.

use bytes::Bytes;

use crate::call::Call;

/// Returns whether the answer is for a person, who set `pretty` or uses curl or Wget.
pub(super) fn is_for_people(call: &Call) -> bool {
    if call.query.iter().any(|(key, _)| key == "pretty") {
        return call.switch("pretty");
    }
    let agent = call.user_agent.as_deref().unwrap_or_default();
    agent.starts_with("curl") || agent.starts_with("Wget")
}

/// Returns JSON with one value per line.
pub(super) fn indented(text: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(text.len() * 2);
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    let line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.extend(std::iter::repeat_n(b' ', depth * 2));
    };
    for (at, &byte) in text.iter().enumerate() {
        if quoted {
            out.push(byte);
            quoted = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        let empty = matches!(text.get(at + 1), Some(b'}' | b']'));
        let was_empty = at > 0 && matches!(text[at - 1], b'{' | b'[');
        match byte {
            b'"' => {
                quoted = true;
                out.push(byte);
            }
            b'{' | b'[' => {
                out.push(byte);
                depth += 1;
                if !empty {
                    line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if !was_empty {
                    line(&mut out, depth);
                }
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            byte if byte.is_ascii_whitespace() => {}
            byte => out.push(byte),
        }
    }
    out.into()
}

/// Returns an entity tag for this content.
pub(super) fn tag(text: &[u8]) -> String {
    let hash = |start: u64| {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        text.iter().fold(start, step)
    };
    let (one, two) = (hash(0xcbf2_9ce4_8422_2325), hash(0x9e37_79b9_7f4a_7c15));
    format!("\"{one:016X}{two:016X}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_and_stays_the_same() {
        let text = br#"{"a":[],"b":{"c":"x\"{,:\\"},"d":[1,{}]}"#;
        let shown = indented(text);
        let expected = "{\n  \"a\": [],\n  \"b\": {\n    \"c\": \"x\\\"{,:\\\\\"\n  },\n  \"d\": [\n    1,\n    {}\n  ]\n}";
        assert_eq!(std::str::from_utf8(&shown).unwrap(), expected);
    }
}
