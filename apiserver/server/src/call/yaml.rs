//! Reads YAML like the real server: only the first document, keys of any type as strings, and the last one of duplicate fields.
//!
//! Guarantees the messages of Go's YAML parser for duplicate fields. Must not depend on the meaning of documents.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

/// A value, with the positions of its fields' values.
#[derive(Debug)]
enum Node {
    Plain(Value),
    List(Vec<Node>),
    Map(Vec<(Key, Spanned<Node>)>),
}

/// A key. Plain words like `y` and `no` are booleans, as in YAML 1.1.
#[derive(Debug)]
struct Key {
    text: String,
    /// The key in Go's notation.
    shown: String,
}

/// The maximum depth of texts that are parsed on the current stack.
const SHALLOW: usize = 24;

/// Parses the first document of a text; also returns the messages about duplicate fields.
pub(super) fn parse(text: &str) -> Result<(Value, Vec<String>), serde_saphyr::Error> {
    const STACK: usize = 16 * 1024 * 1024;
    if depth_at_most(text) <= SHALLOW {
        return read(text);
    }
    // Without optimization, the 64 levels that the parser allows need more stack than a thread has by default.
    let read_apart = std::thread::scope(|scope| {
        let reader = std::thread::Builder::new().stack_size(STACK);
        let reader = reader.spawn_scoped(scope, || read(text)).ok()?;
        reader.join().ok()
    });
    read_apart.unwrap_or_else(|| read(text))
}

/// Returns an upper bound for the depth of a text: the maximum of open brackets plus the maximum indentation.
fn depth_at_most(text: &str) -> usize {
    let (mut open, mut most_open) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'{' | b'[' => open += 1,
            b'}' | b']' => open = open.saturating_sub(1),
            _ => {}
        }
        most_open = most_open.max(open);
    }
    let is_mark = |it: &u8| matches!(it, b' ' | b'-' | b'?' | b':');
    let marks = |line: &str| line.bytes().take_while(|it| is_mark(it)).count();
    let columns = text.lines().map(marks).max().unwrap_or_default();
    // Each level takes at least one column. A list item takes two, and may have the same indentation as its list's key.
    most_open + columns + 1
}

fn read(text: &str) -> Result<(Value, Vec<String>), serde_saphyr::Error> {
    // Not strict: like YAML 1.1, the real server reads `y` and `no` as booleans and `0400` as an octal number.
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
    };
    let node: Node = serde_saphyr::from_str_with_options(first_document(text), options)?;
    let mut repeated = Vec::new();
    Ok((node.settle(&mut repeated), repeated))
}

/// Returns the text before the marker of a second document.
fn first_document(text: &str) -> &str {
    let (mut at, mut begun) = (0, false);
    for line in text.split_inclusive('\n') {
        let bare = line.trim_end();
        let marks = bare == "---" || bare.starts_with("--- ");
        if marks && begun {
            return &text[..at];
        }
        let silent = bare.is_empty() || bare.starts_with(['#', '%']) || bare == "---";
        begun |= !silent;
        at += line.len();
    }
    text
}

// === impl Node ===

impl Node {
    /// Returns the value; messages about inner fields precede those about the enclosing field.
    fn settle(self, repeated: &mut Vec<String>) -> Value {
        match self {
            Self::Plain(value) => value,
            Self::List(items) => items
                .into_iter()
                .map(|item| item.settle(repeated))
                .collect(),
            Self::Map(fields) => {
                let mut map = Map::new();
                for (key, value) in fields {
                    let line = value.referenced.line();
                    let value = value.value.settle(repeated);
                    if map.insert(key.text, value).is_some() {
                        repeated.push(format!("line {line}: key {} already set in map", key.shown));
                    }
                }
                map.into()
            }
        }
    }
}

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
        Ok(Node::Plain(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Plain(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Node, D::Error> {
        Node::deserialize(from)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Plain(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Plain(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Plain(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Node, E> {
        let number = Number::from_f64(value);
        let number = number.ok_or_else(|| E::custom(format!("unsupported value: {value}")))?;
        Ok(Node::Plain(number.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Plain(value.into()))
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
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Node::Map(fields))
    }
}

// === impl Key ===

impl Key {
    fn plain(text: String) -> Self {
        let shown = text.clone();
        Self { text, shown }
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match Node::deserialize(from)? {
            Node::Plain(Value::String(text)) => {
                let shown = format!("{text:?}");
                Ok(Self { text, shown })
            }
            Node::Plain(Value::Null) => Ok(Self::plain("null".to_owned())),
            Node::Plain(value) => Ok(Self::plain(value.to_string())),
            Node::List(_) | Node::Map(_) => Err(D::Error::custom("a key is no scalar")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn repeated_fields_are_told_and_the_last_counts() {
        let text = "a: 1\nn: {b: 2, b: 3}\na:\n  c: x\n\"n\": 4\n---\nd: 5\n";
        let (value, repeated) = parse(text).unwrap();
        assert_eq!(value, json!({"a": {"c": "x"}, "false": {"b": 3}, "n": 4}));
        let told = [
            "line 2: key \"b\" already set in map",
            "line 4: key \"a\" already set in map",
        ];
        assert_eq!(repeated, told);
    }

    #[test]
    fn the_deepest_texts_fit_on_the_stack_of_a_thread() {
        let levels = 60;
        let brackets = format!("{}1{}", "{\"a\": ".repeat(levels), "}".repeat(levels));
        let lists = format!("{}1", "- ".repeat(levels));
        let columns = (0..levels).map(|it| [&" ".repeat(it), "a:\n"].concat());
        let columns = columns.collect::<Vec<_>>().concat();
        for text in [brackets, lists, columns] {
            assert!(depth_at_most(&text) > SHALLOW);
            assert!(parse(&text).is_ok(), "{text}");
        }
        assert!(depth_at_most("a:\n- b: {c: [1]}\n  d: 2\n") <= SHALLOW);
    }

    #[test]
    fn numbers_with_a_zero_in_front_are_octal() {
        let (value, _) = parse("[0400, -010, 0, 10, '0400']").unwrap();
        assert_eq!(value, json!([256, -8, 0, 10, "0400"]));
    }

    #[test]
    fn only_the_first_document_counts() {
        assert_eq!(first_document("---\na: b\n---\nc: d"), "---\na: b\n");
        assert_eq!(first_document("a: |\n  ---\n"), "a: |\n  ---\n");
    }
}
