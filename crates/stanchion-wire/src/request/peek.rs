use std::{borrow::Cow, error::Error, fmt};

use memchr::memchr_iter;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;
use stanchion_core::{Dialect, Failure, FailureKind, Phase};

use super::{limits::OUTPUT_LIMITS, members::is_like};

/// What a request's body says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peek<'a> {
    /// The model, if one is named. Always `None` for Gemini, whose path names it.
    pub model: Option<Cow<'a, str>>,
    /// Whether a stream is asked for. Without a word from the client: no, and for Ollama yes. Always `false` for
    /// Gemini, whose path says it, and for embeddings, which are never streamed.
    pub stream: bool,
    /// Whether it limits the output of the reply, by a key that [`without_output_limits`](super::without_output_limits)
    /// takes out.
    pub limits_output: bool,
}

/// What is wrong with a request's body. `Display` names the problem and never quotes the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadRequest {
    /// The body is not JSON.
    NotJson {
        /// The first byte that cannot be read, from 0; the length of the body if it ends too early.
        at: usize,
    },
    /// The body is JSON, but no object.
    NotAnObject,
    /// `model` is not a string.
    ModelNotAString,
    /// `stream` is neither a boolean nor null.
    StreamNotABoolean,
    /// A key that decides where the request goes stands in it twice, or with other capitals: readers would differ on which
    /// one counts, or on whether it does.
    DuplicateKey(&'static str),
}

impl fmt::Display for BadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson { at } => write!(f, "the request body is not JSON at byte {at}"),
            Self::NotAnObject => f.write_str("the request body is not a JSON object"),
            Self::ModelNotAString => f.write_str("`model` is not a string"),
            Self::StreamNotABoolean => f.write_str("`stream` is not a boolean"),
            Self::DuplicateKey(key) => write!(f, "the key `{key}` stands there more than once, or with other capitals"),
        }
    }
}

impl Error for BadRequest {}

impl From<BadRequest> for Failure {
    fn from(problem: BadRequest) -> Self {
        Self::new(FailureKind::InvalidRequest)
            .with_phase(Phase::Connect)
            .with_message(problem.to_string())
            .with_source(problem)
    }
}

/// Reads model and stream flag from a request's body.
///
/// The whole body is checked to be one JSON object in UTF-8; apart from `model` and `stream`, nothing in it is looked
/// at, and nothing is copied but a model name with escapes in it.
pub fn peek(dialect: Dialect, body: &[u8]) -> Result<Peek<'_>, BadRequest> {
    let text = std::str::from_utf8(body).map_err(|error| BadRequest::NotJson { at: error.valid_up_to() })?;
    let fields = match serde_json::from_str::<Fields<'_>>(text) {
        Ok(fields) => fields,
        Err(error) => {
            return Err(match serde_json::from_str::<IgnoredAny>(text) {
                Ok(_) => BadRequest::NotAnObject,
                Err(_) => BadRequest::NotJson { at: offset(body, &error) },
            });
        }
    };
    let streamed_by_default = dialect == Dialect::Ollama;
    if dialect == Dialect::GeminiGenerateContent {
        return Ok(Peek { model: None, stream: false, limits_output: fields.limits_output });
    }
    if let Some(key) = fields.repeated {
        return Err(BadRequest::DuplicateKey(key));
    }
    let model = match fields.model {
        Some(raw) => Some(serde_json::from_str::<Text<'_>>(raw.get()).map_err(|_| BadRequest::ModelNotAString)?.0),
        None => None,
    };
    let stream = match fields.stream.map(RawValue::get) {
        None | Some("null") => streamed_by_default,
        Some("true") => true,
        Some("false") => false,
        Some(_) => return Err(BadRequest::StreamNotABoolean),
    };
    let stream = stream && dialect != Dialect::OpenAiEmbeddings;
    Ok(Peek { model, stream, limits_output: fields.limits_output })
}

/// The position of a syntax error, which serde_json tells as a line and how many bytes of it were read.
fn offset(body: &[u8], error: &serde_json::Error) -> usize {
    if error.is_eof() {
        return body.len();
    }
    let line_start = match error.line().checked_sub(2) {
        Some(newlines) => memchr_iter(b'\n', body).nth(newlines).map_or(0, |newline| newline + 1),
        None => 0,
    };
    (line_start + error.column().saturating_sub(1)).min(body.len())
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Default)]
struct Fields<'a> {
    model: Option<&'a RawValue>,
    stream: Option<&'a RawValue>,
    repeated: Option<&'static str>,
    limits_output: bool,
}

