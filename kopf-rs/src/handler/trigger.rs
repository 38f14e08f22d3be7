//! The argument [`Trigger`]: reconciles objects for reasons that the API server does not know.
//!
//! This module does not know how handlers are called.

use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::handler::cause::Cause;
use crate::handler::error::HandlerError;
use crate::handler::extract::FromCause;
use crate::handler::registry::selectors::IntoSelector;
use crate::handler::target::{IntoOwners, OwnerName};
use crate::object::selector::{Selector, SelectorError};
use crate::object::typed::HasKind;

/// Calls the [`reconcile`](macro@crate::reconcile) functions of an object although nothing in the cluster has changed:
/// for events of a cloud, a queue or a file.
///
/// A handler of any kind gets it as an argument by its type; a program gets it by
/// [`Operator::trigger`](crate::Operator::trigger). It can be cloned and moved to other tasks and threads.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kopf_rs::prelude::*;
/// use tokio::sync::mpsc::{Sender, channel};
///
/// #[reconcile(ConfigMap)]
/// async fn compare(name: &str) {
///     info!("comparing {name} with the cloud");
/// }
///
/// #[on_startup]
/// async fn listen(trigger: Trigger) {
///     let (cloud, mut changes) = channel::<String>(16);
///     subscribe(cloud);
///     tokio::spawn(async move {
///         while let Some(name) = changes.recv().await {
///             trigger.fire::<ConfigMap>(("default", name));
///         }
///     });
/// }
///
/// /// Sends the names of changed buckets.
/// fn subscribe(_cloud: Sender<String>) {}
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// // In a unit test:
/// listen(Trigger::new()).await;
/// # });
/// ```
///
/// A trigger counts like a change of a child: it waits while the object is in a call, several of them before the next
/// call are one, and while a function fails again and again, they wait for its next attempt. Objects that the operator
/// does not know are ignored, because it reconciles each object when it first sees it. So are all triggers while
/// another instance leads or the operator is paused; the end of that reconciles all objects. A trigger is lost if the
/// process ends before the call: let the function compare the whole state, and set `resync` if events can be lost.
#[derive(Clone, Debug, Default)]
pub struct Trigger {
    operators: Arc<Mutex<Vec<Weak<dyn Triggered>>>>,
}

/// Takes triggers without ever blocking. The engine implements it.
pub(crate) trait Triggered: fmt::Debug + Send + Sync {
    /// Reconciles the objects of these names; `None` stands for all objects of the kind.
    fn fire(&self, kind: &Selector, objects: Option<&[OwnerName]>);
}

impl Trigger {
    /// Creates a trigger without an operator, for unit tests of functions that take one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reconciles objects of this type: pairs of namespace and name, names of cluster-scoped objects, or an `Option`, a
    /// `Vec` or an array of these. Returns at once, from any task or thread.
    pub fn fire<T: HasKind>(&self, objects: impl IntoOwners) {
        self.fire_selected(&Selector::of_kind::<T>(), Some(&objects.into_owners()));
    }

    /// Reconciles all objects of this type.
    pub fn fire_all<T: HasKind>(&self) {
        self.fire_selected(&Selector::of_kind::<T>(), None);
    }

    /// Reconciles objects of a kind without a Rust type: `trigger.fire_kind("kopfexamples", ("default", "one"))`.
    ///
    /// # Errors
    /// Returns an error if the text names no single kind.
    pub fn fire_kind(&self, kind: impl IntoSelector, objects: impl IntoOwners) -> Result<(), SelectorError> {
        let kind = kind.into_selector()?;
        if !kind.is_specific() {
            return Err(SelectorError::new(format!(
                "a trigger is for one kind: `{kind}` is not a single kind"
            )));
        }
        self.fire_selected(&kind, Some(&objects.into_owners()));
        Ok(())
    }

    fn fire_selected(&self, kind: &Selector, objects: Option<&[OwnerName]>) {
        let fire = |operator: &Weak<dyn Triggered>| {
            let operator = operator.upgrade();
            operator.map(|it| it.fire(kind, objects)).is_some()
        };
        self.operators.lock().retain(fire);
    }

    /// Lets an operator take the triggers from now on, until it ends.
    pub(crate) fn connect(&self, operator: Weak<dyn Triggered>) {
        self.operators.lock().push(operator);
    }
}

impl FromCause<'_> for Trigger {
    fn from_cause(cause: &Cause) -> Result<Self, HandlerError> {
        let given: Option<Arc<Self>> = cause.context.extensions.get();
        Ok(given.map(|it| Self::clone(&it)).unwrap_or_default())
    }
}
