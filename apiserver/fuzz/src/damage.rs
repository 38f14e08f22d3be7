//! Mutations of inputs: flips, drops, repeats and moves bytes; drops, renames and replaces the members of JSON trees.
//!
//! Must not depend on the purpose of inputs.

use serde_json::{Map, Value, json};

use crate::dice::Dice;

/// Bytes that often reveal mistakes in parsers.
const ODD: &[u8] = b"\x00\x01\x7f\x80\xff\"\\/{}[]:,.-+eE0 \n\t%&=";

/// Strings that often reveal mistakes in parsers.
const ODD_TEXTS: &[&str] = &[
    "",
    " ",
    "\0",
    "é\u{1f600}",
    "null",
    "-1",
    "9223372036854775808",
    "9999-12-31T23:59:59.999999999Z",
    "-009999-01-01T00:00:00Z",
    "2026-01-01T00:00:00+25:59",
    "a/b",
    "../..",
    "=",
    "a\nb",
];

/// The depths of wrapped trees; they test the recursion limits of parsers.
const DEPTHS: [usize; 4] = [1, 20, 126, 400];

/// Mutates the bytes at one place.
pub(crate) fn bytes(dice: &mut Dice, input: &mut Vec<u8>, samples: &[Vec<u8>], tokens: &[&str]) {
    let at = dice.below(input.len() + 1);
    let end = at + dice.below((input.len() - at).min(32) + 1);
    match dice.below(9) {
        0 if at < input.len() => input[at] ^= 1 << dice.below(8),
        1 if at < input.len() => input[at] = ODD[dice.below(ODD.len())],
        2 => drop(input.drain(at..end)),
        3 => {
            let again = input[at..end].to_vec();
            input.splice(end..end, again);
        }
        4 => {
            let moved: Vec<u8> = input.drain(at..end).collect();
            let to = dice.below(input.len() + 1);
            input.splice(to..to, moved);
        }
        5 => {
            let other = dice.one(samples).map_or(&b""[..], Vec::as_slice);
            let (from, many) = (dice.below(other.len() + 1), dice.below(64));
            let part = other[from..].iter().take(many).copied();
            input.splice(at..end, part.collect::<Vec<u8>>());
        }
        6 => input.truncate(at.max(1)),
        7 => {
            let many = dice.below(4) + 1;
            let noise: Vec<u8> = (0..many).map(|_| dice.byte()).collect();
            input.splice(at..at, noise);
        }
        _ => {
            let token = dice.one(tokens).copied().unwrap_or_default();
            input.splice(at..end, token.bytes());
        }
    }
}

/// Mutates the tree at one node; inserted values come from the other trees.
pub(crate) fn tree(dice: &mut Dice, root: &mut Value, others: &[Value], tokens: &[&str]) {
    let place = dice.below(size(root));
    let node = nth(root, &mut { place }).expect("there are so many");
    match (dice.below(8), node) {
        (0, Value::Object(members)) => {
            if let Some(name) = name(dice, members) {
                members.remove(&name);
            }
        }
        (1, Value::Object(members)) => {
            let new = dice.one(tokens).copied().unwrap_or("x").to_owned();
            let value = name(dice, members).and_then(|name| members.remove(&name));
            members.insert(new, value.unwrap_or_default());
        }
        (0, Value::Array(items)) if !items.is_empty() => {
            items.remove(dice.below(items.len()));
        }
        (1, Value::Array(items)) if !items.is_empty() => {
            let item = items[dice.below(items.len())].clone();
            items.insert(dice.below(items.len() + 1), item);
        }
        (0..=2, Value::String(text)) => {
            let mut changed = std::mem::take(text).into_bytes();
            bytes(dice, &mut changed, &[], tokens);
            *text = String::from_utf8_lossy(&changed).into_owned();
        }
        (0..=2, node @ Value::Number(_)) => *node = number(dice),
        (3, node) => wrap(dice, node),
        (4 | 5, node) => {
            let other = dice.one(others).cloned().unwrap_or_default();
            let place = dice.below(size(&other));
            let mut other = other;
            *node = nth(&mut other, &mut { place }).map_or(Value::Null, Value::take);
        }
        (_, node) => *node = odd(dice),
    }
}

fn wrap(dice: &mut Dice, node: &mut Value) {
    let depth = DEPTHS[dice.below(DEPTHS.len())];
    let is_list = dice.below(2) == 0;
    for _ in 0..depth {
        let inner = node.take();
        // `json!` would copy the value.
        *node = if is_list {
            vec![inner].into()
        } else {
            Map::from_iter([("a".to_owned(), inner)]).into()
        };
    }
}

fn odd(dice: &mut Dice) -> Value {
    match dice.below(7) {
        0 => Value::Null,
        1 => (dice.below(2) == 0).into(),
        2 => json!({}),
        3 => json!([]),
        4 => "x".repeat(1 << dice.below(13)).into(),
        5 => number(dice),
        _ => ODD_TEXTS[dice.below(ODD_TEXTS.len())].into(),
    }
}

fn number(dice: &mut Dice) -> Value {
    match dice.below(9) {
        0 => 0.into(),
        1 => (-1).into(),
        2 => i64::MIN.into(),
        3 => i64::MAX.into(),
        4 => u64::MAX.into(),
        5 => u32::MAX.into(),
        6 => json!(1e308),
        7 => json!(-0.0),
        _ => dice.next().into(),
    }
}

fn name(dice: &mut Dice, members: &Map<String, Value>) -> Option<String> {
    let at = dice.below(members.len());
    members.keys().nth(at).cloned()
}

/// Returns the number of nodes.
fn size(tree: &Value) -> usize {
    1 + match tree {
        Value::Object(members) => members.values().map(size).sum(),
        Value::Array(items) => items.iter().map(size).sum(),
        _ => 0,
    }
}

/// Returns the node with this number, counted from the root; decrements `place` for each visited node.
fn nth<'a>(tree: &'a mut Value, place: &mut usize) -> Option<&'a mut Value> {
    if *place == 0 {
        return Some(tree);
    }
    *place -= 1;
    match tree {
        Value::Object(members) => members.values_mut().find_map(|it| nth(it, place)),
        Value::Array(items) => items.iter_mut().find_map(|it| nth(it, place)),
        _ => None,
    }
}
