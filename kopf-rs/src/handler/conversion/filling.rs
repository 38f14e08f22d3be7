//! A deserializer that fills in missing values, so that types which require more than the JSON contains can still be
//! read.
//!
//! Existing values are read unchanged. This module does not know how the result is used.

use serde::de::value::{MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, VariantAccess, Visitor,
};
use serde_json::{Error, Map, Value};

/// Produces the values to fill in. The two fillers of one style differ in every value that they produce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filler {
    is_second: bool,
    style: Style,
}

/// The kind of values to fill in, since some types do not accept every text, or every value for an absent option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Style {
    texts: [&'static str; 2],
    /// True if optional values are filled in, too.
    has_optional: bool,
}

/// A value, possibly absent, that any type can be deserialized from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filling<'a> {
    value: Option<&'a Value>,
    filler: Filler,
    depth: u8,
}

/// The depth below which optional values are no longer filled in, since types may contain themselves.
const DEEP: u8 = 8;

const TEXTS: [[&str; 2]; 3] =
    [["filler-one", "filler-two"], ["101", "202"], ["2001-01-01T00:00:00Z", "2002-02-02T00:00:00Z"]];

impl Filler {
    /// Returns all fillers to try, in pairs.
    pub(crate) fn pairs() -> impl Iterator<Item = [Self; 2]> {
        let styles = [true, false].into_iter().flat_map(|has_optional| {
            let style = move |texts| Style { texts, has_optional };
            TEXTS.into_iter().map(style)
        });
        styles.map(|style| [false, true].map(|is_second| Self { is_second, style }))
    }

    #[cfg(test)]
    pub(crate) fn first() -> Self {
        Self { is_second: false, style: Style { texts: TEXTS[0], has_optional: true } }
    }

    fn text(self) -> &'static str {
        self.style.texts[usize::from(self.is_second)]
    }

    fn number(self) -> u8 {
        if self.is_second { 22 } else { 11 }
    }
}

impl<'a> Filling<'a> {
    pub(crate) fn new(value: &'a Value, filler: Filler) -> Self {
        Self { value: Some(value), filler, depth: 0 }
    }

    fn inner(self, value: Option<&'a Value>) -> Self {
        Self { value, depth: self.depth.saturating_add(1), ..self }
    }

    /// Visits a map of the existing members plus these fields.
    fn visit_fields<V: Visitor<'a>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if self.depth > 4 * DEEP {
            return Err(Error::custom("a missing value is nested too deeply"));
        }
        let members = match self.value {
            None => None,
            Some(Value::Object(members)) => Some(members),
            Some(other) => return other.deserialize_map(visitor),
        };
        let is_missing = |name: &&&str| !members.is_some_and(|it| it.contains_key(**name));
        let missing = fields.iter().filter(is_missing).map(|name| (*name, self.inner(None)));
        let present = members.into_iter().flat_map(Map::iter);
        let present = present.map(|(name, value)| (name.as_str(), self.inner(Some(value))));
        visitor.visit_map(MapDeserializer::new(present.chain(missing)))
    }

    fn visit_items<V: Visitor<'a>>(self, made_up: usize, visitor: V) -> Result<V::Value, Error> {
        let items: Vec<_> = match self.value {
            Some(Value::Array(items)) => items.iter().map(Some).collect(),
            Some(other) => return other.deserialize_seq(visitor),
            None => vec![None; made_up],
        };
        visitor.visit_seq(SeqDeserializer::new(items.into_iter().map(|item| self.inner(item))))
    }
}

