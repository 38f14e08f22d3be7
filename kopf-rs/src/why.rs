//! Explains why an object is in its current state: turns evidence into a verdict, and the verdict into text.
//!
//! Pure, and built on the same functions as a plan. Each line of an explanation names its evidence, and missing
//! knowledge is stated explicitly. This module must not depend on the source of the evidence.

pub(crate) mod events;
pub(crate) mod exclusion;
pub(crate) mod explanation;
pub(crate) mod judgement;
pub(crate) mod question;
pub(crate) mod running;
pub(crate) mod writers;
