//! What arrived.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::headers::Headers;
use crate::outcome::Outcome;

/// What became of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// The reply was well-formed to its end.
    Clean,
    /// It ended early, or broke its own framing.
    Truncated,
    /// The connection was reset.
    Reset,
    /// The client's limit passed.
    Timeout,
    /// Nothing listened.
    Refused,
    /// The client left, as its script says.
    GaveUp,
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedEvent {
    /// Its name, where it has one.
    pub name: Option<String>,
    /// Its data.
    pub data: String,
}

/// What arrived, and when.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Reply {
    /// The status.
    pub status: Option<u16>,
    /// The header fields.
    pub headers: Headers,
    /// The body's bytes, without the transfer coding.
    pub raw: Vec<u8>,
    /// The events of a stream.
    pub events: Vec<ReceivedEvent>,
    /// The text that was shown.
    pub text: String,
    /// The reasoning that was shown.
    pub reasoning: String,
    /// The arguments of each tool call, as they came.
    ///
    /// Chat and Anthropic number the calls themselves; elsewhere they are numbered as they come.
    pub tool_args: BTreeMap<u64, String>,
    /// Why the reply finished.
    pub finish: Option<String>,
    /// Whether the end marker came.
    pub done: bool,
    /// The error, from the body or from inside the stream.
    pub error: Option<Value>,
    /// The last usage that was told.
    pub usage: Option<Value>,
    /// What became of the connection.
    pub transport: Transport,
    /// When the client began.
    pub started_at: Instant,
    /// When the status and header fields were there.
    pub status_at: Option<Instant>,
    /// When the first text, reasoning or tool call came.
    pub first_output_at: Option<Instant>,
    /// When it was over.
    pub ended_at: Option<Instant>,
    /// The provider's own names of the tool calls so far.
    pub(crate) calls: Vec<String>,
}

impl Default for Reply {
    fn default() -> Self {
        Self {
            status: None,
            headers: Headers::default(),
            raw: Vec::new(),
            events: Vec::new(),
            text: String::new(),
            reasoning: String::new(),
            tool_args: BTreeMap::new(),
            finish: None,
            done: false,
            error: None,
            usage: None,
            transport: Transport::Clean,
            started_at: Instant::now(),
            status_at: None,
            first_output_at: None,
            ended_at: None,
            calls: Vec::new(),
        }
    }
}

impl Reply {
    /// What the client saw, in one word.
    pub fn outcome(&self) -> Outcome {
        if self.error.is_some() || self.status.is_some_and(|status| status >= 400) {
            return Outcome::Error;
        }
        match self.transport {
            Transport::Clean if self.status == Some(200) && self.done => Outcome::Complete,
            Transport::Clean => Outcome::Silent,
            Transport::Truncated | Transport::Reset => Outcome::Cut,
            Transport::Timeout => Outcome::Timeout,
            Transport::Refused => Outcome::Refused,
            Transport::GaveUp => Outcome::GaveUp,
        }
    }

    /// How long it took.
    pub fn elapsed(&self) -> Duration {
        self.ended_at.unwrap_or_else(Instant::now).duration_since(self.started_at)
    }

    fn note_output(&mut self) {
        self.first_output_at.get_or_insert_with(Instant::now);
    }

    pub(super) fn add_text(&mut self, text: Option<&str>) {
        if let Some(text) = text {
            self.note_output();
            self.text.push_str(text);
        }
    }

    pub(super) fn add_reasoning(&mut self, text: Option<&str>) {
        if let Some(text) = text {
            self.note_output();
            self.reasoning.push_str(text);
        }
    }

    pub(super) fn add_tool_args(&mut self, index: u64, arguments: &str) {
        self.note_output();
        self.tool_args.entry(index).or_default().push_str(arguments);
    }

    /// The number of a tool call that the provider knows by `name`.
    pub(super) fn call_number(&mut self, name: String) -> u64 {
        let known = self.calls.iter().position(|call| *call == name);
        known.unwrap_or_else(|| {
            self.calls.push(name);
            self.calls.len() - 1
        }) as u64
    }

    /// Notes a fault that says less than an error that is already known.
    pub(super) fn note_fault(&mut self, fault: Value) {
        self.error.get_or_insert(fault);
    }

    pub(super) fn note_bad_json(&mut self, data: &str) {
        self.note_fault(json!({ "bad_json": data.chars().take(120).collect::<String>() }));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Reply, Transport};
    use crate::outcome::Outcome;

    #[test]
    fn the_outcome_is_one_word_for_what_arrived() {
        let error = Some(json!({ "message": "x" }));
        for (status, done, error, transport, outcome) in [
            (Some(200), true, None, Transport::Clean, Outcome::Complete),
            (Some(200), true, error.clone(), Transport::Clean, Outcome::Error),
            (Some(200), true, None, Transport::Truncated, Outcome::Cut),
            (Some(200), false, None, Transport::Reset, Outcome::Cut),
            (Some(200), false, None, Transport::Clean, Outcome::Silent),
            (Some(201), true, None, Transport::Clean, Outcome::Silent),
            (Some(500), false, None, Transport::Clean, Outcome::Error),
            (Some(500), false, None, Transport::Truncated, Outcome::Error),
            (Some(200), false, error, Transport::GaveUp, Outcome::Error),
            (Some(200), true, None, Transport::GaveUp, Outcome::GaveUp),
            (None, false, None, Transport::Timeout, Outcome::Timeout),
            (None, false, None, Transport::Refused, Outcome::Refused),
            (None, false, None, Transport::Reset, Outcome::Cut),
        ] {
            let reply = Reply { status, done, error, transport, ..Reply::default() };
            assert_eq!(reply.outcome(), outcome, "{reply:?}");
        }
    }

    #[test]
    fn calls_are_numbered_as_they_come() {
        let mut reply = Reply::default();
        let numbers = ["3", "5", "3", "4"].map(|name| reply.call_number(name.to_owned()));
        assert_eq!(numbers, [0, 1, 0, 2]);
    }
}
