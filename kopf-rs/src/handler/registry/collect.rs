//! Collects annotated functions and constants through `inventory` or `linkme`; without both features, finds none.

use std::any::TypeId;
use std::sync::Arc;

use crate::handler::callee::Callee;
use crate::handler::cause::Attempt;
use crate::handler::conversion::{Conversion, ConversionDecl};
use crate::handler::decl::{Decl, Declared};
use crate::handler::index::erased::IndexRequirement;
use crate::handler::location::{DeclaredAt, SourceLocation};
use crate::handler::registry::{HandlerBase, Registry, RegistryError};
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
        Self::of(declared())
            .converting(conversions())
            .with_rules(declared_rules())
            .checked()
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
        let handlers = declared().filter(|it| is_below(it.location));
        let conversions = conversions().filter(|it| is_below(it.location));
        let rules = declared_rules().into_iter();
        let rules = rules.filter(|it| is_below(it.location));
        Self::of(handlers)
            .converting(conversions)
            .with_rules(rules)
            .checked()
    }

    fn checked(self) -> Result<Self, RegistryError> {
        self.check_as_part().map(|()| self)
    }

    fn of<'a>(declared: impl Iterator<Item = &'a Decl>) -> Self {
        let mut registry = Self::new();
        for decl in declared {
            registry.declare(decl);
        }
        registry
    }

    fn converting<'a>(self, declared: impl Iterator<Item = &'a ConversionDecl>) -> Self {
        declared.fold(self, |registry, decl| {
            let (from, to) = ((decl.from)(), (decl.to)());
            registry.with_conversion(from, to, Conversion::from(decl))
        })
    }

    fn with_rules(mut self, rules: impl IntoIterator<Item = &'static RuleDecl>) -> Self {
        for decl in rules {
            self.declare_rule(
                DeclaredAt::Function(decl.location),
                (decl.rule)(),
                (decl.selector)(),
            );
        }
        self
    }

    fn declare(&mut self, decl: &Decl) {
        let common = (decl.common)();
        let name = common.id.unwrap_or_else(|| decl.name.to_owned());
        let declared_at = DeclaredAt::Function(decl.location);
        let is_key = |it: &RequiredState| it.type_id == TypeId::of::<Attempt>();
        let is_keyed = common.required_state.iter().any(is_key);
        let required = common.required_state.into_iter().filter(|it| !is_key(it));
        self.requirements.extend(required.map(|state| Requirement {
            declared_at,
            handler: name.clone(),
            state,
        }));
        let indices = common.required_indices.into_iter();
        self.index_requirements
            .extend(indices.map(|index| IndexRequirement {
                declared_at,
                handler: name.clone(),
                index,
            }));
        if let Some(declaration) = decl.declaration {
            let (attribute, family) = declaration.resolved();
            let base = HandlerBase {
                name,
                declared_at,
                param: common.param,
                callee: Callee::Fn(decl.call),
                is_keyed,
            };
            self.push(attribute, base, family);
        }
    }
}

/// All declarations that the linker has gathered.
#[cfg(feature = "linkme")]
#[linkme::distributed_slice]
pub static DECLARED: [Declared] = [..];

/// All conversions that the linker has gathered.
#[cfg(feature = "linkme")]
#[linkme::distributed_slice]
pub static CONVERSIONS: [ConversionDecl] = [..];

#[cfg(all(feature = "inventory", not(feature = "linkme")))]
inventory::collect!(Declared);

#[cfg(all(feature = "inventory", not(feature = "linkme")))]
inventory::collect!(ConversionDecl);

#[cfg(feature = "linkme")]
fn gathered() -> impl Iterator<Item = &'static Declared> {
    DECLARED.iter()
}

#[cfg(feature = "linkme")]
fn gathered_conversions() -> impl Iterator<Item = &'static ConversionDecl> {
    CONVERSIONS.iter()
}

#[cfg(all(feature = "inventory", not(feature = "linkme")))]
fn gathered() -> impl Iterator<Item = &'static Declared> {
    inventory::iter::<Declared>.into_iter()
}

#[cfg(all(feature = "inventory", not(feature = "linkme")))]
fn gathered_conversions() -> impl Iterator<Item = &'static ConversionDecl> {
    inventory::iter::<ConversionDecl>.into_iter()
}

#[cfg(not(any(feature = "inventory", feature = "linkme")))]
fn gathered() -> impl Iterator<Item = &'static Declared> {
    std::iter::empty()
}

#[cfg(not(any(feature = "inventory", feature = "linkme")))]
fn gathered_conversions() -> impl Iterator<Item = &'static ConversionDecl> {
    std::iter::empty()
}

/// Returns all declarations of this program, sorted by source location because the linker guarantees no order.
fn declared() -> impl Iterator<Item = &'static Decl> {
    let functions = gathered().filter_map(|declared| match declared {
        Declared::Function(decls) => decls.first().map(|first| (first, decls)),
        Declared::Rule(_) => None,
    });
    let mut functions: Vec<_> = functions.collect();
    functions.sort_by_key(|(first, _)| (first.location, first.name));
    functions.into_iter().flat_map(|(_, decls)| *decls)
}

/// Returns all validation rules of this program, ordered by package, file and line.
fn declared_rules() -> Vec<&'static RuleDecl> {
    let rules = gathered().filter_map(|declared| match declared {
        Declared::Rule(decl) => Some(decl),
        Declared::Function(_) => None,
    });
    let mut rules: Vec<_> = rules.collect();
    rules.sort_by_key(|decl| decl.location);
    rules
}

/// Returns the valid rules of this program, for the CRDs that it registers. The operator reports invalid rules at its
/// start.
pub(crate) fn rules_in_order() -> Vec<Arc<DeclaredRule>> {
    let registry = Registry::new().with_rules(declared_rules());
    registry.rules
}

/// Returns all conversions of this program, sorted by source location.
fn conversions() -> impl Iterator<Item = &'static ConversionDecl> {
    let mut functions: Vec<_> = gathered_conversions().collect();
    functions.sort_by_key(|it| (it.location, it.name));
    functions.into_iter()
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
    (conversion $declared:expr) => {
        #[$crate::__private::linkme::distributed_slice($crate::__private::CONVERSIONS)]
        #[linkme(crate = $crate::__private::linkme)]
        static __KOPF_DECLARED: $crate::__private::ConversionDecl = $declared;
    };
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
        #[expect(
            unsafe_code,
            reason = "a static in a section of its own counts as such"
        )]
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
    (conversion $declared:expr) => {
        $crate::__private::inventory::submit! { $declared }
    };
    ($declared:expr) => {
        $crate::__private::inventory::submit! { $declared }
    };
}

/// Type-checks a declaration without registering it. For generated code.
#[cfg(not(any(feature = "inventory", feature = "linkme")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __kopf_submit {
    (conversion $declared:expr) => {
        static __KOPF_DECLARED: $crate::__private::ConversionDecl = $declared;
    };
    ($declared:expr) => {
        static __KOPF_DECLARED: $crate::__private::Declared = $declared;
    };
}
