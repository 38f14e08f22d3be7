//! One marker type per argument name: what stands for `K` in `FromArg` and `LendArg`.

macro_rules! markers {
    ($($name:ident)*) => {$(
        #[doc = concat!("The argument `", stringify!($name), "`.")]
        #[expect(non_camel_case_types, reason = "named as the argument, so that compiler messages name it")]
        #[derive(Debug)]
        pub enum $name {}
    )*};
}

markers! {
    body spec meta status uid name namespace labels annotations resource
    memo logger param retry started runtime event_type event reason old new diff
    settings activity client
}
