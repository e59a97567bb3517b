//! A whole reply as the stream that the client asked for.
//!
//! Some servers ignore `"stream": true` and send one JSON document. The client's library waits for events, so the
//! document is told in them: nothing is added, and what has no event of its own travels in the whole object at the end.
//! Values keep the bytes that were sent; only white space between them goes.
//!
//! ```
//! use stanchion_core::Dialect;
//! use stanchion_wire::synthesize;
//!
//! let document = br#"{"message": {"role": "assistant", "content": "Hi"}, "done": true}"#;
//! let stream = synthesize::stream(Dialect::Ollama, document).unwrap();
//! assert_eq!(stream, "{\"message\":{\"role\":\"assistant\",\"content\":\"Hi\"},\"done\":true}\n");
//! ```

mod anthropic;
mod chat;
mod responses;

use bytes::Bytes;
use serde_json::value::RawValue;
use stanchion_core::Dialect;

use crate::error::object::{Object, one_line};

/// A complete JSON reply as the dialect's stream; `None` if the document is not a complete reply of the dialect.
///
/// Gemini's comes as Server-Sent Events (`alt=sse`), Ollama's as a line.
pub fn stream(dialect: Dialect, document: &[u8]) -> Option<Bytes> {
    let text = String::from_utf8_lossy(document.trim_ascii());
    let text = compact(text.strip_prefix('\u{feff}').unwrap_or(&text))?;
    let stream = match dialect {
        Dialect::OpenAiChat => chat::stream(&reply(&text)?)?,
        Dialect::OpenAiResponses => responses::stream(&text, &reply(&text)?)?,
        Dialect::AnthropicMessages => anthropic::stream(&reply(&text)?)?,
        Dialect::GeminiGenerateContent => gemini(&text)?,
        Dialect::Ollama => ollama(&text)?,
        _ => return None,
    };
    Some(stream.into())
}

/// The document as an object that is no error.
fn reply(text: &str) -> Option<Object<'_>> {
    Object::parse(text).filter(|reply| reply.get("error").is_none())
}

/// Each frame of Gemini's has the shape of the whole; an array is a stream that was written as a document.
fn gemini(text: &str) -> Option<String> {
    let frames: Vec<&RawValue> =
        if text.starts_with('[') { serde_json::from_str(text).ok()? } else { vec![serde_json::from_str(text).ok()?] };
    let mut stream = String::with_capacity(text.len() + 16);
    for frame in &frames {
        let reply = reply(frame.get())?;
        if !["candidates", "promptFeedback", "usageMetadata"].iter().any(|key| reply.get(key).is_some()) {
            return None;
        }
        stream.push_str("data: ");
        stream.push_str(frame.get());
        stream.push_str("\r\n\r\n");
    }
    (!frames.is_empty()).then_some(stream)
}

fn ollama(text: &str) -> Option<String> {
    let reply = reply(text)?;
    let answers = reply.get("message").or(reply.get("response")).is_some();
    (answers && reply.get("done")?.get() == "true").then(|| format!("{text}\n"))
}

/// JSON without white space between its values; `None` if it is no JSON.
fn compact(text: &str) -> Option<String> {
    serde_json::from_str::<&RawValue>(text).ok()?;
    let mut compact = String::with_capacity(text.len());
    let (mut inside, mut escaped) = (false, false);
    compact.extend(text.chars().filter(|c| {
        if !inside {
            inside = *c == '"';
            return !c.is_ascii_whitespace();
        }
        match *c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => inside = false,
            _ => {}
        }
        true
    }));
    Some(one_line(compact))
}

/// A JSON object of members whose values are JSON already.
fn object<K: AsRef<str>, V: AsRef<str>>(members: impl IntoIterator<Item = (K, V)>) -> String {
    let mut text = String::from("{");
    for (key, value) in members {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&quote(key.as_ref()));
        text.push(':');
        text.push_str(value.as_ref());
    }
    text.push('}');
    text
}

/// An object with some of its members replaced; those that it lacks are added.
fn with(original: &Object<'_>, replaced: &[(&str, &str)]) -> String {
    let kept = original.iter().map(|(key, value)| {
        let new = replaced.iter().find(|(name, _)| *name == key);
        (key, new.map_or(value.get(), |(_, new)| *new))
    });
    let added = replaced.iter().copied().filter(|(name, _)| original.iter().all(|(key, _)| key != *name));
    object(kept.chain(added))
}

fn quote(text: &str) -> String {
    one_line(serde_json::to_string(text).expect("a string can be written as JSON"))
}

/// One event with a name.
fn event(stream: &mut String, name: &str, data: &str) {
    for part in ["event: ", name, "\ndata: ", data, "\n\n"] {
        stream.push_str(part);
    }
}

#[cfg(test)]
mod tests;
