//! How annotated functions are found: through `inventory`, or through `linkme`, or not at all.

use std::any::TypeId;

use crate::handler::callee::Callee;
use crate::handler::cause::Attempt;
use crate::handler::decl::{Decl, Declared};
use crate::handler::index::erased::IndexRequirement;
use crate::handler::location::DeclaredAt;
use crate::handler::registry::{HandlerBase, Registry, RegistryError};
use crate::handler::required::{RequiredState, Requirement};

impl Registry {
    /// All annotated functions linked into this program, in the order of packages, files and lines.
    ///
    /// Finding none is no error here: see [`Registry::is_empty`]. A crate is linked only if the program mentions it, by `use` or
    /// `extern crate`.
    ///
    /// # Errors
    /// Where selectors cannot be understood, or ids are used twice: one error with all of it.
    pub fn collected() -> Result<Self, RegistryError> {
        Self::of(declared()).checked()
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
            let rest = decl.location.module.strip_prefix(module);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        Self::of(declared().filter(below)).checked()
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

/// What the linker has gathered.
#[cfg(feature = "linkme")]
#[linkme::distributed_slice]
pub static DECLARED: [Declared] = [..];

#[cfg(all(feature = "inventory", not(feature = "linkme")))]
inventory::collect!(Declared);

#[cfg(feature = "linkme")]
fn gathered() -> impl Iterator<Item = &'static Declared> {
    DECLARED.iter()
}

#[cfg(all(feature = "inventory", not(feature = "linkme")))]
fn gathered() -> impl Iterator<Item = &'static Declared> {
    inventory::iter::<Declared>.into_iter()
}

#[cfg(not(any(feature = "inventory", feature = "linkme")))]
fn gathered() -> impl Iterator<Item = &'static Declared> {
    std::iter::empty()
}

/// All declarations of this program. The linker keeps no order, so they are sorted by their location in the sources.
fn declared() -> impl Iterator<Item = &'static Decl> {
    let mut functions: Vec<_> = gathered()
        .filter(|declared| !declared.0.is_empty())
        .collect();
    functions.sort_by_key(|declared| (declared.0[0].location, declared.0[0].name));
    functions.into_iter().flat_map(|declared| declared.0)
}

/// Register what an attribute declares. For generated code.
///
/// A static in a section of its own counts as unsafe code, but lints do not look into what macros of other crates make: users' crates may
/// forbid unsafe code, if nothing here allows it, for that alone would be refused.
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

/// As above, but in this crate's own unit tests the macro is none of another crate.
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

/// Register what an attribute declares. For generated code.
#[cfg(all(feature = "inventory", not(feature = "linkme")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __kopf_submit {
    ($declared:expr) => {
        $crate::__private::inventory::submit! { $declared }
    };
}

/// Check what an attribute declares, and forget it. For generated code.
#[cfg(not(any(feature = "inventory", feature = "linkme")))]
#[doc(hidden)]
#[macro_export]
macro_rules! __kopf_submit {
    ($declared:expr) => {
        static __KOPF_DECLARED: $crate::__private::Declared = $declared;
    };
}
