//! Detects through a type's `Deserialize` implementation whether it has a certain field.

use serde::de::value::Error;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;

/// Returns whether `T` is a struct with the field `name`, in its JSON spelling.
pub(super) fn declares<T: DeserializeOwned>(name: &str) -> bool {
    let mut found = false;
    let probe = Probe { name, found: &mut found };
    // The probe provides no values, so the result is always an error.
    drop(T::deserialize(probe));
    found
}

/// A deserializer that inspects the requested fields.
struct Probe<'a> {
    name: &'a str,
    found: &'a mut bool,
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("there is nothing to read"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        *self.found = fields.contains(&self.name);
        self.deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map enum
        identifier ignored_any
    }
}
