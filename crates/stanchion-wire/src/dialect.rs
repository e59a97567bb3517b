//! Frames into what they mean.
//!
//! A [`StreamReader`] follows one streamed reply: it says of each frame whether it is output, a finish, an end marker or an in-band error, and
//! at the end of the body whether the reply is complete. [`read_document`] does the same for a reply that comes as one JSON document.
//!
//! Most frames of a stream are deltas, and of those a scan can tell all that matters. Only a frame that could be more is parsed. That
//! the scan and the parse agree is a property test of this module.
//!
//! ```
//! use stanchion_core::{Dialect, FinishReason};
//! use stanchion_wire::dialect::{StreamEnd, StreamReader};
//!
//! let mut reader = StreamReader::new(Dialect::OpenAiChat);
//! assert!(!reader.read_data(None, br#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#).output);
//! assert!(reader.read_data(None, br#"{"choices":[{"delta":{"content":"Hi"}}]}"#).output);
//! let last = reader.read_data(None, br#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#);
//! assert_eq!(last.finish, Some(FinishReason::Stop));
//! assert!(matches!(reader.end(b""), StreamEnd::Complete));
//! ```

mod anthropic;
mod around;
mod document;
mod gemini;
mod ollama;
mod openai_chat;
mod openai_responses;
mod scan;
mod skim;
mod text;
mod usage;

use std::{borrow::Cow, time::SystemTime};

use stanchion_core::{Dialect, Failure, FailureKind, FinishReason, Phase, Usage};

use self::around::Around;
pub use self::document::read_document;
use crate::{error, frame::Frame, json::Value};

/// What a frame is. The order of precedence where a frame is several things at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrameClass {
    /// A comment: a living socket, no more.
    Comment,
    /// Fields without data.
    Control,
    /// A keep-alive with data.
    Ping,
    /// Ids, roles, empty deltas, lifecycle.
    Meta,
    /// The beginning or end of a part of the output.
    Structure,
    /// Token counts.
    Usage,
    /// Why the model stopped.
    Finish,
    /// The end marker.
    Terminal,
    /// Data that this reader does not know. Counts as output, to be safe.
    Unknown,
    /// Text, reasoning, a tool call, media.
    Output,
    /// An in-band error.
    Error,
}

/// What one frame says.
#[derive(Debug)]
pub struct Reading {
    /// What it is, above all.
    pub class: FrameClass,
    /// Whether it holds real output: the end of replay.
    pub output: bool,
    /// Whether it proves that the provider works on the answer.
    pub progress: bool,
    /// Set by the frame with which the model has finished: for every choice that was opened.
    pub finish: Option<FinishReason>,
    /// The usage that it reports; cumulative.
    pub usage: Option<Usage>,
    /// Whether it is there for the usage alone: a chunk of chat completions that has no choices.
    pub only_usage: bool,
    /// About how many bytes of text it holds that the model wrote, reasoning and the arguments of tools included; 0 where
    /// the frame reports how many tokens the output has.
    pub text_bytes: usize,
    /// Whether it is the dialect's end marker.
    pub terminal: bool,
    /// The in-band error that it holds.
    pub fault: Option<Fault>,
}

impl Reading {
    fn of(class: FrameClass) -> Self {
        use FrameClass as C;
        Self {
            class,
            output: matches!(class, C::Output | C::Unknown),
            progress: !matches!(class, C::Comment | C::Control | C::Ping | C::Meta),
            finish: None,
            usage: None,
            only_usage: false,
            text_bytes: 0,
            terminal: class == C::Terminal,
            fault: None,
        }
    }

    /// A frame that fails the stream, in a way that no client library would see.
    pub fn failed(failure: Failure) -> Self {
        Self::fault(failure, false)
    }

    fn fault(failure: Failure, told: bool) -> Self {
        Self { fault: Some(Fault { failure, told }), ..Self::of(FrameClass::Error) }
    }

