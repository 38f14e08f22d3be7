//! Reads YAML as kubectl does: plain scalars have the types of YAML 1.1, and whole numbers have no fraction.
//!
//! This module does not know what documents mean.

use std::fmt;
use std::panic::resume_unwind;
use std::thread;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{Error, Location, Spanned};

/// A value in which plain scalars have the types of the YAML parser.
enum Node {
    Scalar(Value),
    List(Vec<Spanned<Node>>),
    Map(Vec<(Spanned<Node>, Spanned<Node>)>),
}

/// Parses all documents that have content.
pub(crate) fn parse(text: &str) -> Result<Vec<Value>, Error> {
    // Without optimization, the depth that the parser allows needs more stack than a thread has by default.
    const STACK: usize = 16 * 1024 * 1024;
    thread::scope(|scope| {
        let reader = thread::Builder::new().stack_size(STACK);
        let Ok(reader) = reader.spawn_scoped(scope, || read(text)) else {
            return read(text);
        };
        reader.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn read(text: &str) -> Result<Vec<Value>, Error> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    // So that the place of a block scalar at the end includes the end of its line.
    let text = format!("{text}\n");
    let documents = serde_saphyr::from_multiple_with_options::<Spanned<Node>>(&text, options)?;
    let documents = documents.into_iter();
    Ok(documents.map(|it| settled(it, &text)).collect())
}

/// Returns the value in which plain scalars have the types that kubectl gives them.
fn settled(node: Spanned<Node>, text: &str) -> Value {
    match node.value {
        Node::Scalar(value) => plain(&node.defined, text).map_or(value, scalar),
        Node::List(items) => items.into_iter().map(|it| settled(it, text)).collect(),
        Node::Map(fields) => {
            let fields = fields.into_iter().map(|(key, value)| {
                let key = match settled(key, text) {
                    Value::String(key) => key,
                    key => key.to_string(),
                };
                (key, settled(value, text))
            });
            Value::Object(fields.collect::<Map<_, _>>())
        }
    }
}

/// Returns a plain scalar without a tag as it is written.
fn plain<'a>(place: &Location, text: &'a str) -> Option<&'a str> {
    let span = place.span();
    let at = usize::try_from(span.byte_offset()?).ok()?;
    let length = usize::try_from(span.byte_len()?).ok()?;
    let (before, rest) = text.split_at_checked(at)?;
    let written = rest.get(..length)?;
    // The place of a block scalar includes the ends of its lines.
    let is_plain = !written.is_empty() && !written.contains('\n') && !written.starts_with(['"', '\'']);
    let word = before.trim_end().rsplit(char::is_whitespace).next()?;
    let has_tag = word.trim_start_matches(['[', '{', ',']).starts_with('!');
    (is_plain && !has_tag).then_some(written)
}

fn scalar(written: &str) -> Value {
    match written {
        "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "true" | "True" | "TRUE" => true.into(),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" | "false" | "False" | "FALSE" => false.into(),
        _ => number(written).map_or_else(|| written.into(), Value::Number),
    }
}

fn number(written: &str) -> Option<Number> {
    // Rust also knows numbers that begin with letters, such as `inf`.
    let digits = match written.as_bytes() {
        [b'0'..=b'9' | b'+' | b'-', ..] | [b'.', b'0'..=b'9', ..] => written.replace('_', ""),
        _ => return None,
    };
    integer(&digits).or_else(|| float(digits.parse().ok()?))
}

fn integer(digits: &str) -> Option<Number> {
    let unsigned = digits.strip_prefix(['+', '-']).unwrap_or(digits);
    let (radix, size) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &unsigned[2..]),
        [b'0', b'o' | b'O', ..] => (8, &unsigned[2..]),
        [b'0', b'b' | b'B', ..] => (2, &unsigned[2..]),
        [b'0', _, ..] => (8, &unsigned[1..]),
        _ => (10, unsigned),
    };
    // Rust accepts a sign here.
    if !size.starts_with(|first: char| first.is_ascii_hexdigit()) {
        return None;
    }
    if digits.starts_with('-') {
        let negative = i64::from_str_radix(&format!("-{size}"), radix);
        return negative.ok().map(Number::from);
    }
    u64::from_str_radix(size, radix).ok().map(Number::from)
}

