//! `Table` answers: the columns kubectl prints.
//!
//! Promise: CRDs' own columns, and those of the kinds people look at most; NAME and AGE for the rest.
//! Must not know requests.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kind::{Column, Kind};
use crate::object::{Body, Stored, at_path, meta_text};
use crate::render::{ListMeta, list_meta, partial, to_bytes};
use crate::store::Store;

/// What the real server says of the column of names.
const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
/// What the real server says of the column of ages.
const AGE: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// One object as a table.
pub(crate) fn one(store: &Store, kind: &Kind, stored: &Stored) -> Bytes {
    let meta = ListMeta {
        revision: stored.slim.revision,
        ..ListMeta::default()
    };
    many(store, kind, &[stored], &meta)
}

/// Several objects as a table.
pub(crate) fn many(store: &Store, kind: &Kind, items: &[&Stored], meta: &ListMeta) -> Bytes {
    to_bytes(&table(kind, items, meta, store.clock.now()))
}

/// A table; `now` is what ages are counted to.
pub(crate) fn table(kind: &Kind, items: &[&Stored], meta: &ListMeta, now: Timestamp) -> Value {
    let columns = columns(kind);
    let rows: Vec<Value> = items
        .iter()
        .map(|stored| row(kind, &columns, stored, now))
        .collect();
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
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_meta(meta),
        "columnDefinitions": definitions,
        "rows": rows,
    })
}

fn column(name: &str, kind: &str, path: &str) -> Column {
    Column {
        name: name.to_owned(),
        kind: kind.to_owned(),
        format: if name == "Name" {
            "name".to_owned()
        } else {
            String::new()
        },
        description: match name {
            "Name" => NAME.to_owned(),
            "Age" => AGE.to_owned(),
            _ => String::new(),
        },
        priority: 0,
        path: path.to_owned(),
    }
}

fn columns(kind: &Kind) -> Vec<Column> {
    let mut columns = vec![column("Name", "string", ".metadata.name")];
    if !kind.columns.is_empty() {
        columns.extend(kind.columns.iter().cloned());
        return columns;
    }
    let own: &[(&str, &str, &str)] = match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => &[
            ("Ready", "string", "@ready"),
            ("Status", "string", "@phase"),
            ("Restarts", "string", "@restarts"),
        ],
        ("", "namespaces") => &[("Status", "string", ".status.phase")],
        ("", "configmaps") => &[("Data", "string", "@data")],
        ("", "secrets") => &[("Type", "string", ".type"), ("Data", "string", "@data")],
        ("", "services") => &[
            ("Type", "string", ".spec.type"),
            ("Cluster-IP", "string", ".spec.clusterIP"),
        ],
        ("", "events") => {
            return vec![
                column("Last Seen", "date", ".lastTimestamp"),
                column("Type", "string", ".type"),
                column("Reason", "string", ".reason"),
                column("Object", "string", "@object"),
                column("Message", "string", ".message"),
            ];
        }
        ("apps", "deployments") => &[
            ("Ready", "string", "@replicas"),
            ("Up-to-date", "integer", ".status.updatedReplicas"),
            ("Available", "integer", ".status.availableReplicas"),
        ],
        ("apps", "statefulsets") => &[("Ready", "string", "@replicas")],
        ("batch", "jobs") => &[("Completions", "string", "@completions")],
        ("apiextensions.k8s.io", _) => &[("Created At", "string", ".metadata.creationTimestamp")],
        _ => &[],
    };
    columns.extend(
        own.iter()
            .map(|(name, kind, path)| column(name, kind, path)),
    );
    if !kind.is_crd() {
        columns.push(column("Age", "string", "@age"));
    }
    columns
}

fn row(kind: &Kind, columns: &[Column], stored: &Stored, now: Timestamp) -> Value {
    let body = stored.body();
    let cells: Vec<Value> = columns
        .iter()
        .map(|column| cell(kind, column, &body, now))
        .collect();
    json!({"cells": cells, "object": partial(stored)})
}