    fn raise(&mut self, class: FrameClass) {
        let raised = Self::of(class);
        self.class = self.class.max(class);
        self.output |= raised.output;
        self.progress |= raised.progress;
        self.terminal |= raised.terminal;
    }
}

/// An in-band error.
#[derive(Debug)]
pub struct Fault {
    /// What it means, as if it had come with a status.
    pub failure: Failure,
    /// Whether the dialect's client libraries see it as an error. If not, passing the frame on tells the client nothing.
    pub told: bool,
}

/// What the end of the body means.
#[derive(Debug)]
pub enum StreamEnd {
    /// The reply is complete by the dialect's own rule.
    Complete,
    /// The reply is not whole, or none: an in-band error that came on no frame, an empty reply, a truncation.
    Failed(Failure),
}

/// A plain delta that need not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// How many bytes the whole event has, the blank line at its end included.
    pub length: usize,
    /// How many of them are text that the model wrote.
    pub text_bytes: usize,
}

/// Follows one streamed reply.
#[derive(Debug)]
pub struct StreamReader {
    dialect: Dialect,
    state: State,
    around: Around,
}

/// What the readers of all dialects remember.
#[derive(Debug, Default)]
struct State {
    /// Anything but comments and control fields has come.
    began: bool,
    output: bool,
    /// Choices that have begun and finished, a bit each; those past 63 share the last.
    opened: u64,
    finished: u64,
    finish: Option<FinishReason>,
    terminal: bool,
    faulted: bool,
    /// What Anthropic has reported so far.
    usage: Usage,
}

impl State {
    fn open(&mut self, choice: u64) {
        self.opened |= 1 << choice.min(63);
    }

    /// One choice has finished; says why once the last open one has.
    fn finish(&mut self, choice: u64, reason: FinishReason) -> Option<FinishReason> {
        self.open(choice);
        self.finished |= 1 << choice.min(63);
        self.finish = Some(reason);
        self.all_finished().then_some(reason)
    }

    fn all_finished(&self) -> bool {
        self.finished != 0 && self.finished == self.opened
    }
}

