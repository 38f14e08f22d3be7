//! Children: objects that a handler declares for its own object, in the form in which they are sent to the server.
//!
//! Completes the desired state (namespace, name, owner, labels) and removes all fields that the server owns. Decides
//! by the server's version of an object whether it is a child. This module must not depend on requests or earlier
//! applies.

pub(crate) mod former;
pub(crate) mod taken;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::object::essence::digest;
use crate::object::hierarchy::{self, Misfit, OwnerFacts, ReferenceFlags, given, shown};

/// The identity of a child, regardless of the version of its kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ChildName {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

/// The relation of a child to its owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// The owner is its controller: garbage collection deletes the child after the owner.
    #[default]
    Controller,
    /// No reference to the owner: the operator deletes the child.
    Unowned,
}

/// The relation of a child to its owner and to a set.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Belonging<'a> {
    pub(crate) ownership: Ownership,
    /// The set of children that it belongs to.
    pub(crate) set: Option<&'a str>,
}

/// The marks by which an operator recognises the objects that it applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChildMarks {
    /// The field manager, which is also the prefix of labels and annotations.
    pub(crate) manager: String,
}

/// The facts in the metadata of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChildSight {
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) uid: String,
    pub(crate) version: String,
    /// The uids of its owners.
    pub(crate) owners: Vec<String>,
    /// The uid of the owner whose child it is: from the controller reference or from the operator's label.
    pub(crate) owner: Option<String>,
    /// The set of children with which this operator has applied it.
    pub(crate) set: Option<String>,
    /// A digest of everything related to its owners: the `managedFields` entry of the operator's applies, the labels and annotations that it
    /// has applied, the owner references, the operator's labels, and the deletion mark.
    pub(crate) state: String,
    /// A digest of the `managedFields` entry of the operator's applies. Each effective apply changes it, except for a second one within the
    /// same second.
    pub(crate) noted: String,
    /// A digest of the `managedFields` entries of other managers.
    pub(crate) others: String,
    /// Its `generation`, which kinds without a status lack.
    pub(crate) generation: Option<i64>,
    pub(crate) terminating: bool,
    /// Its `managedFields`.
    pub(crate) managers: Option<Value>,
    /// The complete object without `managedFields`.
    pub(crate) body: Option<Arc<str>>,
}

/// The state of the object that has a child's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// A child of this owner, or one to take over from a former owner of the same name.
    Ours,
    /// An object that is being deleted and is therefore not applied to.
    Terminating,
    /// An object without a controller that this operator has not made, with its managers.
    Unclaimed(String),
    /// An object of another owner, with the reason.
    Stranger(String),
}

// === impl ===

impl fmt::Display for ChildName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.kind, self.name)
    }
}

impl ChildName {
    fn of(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        Self {
            group: group.to_owned(),
            kind: text(&object["kind"]),
            namespace: given(&metadata["namespace"]).map(str::to_owned),
            name: text(&metadata["name"]),
        }
    }
}

impl ChildMarks {
    /// Returns the label of all children.
    pub(crate) fn label(&self) -> String {
        format!("{}/owned", self.manager)
    }

    /// Returns the label of children without a reference to their owner.
    fn owner_label(&self) -> String {
        format!("{}/owner-uid", self.manager)
    }

    /// Returns the annotation of children that belong to a set.
    fn set(&self) -> String {
        format!("{}/set", self.manager)
    }
}

