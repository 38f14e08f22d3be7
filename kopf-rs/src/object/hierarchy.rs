//! Owners and dependents: owner references, labels and names of dependents, in JSON.
//!
//! This module guarantees that an object stays unchanged if its change fails. It does not know where the objects come
//! from or their types.

mod scopes;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use crate::object::hierarchy::scopes::is_cluster_scoped;
use crate::object::path::FieldPath;

/// The facts about an owner that dependents receive.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OwnerFacts {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    /// `None` for a cluster-scoped owner.
    pub(crate) namespace: Option<String>,
    pub(crate) uid: String,
    pub(crate) labels: Map<String, Value>,
}

/// The flags of an owner reference; `None` omits a flag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReferenceFlags {
    pub(crate) controller: Option<bool>,
    pub(crate) block_owner_deletion: Option<bool>,
}

/// The reason why an object cannot be changed as requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Misfit {
    #[error("expected an object, found {0}")]
    NoObject(&'static str),
    #[error("`{path}` of {object} is {found}: expected {wanted}")]
    NoStanza { object: String, path: String, found: &'static str, wanted: &'static str },
    #[error("the owner has no `{0}`: only an object as the server has stored it can own others")]
    Unstored(&'static str),
    #[error("{0} has no `{1}`, which an owner reference needs")]
    NoKind(String, &'static str),
    #[error("{0} cannot own itself")]
    OwnsItself(String),
    #[error(
        "{object} is controlled by {controller} already, and only one owner can be the controller: Kubernetes would refuse it. Append the \
         reference with `controller(false)`"
    )]
    OtherController { object: String, controller: String },
    #[error(
        "{object} is in the namespace `{namespace}`, and its owner {owner} in `{of_owner}`: Kubernetes would delete it, because it looks for owners \
         in the namespace of the object"
    )]
    OtherNamespace { object: String, namespace: String, owner: String, of_owner: String },
    #[error(
        "{object} is cluster-scoped, and its owner {owner} is in the namespace `{of_owner}`: Kubernetes would delete it, because such objects can be \
         owned by cluster-scoped ones only"
    )]
    ClusterScoped { object: String, owner: String, of_owner: String },
}

// === impl ===

