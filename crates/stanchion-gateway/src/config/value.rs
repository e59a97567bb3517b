//! The kinds of values in the file: durations such as `"3s"`, sizes such as `"32MiB"`, words, and values that know where they stand.
//! Each says for the schema what it takes.

use std::{borrow::Cow, fmt, marker::PhantomData, ops::Range, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{Error, IntoDeserializer, Visitor, value},
    forward_to_deserialize_any,
};

/// A duration: `"500ms"`, `"3s"`, `"2m"`, `"1h 30m"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span(pub(super) Duration);

impl Span {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        humantime::parse_duration(text).map(Self).map_err(|_| {
            format!("{text:?} is no duration: write a number and a unit, such as \"500ms\", \"3s\" or \"2m\"")
        })
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(Error::custom)
    }
}

impl JsonSchema for Span {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": r"^\s*([0-9]+\s*[a-zA-Z]+\s*)+$", "x-kind": "duration" })
    }
}

/// A number of bytes: `"32MiB"`, `"64KiB"`, `"1MB"`, `"512B"`, or a plain number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bytes(pub(super) usize);

const UNITS: [(&str, u64); 7] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
];

fn parse_bytes(text: &str) -> Option<usize> {
    let text = text.trim();
    let (number, unit) =
        UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?.trim_end(), *unit))).unwrap_or((text, 1));
    number.parse::<u64>().ok()?.checked_mul(unit)?.try_into().ok()
}

impl Bytes {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        parse_bytes(text)
            .map(Self)
            .ok_or_else(|| format!("{text:?} is no size: write a number and a unit, such as \"64KiB\" or \"32MiB\""))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BytesVisitor;

        impl Visitor<'_> for BytesVisitor {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"32MiB\" or a number of bytes")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Bytes, E> {
                Bytes::parse(text).map_err(E::custom)
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Bytes, E> {
                usize::try_from(number).map(Bytes).map_err(|_| E::custom(format!("{number} is no size")))
            }
        }

        deserializer.deserialize_any(BytesVisitor)
    }
}

impl JsonSchema for Bytes {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "integer"],
            "minimum": 0,
            "pattern": r"^\s*[0-9]+\s*(B|KB|MB|GB|KiB|MiB|GiB)?\s*$",
            "x-kind": "size",
        })
    }
}

/// A value that knows where it stands.
#[derive(Debug, Clone)]
pub(super) struct Spanned<T>(toml::Spanned<T>);

impl<T> Spanned<T> {
    /// Where: offsets into the text.
    pub(super) fn span(&self) -> Range<usize> {
        self.0.span()
    }

    pub(super) fn get_ref(&self) -> &T {
        self.0.get_ref()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Spanned<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        toml::Spanned::deserialize(deserializer).map(Self)
    }
}

impl<T: JsonSchema> JsonSchema for Spanned<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// The words that an enum is read from, for the schema: what serde knows of the type, so that no list can differ from it.
pub(super) struct Words<T>(PhantomData<T>);

impl<T: for<'de> Deserialize<'de>> JsonSchema for Words<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        std::any::type_name::<T>().into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": names::<T>() })
    }
}

/// Notes in a table's schema in which order its keys are declared.
pub(super) fn in_order<T: for<'de> Deserialize<'de>>(schema: &mut Schema) {
    schema.insert("x-order".to_owned(), names::<T>().into());
}

/// What a type's reader says that it expects: the fields of a struct, the variants of an enum.
fn names<T: for<'de> Deserialize<'de>>() -> &'static [&'static str] {
    let mut names: &'static [&'static str] = &[];
    // It asks for the names and is then told that there is nothing to read.
    let _ = T::deserialize(Asked(&mut names));
    names
}

struct Asked<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for Asked<'_> {
    type Error = value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        ().into_deserializer().deserialize_any(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = variants;
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, expected) in [
            ("32MiB", Some(32 << 20)),
            ("64 KiB", Some(64 << 10)),
            ("1MB", Some(1_000_000)),
            ("512B", Some(512)),
            ("7", Some(7)),
            ("", None),
            ("MiB", None),
            ("-1B", None),
            ("1.5MiB", None),
            ("99999999999999999999GiB", None),
        ] {
            assert_eq!(parse_bytes(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_type_tells_its_words_and_its_keys_in_order() {
        use stanchion::core::{Family, RequestClass};
        assert_eq!(names::<RequestClass>(), ["foreground", "background", "internal"]);
        assert_eq!(names::<Family>().len(), 4);
        assert_eq!(&names::<super::super::file::Server>()[..2], ["listen", "max_request_bytes"]);
    }
}
