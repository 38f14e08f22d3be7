//! Collects annotated functions and constants through `inventory` or `linkme`; without both features, finds none.

use std::sync::Arc;

use crate::handler::location::SourceLocation;
use crate::handler::options::Callback;
use crate::handler::registry::{Registry, RegistryError};
use crate::handler::validation_rule::DeclaredRule;

impl Registry {
    /// Collects all annotated functions linked into this program, ordered by package, file and line.
    ///
    /// An empty result is not an error here: see [`Registry::is_empty`]. The linker includes a crate only if the program
    /// mentions it with `use` or `extern crate`.
    ///
    /// # Errors
    /// Returns one error with all problems, such as invalid selectors or duplicate ids.
    pub fn collected() -> Result<Self, RegistryError> {
        Self::of(|_| true)
    }

    /// Collects the annotated functions of one module and its submodules: `Registry::in_module(module_path!())`.
    ///
    /// Use it in tests that share a program, so that they do not see each other's handlers.
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
    /// Fails as [`Registry::collected`] does.
    pub fn in_module(module: &str) -> Result<Self, RegistryError> {
        let is_below = |location: SourceLocation| {
            let rest = location.module.strip_prefix(module);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        Self::of(is_below)
    }

    fn of(is_wanted: impl Fn(SourceLocation) -> bool) -> Result<Self, RegistryError> {
        let gathered = gathered(is_wanted).into_iter();
        let registry = gathered.fold(Self::new(), |registry, item| (item.register)(registry));
        registry.check_as_part().map(|()| registry)
    }

    /// Adds only what a sub-handler's arguments require, since its parent registers it.
    #[doc(hidden)]
    #[must_use]
    pub fn requiring(mut self, mut callback: Callback) -> Self {
        self.require(&mut callback);
        self
    }
}

/// An annotated item. It is a constant, so all dynamic parts are in a function.
#[derive(Clone, Copy)]
pub struct Declared {
    /// The kind of the annotated item.
    pub item: Item,
    /// The item's name.
    pub name: &'static str,
    /// The location of the name; all attributes of one function share the location.
    pub location: SourceLocation,
    /// Registers the item, once per attribute. The lowest attribute comes first, since Kopf registers in that order.
    pub register: fn(Registry) -> Registry,
}

/// The kinds of annotated items, in the order of their registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// A function with attributes of handlers.
    Function,
    /// A function that converts objects between two versions.
    Conversion,
    /// A constant with a validation rule.
    Rule,
}

/// All declarations that the linker has gathered.
#[cfg(feature = "linkme")]
#[linkme::distributed_slice]
pub static DECLARED: [Declared] = [..];

#[cfg(all(feature = "inventory", not(feature = "linkme")))]
inventory::collect!(Declared);

#[cfg(feature = "linkme")]
fn linked() -> impl Iterator<Item = &'static Declared> {
    DECLARED.iter()
}

#[cfg(all(feature = "inventory", not(feature = "linkme")))]
fn linked() -> impl Iterator<Item = &'static Declared> {
    inventory::iter::<Declared>.into_iter()
}

#[cfg(not(any(feature = "inventory", feature = "linkme")))]
fn linked() -> impl Iterator<Item = &'static Declared> {
    std::iter::empty()
}

/// Returns the declarations of this program at these locations: functions, conversions and rules, each by package,
/// file and line, because the linker guarantees no order.
fn gathered(is_wanted: impl Fn(SourceLocation) -> bool) -> Vec<&'static Declared> {
    let mut gathered: Vec<_> = linked().filter(|it| is_wanted(it.location)).collect();
    gathered.sort_by_key(|it| (it.item, it.location, it.name));
    gathered
}

/// Returns the valid rules of this program, for the CRDs that it registers. The operator reports invalid rules at its
/// start.
pub(crate) fn rules_in_order() -> Vec<Arc<DeclaredRule>> {
    let rules = gathered(|_| true).into_iter().filter(|it| it.item == Item::Rule);
    rules.fold(Registry::new(), |registry, rule| (rule.register)(registry)).rules
}

/// Registers a declaration. For generated code.
///
/// A static in its own link section counts as unsafe code. Lints skip the expansion of macros from other crates, so
/// users' crates may forbid unsafe code, but only if the expansion contains no `allow(unsafe_code)`, which the
/// compiler would reject.
#[cfg(all(feature = "linkme", not(test)))]
#[doc(hidden)]
#[macro_export]
macro_rules! __kopf_submit {
    ($declared:expr) => {
        #[$crate::__private::linkme::distributed_slice($crate::__private::DECLARED)]
        #[linkme(crate = $crate::__private::linkme)]
        static __KOPF_DECLARED: $crate::__private::Declared = $declared;
    };
}

/// Same as above, but for this crate's own unit tests, where lints do apply to the expansion.
#[cfg(all(feature = "linkme", test))]
#[doc(hidden)]
#[macro_export]
macro_rules! __kopf_submit {
    ($declared:expr) => {
        #[expect(unsafe_code, reason = "a static in a section of its own counts as such")]
        const _: () = {
            #[$crate::__private::linkme::distributed_slice($crate::__private::DECLARED)]
            #[linkme(crate = $crate::__private::linkme)]
            static __KOPF_DECLARED: $crate::__private::Declared = $declared;
        };
    };
}

/// Registers a declaration. For generated code.
#[cfg(all(feature = "inventory", not(feature = "linkme")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __kopf_submit {
    ($declared:expr) => {
        $crate::__private::inventory::submit! { $declared }
    };
}

/// Type-checks a declaration without registering it. For generated code.
#[cfg(not(any(feature = "inventory", feature = "linkme")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __kopf_submit {
    ($declared:expr) => {
        static __KOPF_DECLARED: $crate::__private::Declared = $declared;
    };
}
