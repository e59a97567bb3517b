//! What is said, made once for each path.

use std::{
    collections::HashMap,
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;

/// More paths than anybody measures: what else is asked for is made anew each time.
const KEPT: usize = 64;
/// More events than a test of speed can want.
const MOST_EVENTS: usize = 100_000;

/// The replies that were made so far.
#[derive(Debug, Default)]
pub(super) struct Replies(Mutex<HashMap<Box<str>, Arc<Reply>>>);

/// One reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) content_type: &'static str,
    /// The pieces of the body.
    pub(super) pieces: Vec<Bytes>,
    /// How long to wait before each piece but the first; `None` writes them all at once.
    pub(super) gap: Option<Duration>,
    /// The whole of it as HTTP/1.1, one chunk a piece.
    pub(super) http1: Bytes,
    /// Each piece as a chunk of HTTP/1.1, the first with the head.
    pub(super) http1_pieces: Vec<Bytes>,
}

impl Replies {
    pub(super) fn of(&self, path: &str) -> Arc<Reply> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reply) = known.get(path) {
            return reply.clone();
        }
        let reply = Arc::new(Reply::of(path));
        if known.len() < KEPT {
            known.insert(path.into(), reply.clone());
        }
        reply
    }
}

impl Reply {
    fn of(path: &str) -> Self {
        let mut segments = path.trim_start_matches('/').split('/');
        if segments.next() == Some("events") {
            let mut number = || segments.next().and_then(|segment| segment.parse().ok());
            let events = number().unwrap_or(1).clamp(1, MOST_EVENTS as u64) as usize;
            Self::stream(events, number().map(Duration::from_millis))
        } else {
            Self::document()
        }
    }

    fn document() -> Self {
        let body = r#"{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello there, how can I help you today?"},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":10,"total_tokens":22}}"#;
        let whole = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let whole = Bytes::from(whole);
        Self {
            content_type: "application/json",
            pieces: vec![Bytes::from_static(body.as_bytes())],
            gap: None,
            http1: whole.clone(),
            http1_pieces: vec![whole],
        }
    }

    fn stream(events: usize, gap: Option<Duration>) -> Self {
        let chunk = |delta: &str, finish: &str| {
            format!(
                "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}\n\n"
            )
        };
        let mut pieces: Vec<Bytes> =
            (0..events).map(|number| chunk(&format!("{{\"content\":\"word {number} \"}}"), "null").into()).collect();
        pieces.push((chunk("{}", "\"stop\"") + "data: [DONE]\n\n").into());
        let mut http1_pieces: Vec<Bytes> = Vec::with_capacity(pieces.len());
        for (number, piece) in pieces.iter().enumerate() {
            let mut framed = String::new();
            if number == 0 {
                framed.push_str(
                    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
                );
            }
            // Writing to a string cannot fail.
            let _ = write!(framed, "{:x}\r\n", piece.len());
            let mut framed = framed.into_bytes();
            framed.extend_from_slice(piece);
            framed.extend_from_slice(b"\r\n");
            if number + 1 == pieces.len() {
                framed.extend_from_slice(b"0\r\n\r\n");
            }
            http1_pieces.push(framed.into());
        }
        let http1 = http1_pieces.concat().into();
        Self { content_type: "text/event-stream", pieces, gap, http1, http1_pieces }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_says_how_many_and_how_fast() {
        for (path, pieces, gap) in [
            ("/events/3/v1/chat/completions", 4, None),
            ("/events/3/20/v1/chat/completions", 4, Some(20)),
            ("/events/v1", 2, None),
            ("/whole/v1/chat/completions", 1, None),
            ("/", 1, None),
        ] {
            let reply = Reply::of(path);
            assert_eq!(reply.pieces.len(), pieces, "{path}");
            assert_eq!(reply.gap, gap.map(Duration::from_millis), "{path}");
            assert_eq!(reply.http1_pieces.concat(), reply.http1, "{path}");
        }
    }

    #[test]
    fn what_was_made_is_kept() {
        let replies = Replies::default();
        assert!(Arc::ptr_eq(&replies.of("/whole"), &replies.of("/whole")));
        for number in 1..=2 * KEPT {
            replies.of(&format!("/events/{number}"));
        }
        assert_eq!(replies.0.lock().unwrap().len(), KEPT);
    }
}
