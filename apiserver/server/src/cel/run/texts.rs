//! Functions of strings.
//!
//! Positions in strings count characters. Uses lists only as the result of a split.

use super::printf;
use crate::cel::value::{Fault, Outcome, Value};
use crate::schema::pattern::Pattern;

/// Applies a function of strings, or returns `None` if it belongs to another module.
pub(super) fn call<'a>(name: &str, given: &[Value<'a>]) -> Option<Outcome<'a>> {
    let (text, rest) = match given {
        [Value::Text(text), rest @ ..] => (&**text, rest),
        [Value::List(list), rest @ ..] if name == "join" => {
            let between = match rest {
                [] => "",
                [Value::Text(between)] => between,
                _ => return None,
            };
            return Some(list.values().and_then(|texts| joined(&texts, between)));
        }
        _ => return None,
    };
    let searched = searched(name, text, rest);
    let found = searched.or_else(|| parted(name, text, rest));
    found.or_else(|| changed(name, text, rest))
}

/// Applies a function that searches in a string.
fn searched<'a>(name: &str, text: &str, rest: &[Value<'a>]) -> Option<Outcome<'a>> {
    Some(match (name, rest) {
        ("contains", [Value::Text(part)]) => Ok(Value::Bool(text.contains(&**part))),
        ("startsWith", [Value::Text(part)]) => Ok(Value::Bool(text.starts_with(&**part))),
        ("endsWith", [Value::Text(part)]) => Ok(Value::Bool(text.ends_with(&**part))),
        ("matches", [Value::Text(source)]) => {
            pattern(source, "").map(|pattern| Value::Bool(pattern.is_match(text)))
        }
        ("find", [Value::Text(source)]) => pattern(source, "Illegal regex: ").map(|pattern| {
            let found = pattern.find(text).into_iter().next();
            Value::text(found.unwrap_or_default().to_owned())
        }),
        ("findAll", [Value::Text(source)]) => found_all(text, source, -1),
        ("findAll", [Value::Text(source), Value::Int(most)]) => found_all(text, source, *most),
        ("indexOf", [Value::Text(part)]) => place(text, part, 0),
        ("indexOf", [Value::Text(part), Value::Int(from)]) => place(text, part, *from),
        ("lastIndexOf", [Value::Text(part)]) => {
            let count = length(text);
            if part.is_empty() {
                Ok(Value::Int(count))
            } else if text.len() < part.len() {
                Ok(Value::Int(-1))
            } else {
                last_place(text, part, count - 1)
            }
        }
        ("lastIndexOf", [Value::Text(part), Value::Int(from)]) => last_place(text, part, *from),
        _ => return None,
    })
}

fn pattern(source: &str, before: &str) -> Result<Pattern, Fault> {
    Pattern::new(source).ok_or_else(|| {
        let why = crate::schema::pattern::complaint(source);
        let why = why.unwrap_or_else(|| format!("error parsing regexp: unsupported: `{source}`"));
        Fault::Told(format!("{before}{why}"))
    })
}

fn found_all<'a>(text: &str, source: &str, most: i64) -> Outcome<'a> {
    let pattern = pattern(source, "Illegal regex: ")?;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let found = pattern.find(text);
    Ok(Value::texts(
        found.into_iter().take(most).map(str::to_owned),
    ))
}