impl ChildSight {
    pub(crate) fn of(found: &Value, marks: &ChildMarks) -> Self {
        let metadata = &found["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let references = metadata["ownerReferences"].as_array();
        let owners = references.into_iter().flatten().map(|it| &it["uid"]);
        let labels = &metadata["labels"];
        let labelled = &labels[&*marks.owner_label()];
        let entry = entry(found, marks);
        let noted = digest_of(entry);
        let others = entries(found).iter().filter(|it| !is_ours(it, marks));
        let deletion = &metadata["deletionTimestamp"];
        let label = &labels[&*marks.label()];
        let state = json!([
            noted,
            entry.map(|entry| applied_metadata(metadata, entry)),
            metadata["ownerReferences"],
            label,
            labelled,
            deletion
        ]);
        let controller = controller(found).map(|it| &it["uid"]);
        let owner = controller.and_then(given).or_else(|| given(labelled));
        let set = entry.and_then(|_| given(&metadata["annotations"][&*marks.set()]));
        Self {
            name: text(&metadata["name"]),
            namespace: given(&metadata["namespace"]).map(str::to_owned),
            uid: text(&metadata["uid"]),
            version: text(&metadata["resourceVersion"]),
            owners: owners.chain([labelled]).filter_map(given).map(str::to_owned).collect(),
            owner: owner.map(str::to_owned),
            set: set.map(str::to_owned),
            state: digest(&state),
            noted,
            others: digest(&others.cloned().collect()),
            generation: metadata["generation"].as_i64(),
            terminating: !deletion.is_null(),
            managers: Some(metadata["managedFields"].clone()),
            body: None,
        }
    }

    /// Returns true if another client may have applied other values under the operator's name between these two observations of a child,
    /// although both have the same state. `managedFields` has a resolution of seconds: two applies within one second differ only in
    /// `generation` or `resourceVersion`. Writes of other managers change the version, too, but also their own entries. `is_gap`: several
    /// writes may have happened in between.
    pub(crate) fn hides_an_apply(&self, former: &Self, is_gap: bool) -> bool {
        let is_foreign = !is_gap && self.others != former.others;
        let is_written = match self.generation {
            Some(_) => self.generation != former.generation,
            None => self.version != former.version,
        };
        is_written && !is_foreign
    }

    /// Returns the same with the complete object.
    pub(crate) fn with_body(self, found: &Value) -> Self {
        let mut body = found.clone();
        if let Some(metadata) = body["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        Self { body: Some(body.to_string().into()), ..self }
    }
}

/// Returns the `apiVersion` and the `kind` of an object.
pub(crate) fn type_of(object: &Value) -> Result<(&str, &str), Misfit> {
    let text = |key: &'static str| {
        let missing = || Misfit::NoKind(shown(object), key);
        given(&object[key]).ok_or_else(missing)
    };
    Ok((text("apiVersion")?, text("kind")?))
}

/// Returns the object in the form to apply, and its name, without fields that the server owns.
pub(crate) fn prepared(
    mut object: Value,
    namespaced: bool,
    owner: &OwnerFacts,
    belonging: Belonging<'_>,
    marks: &ChildMarks,
) -> Result<(ChildName, Value), Misfit> {
    type_of(&object)?;
    strip(&mut object);
    name(&mut object, owner)?;
    if namespaced {
        hierarchy::adjust_namespace(&mut object, owner.namespace.as_deref(), false)?;
    } else {
        hierarchy::metadata(&mut object)?.remove("namespace");
    }
    let mark = |name: String, value: &str| Map::from_iter([(name, json!(value))]);
    hierarchy::label(&mut object, &mark(marks.label(), "true"), true, &[])?;
    if let Some(set) = belonging.set {
        hierarchy::annotate(&mut object, &mark(marks.set(), set))?;
    }
    match belonging.ownership {
        Ownership::Controller => own(&mut object, namespaced, owner)?,
        Ownership::Unowned => {
            hierarchy::label(&mut object, &mark(marks.owner_label(), &owner.uid), true, &[])?;
        }
    }
    Ok((ChildName::of(&object), object))
}

fn own(object: &mut Value, namespaced: bool, owner: &OwnerFacts) -> Result<(), Misfit> {
    if let (false, Some(of_owner)) = (namespaced, &owner.namespace) {
        return Err(Misfit::ClusterScoped {
            object: shown(object),
            owner: owner.shown(),
            of_owner: of_owner.clone(),
        });
    }
    let flags = ReferenceFlags { controller: Some(true), block_owner_deletion: Some(true) };
    owner.append_reference(object, flags)
}

/// Sets a missing name: that of the owner, or a deterministic one with the prefix in `generateName`.
fn name(object: &mut Value, owner: &OwnerFacts) -> Result<(), Misfit> {
    let (kind, beginning) = {
        let metadata = &object["metadata"];
        if given(&metadata["name"]).is_some() {
            return Ok(());
        }
        let beginning = given(&metadata["generateName"]).map(str::to_owned);
        (object["kind"].clone(), beginning)
    };
    let name = match beginning {
        Some(beginning) => {
            let rest = digest(&json!([owner.uid, kind, beginning])).to_lowercase();
            let rest = rest.chars().filter(char::is_ascii_alphanumeric).take(8);
            beginning + &rest.collect::<String>()
        }
        None => owner.name.clone(),
    };
    hierarchy::harmonize_naming(object, &name, true, true)
}

/// Removes the fields that the server owns, and fields without content.
fn strip(object: &mut Value) {
    without_nulls(object);
    let Some(members) = object.as_object_mut() else {
        return;
    };
    members.remove("status");
    if let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut) {
        for of_server in [
            "creationTimestamp",
            "deletionGracePeriodSeconds",
            "deletionTimestamp",
            "generation",
            "managedFields",
            "resourceVersion",
            "selfLink",
            "uid",
        ] {
            metadata.remove(of_server);
        }
    }
}

fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// Decides whether an existing object is a child of this owner. Needs only the metadata.
pub(crate) fn claim(found: &Value, owner: &OwnerFacts, ownership: Ownership, marks: &ChildMarks) -> Claim {
    let metadata = &found["metadata"];
    let terminating = !metadata["deletionTimestamp"].is_null();
    let applied = entry(found, marks).is_some();
    let labelled = given(&metadata["labels"][&*marks.owner_label()]);
    let is_labelled = labelled == Some(&*owner.uid);
    let stranger = match (controller(found), ownership) {
        (Some(controller), _) if controller["uid"] == *owner.uid => None,
        (Some(controller), _) if applied && is_former(controller, owner) => None,
        (Some(controller), _) => Some(Claim::Stranger(format!("controlled by {}", named(controller)))),
        (None, _) if labelled.is_some() && !is_labelled => {
            Some(Claim::Stranger("a child of another object".to_owned()))
        }
        (None, Ownership::Unowned) if applied && is_labelled => None,
        (None, Ownership::Controller) if applied => None,
        (None, _) => Some(Claim::Unclaimed(authors(found, marks))),
    };
    match stranger {
        Some(stranger) => stranger,
        None if terminating => Claim::Terminating,
        None => Claim::Ours,
    }
}

/// Checks the response to a first apply without force. Returns the managers if the object already existed without a controller, which shows
/// because other managers own more than its metadata.
pub(crate) fn was_there(found: &Value, marks: &ChildMarks) -> Option<String> {
    let content = |entry: &&Value| {
        let fields = entry["fieldsV1"].as_object();
        let mut fields = fields.into_iter().flatten();
        !is_ours(entry, marks)
            && given(&entry["subresource"]).is_none()
            && fields.any(|(name, _)| name != "f:metadata")
    };
    let is_there = entries(found).iter().any(|entry| content(&entry));
    is_there.then(|| authors(found, marks))
}

/// Returns the object to apply in order to release it: all fields that only the operator has applied disappear.
pub(crate) fn released(found: &Value) -> Value {
    let metadata = &found["metadata"];
    let mut bare = json!({
        "apiVersion": found["apiVersion"],
        "kind": found["kind"],
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]},
    });
    without_nulls(&mut bare);
    bare
}

/// Returns the merge patch that turns a child into an independent object: it removes the reference to the owner and the operator's marks, and
/// is bound to the version that was read. Returns `None` if there is nothing to remove.
pub(crate) fn orphaned(found: &Value, owner: &OwnerFacts, marks: &ChildMarks) -> Option<Value> {
    let metadata = &found["metadata"];
    let mut left = json!({});
    let references = metadata["ownerReferences"].as_array();
    let is_to = |it: &&Value| it["uid"] == *owner.uid;
    if let Some(references) = references.filter(|all| all.iter().any(|it| is_to(&it))) {
        let others: Vec<&Value> = references.iter().filter(|it| !is_to(it)).collect();
        left["ownerReferences"] = json!(others);
    }
    for (stanza, mark) in
        [("labels", marks.label()), ("labels", marks.owner_label()), ("annotations", marks.set())]
    {
        if !metadata[stanza][&*mark].is_null() {
            left[stanza][mark] = Value::Null;
        }
    }
    if left == json!({}) {
        return None;
    }
    for bound in ["uid", "resourceVersion"] {
        left[bound] = metadata[bound].clone();
    }
    Some(json!({"metadata": left}))
}

