//! Durations such as `"3s"` and sizes such as `"32MiB"`.

use std::{fmt, time::Duration};

use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};

/// A duration: `"500ms"`, `"3s"`, `"2m"`, `"1h 30m"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span(pub(super) Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_duration(&text).map(Self).map_err(|_| {
            Error::custom(format!(
                "{text:?} is no duration: write a number and a unit, such as \"500ms\", \"3s\" or \"2m\""
            ))
        })
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

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BytesVisitor;

        impl Visitor<'_> for BytesVisitor {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"32MiB\" or a number of bytes")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Bytes, E> {
                parse_bytes(text).map(Bytes).ok_or_else(|| {
                    E::custom(format!("{text:?} is no size: write a number and a unit, such as \"64KiB\" or \"32MiB\""))
                })
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Bytes, E> {
                usize::try_from(number).map(Bytes).map_err(|_| E::custom(format!("{number} is no size")))
            }
        }

        deserializer.deserialize_any(BytesVisitor)
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
}
