//! Fills in the defaults of built-in kinds.
//!
//! The defaults are those of Kubernetes 1.36, from `tables/defaults.txt`, applied along the types. Idempotent. Independent of the store.

mod created;
mod rule;
mod whole;

pub(crate) use created::{GENERATION, join_addresses, quality, tidy, tolerate_trouble};
pub(crate) use whole::summed;

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;

use super::Kind;
use crate::access;
use crate::admission;
use crate::object::Body;
use crate::typed::reach::Reach;
use crate::typed::{Struct, Type};

const TABLE: &str = include_str!("../../tables/defaults.txt");

static DEFAULTS: LazyLock<HashMap<&'static str, Vec<Default>>> = LazyLock::new(|| {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(parse).collect()
});

static REACH: LazyLock<Reach> = LazyLock::new(|| Reach::to(|name| DEFAULTS.contains_key(name)));

/// One action on an object of a type.
#[derive(Debug)]
enum Default {
    Set(&'static str, Value),
    /// Also replaces zero.
    SetNought(&'static str, Value),
    /// Keeps an empty string.
    SetMissing(&'static str, Value),
    Run(fn(&mut Body)),
}

/// Completes a new object.
pub(crate) fn fill_new(kind: &Kind, body: &mut Body) {
    created::begin(kind, body);
    access::check::fill_new(kind, body);
    fill(kind, body);
    created::finish(kind, body);
}

/// Completes an object before each write to the store.
pub(crate) fn fill(kind: &Kind, body: &mut Body) {
    access::check::fill(kind, body);
    admission::check::fill(kind, body);
    if let Some(of) = kind.stored_type() {
        object(of, body);
    }
}

fn object(of: &'static Struct, body: &mut Body) {
    for default in DEFAULTS.get(of.name).into_iter().flatten() {
        match default {
            Default::Set(field, value) => absent(body, field, value.clone()),
            Default::SetNought(field, value) => {
                if body.get(*field).and_then(Value::as_i64).unwrap_or_default() == 0 {
                    body.insert((*field).to_owned(), value.clone());
                }
            }
            Default::SetMissing(field, value) => {
                let slot = body.entry(*field).or_insert(Value::Null);
                if slot.is_null() {
                    *slot = value.clone();
                }
            }
            Default::Run(run) => run(body),
        }
    }
    for field in of.fields.iter().filter(|field| REACH.leads(&field.of)) {
        if field.is_inline() {
            if let Some(inner) = field.of.as_struct() {
                object(inner, body);
            }
        } else if let Some(found) = body.get_mut(field.name) {
            value(&field.of, found);
        }
    }
}

fn value(of: &Type, found: &mut Value) {
    match (of.element(), found) {
        (Some(inner), Value::Array(items)) => items.iter_mut().for_each(|item| value(inner, item)),
        (Some(inner), Value::Object(map)) => map.values_mut().for_each(|item| value(inner, item)),
        (None, Value::Object(map)) => {
            if let Some(of) = of.as_struct() {
                object(of, map);
            }
        }
        _ => {}
    }
}

/// Sets a field that is absent, null or an empty string.
fn absent(body: &mut Body, field: &str, value: Value) {
    let slot = body.entry(field).or_insert(Value::Null);
    let empty = match slot {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    if empty {
        *slot = value;
    }
}

fn parse(line: &'static str) -> Option<(&'static str, Vec<Default>)> {
    let mut words = line.split(' ');
    let name = words.next()?;
    let defaults = words.filter_map(|word| {
        if let Some(run) = word.strip_prefix('!') {
            return rule::named(run).map(Default::Run);
        }
        let (field, text) = word.split_once('=')?;
        let value = serde_json::from_str(text).ok()?;
        if let Some(field) = field.strip_suffix('+') {
            return Some(Default::SetNought(field, value));
        }
        Some(match field.strip_suffix('~') {
            Some(field) => Default::SetMissing(field, value),
            None => Default::Set(field, value),
        })
    });
    Some((name, defaults.collect()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kind::Kinds;
    use crate::kind::builtin::add_all;

    #[test]
    fn every_word_of_the_table_is_understood() {
        for line in TABLE.lines().filter(|line| !line.starts_with('#')) {
            let (name, defaults) = parse(line).unwrap();
            assert_eq!(defaults.len(), line.split(' ').count() - 1, "{name}");
        }
    }

    #[test]
    fn filling_in_twice_changes_nothing() {
        let mut kinds = Kinds::default();
        add_all(&mut kinds);
        let template = json!({
            "metadata": {},
            "spec": {"containers": [{"name": "c", "image": "i", "readinessProbe": {"httpGet": {"port": 1}}}], "volumes": [{"name": "v"}]},
        });
        let body =
            json!({"metadata": {"name": "d"}, "spec": {"strategy": {}, "template": template}});
        let Value::Object(mut body) = body else {
            unreachable!("it is written as a map above")
        };
        let kind = kinds.kind("apps", "v1", "deployments").unwrap();
        fill(kind, &mut body);
        let pod = &body["spec"]["template"]["spec"];
        assert_eq!(
            pod["containers"][0]["readinessProbe"]["httpGet"]["path"],
            "/"
        );
        assert_eq!(pod["volumes"][0]["emptyDir"], json!({}));
        let once = body.clone();
        fill(kind, &mut body);
        assert_eq!(body, once);
    }
}
