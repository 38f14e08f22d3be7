//! The status of an object as a value that handlers modify. The difference at the end of a call becomes part of the
//! patch.
//!
//! `object::conditions` merges conditions with those of other writers when the patch is sent; this module does not
//! depend on it.

mod declared;
mod difference;
#[cfg(test)]
mod tests;

use std::any::type_name;
use std::ops::{Deref, DerefMut};

use serde::de::DeserializeOwned;
use serde::{Deserialize as _, Serialize};
use serde_json::{Value, json};

use crate::handler::callee::Returned;
use crate::handler::cause::Cause;
use crate::handler::error::{HandlerError, PermanentError};
use crate::handler::read::{Absent, read, stanza, to_json};
use crate::handler::status::declared::declares;
use crate::handler::status::difference::condition_edits;
use crate::object::conditions::{Condition, ConditionEdit, ConditionStatus, StatusEdits, WantedCondition};
use crate::object::patch::{Patch, difference};

const OBSERVED_GENERATION: &str = "observedGeneration";

/// The status of the object as a user's type, for modification: `status: &mut Status<MyStatus>`.
///
/// It starts with the object's current status. At the end of the cycle, the operator writes the fields that differ
/// together with its other changes; no difference means no write. Only handlers whose `field` lies in the status are
/// called for a change of the status.
///
/// ```
/// use kopf_rs::prelude::*;
///
/// #[derive(Default, Serialize, Deserialize)]
/// #[serde(default, rename_all = "camelCase")]
/// struct WebAppStatus {
///     available_replicas: u32,
///     url: Option<String>,
///     observed_generation: Option<i64>,
/// }
///
/// #[on_create("webapps")]
/// #[on_update("webapps")]
/// async fn deploy(name: &str, status: &mut Status<WebAppStatus>) {
///     status.url = Some(format!("https://{name}.example.com"));
///     status.available_replicas = 3;
///     status.conditions().set("Ready", true, "Deployed", "all replicas are available");
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// // In a unit test:
/// let mut status = Status::from(WebAppStatus::default());
/// deploy("one", &mut status).await;
/// assert_eq!(status.available_replicas, 3);
/// assert!(status.conditions().is_true("Ready"));
/// # });
/// ```
///
/// A new object has no status, so use `#[serde(default)]` to make all fields optional. A field that is `None` at the
/// end is removed. The status can also be JSON: `status: &mut Status<Value>`, and `status["url"] = json!("..")`. To
/// only read the status, take `status: MyStatus`, or `&Value`.
///
/// The operator also writes the changes of a function that fails, times out or panics. `patch: &mut Patch` works
/// beside it; if both change a field, the status wins.
///
/// # Observed generation
///
/// If `MyStatus` or the object's stored status has the field `observedGeneration`, the operator sets it to the
/// `metadata.generation` that the function was called with: when the function succeeds, and when it has changed
/// conditions. The operator never lowers it. Conditions have an `observedGeneration` of their own. Both stay unset for
/// resources without a status subresource, whose generation also counts writes of the status, and for
/// built-in resources of Kubernetes.
#[derive(Debug)]
pub struct Status<T> {
    value: T,
    known: Known,
}

/// The bookkeeping of a status beside its value.
#[derive(Debug)]
struct Known {
    /// The status at the start of the call.
    before: Value,
    /// The conditions with the changes so far; `None` if the status has no valid list of conditions.
    conditions: Option<Vec<Value>>,
    edits: StatusEdits,
    /// The generation to report as observed, if any.
    generation: Option<i64>,
    /// True if the status has a field for the observed generation.
    has_generation: bool,
    mistake: Option<String>,
}

/// The conditions of a [`Status`], one per type. Obtained with [`Status::conditions`].
///
/// They follow KEP-1623. Conditions of other types keep their order and times on the server, even if other writers
/// change them meanwhile: the operator merges the changes into the newest list when it sends the patch.
/// `lastTransitionTime` changes only with `status`. `observedGeneration` is set to the generation that the handler
/// was called with; a condition that reports a later generation stays unchanged. Setting a condition to its current
/// content causes no write, so keep counters and times out of messages.
#[derive(Debug)]
pub struct Conditions<'a> {
    list: Option<&'a mut Vec<Value>>,
    edits: &'a mut StatusEdits,
    generation: Option<i64>,
    mistake: &'a mut Option<String>,
}

