//! Marker types for the names of arguments, one each. Compiler messages quote them.
//!
//! `on_create.md` documents each argument and the types in which it can be received.

macro_rules! markers {
    ($($name:ident)*) => {$(
        #[doc = concat!("The argument `", stringify!($name), "`.")]
        #[expect(non_camel_case_types, reason = "named as the argument, so that compiler messages name it")]
        #[derive(Debug)]
        pub enum $name {}
    )*};
}

markers! {
    body object spec meta status uid name namespace labels annotations resource
    memo logger param retry started runtime client
    event_type event
    reason old new diff
    stopped
    operation subresource dryrun userinfo headers sslpeer warnings
    settings activity
}
