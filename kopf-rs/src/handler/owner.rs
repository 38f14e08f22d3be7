//! Owners: makes other objects belong to the handled object, so that Kubernetes deletes them with it.
//!
//! This is Kopf's toolkit for hierarchies; `object::hierarchy` implements the changes. This module sends no requests:
//! it changes the objects in memory, and the caller sends them.

mod dependents;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::handler::cause::Cause;
use crate::handler::current;
use crate::handler::error::{HandlerError, PermanentError};
use crate::handler::extract::FromCause;
use crate::handler::extract::extractors::OfAnObject;
use crate::handler::owner::dependents::Change;
use crate::handler::read::to_json;
use crate::object::hierarchy::{self, Misfit, OwnerFacts, ReferenceFlags};
use crate::object::labels::Labels;
use crate::object::path::FieldPath;

pub use crate::handler::owner::dependents::Dependents;

/// The owner that other objects should belong to: by default the handled object.
///
/// In a handler, functions such as [`adopt`](crate::adopt) and [`label`](crate::label) are enough; they are shortcuts
/// for the methods of [`Owner::current`]. Use an `Owner` for other options, for other owners, and in tasks, threads
/// and unit tests, where no handler runs.
///
/// ```
/// use kopf_rs::prelude::*;
///
/// #[on_create("kopfexamples")]
/// async fn create_fn(owner: Owner) -> HandlerResult {
///     let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {}}});
///     owner.strict().nested("spec.template").adopt(&mut job)?;
///     // Send it with a client of your choice.
///     Ok(())
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// // In a unit test:
/// let object = json!({"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "metadata": {"name": "one", "uid": "1"}});
/// create_fn(Owner::of(&object).unwrap()).await.unwrap();
/// # });
/// ```
/// The methods change one object or many, see [`Dependents`]. They return an error for an object that cannot be
/// changed as requested, and leave it unchanged; with `?`, this fails the handler permanently.
#[derive(Clone, Debug)]
#[must_use = "an owner does nothing by itself: call `adopt`, `label` or the like"]
pub struct Owner {
    facts: Arc<OwnerFacts>,
    flags: ReferenceFlags,
    /// The name, the namespace and the labels for the objects: those of the owner, unless others are given.
    name: String,
    namespace: Option<String>,
    labels: Map<String, Value>,
    forced: bool,
    strict: bool,
    nested: Vec<FieldPath>,
}

/// Constructors and options.
impl Owner {
    /// Returns the object of the handler that runs on this thread.
    ///
    /// # Errors
    /// Returns an error if no handler of an object runs on this thread, as in tasks and threads that a handler
    /// starts, and in unit tests.
    pub fn current() -> Result<Self, PermanentError> {
        let cause = current::cause().ok_or_else(|| {
            PermanentError::new(
                "no handler runs here, so there is no object that could own others: within tasks and threads that a handler starts, take \
                 `owner: Owner` as an argument of the handler; in unit tests, make one by `Owner::of(&object)`",
            )
        })?;
        cause.owner()
    }

    /// Uses this object as the owner.
    ///
    /// # Errors
    /// Returns an error if it is not a Kubernetes object.
    pub fn of<T: Serialize>(object: &T) -> Result<Self, PermanentError> {
        Ok(Self::of_value(&to_json(object, "the owner")?)?)
    }

    fn of_value(object: &Value) -> Result<Self, Misfit> {
        let facts = OwnerFacts::of(object)?;
        Ok(Self {
            flags: ReferenceFlags { controller: Some(true), block_owner_deletion: Some(true) },
            name: facts.name.clone(),
            namespace: facts.namespace.clone(),
            labels: facts.labels.clone(),
            facts: Arc::new(facts),
            forced: false,
            strict: false,
            nested: Vec::new(),
        })
    }

    /// Overwrites existing labels, names and namespaces of the objects. Existing owner references stay unchanged.
    pub fn forced(mut self) -> Self {
        self.forced = true;
        self
    }

