//! Collects annotated functions and constants through `inventory` or `linkme`; without both features, finds none.

use std::any::TypeId;
use std::sync::Arc;

use kopf_rs_schedule::HandlerKind;

use crate::handler::callee::Callee;
use crate::handler::cause::Attempt;
use crate::handler::decl::{Decl, Declared};
use crate::handler::index::erased::IndexRequirement;
use crate::handler::location::{DeclaredAt, SourceLocation};
use crate::handler::options::Callback;
use crate::handler::registry::{Registry, RegistryError};
use crate::handler::required::{RequiredState, Requirement};
use crate::handler::validation_rule::{DeclaredRule, RuleDecl};

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
        let registry =
            gathered(is_wanted).into_iter().fold(Self::new(), |registry, declared| match declared {
                Declared::Function(decls) => decls.iter().fold(registry, Self::declaring),
                Declared::Conversion(decl) => {
                    registry.with_conversion((decl.from)(), (decl.to)(), decl.into())
                }
                Declared::Rule(decl) => registry.declaring_rule(decl),
            });
        registry.check_as_part().map(|()| registry)
    }

    fn declaring_rule(mut self, decl: &RuleDecl) -> Self {
        let declared_at = DeclaredAt::Function(decl.location);
        self.declare_rule(declared_at, (decl.rule)(), (decl.selector)());
        self
    }

    fn declaring(mut self, decl: &Decl) -> Self {
        let mut options = (decl.options)();
        let name = options.id.take().unwrap_or_else(|| decl.name.to_owned());
        let declared_at = DeclaredAt::Function(decl.location);
        let is_key = |it: &RequiredState| it.type_id == TypeId::of::<Attempt>();
        let (keys, required): (Vec<_>, Vec<_>) = options.required_state.drain(..).partition(is_key);
        options.keyed = !keys.is_empty();
        let required =
            required.into_iter().map(|state| Requirement { declared_at, handler: name.clone(), state });
        self.requirements.extend(required);
        let indices = options.required_indices.drain(..);
        let indices = indices.map(|index| IndexRequirement { declared_at, handler: name.clone(), index });
        self.index_requirements.extend(indices);
        if decl.kind == HandlerKind::Subhandler {
            return self;
        }
        let callback = Callback { name, declared_at, options, callee: Callee::Fn(decl.call) };
        self.with(decl.kind, decl.selector.map(|selector| selector()), callback)
    }
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
    let place = |it: &&Declared| match it {
        Declared::Function(decls) => decls.first().map(|it| (0, it.location, it.name)),
        Declared::Conversion(decl) => Some((1, decl.location, decl.name)),
        Declared::Rule(decl) => Some((2, decl.location, "")),
    };
    let is_there = |it: &&Declared| place(it).is_some_and(|(_, location, _)| is_wanted(location));
    let mut gathered: Vec<_> = linked().filter(is_there).collect();
    gathered.sort_by_key(place);
    gathered
}

/// Returns the valid rules of this program, for the CRDs that it registers. The operator reports invalid rules at its
/// start.
pub(crate) fn rules_in_order() -> Vec<Arc<DeclaredRule>> {
    let gathered = gathered(|_| true).into_iter();
    let rules = gathered.filter_map(|declared| match declared {
        Declared::Rule(decl) => Some(decl),
        _ => None,
    });
    rules.fold(Registry::new(), Registry::declaring_rule).rules
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
