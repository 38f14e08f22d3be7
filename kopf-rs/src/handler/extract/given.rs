//! Arguments by type that only some families give, and those for which the operator must be given something. In functions of other
//! families the former do not compile; without what they demand, an operator does not start.
//!
//! Generated code asks `ByType::<T, O>::is_given()` for each type `T` of an argument and the options `O` of each attribute's family. For most
//! types that is [`GivenToAll`]; a type with a function of that name on `ByType` itself, which comes first, has conditions.

use std::marker::PhantomData;

use crate::handler::extract::State;
use crate::handler::required::RequiredState;

/// An argument of type `T` in a function of the family that has the options `O`.
pub struct ByType<T: ?Sized, O>(PhantomData<O>, PhantomData<T>);

/// Types that handlers of all families may ask for, users' own among them.
pub trait GivenToAll {
    /// Nothing: that it can be called is all.
    fn is_given() {}

    /// What the operator must be given for it.
    #[must_use]
    fn required_state() -> Option<RequiredState> {
        None
    }
}

impl<T: ?Sized, O> GivenToAll for ByType<T, O> {}

impl<T: Send + Sync + 'static, O> ByType<State<T>, O> {
    /// A value of the type `T`.
    #[must_use]
    pub fn required_state() -> Option<RequiredState> {
        Some(RequiredState::of::<T>())
    }
}

/// Types of arguments that are made of the object a handler is called for.
pub trait OfAnObject {}

/// What activities have, although it is made of an object: nothing.
#[diagnostic::on_unimplemented(
    message = "handlers of this attribute have no `{Self}`",
    label = "handlers of activities are called for no object",
    note = "take it in handlers of objects, such as #[on_create]"
)]
pub trait GivenToActivities {}

/// Types of arguments that make something for an object, which must be there for that.
pub trait OfAStoredObject {}

/// What handlers of reviews have, although it makes something for an object: nothing.
#[diagnostic::on_unimplemented(
    message = "handlers of this attribute have no `{Self}`",
    label = "the object under review may not be there yet, and may never be",
    note = "take it in handlers of objects that are there, such as #[on_create]"
)]
pub trait GivenToReviews {}
