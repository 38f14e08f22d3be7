//! Defects that the histories must detect.

/// A defect of the election that the histories must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    None,
    /// A term counts from the answer.
    StampAfterReply,
    /// What was allowed when the request was made is sent whenever there is a connection.
    NoSecondCheck,
    /// The Lease is given back whoever has it.
    BlindRelease,
    /// The Lease is replaced in whatever version.
    NoVersion,
    /// The clock that stands still while the machine is suspended.
    MonotonicOnly,
    /// Who waits does not wait for as long as the record says.
    ShortWait,
    /// Objects are written in whatever version.
    Unbound,
    /// A candidate looks at the Lease only every half minute.
    RareLook,
}
