//! What the compiler says: nothing of code that must compile, and what is recorded of mistakes in attributes and signatures.
//!
//! `TRYBUILD=overwrite cargo test -p kopf-rs-tests ui` records the messages anew.

// What must compile is compiled right here, and not by `trybuild`, which would build all dependencies for it once more.
#[path = "../ui/pass/everything_at_once.rs"]
#[expect(clippy::unnecessary_wraps, reason = "the signatures are what is tried")]
mod everything_at_once;
#[path = "../ui/pass/forbidden_unsafe.rs"]
mod forbidden_unsafe;
#[path = "../ui/pass/handlers_anywhere.rs"]
#[expect(
    clippy::needless_pass_by_value,
    reason = "the signatures are what is tried"
)]
mod handlers_anywhere;
#[path = "../ui/pass/other_imports.rs"]
#[expect(clippy::unused_async, reason = "the signatures are what is tried")]
mod other_imports;

#[test]
fn messages_are_as_recorded() {
    trybuild::TestCases::new().compile_fail("ui/fail/*.rs");
}
