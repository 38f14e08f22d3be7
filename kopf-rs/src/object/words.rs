//! What compares with text, as users write it in handlers: `item.op == "add"`, `reason == "create"`, `item.field == "spec.go"`.
//!
//! Must not know the types.

/// Lets a type be compared with `str` and with `&str`: `equals_text!(DiffOp, |op, text| op.as_str() == text)`.
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
