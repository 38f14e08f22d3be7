//! Why an object is as it is: evidence in, a verdict out, and the words of it.
//!
//! Pure, and through the same functions as a plan. Promises that each line of an explanation names its evidence, and that what is not known is
//! said. Must not know where evidence is read.

pub(crate) mod events;
pub(crate) mod exclusion;
pub(crate) mod explanation;
pub(crate) mod judgement;
pub(crate) mod question;
pub(crate) mod running;
pub(crate) mod writers;
