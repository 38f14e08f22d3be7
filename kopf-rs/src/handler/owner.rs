//! Owners: objects that are to live and die with the one that is being handled.
//!
//! Kopf's toolkit for hierarchies. What an owner does to others is decided in `object::hierarchy`. Must not know the cluster: the objects
//! are changed in memory, and are still to be sent.

mod dependents;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::handler::cause::Cause;
use crate::handler::current;
use crate::handler::error::{HandlerError, PermanentError};
use crate::handler::extract::FromCause;
use crate::handler::extract::given::OfAnObject;
use crate::handler::owner::dependents::Change;
use crate::object::hierarchy::{self, Misfit, OwnerFacts, ReferenceFlags};
use crate::object::labels::Labels;
use crate::object::path::FieldPath;

pub use crate::handler::owner::dependents::Dependents;

/// The object that others are to belong to: by default the one that is being handled.
///
/// In a handler, the functions [`adopt`](crate::adopt), [`label`](crate::label) and so on are enough: they are short for the methods of
/// [`Owner::current`]. An owner is for everything else: other options, other owners, and tasks, threads and unit tests, where no handler runs.
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
///
/// What is changed: one object or many, see [`Dependents`]. An object that cannot be changed as it is asked for is an error, and stays as it
/// was; `?` makes it a permanent failure of the handler.
#[derive(Clone, Debug)]
#[must_use = "an owner does nothing by itself: call `adopt`, `label` or the like"]
pub struct Owner {
    facts: Arc<OwnerFacts>,
    flags: ReferenceFlags,
    /// Given in place of the owner's own.
    name: Option<String>,
    namespace: NamespaceToGive,
    labels: Option<Labels>,
    forced: bool,
    strict: bool,
    nested: Vec<FieldPath>,
}

/// Where objects are put.
#[derive(Clone, Debug)]
enum NamespaceToGive {
    OfOwner,
    /// `None`: into no namespace.
    Other(Option<String>),
}

/// Where to find an owner, and how it goes about it.
impl Owner {
    /// The object of the handler that runs here.
    ///
    /// # Errors
    /// Where no handler of an object runs on this thread: in the tasks and threads that a handler starts, and in unit tests.
    pub fn current() -> Result<Self, PermanentError> {
        let cause = current::cause().ok_or_else(|| {
            PermanentError::new(
                "no handler runs here, so there is no object that could own others: within tasks and threads that a handler starts, take \
                 `owner: Owner` as an argument of the handler; in unit tests, make one by `Owner::of(&object)`",
            )
        })?;
        cause.owner()
    }

    /// This object.
    ///
    /// # Errors
    /// Where it is no object of Kubernetes.
    pub fn of<T: Serialize>(object: &T) -> Result<Self, PermanentError> {
        let object = serde_json::to_value(object).map_err(|error| {
            PermanentError::new(format!("the owner cannot be written as JSON: {error}"))
        })?;
        Ok(Self::of_value(&object)?)
    }

    fn of_value(object: &Value) -> Result<Self, Misfit> {
        Ok(Self {
            facts: Arc::new(OwnerFacts::of(object)?),
            flags: ReferenceFlags {
                controller: Some(true),
                block_owner_deletion: Some(true),
            },
            name: None,
            namespace: NamespaceToGive::OfOwner,
            labels: None,
            forced: false,
            strict: false,
            nested: Vec::new(),
        })
    }

    /// Overwrite labels, names and namespaces that the objects have already. References to owners stay as they are.
    pub fn forced(mut self) -> Self {
        self.forced = true;
        self
    }

    /// Give objects just the name of the owner: by default it is the beginning of theirs, and the server makes up the rest (`generateName`).
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Label also what stands there in the objects, such as `spec.template` of a Deployment, if it is there. May be called several times.
    pub fn nested(mut self, path: impl Into<FieldPath>) -> Self {
        self.nested.push(path.into());
        self
    }

    /// Whether the owner is the controller of the objects, of which an object has one at most: `true` by default; `None` does not say.
    pub fn controller(mut self, controller: impl Into<Option<bool>>) -> Self {
        self.flags.controller = controller.into();
        self
    }

    /// Whether a deletion of the owner in the foreground waits for the objects: `true` by default; `None` does not say.
    pub fn block_owner_deletion(mut self, block: impl Into<Option<bool>>) -> Self {
        self.flags.block_owner_deletion = block.into();
        self
    }

    /// Give the objects these labels, and not those of the owner.
    pub fn labels(mut self, labels: impl Into<Labels>) -> Self {
        self.labels = Some(labels.into());
        self
    }

    /// Name the objects after this, and not after the owner.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Put the objects into this namespace, or into none, and not into that of the owner.
    pub fn namespace(mut self, namespace: Option<&str>) -> Self {
        self.namespace = NamespaceToGive::Other(namespace.map(str::to_owned));
        self
    }
}

/// What an owner does to objects.
impl Owner {
    /// Make the objects its own: namespace, owner reference, name and labels.
    ///
    /// # Errors
    /// Where one of them does not permit it.
    pub fn adopt(&self, objects: impl Dependents) -> Result<(), PermanentError> {
        objects.change(&mut Change(&mut |object| {
            self.put_into_namespace(object)?;
            self.facts.append_reference(object, self.flags)?;
            self.give_name(object)?;
            self.give_labels(object)
        }))
    }

