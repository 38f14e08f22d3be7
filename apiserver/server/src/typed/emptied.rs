//! Replaces empty lists and maps with null, because the stored form of the real server does not distinguish them.
//!
//! Expects that fields with `omitempty` are omitted already. Independent of the store.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::reach::Reach;
use super::{Field, Struct, TYPES, Type};

static REACH: LazyLock<Reach> = LazyLock::new(|| {
    Reach::to(|name| {
        let mut structs = TYPES.structs.iter();
        let of = structs.find(|of| of.name == name);
        of.is_some_and(|of| of.fields.iter().any(is_kept))
    })
});

/// Returns true for a list or map that is encoded even if it is empty.
fn is_kept(field: &Field) -> bool {
    let list = matches!(field.of, Type::List(_) | Type::Wrapped(_) | Type::Map(_));
    list && !field.omit_empty && !field.omit_zero
}

/// Replaces empty lists and maps with null where they are encoded at all.
pub(crate) fn forget_empty(of: &'static Struct, body: &mut Map<String, Value>) {
    for field in &of.fields {
        if field.is_inline() {
            if let Some(inner) = field.of.as_struct() {
                forget_empty(inner, body);
            }
            continue;
        }
        let Some(found) = body.get_mut(field.name) else {
            continue;
        };
        let empty = match found {
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        };
        if empty && is_kept(field) {
            *found = Value::Null;
        } else if REACH.leads(&field.of) {
            below(&field.of, found);
        }
    }
}

fn below(of: &Type, found: &mut Value) {
    match (of.element(), found) {
        (Some(inner), Value::Array(items)) => items.iter_mut().for_each(|item| below(inner, item)),
        (Some(inner), Value::Object(map)) => map.values_mut().for_each(|item| below(inner, item)),
        (None, Value::Object(map)) => {
            if let Some(of) = of.as_struct() {
                forget_empty(of, map);
            }
        }
        _ => {}
    }
}
