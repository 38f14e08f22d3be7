//! The part of an object that counts for change detection (core.md 6.1).