/// Guard behind the argument `status: &mut Status<T>`, which moves its changes into the patch: for generated code.
pub struct StatusGuard<'a, T> {
    /// The status that the function changes.
    pub status: Status<T>,
    /// The patch of the call, for a function that also asks for it.
    pub patch: &'a mut Patch,
    has_succeeded: bool,
    // Stored here, so that a value that cannot be written as JSON is reported once.
    as_json: AsJson<T>,
}

type AsJson<T> = fn(&T) -> Result<Value, PermanentError>;

/// Implemented only by `Status<T>`, to check the argument's type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no status that a handler can change",
    label = "expected `Status<T>`, of a `T` that implements `Serialize` and `Deserialize`",
    note = "such as `#[derive(Default, Serialize, Deserialize)] #[serde(default)] struct MyStatus {{ .. }}`"
)]
pub trait StatusArgument: Sized {
    /// The type of the status.
    type Content;

    /// Passes the status to a function. Its changes go into the patch.
    ///
    /// # Errors
    /// Returns an error if the object's status does not deserialize into that type.
    fn lend<'a>(cause: &Cause, patch: &'a mut Patch) -> Result<StatusGuard<'a, Self::Content>, HandlerError>;
}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + Serialize + Send + 'static> StatusArgument for Status<T> {
    type Content = T;

    fn lend<'a>(cause: &Cause, patch: &'a mut Patch) -> Result<StatusGuard<'a, T>, HandlerError> {
        Ok(StatusGuard { status: Self::of(cause)?, patch, has_succeeded: false, as_json })
    }
}

// === impl Status ===

impl<T: DeserializeOwned + Serialize + 'static> Status<T> {
    fn of(cause: &Cause) -> Result<Self, HandlerError> {
        let stored = stanza(cause.body().status());
        let value: T = read(cause.at("status"), stored, Absent::Empty)
            .map_err(|error| with_advice::<T>(error, stored.is_none()))?;
        let mut status = Self::with(value, stored)?;
        let generation = cause.resource().and_then(|it| it.generation_of(cause.body()));
        status.known.generation = generation;
        Ok(status)
    }

    fn with(value: T, stored: Option<&Value>) -> Result<Self, PermanentError> {
        let before = as_json(&value)?;
        let conditions = match stored.map(|stored| &stored["conditions"]) {
            None | Some(Value::Null) => Some(Vec::new()),
            Some(Value::Array(list)) => Some(list.clone()),
            Some(_) => None,
        };
        let is_stored = stored.is_some_and(|it| it[OBSERVED_GENERATION].is_i64());
        let known = Known {
            before,
            conditions,
            edits: StatusEdits::default(),
            generation: None,
            has_generation: is_stored || declares::<T>(OBSERVED_GENERATION),
            mistake: None,
        };
        Ok(Self { value, known })
    }
}

impl<T> Status<T> {
    /// Returns the conditions.
    pub fn conditions(&mut self) -> Conditions<'_> {
        Conditions {
            list: self.known.conditions.as_mut(),
            edits: &mut self.known.edits,
            generation: self.known.generation,
            mistake: &mut self.known.mistake,
        }
    }
}

impl<T> Status<T> {
    /// Adds the changes to `patch`.
    fn put_into(&self, patch: &mut Patch, has_succeeded: bool, as_json: AsJson<T>) {
        // `end` reports a value that cannot be written as JSON.
        let Ok(after) = as_json(&self.value) else {
            return;
        };
        let Known { before, generation, .. } = &self.known;
        let mut edits = StatusEdits::default();
        let mut changed = difference(before, &after);
        let listed = changed
            .get("conditions")
            .and_then(|_| condition_edits(before.get("conditions"), after.get("conditions")?, *generation));
        if let Some(listed) = listed {
            changed.remove("conditions");
            for edit in listed {
                edits.edit(edit);
            }
        }
        edits.absorb(self.known.edits.clone());
        let has_conditions = !edits.is_empty();
        if let Some(generation) = *generation
            && self.known.has_generation
            && (has_succeeded || has_conditions)
        {
            edits.observe(generation);
        }
        if !changed.is_empty() {
            patch.merge(json!({"status": changed}));
        }
        patch.edit_status(edits);
    }
}

