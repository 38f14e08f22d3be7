//! Children: objects that a handler wants to exist for its object, and that the operator applies and maintains.
//!
//! This module depends on neither the requests nor the state that the operator stores about children.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::handler::cause::Cause;
use crate::handler::child_requests::{
    ChildContext, ChildError, ChildReply, ChildRequests, ChildWish, OperatorChildren, handler_error,
};
use crate::handler::error::{HandlerError, PermanentError};
use crate::handler::extract::FromCause;
use crate::handler::extract::extractors::{OfAStoredObject, OfAnObject};
use crate::handler::read::to_json;
use crate::handler::subject::Subject;
use crate::object::body::Body;
use crate::object::child::Ownership;
use crate::object::hierarchy::each;
use crate::object::typed::HasKind;

#[doc = include_str!("../../docs/children.md")]
#[derive(Clone, Debug)]
pub struct Children {
    cause: Cause,
    ownership: Ownership,
    adopts: bool,
    recreates: bool,
    former_managers: Arc<[String]>,
    requests: Option<Arc<dyn ChildRequests>>,
}

/// A child, as [`Children::apply`] has left it.
pub struct AppliedChild<T> {
    reply: ChildReply,
    requests: Arc<dyn ChildRequests>,
    kind: PhantomData<fn() -> T>,
}

impl Children {
    /// Applies the object as a child of the handled object: the operator creates it, or changes it to match.
    ///
    /// # Errors
    /// Returns a permanent error if the content is wrong: Kubernetes would delete the child immediately, the server
    /// rejects it, or the owner is being deleted. Returns a temporary error if a later attempt may succeed: another
    /// object has the name, a quota or a webhook rejects the child, or its kind is not served.
    pub async fn apply<T>(&self, object: &T) -> Result<AppliedChild<T>, HandlerError>
    where
        T: Serialize + DeserializeOwned,
    {
        let requests = self.requests()?;
        let reply = requests.clone().apply(self.wish(object)?).await;
        let reply = reply.map_err(|error| handler_error(&error))?;
        Ok(AppliedChild::new(reply, requests))
    }

    /// Applies all these objects, and prunes the objects that an earlier call of the same handler for the same object
    /// applied and that are no longer in the set. Pass objects of several types as a tuple:
    /// `children.set((&deployment, &service)).await?`. The tuple may contain lists, and `None` for an absent object.
    /// `children.set(())` deletes all.
    ///
    /// If one object cannot be applied, the others are still applied, but nothing is pruned.
    ///
    /// # Errors
    /// Fails as [`Children::apply`] does, with the errors of all objects that could not be applied or deleted.
    /// Returns a permanent error if no handler names the kind of an object in `owns`.
    pub async fn set<T: Serialize>(&self, objects: T) -> Result<Vec<AppliedChild<Value>>, HandlerError> {
        let mut objects = to_json(&objects, "the child")?;
        let mut all = Vec::new();
        let listed = each(&mut objects, &mut |object| {
            all.push(object.take());
            Ok(())
        });
        listed.map_err(|misfit| handler_error(&ChildError::Misfit(misfit)))?;
        let requests = self.requests()?;
        let replies = requests.clone().set(all, self.context()).await;
        let replies = replies.map_err(|error| handler_error(&error))?;
        let applied = replies.into_iter();
        let applied = applied.map(|reply| AppliedChild::new(reply, requests.clone()));
        Ok(applied.collect())
    }

    /// Returns the current state of the child of this type and name: `children.get::<Deployment>("web")`. Returns
    /// `None` if there is no such child, also if an object of that name exists but is not a child of the handled
    /// object.
    ///
    /// The result is never older than the operator's own last write. If a handler names the kind in `reads`, the
    /// result comes from the informer's cache, otherwise from a request.
    ///
    /// # Errors
    /// Returns an error if the child cannot be read or does not deserialize into `T`.
    pub async fn get<T: HasKind + DeserializeOwned>(&self, name: &str) -> Result<Option<T>, HandlerError> {
        let named = json!({"apiVersion": T::api_version(), "kind": T::kind(), "metadata": {"name": name}});
        self.read_as(&named).await
    }

    /// Returns the current state of a child of any kind, as JSON or as a type. Uses only the kind, name and namespace
    /// of `object`.
    ///
    /// # Errors
    /// Fails as [`Children::get`] does.
    pub async fn read<T>(&self, object: &T) -> Result<Option<T>, HandlerError>
    where
        T: Serialize + DeserializeOwned,
    {
        self.read_as(object).await
    }