impl OwnerFacts {
    /// Reads the facts of an object. Fails if the value is not an object.
    pub(crate) fn of(object: &Value) -> Result<Self, Misfit> {
        if !object.is_object() {
            return Err(Misfit::NoObject(kind_of(object)));
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        Ok(Self {
            api_version: text(&object["apiVersion"]),
            kind: text(&object["kind"]),
            name: text(&metadata["name"]),
            namespace: given(&metadata["namespace"]).map(str::to_owned),
            uid: text(&metadata["uid"]),
            labels: metadata["labels"].as_object().cloned().unwrap_or_default(),
        })
    }

    pub(crate) fn shown(&self) -> String {
        format!("{} `{}`", self.kind, self.name)
    }

    /// Adds a reference to this owner, unless the object already has one, which stays as it is.
    pub(crate) fn append_reference(&self, object: &mut Value, flags: ReferenceFlags) -> Result<(), Misfit> {
        let parts = [
            ("apiVersion", &self.api_version),
            ("kind", &self.kind),
            ("metadata.name", &self.name),
            ("metadata.uid", &self.uid),
        ];
        if let Some((missing, _)) = parts.into_iter().find(|(_, value)| value.is_empty()) {
            return Err(Misfit::Unstored(missing));
        }
        self.check_scope(object)?;
        let shown = shown(object);
        let references = list(object, "ownerReferences")?;
        if references.iter().any(|it| it["uid"] == *self.uid) {
            return Ok(());
        }
        let mut controllers = references.iter().filter(|it| it["controller"] == true);
        if let (Some(true), Some(other)) = (flags.controller, controllers.next()) {
            return Err(Misfit::OtherController { object: shown, controller: reference_shown(other) });
        }
        let mut reference = json!({
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
        });
        let flags = [("controller", flags.controller), ("blockOwnerDeletion", flags.block_owner_deletion)];
        for (name, flag) in flags {
            if let Some(flag) = flag {
                reference[name] = json!(flag);
            }
        }
        references.push(reference);
        Ok(())
    }

    /// Checks whether Kubernetes allows this owner for the object, as far as that is known.
    fn check_scope(&self, object: &Value) -> Result<(), Misfit> {
        let metadata = &object["metadata"];
        if metadata["uid"] == *self.uid {
            return Err(Misfit::OwnsItself(self.shown()));
        }
        let Some(of_owner) = self.namespace.clone() else {
            return Ok(());
        };
        let owner = self.shown();
        match given(&metadata["namespace"]) {
            Some(namespace) if namespace != of_owner => Err(Misfit::OtherNamespace {
                object: shown(object),
                namespace: namespace.to_owned(),
                owner,
                of_owner,
            }),
            _ if is_cluster_scoped(object) => {
                Err(Misfit::ClusterScoped { object: shown(object), owner, of_owner })
            }
            _ => Ok(()),
        }
    }

    /// Removes the references to this owner.
    pub(crate) fn remove_reference(&self, object: &mut Value) -> Result<(), Misfit> {
        if self.uid.is_empty() {
            return Err(Misfit::Unstored("metadata.uid"));
        }
        if !object["metadata"]["ownerReferences"].is_null() {
            list(object, "ownerReferences")?.retain(|it| it["uid"] != *self.uid);
        }
        Ok(())
    }
}

/// Sets these labels on the object and on the objects at the `nested` paths: only missing labels, or all if `forced`.
pub(crate) fn label(
    object: &mut Value,
    labels: &Map<String, Value>,
    forced: bool,
    nested: &[FieldPath],
) -> Result<(), Misfit> {
    put_pairs(object, "labels", labels, forced)?;
    let shown = shown(object);
    for path in nested {
        match nested_stanza(object, path) {
            Ok(Some(stanza)) => put_pairs(stanza, "labels", labels, forced)?,
            Ok(None) => {}
            Err((path, found)) => {
                return Err(Misfit::NoStanza { object: shown, path, found, wanted: "an object" });
            }
        }
    }
    Ok(())
}

/// Returns the object at the path, or `None` if there is none. Fails with path and kind if another value is in the way.
fn nested_stanza<'a>(
    object: &'a mut Value,
    path: &FieldPath,
) -> Result<Option<&'a mut Value>, (String, &'static str)> {
    let parts = path.parts();
    let mut at = object;
    for (depth, part) in parts.iter().enumerate() {
        let found = kind_of(at);
        let Some(members) = at.as_object_mut() else {
            return Err((parts[..depth].join("."), found));
        };
        match members.get_mut(part) {
            Some(next) if !next.is_null() => at = next,
            _ => return Ok(None),
        }
    }
    if at.is_object() { Ok(Some(at)) } else { Err((parts.join("."), kind_of(at))) }
}

/// Sets these annotations on the object, replacing existing values.
pub(crate) fn annotate(object: &mut Value, annotations: &Map<String, Value>) -> Result<(), Misfit> {
    put_pairs(object, "annotations", annotations, true)
}

/// Adds pairs to a stanza of the metadata.
fn put_pairs(
    object: &mut Value,
    stanza: &'static str,
    pairs: &Map<String, Value>,
    forced: bool,
) -> Result<(), Misfit> {
    let shown = shown(object);
    let path = format!("metadata.{stanza}");
    let stanza = metadata(object)?.entry(stanza).or_insert(Value::Null);
    if stanza.is_null() {
        *stanza = json!({});
    }
    let found = kind_of(stanza);
    let Some(present) = stanza.as_object_mut() else {
        return Err(Misfit::NoStanza { object: shown, path, found, wanted: "an object" });
    };
    for (name, value) in pairs {
        if forced || !present.contains_key(name) {
            present.insert(name.clone(), value.clone());
        }
    }
    Ok(())
}

/// Names the object after `name` if it has no name or if `forced`: exactly if `strict`, or else as a prefix that the server completes.
pub(crate) fn harmonize_naming(
    object: &mut Value,
    name: &str,
    forced: bool,
    strict: bool,
) -> Result<(), Misfit> {
    let metadata = metadata(object)?;
    let has = |key: &str| metadata.get(key).and_then(given).is_some();
    if !forced && (has("name") || has("generateName")) {
        return Ok(());
    }
    if strict {
        metadata.insert("name".to_owned(), json!(name));
        metadata.remove("generateName");
    } else {
        metadata.insert("generateName".to_owned(), json!(format!("{name}-")));
        metadata.remove("name");
    }
    Ok(())
}

