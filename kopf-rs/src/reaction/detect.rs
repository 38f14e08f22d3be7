//! Which reason a change has (core.md 5).