    /// Returns the current children of this type, in the order of their namespaces and names:
    /// `children.list::<ConfigMap>()`. Finds the children in the owner's namespace, in all namespaces if the owner is
    /// cluster-scoped, and everywhere by `children.unowned().list::<T>()`.
    ///
    /// The result is never older than the operator's own last write. If a handler names the kind in `reads`, the
    /// result comes from the informer's cache, otherwise from a request for all children of the operator with this
    /// kind in that namespace.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kopf_rs::prelude::*;
    ///
    /// /// Deletes the oldest revisions: at most three stay.
    /// #[reconcile("kopfexamples", reads = [ConfigMap])]
    /// async fn keep_three(children: Children) -> HandlerResult {
    ///     let mut revisions = children.list::<ConfigMap>().await?;
    ///     revisions.sort_by(|a, b| a.metadata.creation_timestamp.cmp(&b.metadata.creation_timestamp));
    ///     for old in revisions.iter().rev().skip(3) {
    ///         children.delete(old).await?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the children cannot be read, or if one does not deserialize into `T`.
    pub async fn list<T: HasKind + DeserializeOwned>(&self) -> Result<Vec<T>, HandlerError> {
        let listed = self.list_kind(&T::api_version(), &T::kind()).await?;
        Ok(listed.into_iter().map(typed).collect::<Result<_, _>>()?)
    }

    /// Returns the current children of any kind as JSON: `children.list_kind("apps/v1", "Deployment")`. Otherwise the
    /// same as [`Children::list`].
    ///
    /// # Errors
    /// Returns an error if the children cannot be read.
    pub async fn list_kind(&self, api_version: &str, kind: &str) -> Result<Vec<Value>, HandlerError> {
        let of_kind = json!({"apiVersion": api_version, "kind": kind});
        let listed = self.requests()?.list(self.wish(&of_kind)?).await;
        listed.map_err(|error| handler_error(&error))
    }

    async fn read_as<T: DeserializeOwned>(&self, object: &impl Serialize) -> Result<Option<T>, HandlerError> {
        let found = self.requests()?.read(self.wish(object)?).await;
        let found = found.map_err(|error| handler_error(&error))?;
        Ok(found.map(typed).transpose()?)
    }

    /// Deletes a child, and then the objects that it owns. Returns `false` if there is no such child; an object of
    /// that name that is not a child of the handled object stays untouched. Uses only the kind, name and namespace of
    /// `object`.
    ///
    /// # Errors
    /// Fails as [`Children::apply`] does.
    pub async fn delete<T: Serialize>(&self, object: &T) -> Result<bool, HandlerError> {
        let deleted = self.requests()?.delete(self.wish(object)?).await;
        deleted.map_err(|error| handler_error(&error))
    }

    /// Releases a child: removes the owner reference and the operator's marks, so that the object outlives its owner.
    /// Returns `false` if there is no such child. Uses only the kind, name and namespace of `object`.
    ///
    /// # Errors
    /// Fails as [`Children::apply`] does.
    pub async fn orphan<T: Serialize>(&self, object: &T) -> Result<bool, HandlerError> {
        let orphaned = self.requests()?.orphan(self.wish(object)?).await;
        orphaned.map_err(|error| handler_error(&error))
    }

    /// Returns a handle that also adopts objects. If an object of a child's name exists without a controller,
    /// applying the child adds missing fields, overwrites different values, and makes the object a regular child,
    /// which is deleted with its owner.
    #[must_use]
    pub fn adopting(&self) -> Self {
        Self { adopts: true, ..self.clone() }
    }

    /// Returns a handle that recreates children with immutable fields: if the server refuses to change a child for that
    /// reason, the operator deletes it, and the next attempt creates it. Its Pods and data may be lost, so this is off
    /// by default.
    ///
    /// The operator asks the server first, by a dry run under another name, whether it would create the new child, and
    /// otherwise deletes nothing: for example if the former child holds a fixed `nodePort`, or the rest of a quota, so that
    /// both cannot exist at once. It deletes in the foreground: the new child is created after the Pods of the former one
    /// are gone. A child that was recreated is recreated again after a minute at the earliest, and then at growing intervals of up to an hour. The
    /// handler needs at least two attempts for it: do not limit its `retries` to one.
    ///
    /// ```
    /// # use kopf_rs::prelude::*;
    /// #[reconcile("kopfexamples", owns = [("batch", "jobs")])]
    /// async fn migrate(children: Children, spec: &Value) -> HandlerResult {
    ///     // The template of a Job is immutable.
    ///     let job = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": spec["template"]}});
    ///     children.recreating().apply(&job).await?;
    ///     Ok(())
    /// }
    /// ```
    #[must_use]
    pub fn recreating(&self) -> Self {
        Self { recreates: true, ..self.clone() }
    }