/// Returns the `managedFields` entry of our applies.
fn entry<'a>(found: &'a Value, marks: &ChildMarks) -> Option<&'a Value> {
    entry_of(&found["metadata"]["managedFields"], marks)
}

fn entry_of<'a>(managers: &'a Value, marks: &ChildMarks) -> Option<&'a Value> {
    let mut entries = managers.as_array().into_iter().flatten();
    entries.find(|entry| is_ours(entry, marks))
}

fn is_ours(entry: &Value, marks: &ChildMarks) -> bool {
    entry["manager"] == *marks.manager
        && entry["operation"] == "Apply"
        && given(&entry["subresource"]).is_none()
}

fn entries(found: &Value) -> &[Value] {
    let entries = found["metadata"]["managedFields"].as_array();
    entries.map_or(&[], Vec::as_slice)
}

/// Returns the values of the labels and annotations that the operator has applied, because they do not change the `generation`.
fn applied_metadata(metadata: &Value, entry: &Value) -> Value {
    let fields = &entry["fieldsV1"]["f:metadata"];
    let values = ["labels", "annotations"].map(|stanza| {
        let names = fields[format!("f:{stanza}")].as_object();
        let names = names.into_iter().flat_map(Map::keys);
        let names = names.filter_map(|name| name.strip_prefix("f:"));
        let values = names.map(|name| metadata[stanza][name].clone());
        values.collect::<Value>()
    });
    json!(values)
}

/// Returns a digest of the entry for the operator's applies in `managedFields`.
pub(crate) fn noted_in(managers: &Value, marks: &ChildMarks) -> String {
    digest_of(entry_of(managers, marks))
}

/// Includes the time, because the paths alone stay the same after another apply with other values.
fn digest_of(entry: Option<&Value>) -> String {
    let noted = |it: &Value| json!([it["fieldsV1"], it["apiVersion"], it["time"]]);
    digest(&entry.map(noted).unwrap_or_default())
}

fn controller(found: &Value) -> Option<&Value> {
    let references = found["metadata"]["ownerReferences"].as_array()?;
    references.iter().find(|it| it["controller"] == true)
}

/// Returns true if the reference names a former object of the owner's kind and name.
fn is_former(controller: &Value, owner: &OwnerFacts) -> bool {
    let group = |version: &str| version.split_once('/').map(|(group, _)| group.to_owned());
    let text = |key: &str| controller[key].as_str().unwrap_or_default();
    text("kind") == owner.kind
        && text("name") == owner.name
        && group(text("apiVersion")) == group(&owner.api_version)
}

fn named(controller: &Value) -> String {
    let text = |key: &str| controller[key].as_str().unwrap_or_default();
    format!("{} `{}`", text("kind"), text("name"))
}

/// Returns the managers of the object, for messages.
fn authors(found: &Value, marks: &ChildMarks) -> String {
    let others = others_of(&found["metadata"]["managedFields"], marks);
    others.unwrap_or_else(|| "not made by this operator".to_owned())
}

/// Returns the other managers of an object, by its `managedFields`.
pub(crate) fn others_of(managers: &Value, marks: &ChildMarks) -> Option<String> {
    let entries = managers.as_array().into_iter().flatten();
    let others = entries.filter(|it| !is_ours(it, marks));
    let names = others.filter_map(|entry| entry["manager"].as_str());
    let mut names: Vec<String> = names.map(|name| format!("\"{name}\"")).collect();
    names.dedup();
    (!names.is_empty()).then(|| format!("managed by {}", names.join(", ")))
}
