//! The message of `kopf_rs::main!` without the feature `cli`.

/// Needs the feature `cli`: `cargo add kopf-rs --features cli,mimalloc`.
#[macro_export]
macro_rules! main {
    ($($given:tt)*) => {
        ::core::compile_error!(
            "`kopf_rs::main!` needs the feature `cli` of kopf-rs, and `--embedded` the feature `embedded`: cargo add kopf-rs --features cli,embedded,mimalloc"
        );

        // Avoids a second error of the compiler, that there is no `main`.
        fn main() {}
    };
}
