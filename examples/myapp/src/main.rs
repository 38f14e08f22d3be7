//! The operator of the library beside it, as a separate program.
//!
//! ```sh
//! cargo run -p myapp -- --embedded --apply examples/myapp
//! ```

kopf_rs::main!(myapp);
