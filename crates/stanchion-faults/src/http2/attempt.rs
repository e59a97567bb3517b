//! What the provider does with one request.

use std::time::Duration;

use h2::Reason;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Response, StatusCode};

use crate::scenario::Step;

/// What the provider does with one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Silence before anything.
    pub delay: Duration,
    /// The head of the reply, if there is to be one.
    pub head: Option<Head>,
    /// What is written, step by step.
    pub body: Vec<Step>,
    /// How it ends.
    pub end: Ending,
}

/// The head of a reply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head {
    /// The status (200).
    pub status: StatusCode,
    /// The header fields.
    pub headers: HeaderMap,
}

/// How an attempt ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The stream ends whole.
    Fin,
    /// The stream is reset, once all before it has gone out.
    Reset(Reason),
    /// The stream is reset with `REFUSED_STREAM`: the provider has not looked at the request.
    Refuse,
    /// The connection says goodbye and is closed, once all before that has gone out.
    Goaway {
        /// What the goodbye says about this stream.
        last_stream: LastStream,
        /// Why.
        reason: Reason,
    },
    /// Silence, until the client leaves.
    Hang,
}

/// What a goodbye says about the stream on which it was scripted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastStream {
    /// The last stream that was looked at came before this one: a replay is safe, whatever the request does.
    Before,
    /// This one was looked at, and is cut off by the close.
    Cut,
    /// This one ends whole first.
    Finished,
}

impl Attempt {
    fn new(head: Option<Head>, body: Vec<Step>, end: Ending) -> Self {
        Self { delay: Duration::ZERO, head, body, end }
    }

    /// Status 200, `text/event-stream`, these steps and a proper end.
    pub fn streaming(body: impl IntoIterator<Item = Step>) -> Self {
        let mut head = Head::default();
        head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        Self::new(Some(head), body.into_iter().collect(), Ending::Fin)
    }

    /// A status with a JSON body.
    pub fn json(status: StatusCode, body: impl Into<String>) -> Self {
        let mut head = Head { status, ..Head::default() };
        head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Self::new(Some(head), vec![Step::text(body)], Ending::Fin)
    }

    /// A refusal.
    pub fn refused() -> Self {
        Self::headless(Ending::Refuse)
    }

    /// No head, only an end; every ending but [`Ending::Fin`] will do.
    pub fn headless(end: Ending) -> Self {
        Self::new(None, Vec::new(), end)
    }

    /// Ends otherwise.
    #[must_use]
    pub fn ending(mut self, end: Ending) -> Self {
        self.end = end;
        self
    }

    /// Is silent first.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Why the attempt cannot be played.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let finished = matches!(self.end, Ending::Fin | Ending::Goaway { last_stream: LastStream::Finished, .. });
        match &self.head {
            None if finished => Some("a stream that ends whole has a head"),
            None if !self.body.is_empty() => Some("a body has a head before it"),
            Some(_) if self.end == Ending::Refuse => Some("a refused stream has no head"),
            Some(head) if head.status.is_informational() => Some("an interim status is no reply"),
            _ => None,
        }
    }
}

impl Head {
    pub(super) fn response(&self) -> Response<()> {
        let mut response = Response::new(());
        *response.status_mut() = self.status;
        response.headers_mut().clone_from(&self.headers);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::{Attempt, Ending, LastStream, Reason, Step};

    #[test]
    fn contradictions_are_told() {
        let goaway = |last_stream| Ending::Goaway { last_stream, reason: Reason::NO_ERROR };
        let body = [Step::sse("x")];
        for (attempt, playable) in [
            (Attempt::streaming(body.clone()), true),
            (Attempt::streaming(body.clone()).ending(goaway(LastStream::Finished)), true),
            (Attempt::streaming(body.clone()).ending(Ending::Refuse), false),
            (Attempt::headless(Ending::Fin), false),
            (Attempt::headless(goaway(LastStream::Finished)), false),
            (Attempt::headless(goaway(LastStream::Before)), true),
            (Attempt::headless(Ending::Hang), true),
            (Attempt { body: body.to_vec(), ..Attempt::refused() }, false),
            (Attempt::json(http::StatusCode::CONTINUE, "{}"), false),
        ] {
            assert_eq!(attempt.problem().is_none(), playable, "{attempt:?}");
        }
    }
}
