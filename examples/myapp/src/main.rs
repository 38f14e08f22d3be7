//! The operator of the library beside it, as a program of its own.
//!
//! ```sh
//! cargo run -p myapp -- --embedded --apply examples/myapp
//! ```

kopf_rs::main!(myapp);