    /// Own the objects: they are deleted after it. A reference to it that is there stays as it is.
    ///
    /// # Errors
    /// Where the owner is not stored, an object has another controller already, or Kubernetes would delete the object at once: it looks for the
    /// owner of an object in the object's namespace.
    pub fn append_owner_reference(&self, objects: impl Dependents) -> Result<(), PermanentError> {
        objects.change(&mut Change(&mut |object| {
            self.facts.append_reference(object, self.flags)
        }))
    }

    /// Own the objects no more.
    ///
    /// # Errors
    /// Where one of them is no object of Kubernetes.
    pub fn remove_owner_reference(&self, objects: impl Dependents) -> Result<(), PermanentError> {
        objects.change(&mut Change(&mut |object| {
            self.facts.remove_reference(object)
        }))
    }

    /// Give the objects its labels: those that they lack, or all with [`forced`](Self::forced).
    ///
    /// # Errors
    /// Where one of them is no object of Kubernetes, or a [`nested`](Self::nested) path leads through anything but objects.
    pub fn label(&self, objects: impl Dependents) -> Result<(), PermanentError> {
        objects.change(&mut Change(&mut |object| self.give_labels(object)))
    }

    /// Name the objects after it, where they have no name, or with [`forced`](Self::forced): its name and what the server adds, or just its
    /// name with [`strict`](Self::strict).
    ///
    /// # Errors
    /// Where one of them is no object of Kubernetes.
    pub fn harmonize_naming(&self, objects: impl Dependents) -> Result<(), PermanentError> {
        objects.change(&mut Change(&mut |object| self.give_name(object)))
    }

    /// Put the objects into its namespace, where they name none, or with [`forced`](Self::forced).
    ///
    /// # Errors
    /// Where one of them is no object of Kubernetes.
    pub fn adjust_namespace(&self, objects: impl Dependents) -> Result<(), PermanentError> {
        objects.change(&mut Change(&mut |object| self.put_into_namespace(object)))
    }

    fn put_into_namespace(&self, object: &mut Value) -> Result<(), Misfit> {
        let namespace = match &self.namespace {
            NamespaceToGive::OfOwner => &self.facts.namespace,
            NamespaceToGive::Other(other) => other,
        };
        hierarchy::adjust_namespace(object, namespace.as_deref(), self.forced)
    }

    fn give_name(&self, object: &mut Value) -> Result<(), Misfit> {
        let name = self.name.as_ref().unwrap_or(&self.facts.name);
        hierarchy::harmonize_naming(object, name, self.forced, self.strict)
    }

    fn give_labels(&self, object: &mut Value) -> Result<(), Misfit> {
        let own = &self.facts.labels;
        let labels = self.labels.as_ref().map_or(own, Labels::map);
        hierarchy::label(object, labels, self.forced, &self.nested)
    }
}

impl Cause {
    /// The object, as one that others are to belong to.
    ///
    /// # Errors
    /// In activities, which have no object.
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

/// Make objects belong to the one that is being handled: they are deleted after it, and get its namespace, a name that begins with its
/// name, and its labels, where they have none. They are still to be sent.
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
/// Where no handler of an object runs on this thread, and as [`Owner::adopt`].
pub fn adopt(objects: impl Dependents) -> Result<(), PermanentError> {
    Owner::current()?.adopt(objects)
}

/// Let the object that is being handled own these: they are deleted after it.
///
/// # Errors
/// Where no handler of an object runs on this thread, and as [`Owner::append_owner_reference`].
pub fn append_owner_reference(objects: impl Dependents) -> Result<(), PermanentError> {
    Owner::current()?.append_owner_reference(objects)
}

/// Let the object that is being handled own these no more.
///
/// # Errors
/// Where no handler of an object runs on this thread, and as [`Owner::remove_owner_reference`].
pub fn remove_owner_reference(objects: impl Dependents) -> Result<(), PermanentError> {
    Owner::current()?.remove_owner_reference(objects)
}

/// Give objects the labels of the one that is being handled, where they lack them. Other labels: `Owner::current()?.labels(..).label(..)`.
///
/// # Errors
/// Where no handler of an object runs on this thread, and as [`Owner::label`].
pub fn label(objects: impl Dependents) -> Result<(), PermanentError> {
    Owner::current()?.label(objects)
}

/// Name objects after the one that is being handled, where they have no name.
///
/// # Errors
/// Where no handler of an object runs on this thread, and as [`Owner::harmonize_naming`].
pub fn harmonize_naming(objects: impl Dependents) -> Result<(), PermanentError> {
    Owner::current()?.harmonize_naming(objects)
}

/// Put objects into the namespace of the one that is being handled, where they name none.
///
/// # Errors
/// Where no handler of an object runs on this thread, and as [`Owner::adjust_namespace`].
pub fn adjust_namespace(objects: impl Dependents) -> Result<(), PermanentError> {
    Owner::current()?.adjust_namespace(objects)
}