fn cell(kind: &Kind, column: &Column, body: &Body, now: Timestamp) -> Value {
    let number = |path: &str| {
        at_path(body, path)
            .and_then(Value::as_i64)
            .unwrap_or_default()
    };
    match column.path.as_str() {
        "@ready" => ready(body).into(),
        "@phase" => phase(body).into(),
        "@restarts" => containers(body)
            .iter()
            .filter_map(|status| status["restartCount"].as_i64())
            .sum::<i64>()
            .into(),
        "@age" => {
            let then = meta_text(body, "creationTimestamp");
            then.parse()
                .map_or_else(|_| "<unknown>".into(), |then| age(then, now).into())
        }
        "@data" => at_path(body, ".data")
            .and_then(Value::as_object)
            .map_or(0, serde_json::Map::len)
            .into(),
        "@object" => {
            let string = |path| {
                at_path(body, path)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
            };
            format!(
                "{}/{}",
                string(".involvedObject.kind").to_lowercase(),
                string(".involvedObject.name")
            )
            .into()
        }
        "@replicas" => format!(
            "{}/{}",
            number(".status.readyReplicas"),
            number(".spec.replicas")
        )
        .into(),
        "@completions" => format!(
            "{}/{}",
            number(".status.succeeded"),
            number(".spec.completions").max(1)
        )
        .into(),
        path => plain(kind, column, find(body, path), now),
    }
}

/// A cell of a path: ages for dates, nothing for what is absent.
fn plain(kind: &Kind, column: &Column, found: Option<&Value>, now: Timestamp) -> Value {
    match (column.kind.as_str(), found) {
        ("date", found) => {
            let text = found.and_then(Value::as_str).unwrap_or_default();
            text.parse()
                .map_or_else(|_| "<unknown>".into(), |then| age(then, now).into())
        }
        (_, None | Some(Value::Null)) => match column.kind.as_str() {
            "integer" if kind.traits.builtin => 0.into(),
            _ => Value::Null,
        },
        ("integer" | "number" | "boolean", Some(value)) => value.clone(),
        (_, Some(Value::String(text))) => text.as_str().into(),
        (_, Some(other)) => other.to_string().into(),
    }
}

/// The first value at a JSON path of names, indices and `[?(@.key=="value")]`.
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

fn containers(body: &Body) -> Vec<&Value> {
    let statuses = at_path(body, ".status.containerStatuses").and_then(Value::as_array);
    statuses.into_iter().flatten().collect()
}

fn ready(body: &Body) -> String {
    let all = at_path(body, ".spec.containers")
        .and_then(Value::as_array)
        .map_or(0, Vec::len);
    let ready = containers(body)
        .iter()
        .filter(|status| status["ready"] == true)
        .count();
    format!("{ready}/{all}")
}

fn phase(body: &Body) -> String {
    if !meta_text(body, "deletionTimestamp").is_empty() {
        return "Terminating".to_owned();
    }
    let reason = at_path(body, ".status.reason").and_then(Value::as_str);
    let phase = at_path(body, ".status.phase").and_then(Value::as_str);
    reason.or(phase).unwrap_or_default().to_owned()
}

/// A duration as kubectl prints ages.
fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second() - then.as_second();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let pair = |big: i64, big_unit: &str, small: i64, small_unit: &str| {
        if small == 0 {
            format!("{big}{big_unit}")
        } else {
            format!("{big}{big_unit}{small}{small_unit}")
        }
    };
    match seconds {
        ..0 => "<invalid>".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => pair(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => pair(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => pair(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => pair(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_by_table() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        for (seconds, expected) in [
            (5, "5s"),
            (119, "119s"),
            (125, "2m5s"),
            (3600, "60m"),
            (11_000, "3h3m"),
            (90_000, "25h"),
            (200_000, "2d7h"),
            (864_000, "10d"),
        ] {
            assert_eq!(age(at(0), at(seconds)), expected);
        }
    }

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