/// For unit tests of handlers.
impl<T: DeserializeOwned + Serialize + 'static> From<T> for Status<T> {
    fn from(value: T) -> Self {
        let stored = serde_json::to_value(&value).unwrap_or_default();
        let status = Self::with(value, Some(&stored));
        status.expect("a status is JSON")
    }
}

impl<T> Deref for Status<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Status<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

// === impl Conditions ===

impl Conditions<'_> {
    /// Sets the condition of this type. `status` is `true`, `false`, or a [`ConditionStatus`]. `reason` is required,
    /// one word in CamelCase. The message, for people, may be empty.
    ///
    /// A condition that the API would reject, such as one with a reason of two words, turns a successful call into a
    /// permanent failure.
    pub fn set(
        &mut self,
        kind: &str,
        status: impl Into<ConditionStatus>,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) {
        let wanted =
            WantedCondition { status: status.into(), reason: reason.into(), message: message.into() };
        self.edit(ConditionEdit::set(kind, wanted, self.generation));
    }

    /// Removes the condition of this type.
    pub fn remove(&mut self, kind: &str) {
        self.edit(ConditionEdit::remove(kind, self.generation));
    }

    /// Returns the condition of this type, with the changes so far.
    #[must_use]
    pub fn get(&self, kind: &str) -> Option<Condition> {
        let mut list = self.list.iter().flat_map(|list| list.iter());
        let found = list.find(|it| it["type"] == *kind)?;
        Condition::deserialize(found).ok()
    }

    /// Returns whether the condition of this type is present and true.
    #[must_use]
    pub fn is_true(&self, kind: &str) -> bool {
        let found = self.get(kind);
        found.is_some_and(|it| it.status == ConditionStatus::True)
    }

    fn edit(&mut self, edit: ConditionEdit) {
        let Some(list) = &mut self.list else {
            let mistake = "status.conditions of the object is not a list, so no condition can be changed";
            self.mistake.get_or_insert_with(|| mistake.to_owned());
            return;
        };
        if let Err(mistake) = edit.check() {
            self.mistake.get_or_insert(mistake);
            return;
        }
        edit.show_in(list);
        self.edits.edit(edit);
    }
}

// === impl StatusGuard ===

impl<T> StatusGuard<'_, T> {
    /// Ends the call with this outcome.
    ///
    /// # Errors
    /// Returns the error of the call, or the problem with the status.
    pub fn end(mut self, returned: Returned) -> Returned {
        let result = returned?;
        if let Some(mistake) = self.status.known.mistake.take() {
            return Err(PermanentError::new(mistake).into());
        }
        let after = (self.as_json)(&self.status.value)?;
        if !after.is_object() && !after.is_null() {
            return Err(PermanentError::new(format!("a status must be an object, not {after}")).into());
        }
        self.has_succeeded = true;
        Ok(result)
    }
}

/// Keeps the changes regardless of how the call ends.
impl<T> Drop for StatusGuard<'_, T> {
    fn drop(&mut self) {
        let has_succeeded = self.has_succeeded;
        self.status.put_into(self.patch, has_succeeded, self.as_json);
    }
}

// === details ===

fn as_json<T: Serialize>(status: &T) -> Result<Value, PermanentError> {
    to_json(status, "the status")
}

/// Adds advice to the error if the object has no status yet.
fn with_advice<T>(error: HandlerError, is_absent: bool) -> HandlerError {
    if !is_absent {
        return error;
    }
    let name = type_name::<T>();
    let name = name.rsplit("::").next().unwrap_or(name);
    let text = format!("{error}. An object has no status at first: add `#[serde(default)]` to `{name}`");
    PermanentError::new(text).into()
}