    /// Names objects exactly like the owner. By default, the owner's name is a prefix to which the server appends a
    /// suffix (`generateName`).
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Also labels the object at this path if it is present, such as `spec.template` of a Deployment. Can be called
    /// several times.
    pub fn nested(mut self, path: impl Into<FieldPath>) -> Self {
        self.nested.push(path.into());
        self
    }

    /// Sets whether the owner is the controller of the objects; an object has at most one. `true` by default; `None`
    /// omits the field.
    pub fn controller(mut self, controller: impl Into<Option<bool>>) -> Self {
        self.flags.controller = controller.into();
        self
    }

    /// Sets whether a foreground deletion of the owner waits for the objects. `true` by default; `None` omits the
    /// field.
    pub fn block_owner_deletion(mut self, block: impl Into<Option<bool>>) -> Self {
        self.flags.block_owner_deletion = block.into();
        self
    }

    /// Uses these labels instead of those of the owner.
    pub fn labels(mut self, labels: impl Into<Labels>) -> Self {
        self.labels.clone_from(labels.into().map());
        self
    }

    /// Uses this name instead of that of the owner.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Uses this namespace, or none, instead of that of the owner.
    pub fn namespace(mut self, namespace: Option<&str>) -> Self {
        self.namespace = namespace.map(str::to_owned);
        self
    }
}

/// Methods that change objects.
impl Owner {
    /// Makes the objects belong to the owner: sets the namespace, the owner reference, the name and the labels.
    ///
    /// # Errors
    /// Returns an error if one of the objects cannot be changed so.
    pub fn adopt(&self, objects: impl Dependents) -> Result<(), PermanentError> {
        objects.change(&mut Change(&mut |object| {
            self.put_into_namespace(object)?;
            self.facts.append_reference(object, self.flags)?;
            self.give_name(object)?;
            self.give_labels(object)
        }))
    }

    /// Adds an owner reference, so that Kubernetes deletes the objects with the owner. An existing reference to the
    /// owner stays unchanged.
    ///
    /// # Errors
    /// Returns an error if the owner lacks a part of the reference such as its uid, if an object already has another
    /// controller, or if Kubernetes would delete the object immediately, because it looks up a namespaced owner in the
    /// object's own namespace.
    pub fn append_owner_reference(&self, objects: impl Dependents) -> Result<(), PermanentError> {
        objects.change(&mut Change(&mut |object| self.facts.append_reference(object, self.flags)))
    }

    /// Removes the owner reference from the objects.
    ///
    /// # Errors
    /// Returns an error if one of them is not a Kubernetes object.
    pub fn remove_owner_reference(&self, objects: impl Dependents) -> Result<(), PermanentError> {
        objects.change(&mut Change(&mut |object| self.facts.remove_reference(object)))
    }

    /// Adds the owner's labels to the objects: the missing ones, or all with [`forced`](Self::forced).
    ///
    /// # Errors
    /// Returns an error if one of them is not a Kubernetes object, or if a [`nested`](Self::nested) path leads through
    /// something other than JSON objects.
    pub fn label(&self, objects: impl Dependents) -> Result<(), PermanentError> {
        objects.change(&mut Change(&mut |object| self.give_labels(object)))
    }

    /// Names objects after the owner if they have no name, or always with [`forced`](Self::forced): the owner's name
    /// plus a suffix from the server, or exactly its name with [`strict`](Self::strict).
    ///
    /// # Errors
    /// Returns an error if one of them is not a Kubernetes object.
    pub fn harmonize_naming(&self, objects: impl Dependents) -> Result<(), PermanentError> {
        objects.change(&mut Change(&mut |object| self.give_name(object)))
    }

    /// Moves objects into the owner's namespace if they name none, or always with [`forced`](Self::forced).
    ///
    /// # Errors
    /// Returns an error if one of them is not a Kubernetes object.
    pub fn adjust_namespace(&self, objects: impl Dependents) -> Result<(), PermanentError> {
        objects.change(&mut Change(&mut |object| self.put_into_namespace(object)))
    }

