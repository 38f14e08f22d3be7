//! Arguments by type that only some families give. In functions of the others they do not compile.
//!
//! Generated code asks `ByType::<T, O>::is_given()` for each type `T` of an argument and the options `O` of each attribute's family. For most
//! types that is [`GivenToAll`]; a type with a function of that name on `ByType` itself, which comes first, has conditions.

use std::marker::PhantomData;

/// An argument of type `T` in a function of the family that has the options `O`.
pub struct ByType<T: ?Sized, O>(PhantomData<O>, PhantomData<T>);

/// Types that handlers of all families may ask for, users' own among them.
pub trait GivenToAll {
    /// Nothing: that it can be called is all.
    fn is_given() {}
}

impl<T: ?Sized, O> GivenToAll for ByType<T, O> {}
