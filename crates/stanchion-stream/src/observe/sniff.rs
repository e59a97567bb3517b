//! How a body is divided, by its first byte first and its content type second: relays forget or mislabel the type.

use http::{HeaderMap, header::CONTENT_TYPE};
use stanchion_core::{Dialect, Framing};

/// What the content type says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Label {
    Html,
    Json,
    Ndjson,
    Other,
}

impl Label {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let Some(value) = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()) else { return Self::Other };
        let essence = value.split(';').next().unwrap_or("").trim();
        let is = |names: &[&str]| names.iter().any(|name| essence.eq_ignore_ascii_case(name));
        if is(&["text/html", "application/xhtml+xml"]) {
            Self::Html
        } else if is(&["application/json"]) {
            Self::Json
        } else if is(&["application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"]) {
            Self::Ndjson
        } else {
            Self::Other
        }
    }
}

/// Spaces, line ends and one byte order mark say nothing.
pub(super) fn telling_byte(text: &[u8]) -> Option<u8> {
    let text = text.trim_ascii_start();
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_start();
    match text {
        // A byte order mark that has not come whole yet.
        [0xef] | [0xef, 0xbb] => None,
        _ => text.first().copied(),
    }
}

/// The framing; `None` if this is no reply of a model.
pub(super) fn framing(label: Label, dialect: Dialect, stream: bool, telling: u8) -> Option<Framing> {
    match telling {
        b'<' => None,
        _ if label == Label::Html => None,
        b'{' if stream && (label == Label::Ndjson || dialect == Dialect::Ollama) => Some(Framing::Ndjson),
        b'[' if stream && dialect == Dialect::GeminiGenerateContent => Some(Framing::JsonArray),
        b'{' | b'[' => Some(Framing::Document),
        _ if label == Label::Json => Some(Framing::Document),
        _ => Some(Framing::Sse),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_tells_more_than_the_label() {
        use Framing::{Document, JsonArray, Ndjson, Sse};
        for (label, dialect, stream, byte, expected) in [
            (Label::Other, Dialect::OpenAiChat, true, b'd', Some(Sse)),
            (Label::Other, Dialect::OpenAiChat, true, b':', Some(Sse)),
            (Label::Other, Dialect::OpenAiChat, true, b'{', Some(Document)),
            (Label::Json, Dialect::OpenAiChat, true, b'{', Some(Document)),
            (Label::Json, Dialect::OpenAiChat, false, b'{', Some(Document)),
            (Label::Json, Dialect::OpenAiChat, true, b'd', Some(Document)),
            (Label::Html, Dialect::OpenAiChat, true, b'd', None),
            (Label::Other, Dialect::OpenAiChat, true, b'<', None),
            (Label::Json, Dialect::GeminiGenerateContent, true, b'[', Some(JsonArray)),
            (Label::Json, Dialect::GeminiGenerateContent, false, b'[', Some(Document)),
            (Label::Json, Dialect::GeminiGenerateContent, true, b'{', Some(Document)),
            (Label::Ndjson, Dialect::Ollama, true, b'{', Some(Ndjson)),
            (Label::Json, Dialect::Ollama, true, b'{', Some(Ndjson)),
            (Label::Json, Dialect::Ollama, false, b'{', Some(Document)),
            (Label::Ndjson, Dialect::OpenAiChat, true, b'{', Some(Ndjson)),
        ] {
            assert_eq!(
                framing(label, dialect, stream, byte),
                expected,
                "{label:?} {dialect:?} {stream} {:?}",
                char::from(byte)
            );
        }
    }

    #[test]
    fn space_and_one_byte_order_mark_say_nothing() {
        for (text, expected) in [
            (&b""[..], None),
            (b" \r\n\n", None),
            (b"\n\n{", Some(b'{')),
            (b"\xef", None),
            (b"\xef\xbb", None),
            (b"\xef\xbb\xbf", None),
            (b"\xef\xbb\xbfdata", Some(b'd')),
        ] {
            assert_eq!(telling_byte(text), expected, "{text:?}");
        }
    }

    #[test]
    fn labels_are_read_without_their_parameters() {
        for (value, expected) in [
            ("text/html;charset=UTF-8", Label::Html),
            ("Application/JSON; charset=utf-8", Label::Json),
            ("application/x-ndjson", Label::Ndjson),
            ("text/event-stream", Label::Other),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, value.parse().unwrap());
            assert_eq!(Label::of(&headers), expected, "{value}");
        }
        assert_eq!(Label::of(&HeaderMap::new()), Label::Other);
    }
}