enum Key {
    Model,
    Stream,
    /// One that some servers take for another.
    Like(&'static str),
    OutputLimit,
    Other,
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Fields::default();
                while let Some(key) = map.next_key::<Key>()? {
                    let (name, slot) = match key {
                        Key::Model => ("model", &mut fields.model),
                        Key::Stream => ("stream", &mut fields.stream),
                        Key::Like(name) => {
                            fields.repeated.get_or_insert(name);
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                        Key::OutputLimit | Key::Other => {
                            fields.limits_output |= matches!(key, Key::OutputLimit);
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                    };
                    if slot.replace(map.next_value()?).is_some() {
                        fields.repeated.get_or_insert(name);
                    }
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Object)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;
        impl Visitor<'_> for Name {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_str<E>(self, name: &str) -> Result<Key, E> {
                Ok(match name {
                    "model" => Key::Model,
                    "stream" => Key::Stream,
                    limit if OUTPUT_LIMITS.contains(&limit) => Key::OutputLimit,
                    other if is_like(other, "model") => Key::Like("model"),
                    other if is_like(other, "stream") => Key::Like("stream"),
                    _ => Key::Other,
                })
            }
        }
        deserializer.deserialize_str(Name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAT: Dialect = Dialect::OpenAiChat;

    #[test]
    fn a_limit_of_the_output_is_seen() {
        for (body, limits) in [
            (&br#"{"model":"m"}"#[..], false),
            (br#"{"max_tokens":5}"#, true),
            (br#"{"max_completion_tokens":null}"#, true),
            (br#"{"max_output_tokens":5,"model":"m"}"#, true),
            (br#"{"x":{"max_tokens":5}}"#, false),
        ] {
            assert_eq!(peek(CHAT, body).unwrap().limits_output, limits);
        }
    }

    #[test]
    fn model_and_stream_are_read_wherever_they_stand() {
        let body = br#" { "messages": [{"model": "nested", "stream": false}], "stream" : true, "model":"gpt-x" } "#;
        let read = peek(CHAT, body).unwrap();
        assert_eq!((read.model, read.stream), (Some(Cow::Borrowed("gpt-x")), true));
        let escaped = peek(CHAT, br#"{"mod\u0065l":"gpt\u002dx"}"#).unwrap();
        assert_eq!((escaped.model.as_deref(), escaped.stream), (Some("gpt-x"), false));
        assert_eq!(peek(CHAT, b"{}").unwrap(), Peek { model: None, stream: false, limits_output: false });
    }

    #[test]
    fn each_dialect_has_its_default() {
        let stream = |dialect, body: &'static [u8]| peek(dialect, body).unwrap().stream;
        assert!(stream(Dialect::Ollama, b"{}"));
        assert!(stream(Dialect::Ollama, br#"{"stream":null}"#));
        assert!(!stream(Dialect::Ollama, br#"{"stream":false}"#));
        assert!(!stream(Dialect::AnthropicMessages, br#"{"stream":null}"#));
        assert!(stream(Dialect::OpenAiResponses, br#"{"stream":true}"#));
        assert!(!stream(Dialect::OpenAiEmbeddings, br#"{"stream":true}"#));
        let gemini = peek(Dialect::GeminiGenerateContent, br#"{"model":1,"stream":1}"#).unwrap();
        assert_eq!(gemini, Peek { model: None, stream: false, limits_output: false });
    }

    #[test]
    fn problems_are_named() {
        let problem = |body: &'static [u8]| peek(CHAT, body).unwrap_err();
        assert_eq!(problem(b""), BadRequest::NotJson { at: 0 });
        assert_eq!(problem(b"<html>"), BadRequest::NotJson { at: 0 });
        assert_eq!(problem(br#"{"model":"gpt-x","#), BadRequest::NotJson { at: 17 });
        assert_eq!(problem(br#"{"model":"gpt-x"} x"#), BadRequest::NotJson { at: 18 });
        assert_eq!(problem(b"{\n\"a\": 1,\n  ?"), BadRequest::NotJson { at: 12 });
        assert_eq!(problem(b"{\"a\":\"\xff\"}"), BadRequest::NotJson { at: 6 });
        assert_eq!(problem(b"[{}]"), BadRequest::NotAnObject);
        assert_eq!(problem(b"null"), BadRequest::NotAnObject);
        assert_eq!(problem(br#"{"model":null}"#), BadRequest::ModelNotAString);
        assert_eq!(problem(br#"{"model":["gpt-x"]}"#), BadRequest::ModelNotAString);
        assert_eq!(problem(br#"{"stream":"true"}"#), BadRequest::StreamNotABoolean);
        assert_eq!(problem(br#"{"model":"a","model":"a"}"#), BadRequest::DuplicateKey("model"));
        // Go's servers take these for the same.
        assert_eq!(problem(br#"{"model":"a","Model":"b"}"#), BadRequest::DuplicateKey("model"));
        assert_eq!(problem(br#"{"\u004dodel":"b","model":"a"}"#), BadRequest::DuplicateKey("model"));
        assert_eq!(problem("{\"model\":\"a\",\"\u{17f}tream\":true}".as_bytes()), BadRequest::DuplicateKey("stream"));
        assert_eq!(problem(br#"{"stream":true,"s\u0074ream":true}"#), BadRequest::DuplicateKey("stream"));
    }

    #[test]
    fn no_problem_quotes_the_body() {
        for body in [&b"{\"diary\" \"diary\"}"[..], br#"{"model":{"diary":1}}"#, br#"{"stream":"diary"}"#, b"\"diary\""]
        {
            let failure = Failure::from(peek(CHAT, body).unwrap_err());
            assert_eq!(failure.kind(), FailureKind::InvalidRequest);
            let shown = format!("{failure} {failure:?} {:?} {}", failure.source(), failure.message().unwrap());
            assert!(!shown.contains("diary"), "{shown}");
        }
    }

    #[test]
    fn depth_is_no_matter() {
        let mut body = b"{\"a\":".to_vec();
        body.extend(std::iter::repeat_n(b'[', 100_000));
        body.extend(std::iter::repeat_n(b']', 100_000));
        body.extend(b",\"model\":\"m\"}");
        assert_eq!(peek(CHAT, &body).unwrap().model.as_deref(), Some("m"));
    }
}
