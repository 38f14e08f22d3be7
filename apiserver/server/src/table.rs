//! Builds `Table` responses, whose columns kubectl prints.
//!
//! The columns of custom and built-in kinds equal those of the real server. Independent of requests.

mod age;
mod builtin;
mod cells;
mod cluster;
mod event;
mod metrics;
mod path;
mod pod;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::call::{Included, Look};
use crate::kind::{Column, Kind};
use crate::object::{Body, Stored};
use crate::render::{self, ListMeta, list_meta, metadata_of, partial, to_bytes};
use crate::store::Store;
use age::since;

/// Returns one object as a table.
pub(crate) fn one(store: &Store, kind: &Kind, stored: &Stored, look: Look) -> Bytes {
    let meta = ListMeta {
        revision: stored.slim.revision,
        ..ListMeta::default()
    };
    many(store, kind, &[stored], &meta, look)
}

/// Returns the scale of an object as a table.
pub(crate) fn scale(store: &Store, kind: &Kind, scale: &Value, revision: u64, look: Look) -> Bytes {
    let columns = if kind.traits.builtin {
        builtin::scale()
    } else {
        builtin::dated(builtin::scale())
    };
    let now = store.clock.now();
    let empty = Body::new();
    let body = scale.as_object().unwrap_or(&empty);
    let meta = ListMeta {
        revision,
        ..ListMeta::default()
    };
    let shown = match look.included {
        Included::Object => scale.clone(),
        Included::Nothing => Value::Null,
        _ => metadata_of(scale, look.api_version),
    };
    let row = json!({"cells": cells(true, &columns, body, now), "object": shown});
    to_bytes(&framed(&columns, &[row], &meta, look))
}

/// Returns several objects as a table.
pub(crate) fn many(
    store: &Store,
    kind: &Kind,
    items: &[&Stored],
    meta: &ListMeta,
    look: Look,
) -> Bytes {
    to_bytes(&table(kind, items, meta, store.clock.now(), look))
}

/// Returns a table; ages are relative to `now`.
pub(crate) fn table(
    kind: &Kind,
    items: &[&Stored],
    meta: &ListMeta,
    now: Timestamp,
    look: Look,
) -> Value {
    let columns = columns(kind);
    let rows: Vec<Value> = items
        .iter()
        .map(|stored| row(kind, &columns, stored, now, look))
        .collect();
    framed(&columns, &rows, meta, look)
}

/// Returns the table of a bookmark, whose only row is an object with nothing but a resource version.
pub(crate) fn bookmark(
    kind: &Kind,
    [object, whole]: [&Value; 2],
    now: Timestamp,
    look: Look,
) -> Value {
    let columns = columns(kind);
    let mut nameless = object.clone();
    nameless["metadata"]["name"] = "".into();
    let empty = Body::new();
    let body = nameless.as_object().unwrap_or(&empty);
    let marks_end = object["metadata"].get("annotations").is_some();
    let shown = match look.included {
        Included::Object => whole.clone(),
        Included::Nothing if !marks_end => Value::Null,
        _ => metadata_of(object, look.api_version),
    };
    let row = json!({"cells": cells(kind.traits.builtin, &columns, body, now), "object": shown});
    let revision = object["metadata"]["resourceVersion"].as_str();
    let meta = ListMeta {
        revision: revision
            .and_then(|text| text.parse().ok())
            .unwrap_or_default(),
        ..ListMeta::default()
    };
    framed(&columns, &[row], &meta, look)
}

fn framed(columns: &[Column], rows: &[Value], meta: &ListMeta, look: Look) -> Value {
    let definitions: Vec<Value> = columns
        .iter()
        .map(|column| {
            json!({
                "name": column.name, "type": column.kind, "format": column.format,
                "description": column.description, "priority": column.priority,
            })
        })
        .collect();
    json!({
        "kind": "Table",
        "apiVersion": look.api_version,
        "metadata": list_meta(meta),
        "columnDefinitions": definitions,
        "rows": rows,
    })
}

fn columns(kind: &Kind) -> Vec<Column> {
    if kind.traits.builtin {
        return builtin::columns(kind);
    }
    let mut columns = builtin::custom();
    if !kind.columns.is_empty() {
        columns.truncate(1);
        columns.extend(kind.columns.iter().cloned());
    }
    columns
}

fn row(kind: &Kind, columns: &[Column], stored: &Stored, now: Timestamp, look: Look) -> Value {
    let body = stored.body();
    let object = match look.included {
        Included::Object => Value::Object(render::body(kind, stored)),
        Included::Nothing => Value::Null,
        _ => partial(stored, look.api_version),
    };
    let mut row =
        json!({"cells": cells(kind.traits.builtin, columns, &body, now), "object": object});
    if kind.traits.builtin
        && kind.plural == "pods"
        && let Some(conditions) = pod::conditions(&body)
    {
        row["conditions"] = conditions;
    }
    row
}

