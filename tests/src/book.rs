//! Compiles the Rust code of the book's own pages as doctests. `kopf-rs/src/lib.rs` does the same for the pages that the book includes.
//!
//! `tests/it/book.rs` fails if a page with code is neither here nor followed by a test.

#[doc = include_str!("../../docs/book/src/how-to/rights.md")]
struct Rights;

#[doc = include_str!("../../docs/book/src/how-to/status.md")]
struct Status;
