//! How annotated functions are found: through `inventory`, or through `linkme`, or not at all.

use crate::handler::decl::{Decl, Declared};

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
pub(crate) fn declared() -> impl Iterator<Item = &'static Decl> {
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