fn length(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

fn out_of_range(at: i64) -> Fault {
    Fault::Told(format!("index out of range: {at}"))
}

/// Returns the first position of `part` at or after `from`.
fn place<'a>(text: &str, part: &str, from: i64) -> Outcome<'a> {
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    let start = usize::try_from(from).map_err(|_| out_of_range(from))?;
    let (letters, wanted) = (letters(text), letters(part));
    let mut windows = letters.windows(wanted.len()).enumerate().skip(start);
    Ok(at_place(
        windows
            .find(|(_, window)| *window == wanted)
            .map(|(at, _)| at),
    ))
}

/// Returns the last position of `part` at or before `from`.
fn last_place<'a>(text: &str, part: &str, from: i64) -> Outcome<'a> {
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    let start = usize::try_from(from).map_err(|_| out_of_range(from))?;
    let (letters, wanted) = (letters(text), letters(part));
    if start >= letters.len() {
        return Ok(Value::Int(-1));
    }
    let mut windows = letters.windows(wanted.len()).enumerate().take(start + 1);
    let found = windows.rfind(|(_, window)| *window == wanted);
    Ok(at_place(found.map(|(at, _)| at)))
}

fn letters(text: &str) -> Vec<char> {
    text.chars().collect()
}

fn at_place<'a>(at: Option<usize>) -> Value<'a> {
    Value::Int(at.map_or(-1, |at| i64::try_from(at).unwrap_or(i64::MAX)))
}

/// Applies a function that returns pieces of a string.
fn parted<'a>(name: &str, text: &str, rest: &[Value<'a>]) -> Option<Outcome<'a>> {
    Some(match (name, rest) {
        ("charAt", [Value::Int(at)]) => {
            let count = length(text);
            if *at < 0 || *at > count {
                Err(out_of_range(*at))
            } else {
                cut(text, *at, (*at + 1).min(count))
            }
        }
        ("substring", [Value::Int(from)]) => cut(text, *from, length(text).max(*from)),
        ("substring", [Value::Int(from), Value::Int(to)]) => cut(text, *from, *to),
        ("split", [Value::Text(by)]) => Ok(split(text, by, -1)),
        ("split", [Value::Text(by), Value::Int(most)]) => Ok(split(text, by, *most)),
        _ => return None,
    })
}

fn cut<'a>(text: &str, from: i64, to: i64) -> Outcome<'a> {
    if from > to {
        let why = format!("invalid substring range. start: {from}, end: {to}");
        return Err(Fault::Told(why));
    }
    let count = length(text);
    for at in [from, to] {
        if at < 0 || at > count {
            return Err(out_of_range(at));
        }
    }
    let skipped = usize::try_from(from).unwrap_or_default();
    let taken = usize::try_from(to - from).unwrap_or_default();
    Ok(Value::text(
        text.chars().skip(skipped).take(taken).collect::<String>(),
    ))
}

fn split<'a>(text: &str, by: &str, most: i64) -> Value<'a> {
    let most = match most {
        0 => return Value::list(Vec::new()),
        most => usize::try_from(most).unwrap_or(usize::MAX),
    };
    if !by.is_empty() {
        return Value::texts(text.splitn(most, by).map(str::to_owned));
    }
    let letters = letters(text);
    let single = letters.len().min(most.saturating_sub(1));
    let (single, rest) = letters.split_at(if letters.len() <= most {
        letters.len()
    } else {
        single
    });
    let rest = (!rest.is_empty()).then(|| rest.iter().collect::<String>());
    Value::texts(single.iter().map(char::to_string).chain(rest))
}

fn joined<'a>(texts: &[Value<'a>], between: &str) -> Outcome<'a> {
    let mut made = String::new();
    for (at, text) in texts.iter().enumerate() {
        let Value::Text(text) = text else {
            let why = format!("join: invalid input: {}", crate::cel::value::shown(text));
            return Err(Fault::Told(why));
        };
        if at > 0 {
            made.push_str(between);
        }
        made.push_str(text);
    }
    Ok(Value::text(made))
}

/// Applies a function that transforms a string.
fn changed<'a>(name: &str, text: &str, rest: &[Value<'a>]) -> Option<Outcome<'a>> {
    Some(Ok(Value::text(match (name, rest) {
        ("lowerAscii", []) => text.to_ascii_lowercase(),
        ("upperAscii", []) => text.to_ascii_uppercase(),
        ("trim", []) => text.trim().to_owned(),
        ("replace", [Value::Text(old), Value::Text(new)]) => text.replace(&**old, new),
        ("replace", [Value::Text(old), Value::Text(new), Value::Int(most)]) => {
            text.replacen(&**old, new, usize::try_from(*most).unwrap_or(usize::MAX))
        }
        ("strings.quote", []) => quoted(text),
        ("format", [Value::List(list)]) => return Some(printf::format(text, list)),
        _ => return None,
    })))
}

fn quoted(text: &str) -> String {
    let mut made = String::from("\"");
    for letter in text.chars() {
        let escape = match letter {
            '\u{7}' => "\\a",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\u{b}' => "\\v",
            '\\' => "\\\\",
            '"' => "\\\"",
            other => {
                made.push(other);
                continue;
            }
        };
        made.push_str(escape);
    }
    made.push('"');
    made
}
