//! Comparison of types with text, as users write it in handlers: `item.op == "add"`, `reason == "create"`, `item.field == "spec.go"`.
//!
//! This module must not depend on the types.

/// Makes a type comparable with `str` and `&str`: `equals_text!(DiffOp, |op, text| op.as_str() == text)`.
macro_rules! equals_text {
    ($type:ty, |$value:ident, $text:ident| $is_equal:expr) => {
        impl PartialEq<str> for $type {
            fn eq(&self, $text: &str) -> bool {
                let $value = self;
                $is_equal
            }
        }

        impl PartialEq<&str> for $type {
            fn eq(&self, text: &&str) -> bool {
                self == *text
            }
        }
    };
}

pub(crate) use equals_text;
