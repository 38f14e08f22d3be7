//! All handlers of an operator: collected from annotated functions, or built by hand.
//!
//! Resolves declarations into handlers once, at start, and reports everything wrong with them in one error.

use std::sync::Arc;

use crate::handler::decl::{Callee, Decl, Handler, HandlerKind, Origin};
use crate::handler::registry::callback::Callback;
use crate::handler::registry::problem::Problem;
use crate::handler::registry::selectors::IntoSelector;
use crate::object::selector::{Selector, SelectorError};

pub(crate) mod callback;
pub(crate) mod collect;
pub(crate) mod problem;
pub(crate) mod selectors;

pub use crate::handler::registry::problem::RegistryError;

/// Handlers in the order of their declaration.
///
/// Annotated functions come with [`Registry::collected`]. Closures are added by hand:
///
/// ```
/// use kopf_rs::prelude::*;
/// use kopf_rs::{Registry, handler};
///
/// let registry = Registry::new()
///     .on_create("kopfexamples", handler("create_fn", |cause| async move {
///         let size: u32 = cause.spec::<Value>()?["size"].as_u64().unwrap_or(1) as u32;
///         cause.patch()["status"]["size"] = json!(size);
///         info!(cause.logger(), "created with size {size}");
///         Ok(())
///     }).retries(3))
///     .on_delete(("kopf.dev", "v1", "kopfexamples"), handler("delete_fn", |cause| async move {
///         info!(cause.logger(), "{} is gone", cause.name());
///         Ok(())
///     }).optional());
/// registry.check().unwrap();
/// ```
#[derive(Clone, Debug, Default)]
pub struct Registry {
    handlers: Vec<Arc<Handler>>,
    problems: Vec<Problem>,
}

impl Registry {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// All annotated functions linked into this program, in the order of packages, files and lines.
    ///
    /// Finding none is no error here: see [`Registry::is_empty`]. A crate is linked only if the program mentions it, by `use` or
    /// `extern crate`.
    ///
    /// # Errors
    /// Where selectors cannot be understood, or ids are used twice: one error with all of it.
    pub fn collected() -> Result<Self, RegistryError> {
        Self::of(collect::declared()).checked()
    }

    /// The annotated functions of one module and the modules below: `Registry::in_module(module_path!())`.
    ///
    /// Tests in one program use it so as not to see each other's handlers.
    ///
    /// ```
    /// use kopf_rs::Registry;
    /// use kopf_rs::prelude::*;
    ///
    /// #[on_create("kopfexamples")]
    /// async fn create_fn() {}
    ///
    /// let registry = Registry::in_module(module_path!())?;
    /// # #[cfg(any(feature = "inventory", feature = "linkme"))]
    /// assert_eq!(registry.len(), 1);
    /// # Ok::<(), kopf_rs::RegistryError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Registry::collected`].
    pub fn in_module(module: &str) -> Result<Self, RegistryError> {
        let below = |decl: &&Decl| {
            let rest = decl.place.module.strip_prefix(module);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        Self::of(collect::declared().filter(below)).checked()
    }

    /// Whether there are no handlers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.handlers.is_empty()
    }

    /// How many handlers there are; a function with two attributes counts twice.
    #[must_use]
    pub fn len(&self) -> usize {
        self.handlers.len()
    }

    /// Put the handlers of `other` behind these.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.handlers.extend(other.handlers);
        self.problems.extend(other.problems);
        self
    }

    /// Everything wrong with the handlers. An operator does this at its start.
    ///
    /// # Errors
    /// Where selectors cannot be understood, or ids are used twice: one error with all of it.
    pub fn check(&self) -> Result<(), RegistryError> {
        let clashes = problem::clashes(&self.handlers);
        let problems: Vec<_> = self.problems.iter().cloned().chain(clashes).collect();
        if problems.is_empty() {
            Ok(())
        } else {
            Err(RegistryError(problems))
        }
    }

    pub(crate) fn handlers(&self) -> &[Arc<Handler>] {
        &self.handlers
    }

    fn checked(self) -> Result<Self, RegistryError> {
        self.check().map(|()| self)
    }

    fn of<'a>(declared: impl Iterator<Item = &'a Decl>) -> Self {
        let mut registry = Self::new();
        for decl in declared {
            registry.declare(decl);
        }
        registry
    }

    fn declare(&mut self, decl: &Decl) {
        let selector = decl.selector.map(|selector| selector());
        let callback = Callback {
            name: decl.name.to_owned(),
            origin: Origin::Function(decl.place),
            options: (decl.options)(),
            callee: Callee::Fn(decl.call),
        };
        self.push(decl.kind, selector, callback);
    }

    fn push(
        &mut self,
        kind: HandlerKind,
        selector: Option<Result<Selector, SelectorError>>,
        callback: Callback,
    ) {
        let mut complain = |message| {
            self.problems.push(Problem::Declaration {
                attribute: kind.attribute(),
                name: callback.name.clone(),
                origin: callback.origin,
                message,
            });
        };
        let selector = match selector.transpose() {
            Ok(selector) => selector,
            Err(error) => return complain(error.to_string()),
        };
        if callback.name.is_empty() {
            complain("an id cannot be empty".to_owned());
        }
        if let Some(message) = callback.misuse(kind) {
            complain(message);
        }
        self.handlers.push(Arc::new(Handler {
            id: callback.id().into(),
            kind,
            selector,
            options: callback.options,
            origin: callback.origin,
            callee: callback.callee,
        }));
    }
}

/// One method per attribute.
macro_rules! by_hand {
    ($($method:ident $kind:ident $doc:literal)*) => {
        impl Registry {
            $(
                #[doc = $doc]
                #[must_use]
                pub fn $method(mut self, resources: impl IntoSelector, handler: Callback) -> Self {
                    self.push(HandlerKind::$kind, Some(resources.into_selector()), handler);
                    self
                }
            )*
        }
    };
}

by_hand! {
    on_create Create "Call `handler` for new objects."
    on_update Update "Call `handler` for changed objects."
    on_delete Delete "Call `handler` for objects being deleted."
    on_resume Resume "Call `handler` for objects found handled when the operator starts."
    on_field Field "Call `handler` for changes of its field, which it must have."
    on_event Event "Call `handler` for every watch event."
}

impl Registry {
    /// Call `handler` once, before any object is handled.
    #[must_use]
    pub fn on_startup(mut self, handler: Callback) -> Self {
        self.push(HandlerKind::Startup, None, handler);
        self
    }
    /// Call `handler` once, after all objects have been handled.
    #[must_use]
    pub fn on_cleanup(mut self, handler: Callback) -> Self {
        self.push(HandlerKind::Cleanup, None, handler);
        self
    }
}

#[cfg(test)]
mod tests;
