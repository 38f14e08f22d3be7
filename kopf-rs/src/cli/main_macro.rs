//! The macro `main!`, which is the whole program of most operators.

/// Makes this program an operator of all its annotated functions. Write `kopf_rs::main!();` in place of `fn main`.
///
/// Functions in another crate are found only if the program names that crate: `kopf_rs::main!(my_handlers, others);`.
/// After the crates, add one expression for each value that handlers take as `State<T>`. The expressions are
/// evaluated before the operator starts, on the handlers' runtime; an error ends the program.
///
/// ```no_run
/// use kopf_rs::prelude::*;
///
/// struct Db { url: String }
///
/// async fn connect() -> std::io::Result<Db> {
///     Ok(Db { url: "db.local".to_owned() })
/// }
///
/// #[on_create("kopfexamples")]
/// async fn create_fn(db: State<Db>) {
///     info!("the database is at {}", db.url);
/// }
///
/// kopf_rs::main!(state = connect().await?);
/// ```
///
/// # Flags of the program
///
/// `flags = MyFlags`, after the crates, adds the flags of a type that derives `clap::Args`. `--help` lists them under their own heading.
/// They are parsed together with all others, before the operator starts. The expressions of `state = ..` use them as the variable `flags`,
/// and handlers take them as `State<MyFlags>`. The program needs the crate `clap` with the feature `derive`.
///
/// ```no_run
/// use kopf_rs::prelude::*;
///
/// #[derive(clap::Args)]
/// struct MyFlags {
///     /// The address of the database
///     #[arg(long, env = "DB_URL", default_value = "db.local")]
///     db_url: String,
/// }
///
/// struct Db { url: String }
///
/// async fn connect(flags: &MyFlags) -> std::io::Result<Db> {
///     Ok(Db { url: flags.db_url.clone() })
/// }
///
/// #[on_create("kopfexamples")]
/// async fn create_fn(db: State<Db>, #[inject] flags: State<MyFlags>) {
///     info!("the database is at {}, as asked by --db-url {}", db.url, flags.db_url);
/// }
///
/// kopf_rs::main!(flags = MyFlags, state = connect(&flags).await?);
/// ```
///
/// `kopf-rs run` and `kopf-rs manifests` pass the arguments after `--` to the program: `kopf-rs run . -- --db-url db.example.com`. Printed
/// manifests contain the flags that were typed. `--why` connects to nothing but the cluster, so it demands none of them.
///
/// The program ends with exit code 2 if one of its flags has the name of a flag of every operator.
///
/// # The name
///
/// The operator gets the name of the package, and stores its state on objects under `{name}.kopf.rs`. The feature
/// `mimalloc` makes mimalloc the program's allocator.
#[macro_export]
macro_rules! main {
    ($($given:tt)*) => {
        $crate::__kopf_main!([] [] [] $($given)*);
    };
}

/// Parses the arguments of [`main!`](crate::main) one by one: first crates of handlers, then the type of the program's flags, then values for
/// `State<T>`.
#[doc(hidden)]
#[macro_export]
macro_rules! __kopf_main {
    ([$($handlers:ident)*] [$flags:ident: $type:ty] [$($state:expr,)*]) => {
        $(extern crate $handlers as _;)*

        $crate::__kopf_allocator!();

        fn main() -> ::std::process::ExitCode {
            $crate::__private::run_program(
                ::core::env!("CARGO_PKG_NAME"),
                ::core::env!("CARGO_PKG_VERSION"),
                async |operator, $flags: $crate::State<$type>| {
                    let _ = &$flags;
                    $(let operator = $crate::Operator::with(operator, $state);)*
                    ::core::result::Result::Ok(operator)
                },
            )
        }
    };
    ([$($handlers:ident)*] [] [$($states:expr,)*]) => {
        $crate::__kopf_main!([$($handlers)*] [_flags: $crate::__private::NoFlags] [$($states,)*]);
    };
    ([$($handlers:ident)*] [$($flags:tt)*] [$($states:expr,)*] state = $state:expr $(, $($rest:tt)*)?) => {
        $crate::__kopf_main!([$($handlers)*] [$($flags)*] [$($states,)* $state,] $($($rest)*)?);
    };
    // Takes the word `flags` twice: as the user's identifier, which the expressions of `state = ..` may name, and to compare it.
    ([$($handlers:ident)*] [] [] $word:ident = $($rest:tt)*) => {
        $crate::__kopf_main!(@flags $word [$($handlers)*] $word = $($rest)*);
    };
    (@flags $word:ident [$($handlers:ident)*] flags = $type:ty $(, $($rest:tt)*)?) => {
        $crate::__kopf_main!([$($handlers)*] [$word: $type] [] $($($rest)*)?);
    };
    ([$($handlers:ident)*] [] [] $handler:ident $(, $($rest:tt)*)?) => {
        $crate::__kopf_main!([$($handlers)* $handler] [] [] $($($rest)*)?);
    };
    ($($other:tt)*) => {
        ::core::compile_error!(
            "expected crates with handlers, then the type of the program's flags, then values for `State<T>`: \
             kopf_rs::main!(my_handlers, flags = MyFlags, state = connect(&flags).await?)"
        );
    };
}

/// Separate macro, because the feature belongs to this crate: a `cfg` in the expansion of [`main!`](crate::main)
/// would test the features of the user's crate.
#[cfg(feature = "mimalloc")]
#[doc(hidden)]
#[macro_export]
macro_rules! __kopf_allocator {
    () => {
        #[global_allocator]
        static KOPF_RS_ALLOCATOR: $crate::__private::MiMalloc = $crate::__private::MiMalloc;
    };
}

/// Without the feature `mimalloc`, keeps the system's allocator, or the program's own.
#[cfg(not(feature = "mimalloc"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __kopf_allocator {
    () => {};
}