/// Declares the methods for values without inner ones. The filler makes the value if it is missing.
macro_rules! plain_values {
    (|$filler:ident| $($method:ident: $visit:ident($made:expr),)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            let $filler = self.filler;
            match self.value {
                Some(value) => value.$method(visitor),
                None => visitor.$visit($made),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for Filling<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Some(Value::Object(_)) => self.visit_fields(&[], visitor),
            Some(Value::Array(_)) => self.visit_items(0, visitor),
            Some(value) => value.deserialize_any(visitor),
            None => visitor.visit_borrowed_str(self.filler.text()),
        }
    }

    plain_values! {
        |filler|
        deserialize_i8: visit_i64(filler.number().into()),
        deserialize_i16: visit_i64(filler.number().into()),
        deserialize_i32: visit_i64(filler.number().into()),
        deserialize_i64: visit_i64(filler.number().into()),
        deserialize_i128: visit_i64(filler.number().into()),
        deserialize_u8: visit_u64(filler.number().into()),
        deserialize_u16: visit_u64(filler.number().into()),
        deserialize_u32: visit_u64(filler.number().into()),
        deserialize_u64: visit_u64(filler.number().into()),
        deserialize_u128: visit_u64(filler.number().into()),
        deserialize_f32: visit_f64(filler.number().into()),
        deserialize_f64: visit_f64(filler.number().into()),
        deserialize_bool: visit_bool(filler.is_second),
        deserialize_char: visit_char(if filler.is_second { 'b' } else { 'a' }),
        deserialize_str: visit_borrowed_str(filler.text()),
        deserialize_string: visit_borrowed_str(filler.text()),
        deserialize_identifier: visit_borrowed_str(filler.text()),
        deserialize_bytes: visit_borrowed_bytes(filler.text().as_bytes()),
        deserialize_byte_buf: visit_borrowed_bytes(filler.text().as_bytes()),
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let is_there = self.filler.style.has_optional && self.depth < DEEP;
        match self.value {
            Some(Value::Null) => visitor.visit_none(),
            None if !is_there => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.visit_items(usize::from(self.depth < DEEP), visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        self.visit_items(len, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.visit_items(len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            None if self.depth < DEEP => self.visit_fields(&["101"], visitor),
            _ => self.visit_fields(&[], visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.visit_fields(fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let (variant, content) = match self.value {
            None if self.filler.is_second => (variants.last().copied(), None),
            None => (variants.first().copied(), None),
            Some(Value::Object(members)) if members.len() == 1 => {
                let (variant, content) = members.iter().next().unzip();
                (variant.map(String::as_str), content)
            }
            Some(other) => return other.deserialize_enum(name, variants, visitor),
        };
        let variant = variant.ok_or_else(|| Error::custom("no variant"))?;
        visitor.visit_enum(Variant { variant, content: self.inner(content) })
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }
}

impl<'de> IntoDeserializer<'de, Error> for Filling<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

struct Variant<'a> {
    variant: &'a str,
    content: Filling<'a>,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Error;
    type Variant = Filling<'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Filling<'de>), Error> {
        let variant = seed.deserialize(StrDeserializer::<Error>::new(self.variant))?;
        Ok((variant, self.content))
    }
}

impl<'de> VariantAccess<'de> for Filling<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        self.visit_items(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.visit_fields(fields, visitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::de::DeserializeOwned;
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    use super::*;

    #[derive(Debug, Serialize, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        image: String,
        max_size: u32,
        is_on: bool,
        ports: Vec<Port>,
        mode: Mode,
        labels: BTreeMap<String, String>,
        limit: Option<Box<Spec>>,
        pair: (i8, f64),
        any: Value,
    }

    #[derive(Debug, Serialize, Deserialize)]
    struct Port {
        number: u16,
        name: String,
    }

    #[derive(Debug, Serialize, Deserialize)]
    enum Mode {
        Small,
        Custom { size: u8 },
        Large,
    }

    #[derive(Deserialize)]
    struct Timed {
        at: jiff::Timestamp,
    }

    fn read<T: DeserializeOwned + Serialize>(value: &Value) -> [Value; 2] {
        let [first, second] = Filler::pairs().next().unwrap();
        [first, second].map(|filler| {
            let read = T::deserialize(Filling::new(value, filler)).unwrap();
            serde_json::to_value(read).unwrap()
        })
    }

    #[test]
    fn missing_values_are_filled_in_and_existing_ones_read() {
        let given = json!({
            "maxSize": 5,
            "ports": [{"number": 1}, {"name": "b", "number": 2}],
            "mode": {"Custom": {}},
            "labels": {"a": "b"},
        });
        let [one, other] = read::<Spec>(&given);
        for read in [&one, &other] {
            assert_eq!(read["maxSize"], 5);
            assert_eq!(read["ports"][0]["number"], 1);
            assert_eq!(read["ports"][1], json!({"number": 2, "name": "b"}));
            assert_eq!(read["labels"], json!({"a": "b"}));
        }
        for path in [
            "/image",
            "/isOn",
            "/ports/0/name",
            "/mode/Custom/size",
            "/limit/maxSize",
            "/limit/mode",
            "/limit/labels/101",
            "/limit/ports/0/number",
            "/pair/0",
            "/any",
        ] {
            let [one, other] = [&one, &other].map(|it| it.pointer(path));
            assert!(one.is_some() && one != other, "{path}: {one:?}");
        }
    }

    #[test]
    fn existing_invalid_values_are_errors() {
        for wrong in [
            json!({"maxSize": "x"}),
            json!({"ports": 5}),
            json!({"mode": "Tiny"}),
            json!({"mode": {"Custom": 7}}),
            json!(7),
        ] {
            for filler in Filler::pairs().flatten() {
                let read = Spec::deserialize(Filling::new(&wrong, filler));
                assert!(read.is_err(), "{wrong}");
            }
        }
    }

    #[test]
    fn times_and_numbers_in_text_are_filled_in_too() {
        let parses = |value: &Value| {
            let mut pairs = Filler::pairs();
            pairs.any(|[first, _]| <Option<jiff::Timestamp>>::deserialize(Filling::new(value, first)).is_ok())
        };
        assert!(parses(&json!("2026-01-01T00:00:00Z")));
        let empty = json!({});
        let mut pairs = Filler::pairs();
        let timed = pairs.find_map(|[first, _]| Timed::deserialize(Filling::new(&empty, first)).ok());
        assert_eq!(timed.unwrap().at.to_string(), "2001-01-01T00:00:00Z");
    }
}
