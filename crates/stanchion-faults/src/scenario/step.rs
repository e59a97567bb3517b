//! One step of a reply's body.

use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;

use super::duration;

/// One step of a reply's body: an optional wait, then bytes, perhaps several times.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub struct Step {
    /// What is written.
    pub content: Content,
    /// Silence before each writing.
    pub wait: Option<Duration>,
    /// How many times waiting and writing are done.
    pub times: u32,
    /// Writes so many bytes at a time.
    pub split: Option<usize>,
}

/// What a [`Step`] writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Nothing: the step only waits.
    Nothing,
    /// A server-sent event without a name.
    Sse(String),
    /// A server-sent event with a name.
    Event {
        /// The event's name.
        name: String,
        /// Its data line.
        data: String,
    },
    /// Text as it stands.
    Text(String),
    /// Bytes as they stand.
    Raw(Bytes),
    /// So many times the letter x.
    Fill(u32),
}

impl Step {
    /// A step that writes `content` once, at once.
    pub fn new(content: Content) -> Self {
        Self { content, wait: None, times: 1, split: None }
    }

    /// A server-sent event without a name.
    pub fn sse(data: impl Into<String>) -> Self {
        Self::new(Content::Sse(data.into()))
    }

    /// A server-sent event with a name.
    pub fn event(name: impl Into<String>, data: impl Into<String>) -> Self {
        Self::new(Content::Event { name: name.into(), data: data.into() })
    }

    /// Text as it stands.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(Content::Text(text.into()))
    }

    /// Bytes as they stand.
    pub fn raw(bytes: impl Into<Bytes>) -> Self {
        Self::new(Content::Raw(bytes.into()))
    }

    /// Waits first.
    #[must_use]
    pub fn after(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Repeats the step.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = times;
        self
    }

    /// Writes so many bytes at a time.
    #[must_use]
    pub fn split(mut self, length: usize) -> Self {
        self.split = Some(length);
        self
    }

    /// The bytes that one repetition writes.
    pub fn bytes(&self) -> Bytes {
        match &self.content {
            Content::Nothing => Bytes::new(),
            Content::Sse(data) => format!("data: {data}\n\n").into(),
            Content::Event { name, data } => format!("event: {name}\ndata: {data}\n\n").into(),
            Content::Text(text) => text.clone().into(),
            Content::Raw(bytes) => bytes.clone(),
            Content::Fill(length) => vec![b'x'; *length as usize].into(),
        }
    }

    /// The pieces in which one repetition is written.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Bytes> + use<> {
        let mut left = self.bytes();
        let length = self.split.unwrap_or(left.len()).max(1);
        std::iter::from_fn(move || (!left.is_empty()).then(|| left.split_to(length.min(left.len()))))
    }
}

/// A step as it stands in a file: exactly one kind of content, or a bare wait.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    sse: Option<String>,
    event: Option<String>,
    data: Option<String>,
    text: Option<String>,
    hex: Option<String>,
    fill: Option<u32>,
    #[serde(default, deserialize_with = "duration::optional")]
    wait: Option<Duration>,
    times: Option<u32>,
    split: Option<usize>,
}

impl TryFrom<Written> for Step {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let mut contents = Vec::new();
        contents.extend(written.sse.map(Content::Sse));
        contents.extend(written.text.map(Content::Text));
        contents.extend(written.fill.map(Content::Fill));
        if let Some(hex) = written.hex {
            contents.push(Content::Raw(decode(&hex).ok_or("`hex` wants pairs of hexadecimal digits")?.into()));
        }
        match (written.event, written.data) {
            (Some(name), Some(data)) => contents.push(Content::Event { name, data }),
            (None, None) => {}
            _ => return Err("`event` and `data` go together".to_owned()),
        }
        if contents.len() > 1 {
            return Err("a step writes one of `sse`, `event`, `text`, `hex` and `fill`".to_owned());
        }
        let content = contents.pop().unwrap_or(Content::Nothing);
        if content == Content::Nothing && written.wait.is_none() {
            return Err("a step writes one of `sse`, `event`, `text`, `hex` and `fill`, or waits".to_owned());
        }
        let split = written.split.filter(|&length| length > 0);
        Ok(Self { content, wait: written.wait, times: written.times.unwrap_or(1), split })
    }
}

fn decode(hex: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    digits.chunks(2).map(|pair| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8)).collect()
}

#[cfg(test)]
mod tests;