    /// Returns a handle that takes over the fields of former releases or predecessors of this operator, which made
    /// children by other requests than server-side apply. The operator owns all fields that these field managers set
    /// (with the operation `Update` in `managedFields`), so that it can remove those it no longer wants.
    ///
    /// ```
    /// # use kopf_rs::prelude::*;
    /// #[reconcile("kopfexamples", owns = ["configmaps"])]
    /// async fn keep(children: Children) -> HandlerResult {
    ///     let children = children.formerly_managed_by(["my-operator-in-go"]);
    ///     children.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}})).await?;
    ///     Ok(())
    /// }
    /// ```
    #[must_use]
    pub fn formerly_managed_by<T: Into<String>>(&self, managers: impl IntoIterator<Item = T>) -> Self {
        Self { former_managers: managers.into_iter().map(Into::into).collect(), ..self.clone() }
    }

    /// Returns a handle for children without an owner reference, which Kubernetes does not garbage-collect:
    /// cluster-scoped children of a namespaced owner, and children in other namespaces. Delete them in a function
    /// with `#[on_delete]`.
    #[must_use]
    pub fn unowned(&self) -> Self {
        Self { ownership: Ownership::Unowned, ..self.clone() }
    }

    fn requests(&self) -> Result<Arc<dyn ChildRequests>, HandlerError> {
        let requests = self.requests.clone();
        requests.ok_or_else(|| handler_error(&ChildError::NoOperator))
    }

    fn wish<T: Serialize>(&self, object: &T) -> Result<ChildWish, PermanentError> {
        Ok(ChildWish { object: to_json(object, "the child")?, in_set: false, context: self.context() })
    }

    fn context(&self) -> ChildContext {
        let context = &self.cause.context;
        ChildContext {
            ownership: self.ownership,
            adopts: self.adopts,
            recreates: self.recreates,
            former_managers: self.former_managers.clone(),
            owner: self.owner(),
            handler_id: self.cause.handler_id.clone(),
            memo: context.memo.clone(),
            logger: context.logger.clone(),
        }
    }

    /// Returns the handled object, in the newest state that is known.
    fn owner(&self) -> Arc<Body> {
        let subject = &self.cause.subject;
        if let Subject::Background(subject) = subject {
            return subject.live.body();
        }
        let body = subject.object().map(|object| object.body.clone());
        body.unwrap_or_else(|| Arc::new(Body::new(Value::Null)))
    }
}

fn typed<T: DeserializeOwned>(object: Value) -> Result<T, PermanentError> {
    serde_path_to_error::deserialize(object)
        .map_err(|error| PermanentError::new(format!("the child does not have the requested type: {error}")))
}

impl<T> AppliedChild<T> {
    fn new(reply: ChildReply, requests: Arc<dyn ChildRequests>) -> Self {
        Self { reply, requests, kind: PhantomData }
    }

    /// Returns `metadata.name`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.reply.child.name
    }
    /// Returns `metadata.namespace`; `None` for cluster-scoped objects.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.reply.child.namespace.as_deref()
    }
    /// Returns `metadata.uid`.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.reply.uid
    }
    /// Returns `metadata.resourceVersion`.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        &self.reply.resource_version
    }
    /// Returns whether the apply created the object.
    #[must_use]
    pub fn is_created(&self) -> bool {
        self.reply.created
    }
}

impl<T: DeserializeOwned> AppliedChild<T> {
    /// Returns the whole object as the server stores it, including its status. Reads the object first if the apply
    /// was a no-op and sent nothing.
    ///
    /// # Errors
    /// Returns an error if the object cannot be read or does not deserialize into `T`.
    pub async fn object(self) -> Result<T, HandlerError> {
        let Self { reply, requests, .. } = self;
        let object = if let Some(object) = reply.object {
            object
        } else {
            let read = requests.read_applied(reply.api_version, reply.child).await;
            read.map_err(|error| handler_error(&error))?
        };
        Ok(typed(object)?)
    }
}

impl<T> fmt::Debug for AppliedChild<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppliedChild")
            .field("child", &self.reply.child)
            .field("uid", &self.reply.uid)
            .finish_non_exhaustive()
    }
}

impl Cause {
    /// Returns a handle to the children of the object.
    ///
    /// # Errors
    /// Returns an error in activities, which have no object.
    pub fn children(&self) -> Result<Children, PermanentError> {
        if self.resource().is_none() {
            return Err(PermanentError::new(
                "startup and cleanup handlers have no object that could have children",
            ));
        }
        let requests: Option<Arc<OperatorChildren>> = self.context.extensions.get();
        Ok(Children {
            cause: self.clone(),
            ownership: Ownership::default(),
            adopts: false,
            recreates: false,
            former_managers: Arc::default(),
            requests: requests.map(|it| it.0.clone()),
        })
    }
}

impl FromCause<'_> for Children {
    fn from_cause(cause: &Cause) -> Result<Self, HandlerError> {
        Ok(cause.children()?)
    }
}

impl OfAnObject for Children {}
impl OfAStoredObject for Children {}
