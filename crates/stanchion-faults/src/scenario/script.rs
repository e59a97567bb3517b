//! What the provider does with one request.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use super::{Step, duration};

/// What the provider does with one request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// Silence before anything.
    #[serde(deserialize_with = "duration::optional")]
    pub delay: Option<Duration>,
    /// What happens instead of a reply.
    pub before: Option<Before>,
    /// The status of the reply (200).
    pub status: u16,
    /// Its header fields; the content type is filled in when it is not told.
    #[serde(deserialize_with = "header_fields")]
    pub headers: BTreeMap<String, String>,
    /// Header fields that name the moment so long after the head leaves: whole seconds since 1970, rounded up.
    #[serde(deserialize_with = "duration::each_by_name")]
    pub epoch_headers: BTreeMap<String, Duration>,
    /// What is written, step by step.
    pub body: Vec<Step>,
    /// How the reply ends.
    pub end: End,
    /// How long silence lasts (30 s).
    #[serde(deserialize_with = "duration::plain")]
    pub hang: Duration,
    /// Whether the last script also answers every later request.
    pub repeat: bool,
}

/// What happens instead of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Before {
    /// A TCP reset.
    Reset,
    /// A plain close.
    Close,
    /// Silence.
    Hang,
}

/// How a reply ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Whole; the connection stays open.
    #[default]
    Fin,
    /// The end of the connection is the end of the body.
    Close,
    /// The connection is closed although the body lacks its end.
    Truncate,
    /// A TCP reset.
    Reset,
    /// Silence.
    Hang,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            delay: None,
            before: None,
            status: 200,
            headers: BTreeMap::new(),
            epoch_headers: BTreeMap::new(),
            body: Vec::new(),
            end: End::Fin,
            hang: Duration::from_secs(30),
            repeat: false,
        }
    }
}

impl Script {
    /// The whole body that the script writes, without its transfer coding.
    pub fn body_bytes(&self) -> Vec<u8> {
        self.body.iter().flat_map(|step| step.bytes().repeat(step.times as usize)).collect()
    }

    fn names_header(&self, name: &str) -> bool {
        self.headers.keys().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// Whether the reply is chunked: unless the connection's end or a length delimits it.
    pub(crate) fn chunked(&self) -> bool {
        self.end != End::Close && !self.names_header("content-length")
    }

    /// The status line and the header fields, as they go over the wire.
    pub(crate) fn head(&self) -> Vec<u8> {
        use std::fmt::Write as _;

        let mut head = format!("HTTP/1.1 {} X\r\n", self.status);
        for (name, value) in &self.headers {
            // Writing to a string cannot fail.
            let _ = write!(head, "{name}: {value}\r\n");
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        for (name, &wait) in &self.epoch_headers {
            let moment = now.saturating_add(wait);
            let _ = write!(head, "{name}: {}\r\n", moment.as_secs() + u64::from(moment.subsec_nanos() > 0));
        }
        if !self.names_header("content-type") {
            let kind = if self.status == 200 { "text/event-stream" } else { "application/json" };
            let _ = write!(head, "content-type: {kind}\r\n");
        }
        if self.chunked() {
            head.push_str("transfer-encoding: chunked\r\n");
        }
        if self.end == End::Close {
            head.push_str("connection: close\r\n");
        }
        head.push_str("\r\n");
        // Latin-1; a file with other characters in its header fields does not load.
        head.chars().map(|character| character as u8).collect()
    }
}

/// A header's value; a bare number will do.
struct FieldValue(String);

struct FieldValueVisitor;

impl Visitor<'_> for FieldValueVisitor {
    type Value = FieldValue;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string or a number")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<FieldValue, E> {
        Ok(FieldValue(text.to_owned()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<FieldValue, E> {
        Ok(FieldValue(number.to_string()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<FieldValue, E> {
        Ok(FieldValue(number.to_string()))
    }
}

impl<'de> Deserialize<'de> for FieldValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldValueVisitor)
    }
}

pub(super) fn header_fields<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let fields = BTreeMap::<String, FieldValue>::deserialize(deserializer)?;
    Ok(fields.into_iter().map(|(name, FieldValue(value))| (name, value)).collect())
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::{End, Script};

    fn head(text: &str) -> String {
        String::from_utf8_lossy(&toml::from_str::<Script>(text).unwrap().head()).into_owned()
    }

    #[test]
    fn what_is_not_told_is_filled_in() {
        for (text, wire) in [
            ("", "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"),
            ("status = 529", "HTTP/1.1 529 X\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"),
            ("end = 'close'", "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"),
            (
                "headers = { Content-Type = 'a/b', Content-Length = 5 }",
                "HTTP/1.1 200 X\r\nContent-Length: 5\r\nContent-Type: a/b\r\n\r\n",
            ),
        ] {
            assert_eq!(head(text), wire, "{text}");
        }
        assert_eq!(toml::from_str::<Script>("").unwrap(), Script::default());
    }

    #[test]
    fn header_values_are_latin_1() {
        let script: Script = toml::from_str("headers = { x = '\u{e9}' }").unwrap();
        assert!(script.head().windows(4).any(|window| window == b"x: \xe9"));
    }

    #[test]
    fn a_moment_is_told_in_whole_seconds_and_never_too_early() {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let before = now();
        let head = head("epoch_headers = { x-reset = '1.5s' }");
        let told: f64 = head.split("x-reset: ").nth(1).unwrap().lines().next().unwrap().parse().unwrap();
        assert!(told >= before.as_secs_f64() + 1.5 && told < now().as_secs_f64() + 2.5, "{told}");
    }

    #[test]
    fn the_body_is_the_sum_of_its_steps() {
        let script: Script =
            toml::from_str("body = [{ text = 'ab', times = 2 }, { wait = '1s' }, { fill = 1 }]").unwrap();
        assert_eq!(script.body_bytes(), b"ababx");
        assert_eq!(script.end, End::Fin);
    }
}
