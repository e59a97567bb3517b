//! Lengths of time, written `"300ms"`, `"3s"` or as plain seconds.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

use super::amount;

/// A length of time as a scenario writes it.
struct Written(Duration);

fn seconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok()
}

fn parse(text: &str) -> Option<Duration> {
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 0.001),
        (None, Some(number)) => (number, 1.0),
        (None, None) => (text, 1.0),
    };
    seconds(number.trim().parse::<f64>().ok()? * unit)
}

struct WrittenVisitor;

impl Visitor<'_> for WrittenVisitor {
    type Value = Written;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a length of time such as \"300ms\" or \"3s\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Written, E> {
        parse(text).map(Written).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Written, E> {
        self.visit_f64(number as f64)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Written, E> {
        self.visit_f64(number as f64)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Written, E> {
        seconds(number).map(Written).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Float(number), &self))
    }
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WrittenVisitor)
    }
}

pub(super) fn plain<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    Ok(Written::deserialize(deserializer)?.0)
}

pub(super) fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    plain(deserializer).map(Some)
}

/// One length of time, or several.
struct WrittenList(Vec<Duration>);

impl<'de> Deserialize<'de> for WrittenList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written: Vec<Written> = amount::one_or_more(deserializer)?;
        Ok(Self(written.into_iter().map(|Written(duration)| duration).collect()))
    }
}

pub(super) fn each_by_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Duration>, D::Error> {
    let written = BTreeMap::<String, Written>::deserialize(deserializer)?;
    Ok(written.into_iter().map(|(name, Written(duration))| (name, duration)).collect())
}

pub(super) fn lists_by_name<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Vec<Duration>>, D::Error> {
    let written = BTreeMap::<String, WrittenList>::deserialize(deserializer)?;
    Ok(written.into_iter().map(|(name, WrittenList(durations))| (name, durations)).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::parse;

    #[test]
    fn units_are_milliseconds_or_seconds() {
        for (text, milliseconds) in
            [("300ms", 300), ("3s", 3000), ("0.28s", 280), ("1.9s", 1900), ("2", 2000), ("0s", 0)]
        {
            assert_eq!(parse(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "s", "5m", "-1s", "NaN", "infs", "1e300s"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
