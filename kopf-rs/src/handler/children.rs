//! Children: what a handler wants to be there for its object, applied and kept by the operator.
//!
//! Must not know requests, nor what is remembered of children.

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
use crate::handler::extract::given::{OfAStoredObject, OfAnObject};
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
    former_managers: Arc<[String]>,
    requests: Option<Arc<dyn ChildRequests>>,
}

/// A child as it is after [`Children::apply`].
pub struct AppliedChild<T> {
    reply: ChildReply,
    requests: Arc<dyn ChildRequests>,
    kind: PhantomData<fn() -> T>,
}

impl Children {
    /// Let the object be there, just as it is given, as a child of the object that is handled.
    ///
    /// # Errors
    /// Permanent ones where the content is at fault: Kubernetes would delete the child at once, the server refuses it, or the owner is being
    /// deleted. Temporary ones where it may succeed later: another object has the name, a quota or a webhook refuses it, its kind is not
    /// served.
    pub async fn apply<T>(&self, object: &T) -> Result<AppliedChild<T>, HandlerError>
    where
        T: Serialize + DeserializeOwned,
    {
        let requests = self.requests()?;
        let reply = requests.clone().apply(self.wish(object)?).await;
        let reply = reply.map_err(|error| handler_error(&error))?;
        Ok(AppliedChild::new(reply, requests))
    }

