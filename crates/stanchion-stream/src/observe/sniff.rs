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

/// How the body is divided, as far as its beginning tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sniffed {
    /// Too little has come.
    Undecided,
    /// This is no reply of a model.
    NoReply,
    Framing(Framing),
}

const FIELDS: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];

/// Looks at the beginning of a body. Spaces, line ends and one byte order mark say nothing.
pub(super) fn sniff(label: Label, dialect: Dialect, stream: bool, text: &[u8]) -> Sniffed {
    let text = text.trim_ascii_start();
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_start();
    let Some(first) = text.first() else { return Sniffed::Undecided };
    if b"\xef\xbb\xbf".starts_with(text) {
        return Sniffed::Undecided;
    }
    // A field of an event stream at the very start is one, whatever the label says.
    if FIELDS.iter().any(|field| text.starts_with(field)) {
        return Sniffed::Framing(Framing::Sse);
    }
    if FIELDS.iter().any(|field| field.starts_with(text)) {
        return Sniffed::Undecided;
    }
    Sniffed::Framing(match first {
        b'<' => return Sniffed::NoReply,
        _ if label == Label::Html => return Sniffed::NoReply,
        b'{' if stream && (label == Label::Ndjson || dialect == Dialect::Ollama) => Framing::Ndjson,
        b'[' if stream && dialect == Dialect::GeminiGenerateContent => Framing::JsonArray,
        b'{' | b'[' => Framing::Document,
        _ if label == Label::Json => Framing::Document,
        _ => Framing::Sse,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_tells_more_than_the_label() {
        use Framing::{Document, JsonArray, Ndjson, Sse};
        let (chat, gemini, ollama) = (Dialect::OpenAiChat, Dialect::GeminiGenerateContent, Dialect::Ollama);
        for (label, dialect, stream, text, expected) in [
            (Label::Other, chat, true, "data: {}", Some(Sse)),
            (Label::Other, chat, true, ": hi", Some(Sse)),
            (Label::Html, chat, true, "data: {}", Some(Sse)),
            (Label::Json, chat, true, "event: ping", Some(Sse)),
            (Label::Other, chat, true, "{", Some(Document)),
            (Label::Json, chat, true, "{", Some(Document)),
            (Label::Json, chat, false, "{", Some(Document)),
            (Label::Json, chat, true, "null", Some(Document)),
            (Label::Other, chat, true, "error: {}", Some(Sse)),
            (Label::Html, chat, true, "denied", None),
            (Label::Other, chat, true, "<html>", None),
            (Label::Json, gemini, true, "[", Some(JsonArray)),
            (Label::Json, gemini, false, "[", Some(Document)),
            (Label::Json, gemini, true, "{", Some(Document)),
            (Label::Ndjson, ollama, true, "{", Some(Ndjson)),
            (Label::Json, ollama, true, "{", Some(Ndjson)),
            (Label::Json, ollama, false, "{", Some(Document)),
            (Label::Ndjson, chat, true, "{", Some(Ndjson)),
        ] {
            let expected = expected.map_or(Sniffed::NoReply, Sniffed::Framing);
            assert_eq!(
                sniff(label, dialect, stream, text.as_bytes()),
                expected,
                "{label:?} {dialect:?} {stream} {text}"
            );
        }
    }

    #[test]
    fn what_tells_nothing_yet_is_waited_for() {
        let sniffed = |text| sniff(Label::Html, Dialect::OpenAiChat, true, text);
        for text in
            [&b""[..], b" \r\n\n", b"\xef", b"\xef\xbb", b"\xef\xbb\xbf", b"\n\nd", b"\xef\xbb\xbfdat", b"even", b"i"]
        {
            assert_eq!(sniffed(text), Sniffed::Undecided, "{text:?}");
        }
        assert_eq!(sniffed(b"\xef\xbb\xbfdata:"), Sniffed::Framing(Framing::Sse));
        assert_eq!(sniffed(b"\n\n{"), Sniffed::NoReply, "the label counts where the text is no event stream");
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