/// Returns the number as Go writes it: a whole one without a fraction, which the API server takes for an integer.
fn float(value: f64) -> Option<Number> {
    let whole = value.to_string().parse::<i64>();
    whole.map_or_else(|_| Number::from_f64(value), |whole| Some(whole.into()))
}

// === impl Node ===

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Scalar(float(value).map_or(Value::Null, Value::Number)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some((key, value)) = map.next_entry::<Spanned<Node>, _>()? {
            match key.value {
                Node::Scalar(Value::Null) | Node::List(_) | Node::Map(_) => {
                    return Err(A::Error::custom("a key is a text, a number or a boolean"));
                }
                Node::Scalar(_) => fields.push((key, value)),
            }
        }
        Ok(Node::Map(fields))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The values are those of `sigs.k8s.io/yaml` 1.6.0, which kubectl uses.
    #[test]
    fn scalars_have_the_values_that_kubectl_gives_them() {
        let octal = ["0400", "+0400", "0o400", "0O400", "04_00"];
        let based = ["0x100", "0X1_00", "0b1_0000_0000", "256.", "2.56e2"];
        let negative = ["-010", "-0b1000", "-0x8", "-8.0", "!!float -8"];
        let odd = ["08", "0_8", "8_", "+8", "0o_10", "!!int 8"];
        let whole = ["1e3", "1E3", "1e+3", "1.e3", "1_000", "1__000", "1_0e2"];
        let broken = ["685_230.15", "685230.15", "+685_230.1_5", "6.8523015e5"];
        let half = [".5", "+.5", ".5_0", "00.5", "5e-1"];
        let zero = ["-0", "+0", "00", "0e1", "0b0"];
        let large = ["18446744073709551616", "1.8446744073709552e19"];
        let yes = ["y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "True"];
        let no = ["n", "N", "no", "No", "NO", "off", "Off", "OFF", "FALSE"];
        for (texts, value) in [
            (&octal[..], json!(256)),
            (&based, json!(256)),
            (&negative, json!(-8)),
            (&odd, json!(8)),
            (&whole, json!(1000)),
            (&broken, json!(685_230.15)),
            (&half, json!(0.5)),
            (&zero, json!(0)),
            (&large, json!(1.844_674_407_370_955_2e19)),
            (&yes, json!(true)),
            (&no, json!(false)),
            (&["~", "null", "Null", "NULL"], Value::Null),
        ] {
            for text in texts {
                let parsed = parse(&format!("[{text}, {text}]")).unwrap();
                assert_eq!(parsed, [json!([value, value])], "{text}");
            }
        }
    }

    #[test]
    fn text_for_kubectl_stays_text() {
        let texts =
            "190:20:30 2001-01-01 1.2.3 _1000 ._5 0o18 0b12 0x 0x1p3 1e + inf +inf -nan yEs oN tRUE nULL";
        for text in texts.split(' ') {
            let parsed = parse(&format!("- {text}\n---\n- |-\n  {text}")).unwrap();
            assert_eq!(parsed, [json!([text]), json!([text])]);
        }
        let marked = r#"['1_0.5', "1_0.5", !!str 1_0.5, &a "y", *a, "", "~"]"#;
        let texts = json!(["1_0.5", "1_0.5", "1_0.5", "y", "y", "", "~"]);
        assert_eq!(parse(marked).unwrap(), [texts]);
        assert_eq!(parse("|-\n  1_0.5").unwrap(), ["1_0.5"]);
    }

    #[test]
    fn keys_are_scalars_too() {
        let parsed = parse("{y: , 'n': 2, 0400: 3, 1_0.5: 4, <<: {.5: 6}}").unwrap();
        let fields = json!({"true": null, "n": 2, "256": 3, "10.5": 4, "0.5": 6});
        assert_eq!(parsed, [fields]);
        assert!(parse("~: 1").is_err());
    }
}