fn cells(builtin: bool, columns: &[Column], body: &Body, now: Timestamp) -> Vec<Value> {
    // Only the columns of definitions need the whole object.
    let root = if builtin {
        Value::Null
    } else {
        Value::Object(body.clone())
    };
    let cell = |column: &Column| {
        if column.path.starts_with('@') {
            return cells::cell(&column.path, body, now);
        }
        let (path, absent) = column.path.split_once('|').unwrap_or((&column.path, ""));
        if builtin {
            given(column, find(body, path), absent)
        } else {
            let path = path::Path::read(&column.path);
            let found = path.as_ref().and_then(|path| path.first(&root));
            found.map_or(Value::Null, |found| plain(column, found, now))
        }
    };
    columns.iter().map(cell).collect()
}

/// Returns a cell of a built-in kind; an absent value becomes zero, false or a given text.
fn given(column: &Column, found: Option<&Value>, absent: &str) -> Value {
    match (column.kind.as_str(), found) {
        ("integer", found) => found.cloned().unwrap_or_else(|| 0.into()),
        ("boolean", found) => found.cloned().unwrap_or_else(|| false.into()),
        (_, None | Some(Value::Null)) => absent.into(),
        (_, Some(Value::String(text))) if text.is_empty() => absent.into(),
        (_, Some(Value::String(text))) => text.as_str().into(),
        (_, Some(other)) => other.to_string().into(),
    }
}

/// Returns a cell of a custom column, or null if the value does not match the type of the column.
fn plain(column: &Column, found: &Value, now: Timestamp) -> Value {
    match (column.kind.as_str(), found) {
        ("date", Value::String(text)) => dated(text, now).into(),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "as the real server does it"
        )]
        ("integer", Value::Number(number)) if number.is_f64() => {
            (number.as_f64().unwrap_or_default() as i64).into()
        }
        ("integer" | "number", Value::Number(_)) | ("boolean", Value::Bool(_)) => found.clone(),
        ("string", Value::Null) => "<no value>".into(),
        ("string", Value::String(text)) => text.as_str().into(),
        ("string", other) => other.to_string().into(),
        _ => Value::Null,
    }
}

fn dated(text: &str, now: Timestamp) -> String {
    let is_time = matches!(text, "" | "null") || text.parse::<Timestamp>().is_ok();
    if is_time {
        since(text, now)
    } else {
        "<invalid>".to_owned()
    }
}

/// Returns the first value at a JSON path of names, indices and `[?(@.key=="value")]`.
fn find<'a>(body: &'a Body, path: &str) -> Option<&'a Value> {
    let mut rest = path.strip_prefix('.').unwrap_or(path);
    let first_end = rest.find(['.', '[']).unwrap_or(rest.len());
    let mut value = body.get(&rest[..first_end])?;
    rest = &rest[first_end..];
    while !rest.is_empty() {
        if let Some(tail) = rest.strip_prefix('.') {
            let end = tail.find(['.', '[']).unwrap_or(tail.len());
            value = value.get(&tail[..end])?;
            rest = &tail[end..];
        } else {
            let end = rest.find(']')?;
            value = pick(value, &rest[1..end])?;
            rest = &rest[end + 1..];
        }
    }
    Some(value)
}

fn pick<'a>(value: &'a Value, step: &str) -> Option<&'a Value> {
    if let Some(filter) = step
        .strip_prefix("?(@.")
        .and_then(|text| text.strip_suffix(')'))
    {
        let (key, wanted) = filter.split_once("==")?;
        let wanted = wanted.trim().trim_matches(['"', '\'']);
        let items = value.as_array()?;
        return items
            .iter()
            .find(|item| item[key.trim()].as_str() == Some(wanted));
    }
    match step {
        "*" => value.get(0),
        step => match step.parse::<usize>() {
            Ok(at) => value.get(at),
            Err(_) => value.get(step.trim_matches(['"', '\''])),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_may_filter_lists() {
        let body = json!({"status": {"conditions": [{"type": "A", "status": "x"}, {"type": "Ready", "status": "True"}]}});
        let body = body.as_object().unwrap();
        let path = r#".status.conditions[?(@.type=="Ready")].status"#;
        assert_eq!(find(body, path), Some(&json!("True")));
        assert_eq!(
            find(body, ".status.conditions[0].status"),
            Some(&json!("x"))
        );
        assert_eq!(find(body, ".status.nothing[0]"), None);
    }
}
