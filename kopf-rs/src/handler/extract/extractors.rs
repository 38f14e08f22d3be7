//! Conditions on arguments by type: some exist only in some families, and some require a value that must be
//! registered with the operator. A function of another family does not compile; an operator that lacks a required
//! value does not start.
//!
//! For each argument type `T` and the family `O` of each attribute, generated code calls `ByType::<T, O>::is_given()`.
//! For most types, this resolves to [`GivenToAll`]. A type with conditions has an inherent function of that name on
//! `ByType`, which takes precedence.

use std::marker::PhantomData;

use crate::handler::extract::State;
use crate::handler::required::RequiredState;

/// The families of attributes. Functions of one family can have the same arguments.
pub mod family {
    /// `on_startup`, `on_cleanup`, `on_login`, `on_probe`
    pub enum Activity {}
    /// `on_validate`, `on_mutate`
    pub enum Admission {}
    /// `daemon`, `timer`, `reconcile`
    pub enum Background {}
    /// `on_create`, `on_update`, `on_delete`, `finalize`, `on_resume`, `on_field`, `subhandler`
    pub enum Change {}
    /// `on_event`
    pub enum Event {}
    /// `index`
    pub enum Index {}
}

/// An argument of type `T` in a function of the family `O`.
pub struct ByType<T: ?Sized, O>(PhantomData<O>, PhantomData<T>);

/// Types that handlers of all families can ask for, including users' own types.
pub trait GivenToAll {
    /// Does nothing: the check is that the call compiles.
    fn is_given() {}

    /// Returns the value that must be registered with the operator for this argument.
    #[must_use]
    fn required_state() -> Option<RequiredState> {
        None
    }
}

impl<T: ?Sized, O> GivenToAll for ByType<T, O> {}

impl<T: Send + Sync + 'static, O> ByType<State<T>, O> {
    /// Requires a value of type `T`.
    #[must_use]
    pub fn required_state() -> Option<RequiredState> {
        Some(RequiredState::of::<T>())
    }
}

/// Argument types that are made from the handled object.
pub trait OfAnObject {}

/// Object-based arguments that activities have. Not implemented by any type, so that the compiler reports the
/// messages below.
#[diagnostic::on_unimplemented(
    message = "handlers of this attribute have no `{Self}`",
    label = "handlers of activities are called for no object",
    note = "take it in handlers of objects, such as #[on_create]"
)]
pub trait GivenToActivities {}

/// Argument types that act on behalf of an object, which must therefore be stored already.
pub trait OfAStoredObject {}

/// Such arguments that admission handlers have. Not implemented by any type, so that the compiler reports the
/// messages below.
#[diagnostic::on_unimplemented(
    message = "handlers of this attribute have no `{Self}`",
    label = "the object under review may not be there yet, and may never be",
    note = "take it in handlers of objects that are there, such as #[on_create]"
)]
pub trait GivenToReviews {}

impl<T: OfAnObject> ByType<T, family::Activity> {
    /// Compiles only if activities have this argument.
    pub fn is_given()
    where
        T: GivenToActivities,
    {
    }
}

impl<T: OfAStoredObject> ByType<T, family::Admission> {
    /// Compiles only if admission handlers have this argument.
    pub fn is_given()
    where
        T: GivenToReviews,
    {
    }
}