    /// Let all these objects be there, and delete those that an earlier call of the same handler for the same object has let be there, and that
    /// are not among them. Objects of several types are a tuple: `children.set((&deployment, &service)).await?`. Lists may be parts of it, and so
    /// may `None`, which is no object; `children.set(())` deletes all.
    ///
    /// Nothing is deleted where one of the objects cannot be applied. The others are applied all the same.
    ///
    /// # Errors
    /// As for [`Children::apply`]: of all objects that cannot be applied, and of those that cannot be deleted. A permanent one where no handler
    /// names the kind of an object in `owns`.
    pub async fn set<T: Serialize>(
        &self,
        objects: T,
    ) -> Result<Vec<AppliedChild<Value>>, HandlerError> {
        let mut objects = to_json(&objects)?;
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

    /// The child of this type and name as it is now: `children.get::<Deployment>("web")`. `None` where there is none; objects of that name that
    /// are no children of the object that is handled are not shown.
    ///
    /// It is never older than what this operator has written. Of kinds that a handler names in `reads`, it comes from memory, else by a request.
    ///
    /// # Errors
    /// Where it cannot be read, or is no `T`.
    pub async fn get<T: HasKind + DeserializeOwned>(
        &self,
        name: &str,
    ) -> Result<Option<T>, HandlerError> {
        let named =
            json!({"apiVersion": T::api_version(), "kind": T::kind(), "metadata": {"name": name}});
        self.read_as(&named).await
    }

    /// The same for a child of any kind, as JSON or as a type: only kind, name and namespace of `object` count.
    ///
    /// # Errors
    /// As for [`Children::get`].
    pub async fn read<T>(&self, object: &T) -> Result<Option<T>, HandlerError>
    where
        T: Serialize + DeserializeOwned,
    {
        self.read_as(object).await
    }

    async fn read_as<T: DeserializeOwned>(
        &self,
        object: &impl Serialize,
    ) -> Result<Option<T>, HandlerError> {
        let found = self.requests()?.read(self.wish(object)?).await;
        let found = found.map_err(|error| handler_error(&error))?;
        Ok(found.map(typed).transpose()?)
    }

    /// Delete a child, and then what it owns. `false` where there is none: objects of that name that are no children of the object that is
    /// handled stay as they are. Only kind, name and namespace of `object` count.
    ///
    /// # Errors
    /// As for [`Children::apply`].
    pub async fn delete<T: Serialize>(&self, object: &T) -> Result<bool, HandlerError> {
        let deleted = self.requests()?.delete(self.wish(object)?).await;
        deleted.map_err(|error| handler_error(&error))
    }

    /// Let a child go: it stays as it is, without the reference to its owner and without the operator's marks, and is not deleted after its owner.
    /// `false` where there is no such child. Only kind, name and namespace of `object` count.
    ///
    /// # Errors
    /// As for [`Children::apply`].
    pub async fn orphan<T: Serialize>(&self, object: &T) -> Result<bool, HandlerError> {
        let orphaned = self.requests()?.orphan(self.wish(object)?).await;
        orphaned.map_err(|error| handler_error(&error))
    }

    /// The same, and an object of a child's name that nobody controls becomes a child: what it lacks is added, and what has another value
    /// is changed. Then it is one as any other, and is deleted after its owner.
    #[must_use]
    pub fn adopting(&self) -> Self {
        Self {
            adopts: true,
            ..self.clone()
        }
    }

    /// The same for an operator of which former releases, or whose predecessors, have made children by other requests than applies: what these field
    /// managers have set (by the operation `Update` of `managedFields`) is the operator's, so that a field that is wanted no more is taken out.
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
    pub fn formerly_managed_by<T: Into<String>>(
        &self,
        managers: impl IntoIterator<Item = T>,
    ) -> Self {
        Self {
            former_managers: managers.into_iter().map(Into::into).collect(),
            ..self.clone()
        }
    }

    /// The same for children without a reference to their owner, which the server does not delete: cluster-scoped ones of an owner in a namespace,
    /// and those in other namespaces. Delete them in a function with `#[on_delete]`.
    #[must_use]
    pub fn unowned(&self) -> Self {
        Self {
            ownership: Ownership::Unowned,
            ..self.clone()
        }
    }

    fn requests(&self) -> Result<Arc<dyn ChildRequests>, HandlerError> {
        let requests = self.requests.clone();
        requests.ok_or_else(|| handler_error(&ChildError::NoOperator))
    }

    fn wish<T: Serialize>(&self, object: &T) -> Result<ChildWish, PermanentError> {
        Ok(ChildWish {
            object: to_json(object)?,
            in_set: false,
            context: self.context(),
        })
    }

    fn context(&self) -> ChildContext {
        let context = &self.cause.context;
        ChildContext {
            ownership: self.ownership,
            adopts: self.adopts,
            former_managers: self.former_managers.clone(),
            owner: self.owner(),
            handler_id: self.cause.handler_id.clone(),
            memo: context.memo.clone(),
            logger: context.logger.clone(),
        }
    }

    /// The object that is handled, as it is now where that is known.
    fn owner(&self) -> Arc<Body> {
        let subject = &self.cause.subject;
        if let Subject::Background(subject) = subject {
            return subject.live.body();
        }
        let body = subject.object().map(|object| object.body.clone());
        body.unwrap_or_else(|| Arc::new(Body::new(Value::Null)))
    }
}

fn to_json<T: Serialize>(object: &T) -> Result<Value, PermanentError> {
    serde_json::to_value(object).map_err(|error| {
        PermanentError::new(format!("the child cannot be written as JSON: {error}"))
    })
}

fn typed<T: DeserializeOwned>(object: Value) -> Result<T, PermanentError> {
    serde_path_to_error::deserialize(object).map_err(|error| {
        PermanentError::new(format!("the child is not of the type asked for: {error}"))
    })
}

impl<T> AppliedChild<T> {
    fn new(reply: ChildReply, requests: Arc<dyn ChildRequests>) -> Self {
        Self {
            reply,
            requests,
            kind: PhantomData,
        }
    }

    /// `metadata.name`
    #[must_use]
    pub fn name(&self) -> &str {
        &self.reply.child.name
    }
    /// `metadata.namespace`; `None` for cluster-scoped objects.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.reply.child.namespace.as_deref()
    }
    /// `metadata.uid`
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.reply.uid
    }
    /// `metadata.resourceVersion`
    #[must_use]
    pub fn resource_version(&self) -> &str {
        &self.reply.resource_version
    }
    /// Whether it was not there before.
    #[must_use]
    pub fn is_created(&self) -> bool {
        self.reply.created
    }
}

impl<T: DeserializeOwned> AppliedChild<T> {
    /// The whole object as the server has it, its status included. Where nothing was sent because nothing would change, it is read.
    ///
    /// # Errors
    /// Where it cannot be read, or is no `T`.
    pub async fn object(self) -> Result<T, HandlerError> {
        let Self {
            reply, requests, ..
        } = self;
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
    /// What is to be there for the object.
    ///
    /// # Errors
    /// In activities, which have no object.
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