    fn put_into_namespace(&self, object: &mut Value) -> Result<(), Misfit> {
        hierarchy::adjust_namespace(object, self.namespace.as_deref(), self.forced)
    }

    fn give_name(&self, object: &mut Value) -> Result<(), Misfit> {
        hierarchy::harmonize_naming(object, &self.name, self.forced, self.strict)
    }

    fn give_labels(&self, object: &mut Value) -> Result<(), Misfit> {
        hierarchy::label(object, &self.labels, self.forced, &self.nested)
    }
}

impl Cause {
    /// Returns the object as an owner for other objects.
    ///
    /// # Errors
    /// Returns an error in activities, which have no object.
    pub fn owner(&self) -> Result<Owner, PermanentError> {
        if self.resource().is_none() {
            return Err(PermanentError::new(
                "startup and cleanup handlers have no object that could own others; name one by `Owner::of(&object)`",
            ));
        }
        Ok(Owner::of_value(self.body())?)
    }
}

impl FromCause<'_> for Owner {
    fn from_cause(cause: &Cause) -> Result<Self, HandlerError> {
        Ok(cause.owner()?)
    }
}

impl OfAnObject for Owner {}

// === for the object of the handler that runs here ===

/// Makes objects belong to the handled object: Kubernetes deletes them with it. Sets the namespace, a name that
/// starts with the owner's name, and the labels, each only if missing. The caller still has to send the objects.
///
/// ```
/// use kopf_rs::prelude::*;
///
/// #[on_create("kopfexamples")]
/// async fn create_fn(client: Client) -> HandlerResult {
///     let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": []}});
///     let mut config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}});
///     adopt((&mut pod, &mut config))?;
///     // Send them with a client of your choice.
///     Ok(())
/// }
/// ```
///
/// # Errors
///
/// If no handler of an object runs on this thread, and if [`Owner::adopt`] fails.
pub fn adopt(objects: impl Dependents) -> Result<(), PermanentError> {
    Owner::current()?.adopt(objects)
}

/// Adds an owner reference to the handled object, so that Kubernetes deletes these objects with it.
///
/// # Errors
/// Returns an error if no handler of an object runs on this thread, and if [`Owner::append_owner_reference`] fails.
pub fn append_owner_reference(objects: impl Dependents) -> Result<(), PermanentError> {
    Owner::current()?.append_owner_reference(objects)
}

/// Removes the owner reference to the handled object from these objects.
///
/// # Errors
/// Returns an error if no handler of an object runs on this thread, and if [`Owner::remove_owner_reference`] fails.
pub fn remove_owner_reference(objects: impl Dependents) -> Result<(), PermanentError> {
    Owner::current()?.remove_owner_reference(objects)
}

/// Adds the missing labels of the handled object to these objects. For other labels:
/// `Owner::current()?.labels(..).label(..)`.
///
/// # Errors
/// Returns an error if no handler of an object runs on this thread, and if [`Owner::label`] fails.
pub fn label(objects: impl Dependents) -> Result<(), PermanentError> {
    Owner::current()?.label(objects)
}

/// Names objects after the handled object if they have no name.
///
/// # Errors
/// Returns an error if no handler of an object runs on this thread, and if [`Owner::harmonize_naming`] fails.
pub fn harmonize_naming(objects: impl Dependents) -> Result<(), PermanentError> {
    Owner::current()?.harmonize_naming(objects)
}

/// Puts objects into the namespace of the handled object if they name none.
///
/// # Errors
/// Returns an error if no handler of an object runs on this thread, and if [`Owner::adjust_namespace`] fails.
pub fn adjust_namespace(objects: impl Dependents) -> Result<(), PermanentError> {
    Owner::current()?.adjust_namespace(objects)
}