/// Sets the namespace of the object if it has none or if `forced`; `None` removes the namespace.
pub(crate) fn adjust_namespace(
    object: &mut Value,
    namespace: Option<&str>,
    forced: bool,
) -> Result<(), Misfit> {
    let metadata = metadata(object)?;
    let is_given = metadata.get("namespace").and_then(given).is_some();
    match namespace {
        _ if is_given && !forced => {}
        Some(namespace) => drop(metadata.insert("namespace".to_owned(), json!(namespace))),
        None => drop(metadata.remove("namespace")),
    }
    Ok(())
}

/// Calls `change` for each object: for the value itself, or for the items of arbitrarily nested lists. Skips `null`.
pub(crate) fn each(
    objects: &mut Value,
    change: &mut dyn FnMut(&mut Value) -> Result<(), Misfit>,
) -> Result<(), Misfit> {
    match objects {
        Value::Null => Ok(()),
        Value::Object(_) => change(objects),
        Value::Array(all) => all.iter_mut().try_for_each(|one| each(one, change)),
        other => Err(Misfit::NoObject(kind_of(other))),
    }
}

/// Returns the path of the first change from `before` to `after` that `kept` lacks. Absent and empty values are equivalent.
pub(crate) fn lost(before: &Value, after: &Value, kept: &Value) -> Option<String> {
    let mut way = Vec::new();
    is_lost(before, after, kept, &mut way).then(|| way.join("."))
}

fn is_lost(before: &Value, after: &Value, kept: &Value, way: &mut Vec<String>) -> bool {
    if before == after || after == kept || (is_empty(after) && is_empty(kept)) {
        return false;
    }
    match (after, kept) {
        (Value::Object(members), Value::Object(_)) => members.iter().any(|(key, member)| {
            way.push(key.clone());
            let lost = is_lost(&before[key], member, &kept[key], way);
            if !lost {
                way.pop();
            }
            lost
        }),
        (Value::Array(members), Value::Array(others)) if members.len() == others.len() => {
            let nothing = Value::Null;
            members
                .iter()
                .zip(others)
                .enumerate()
                .any(|(at, (it, other))| is_lost(before.get(at).unwrap_or(&nothing), it, other, way))
        }
        _ => true,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.values().all(is_empty),
        _ => false,
    }
}

/// Returns the stanza `metadata`, and creates it if absent.
pub(super) fn metadata(object: &mut Value) -> Result<&mut Map<String, Value>, Misfit> {
    let shown = shown(object);
    let found = kind_of(object);
    let Some(members) = object.as_object_mut() else {
        return Err(Misfit::NoObject(found));
    };
    let stanza = members.entry("metadata").or_insert(Value::Null);
    if stanza.is_null() {
        *stanza = json!({});
    }
    let found = kind_of(stanza);
    stanza.as_object_mut().ok_or_else(|| Misfit::NoStanza {
        object: shown,
        path: "metadata".to_owned(),
        found,
        wanted: "an object",
    })
}

/// Returns a list in `metadata`, and creates it if absent.
fn list<'a>(object: &'a mut Value, key: &str) -> Result<&'a mut Vec<Value>, Misfit> {
    let shown = shown(object);
    let stanza = metadata(object)?.entry(key).or_insert(Value::Null);
    if stanza.is_null() {
        *stanza = json!([]);
    }
    let found = kind_of(stanza);
    stanza.as_array_mut().ok_or_else(|| Misfit::NoStanza {
        object: shown,
        path: format!("metadata.{key}"),
        found,
        wanted: "a list",
    })
}

/// Returns the text if it is not empty.
pub(super) fn given(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

/// Returns the name of an object for messages. The object may have no name yet.
pub(super) fn shown(object: &Value) -> String {
    let kind = given(&object["kind"]).unwrap_or("the object");
    let metadata = &object["metadata"];
    match given(&metadata["name"]).or_else(|| given(&metadata["generateName"])) {
        Some(name) => format!("{kind} `{name}`"),
        None => kind.to_owned(),
    }
}

fn reference_shown(reference: &Value) -> String {
    let text = |key: &str| reference[key].as_str().unwrap_or_default();
    format!("{} `{}` ({})", text("kind"), text("name"), text("uid"))
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
