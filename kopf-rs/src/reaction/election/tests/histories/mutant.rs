//! Defects that the histories must detect.

/// A defect of the election that the histories must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    None,
    /// A term starts with the response.
    StampAfterReply,
    /// A request that was allowed once is sent whenever there is a connection.
    NoSecondCheck,
    /// The Lease is released regardless of its holder.
    BlindRelease,
    /// The Lease is replaced in any version.
    NoVersion,
    /// Only the clock that stops during suspension is used.
    MonotonicOnly,
    /// A waiting instance does not wait for the duration in the record.
    ShortWait,
    /// Objects are written in any version.
    Unbound,
    /// A candidate checks the Lease only every half minute.
    RareLook,
}
