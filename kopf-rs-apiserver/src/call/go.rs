//! JSON parsing whose complaints are worded as Go words them, since users search for those words.
//!
//! Promise: accepts what `serde_json` accepts. Must not know what is parsed.

use serde_json::Value;

/// Parse JSON.
pub(crate) fn parse(text: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(text).map_err(|error| complaint(text, &error))
}

fn complaint(text: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let line_start = text
        .split_inclusive(|byte| *byte == b'\n')
        .take(error.line().saturating_sub(1))
        .map(<[u8]>::len)
        .sum::<usize>();
    let at = line_start + error.column().saturating_sub(1);
    let rest = String::from_utf8_lossy(text.get(at..).unwrap_or_default());
    let letter = rest.chars().next().unwrap_or(' ');
    let told = error.to_string();
    let place = if told.starts_with("key must be a string") {
        "looking for beginning of object key string"
    } else if told.starts_with("expected value") {
        "looking for beginning of value"
    } else if told.starts_with("expected `:`") {
        "after object key"
    } else if told.starts_with("expected `,` or `}`") {
        "after object key:value pair"
    } else if told.starts_with("expected `,` or `]`") {
        "after array element"
    } else if told.starts_with("trailing characters") {
        "after top-level value"
    } else {
        return told;
    };
    format!("invalid character '{letter}' {place}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_name_the_character() {
        for (text, expected) in [
            ("", "unexpected end of JSON input"),
            ("{\"a\":", "unexpected end of JSON input"),
            (
                "garbage",
                "invalid character 'g' looking for beginning of value",
            ),
            (
                "{bad",
                "invalid character 'b' looking for beginning of object key string",
            ),
            (
                "{\"a\":1\n x",
                "invalid character 'x' after object key:value pair",
            ),
            ("[1 2]", "invalid character '2' after array element"),
            ("{} x", "invalid character 'x' after top-level value"),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(expected.to_owned()), "{text}");
        }
    }
}