impl StreamReader {
    /// A reader at the start of a reply.
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, state: State::default(), around: Around::default() }
    }

    /// Reads the next frame.
    pub fn read(&mut self, frame: &Frame<'_>) -> Reading {
        match frame.data.as_deref() {
            Some(data) => {
                let reading = self.read_data(frame.event, data);
                self.around.learn(frame.raw, data);
                reading
            }
            None if frame.comment => Reading::of(FrameClass::Comment),
            None => Reading::of(FrameClass::Control),
        }
    }

    /// Looks whether `bytes`, from the beginning of a frame on, begin with an event of SSE that is the same as one that was read,
    /// but for its text: a plain delta, which [`read`](Self::read) would find to be output and no more. It need not be read.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use stanchion_core::Dialect;
    /// use stanchion_wire::{dialect::StreamReader, frame::{FrameDecoder, Framing}};
    ///
    /// let event = |text: &str| format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
    /// let mut reader = StreamReader::new(Dialect::OpenAiChat);
    /// let mut decoder = FrameDecoder::new(Framing::Sse, FrameDecoder::DEFAULT_MAX_EVENT);
    /// decoder.push(Bytes::from(event("Hello") + &event(" there")));
    /// assert!(reader.known(decoder.ahead()).is_none(), "the first is read");
    /// assert!(reader.read(&decoder.next_frame().unwrap().unwrap()).output);
    /// let known = reader.known(decoder.ahead()).unwrap();
    /// assert_eq!((known.length, known.text_bytes), (event(" there").len(), 6));
    /// decoder.pass(known.length);
    /// assert!(decoder.next_frame().unwrap().is_none());
    /// ```
    pub fn known(&self, bytes: &[u8]) -> Option<Known> {
        let (length, text_bytes) = self.around.recognise_event(bytes)?;
        Some(Known { length, text_bytes })
    }

    /// Reads the data of the next frame, with its SSE event name if it has one.
    pub fn read_data(&mut self, event: Option<&[u8]>, data: &[u8]) -> Reading {
        let reading = match self.scan(event, data) {
            Some(text_bytes) => Reading { text_bytes, ..Reading::of(FrameClass::Output) },
            None => self.parse(event, data),
        };
        self.remember(&reading);
        reading
    }

    /// What a scan can tell for sure: a plain delta with output, and how many bytes of it. `None` sends the frame to the parser.
    fn scan(&mut self, event: Option<&[u8]>, data: &[u8]) -> Option<usize> {
        if event == Some(b"error") {
            return None;
        }
        match self.dialect {
            Dialect::OpenAiChat => {
                let (choice, text_bytes) = openai_chat::scan(data, &mut self.around)?;
                self.state.open(choice);
                Some(text_bytes)
            }
            Dialect::OpenAiResponses => openai_responses::scan(data),
            Dialect::AnthropicMessages => anthropic::scan(event, data, &mut self.around),
            Dialect::Ollama => ollama::scan(data),
            // Every chunk of Gemini's repeats the usage: all of them matter.
            _ => None,
        }
    }

    /// The full reading, which defines what a frame means.
    fn parse(&mut self, event: Option<&[u8]>, data: &[u8]) -> Reading {
        let text = data.trim_ascii();
        if text == b"[DONE]" {
            return self.done_marker();
        }
        let event = event.and_then(|name| std::str::from_utf8(name).ok());
        let readable = readable(text);
        let Some(value) = Value::parse(&readable) else {
            return match event {
                Some("error") => self
                    .error_of(event, text)
                    .map_or_else(|| Reading::of(FrameClass::Unknown), |failure| Reading::fault(failure, false)),
                _ => Reading::of(FrameClass::Unknown),
            };
        };
        if has_error(event, &value)
            && !self.names_itself_no_error(&value)
            && let Some(failure) = self.error_of(event, text)
        {
            let told = self.client_sees_error(event, &value);
            return Reading::fault(failure, told);
        }
        let mut reading = match self.dialect {
            Dialect::OpenAiChat | Dialect::OpenAiEmbeddings => openai_chat::parse(&mut self.state, &value),
            Dialect::OpenAiResponses => openai_responses::parse(&mut self.state, event, &value),
            Dialect::AnthropicMessages => anthropic::parse(&mut self.state, event, &value),
            Dialect::GeminiGenerateContent => gemini::parse(&mut self.state, &value),
            Dialect::Ollama => ollama::parse(&mut self.state, &value),
            _ => Reading::of(FrameClass::Unknown),
        };
        // An error object that says nothing is one all the same.
        if reading.class == FrameClass::Unknown && value.get("error").is_some_and(|error| !error.is_null()) {
            return Reading::fault(Failure::new(FailureKind::ServerError).with_phase(Phase::BeforeOutput), false);
        }
        if reading.output && reading.usage.is_none_or(|usage| usage.output.is_none()) {
            reading.text_bytes = text::bytes(&value);
        }
        reading
    }

    /// `[DONE]` ends a stream of chat completions, and proves nothing: it completes what has finished and no more.
    fn done_marker(&mut self) -> Reading {
        if self.dialect != Dialect::OpenAiChat {
            // Some gateways append one to every dialect.
            return Reading::of(FrameClass::Control);
        }
        if self.state.faulted || self.state.all_finished() {
            return Reading::of(FrameClass::Terminal);
        }
        let kind = if self.state.began { FailureKind::Truncated } else { FailureKind::EmptyReply };
        Reading::fault(Failure::new(kind).with_phase(Phase::BeforeOutput), false)
    }

    /// Every event of the Responses dialect names its type, and only one of them is a failure.
    fn names_itself_no_error(&self, value: &Value<'_>) -> bool {
        let kind = value.get("type").and_then(Value::as_str).unwrap_or("");
        self.dialect == Dialect::OpenAiResponses && kind.starts_with("response.") && kind != "response.failed"
    }

    fn error_of(&self, event: Option<&str>, data: &[u8]) -> Option<Failure> {
        error::in_band(self.dialect, event, data, None, SystemTime::now())
    }

    /// Whether the official client libraries of the dialect raise on this.
    fn client_sees_error(&self, event: Option<&str>, value: &Value<'_>) -> bool {
        let kind = value.get("type").and_then(Value::as_str).or(event);
        match self.dialect {
            Dialect::AnthropicMessages => kind == Some("error") && event.is_none_or(|name| name == "error"),
            Dialect::OpenAiResponses => matches!(kind, Some("error" | "response.failed")),
            _ => value.get("error").is_some_and(is_truthy),
        }
    }

    fn remember(&mut self, reading: &Reading) {
        let state = &mut self.state;
        state.began |= reading.class >= FrameClass::Meta;
        state.output |= reading.output;
        state.terminal |= reading.terminal;
        state.faulted |= reading.fault.is_some();
    }

    /// Whether the model has finished: only usage and the end marker may follow.
    pub fn finished(&self) -> bool {
        self.state.terminal || self.state.all_finished()
    }

    /// What the end of the body means. `stray` is what came on lines that were no fields.
    pub fn end(&mut self, stray: &[u8]) -> StreamEnd {
        let complete = match self.dialect {
            // A `message_stop` that was lost loses nothing.
            Dialect::OpenAiChat | Dialect::AnthropicMessages | Dialect::GeminiGenerateContent => self.finished(),
            _ => self.state.terminal,
        };
        if complete || self.state.faulted {
            return StreamEnd::Complete;
        }
        if !stray.is_empty()
            && let Some(failure) = self.error_of(None, stray.trim_ascii()).or_else(|| self.stray_error_field(stray))
        {
            return StreamEnd::Failed(failure);
        }
        let kind = if self.state.began { FailureKind::Truncated } else { FailureKind::EmptyReply };
        StreamEnd::Failed(Failure::new(kind).with_phase(Phase::BeforeOutput))
    }

    /// `error: {...}`, as old llama.cpp servers put it.
    fn stray_error_field(&self, stray: &[u8]) -> Option<Failure> {
        stray.split(|byte| *byte == b'\n').find_map(|line| {
            let json = line.strip_prefix(b"error:")?.trim_ascii();
            self.error_of(Some("error"), json)
        })
    }
}

