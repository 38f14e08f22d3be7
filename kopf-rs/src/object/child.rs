//! Children: objects that a handler wants to be there for the one that is handled, as they are sent to the server.
//!
//! The desired state is completed (namespace, name, owner, labels) and freed of all that is the server's. What the server says of an object of
//! that name decides whether it is a child. Must not know requests, nor what was applied before.

pub(crate) mod former;
pub(crate) mod taken;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::object::essence::digest;
use crate::object::hierarchy::{self, Misfit, OwnerFacts, ReferenceFlags, given, shown};

/// Which child is meant, whatever the version of its kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ChildName {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

/// How a child belongs to its owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// The owner is its controller: it is deleted after the owner.
    #[default]
    Controller,
    /// No reference to the owner: the operator deletes it.
    Unowned,
}

/// What a child is to its owner.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Belonging<'a> {
    pub(crate) ownership: Ownership,
    /// The set of children that it is a part of.
    pub(crate) set: Option<&'a str>,
}

/// How an operator marks what it applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChildMarks {
    /// The field manager, which is the prefix of labels and annotations, too.
    pub(crate) manager: String,
}

/// What the metadata of a child say of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChildSight {
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) uid: String,
    pub(crate) version: String,
    /// The uids of its owners.
    pub(crate) owners: Vec<String>,
    /// The uid of the owner that it is a child of: of its controller, or the one that its label names.
    pub(crate) owner: Option<String>,
    /// The set of children that this operator has applied it with.
    pub(crate) set: Option<String>,
    /// A digest of all that concerns its owners: what is noted of the operator's applies, the references, the operator's labels, the deletion.
    pub(crate) state: String,
    pub(crate) terminating: bool,
    /// Its `managedFields`.
    pub(crate) managers: Option<Value>,
    /// The whole object without them.
    pub(crate) body: Option<Arc<str>>,
}

/// What there is of a child's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// A child of this owner, or one that is taken over from an owner of that name.
    Ours,
    /// It is not applied to: it is being deleted.
    Terminating,
    /// Nobody controls it, and this operator has not made it: those that manage it.
    Unclaimed(String),
    /// Somebody else's, with the reason.
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
    /// The label of all children.
    pub(crate) fn label(&self) -> String {
        format!("{}/owned", self.manager)
    }

    /// The label of children without a reference to their owner.
    fn owner_label(&self) -> String {
        format!("{}/owner-uid", self.manager)
    }

    /// The annotation of children that are a part of a set.
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
        let noted = entry.map(|entry| [&entry["fieldsV1"], &entry["apiVersion"]]);
        let deletion = &metadata["deletionTimestamp"];
        let label = &labels[&*marks.label()];
        let state = json!([
            noted,
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
            owners: owners
                .chain([labelled])
                .filter_map(given)
                .map(str::to_owned)
                .collect(),
            owner: owner.map(str::to_owned),
            set: set.map(str::to_owned),
            state: digest(&state),
            terminating: !deletion.is_null(),
            managers: Some(metadata["managedFields"].clone()),
            body: None,
        }
    }

    /// The same with the whole object.
    pub(crate) fn with_body(self, found: &Value) -> Self {
        let mut body = found.clone();
        if let Some(metadata) = body["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        Self {
            body: Some(body.to_string().into()),
            ..self
        }
    }
}

/// The `apiVersion` and the `kind` of an object.
pub(crate) fn type_of(object: &Value) -> Result<(&str, &str), Misfit> {
    let text = |key: &'static str| {
        let missing = || Misfit::NoKind(shown(object), key);
        given(&object[key]).ok_or_else(missing)
    };
    Ok((text("apiVersion")?, text("kind")?))
}

/// The object as it is to be applied, and its name. Nothing of it is the server's.
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
            hierarchy::label(
                &mut object,
                &mark(marks.owner_label(), &owner.uid),
                true,
                &[],
            )?;
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
    let flags = ReferenceFlags {
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    owner.append_reference(object, flags)
}

/// A name where it has none: that of the owner; and one that begins as it asks for, which is the same each time.
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

/// Take out what is the server's, and what says nothing.
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

/// Whether an object of a child's name is a child of this owner. Its metadata are enough.
pub(crate) fn claim(
    found: &Value,
    owner: &OwnerFacts,
    ownership: Ownership,
    marks: &ChildMarks,
) -> Claim {
    let metadata = &found["metadata"];
    let terminating = !metadata["deletionTimestamp"].is_null();
    let applied = entry(found, marks).is_some();
    let labelled = given(&metadata["labels"][&*marks.owner_label()]);
    let is_labelled = labelled == Some(&*owner.uid);
    let stranger = match (controller(found), ownership) {
        (Some(controller), _) if controller["uid"] == *owner.uid => None,
        (Some(controller), _) if applied && is_former(controller, owner) => None,
        (Some(controller), _) => Some(Claim::Stranger(format!(
            "controlled by {}",
            named(controller)
        ))),
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

/// Whether the answer to a first apply without force shows an object that was there before, and that nobody controlled: somebody else manages more of
/// it than its metadata.
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

/// The object as it is released again: everything that only we have applied goes.
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

/// The merge patch by which a child is one no more: its reference to the owner and the operator's marks go, and all else stays. It is bound to the
/// object as it was found. `None` where nothing of these is there.
pub(crate) fn orphaned(found: &Value, owner: &OwnerFacts, marks: &ChildMarks) -> Option<Value> {
    let metadata = &found["metadata"];
    let mut left = json!({});
    let references = metadata["ownerReferences"].as_array();
    let is_to = |it: &&Value| it["uid"] == *owner.uid;
    if let Some(references) = references.filter(|all| all.iter().any(|it| is_to(&it))) {
        let others: Vec<&Value> = references.iter().filter(|it| !is_to(it)).collect();
        left["ownerReferences"] = json!(others);
    }
    for (stanza, mark) in [
        ("labels", marks.label()),
        ("labels", marks.owner_label()),
        ("annotations", marks.set()),
    ] {
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

/// What the server notes of our applies to the object.
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

fn controller(found: &Value) -> Option<&Value> {
    let references = found["metadata"]["ownerReferences"].as_array()?;
    references.iter().find(|it| it["controller"] == true)
}

/// Whether the reference is to an object of the owner's kind and name that it has taken the place of.
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

/// Who manages the object, in words.
fn authors(found: &Value, marks: &ChildMarks) -> String {
    let others = others_of(&found["metadata"]["managedFields"], marks);
    others.unwrap_or_else(|| "not made by this operator".to_owned())
}

/// Who else manages an object, by its `managedFields`.
pub(crate) fn others_of(managers: &Value, marks: &ChildMarks) -> Option<String> {
    let entries = managers.as_array().into_iter().flatten();
    let others = entries.filter(|it| !is_ours(it, marks));
    let names = others.filter_map(|entry| entry["manager"].as_str());
    let mut names: Vec<String> = names.map(|name| format!("\"{name}\"")).collect();
    names.dedup();
    (!names.is_empty()).then(|| format!("managed by {}", names.join(", ")))
}