/// A text that can be read, whatever is broken of its UTF-8.
fn readable(text: &[u8]) -> Cow<'_, str> {
    // The lossy conversion looks at every byte by itself.
    std::str::from_utf8(text).map_or_else(|_| String::from_utf8_lossy(text), Cow::Borrowed)
}

/// Whether a value would make a client library raise, as Python and JavaScript see truth.
fn is_truthy(value: &Value<'_>) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => true,
    }
}

/// Whether this could be an error object at all: a quick look before the classification. `"error": null` is none.
fn has_error(event: Option<&str>, value: &Value<'_>) -> bool {
    let object = match value {
        Value::Array(items) => items.first(),
        other => Some(other),
    };
    event == Some("error")
        || object.is_some_and(|object| {
            object.get("error").is_some_and(|error| !error.is_null())
                || matches!(object.get("type").and_then(Value::as_str), Some("error" | "response.failed"))
                || object.get("object").and_then(Value::as_str) == Some("error")
        })
}

/// Whether a value has something in it: text, elements, members.
fn is_filled(value: &Value<'_>) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => items.iter().any(is_filled),
        Value::Object(members) => members.values().any(is_filled),
        Value::Bool(_) | Value::Number(_) => true,
    }
}

/// The failure that stands in the place of a finish reason, if the reason is one.
fn finish_fault(dialect: Dialect, reason: &str) -> Option<Failure> {
    error::finish_fault(dialect, reason)
        .map(|kind| Failure::new(kind).with_phase(Phase::BeforeOutput).with_code(reason))
}

#[cfg(test)]
mod tests;
