//! Reading one reply.

use std::io;

use bytes::Bytes;
use tokio::io::AsyncRead;
use tokio::time::{Instant, sleep};

use super::frames::{Frames, Framing};
use super::{Call, ReceivedEvent, Reply, Transport, dialects};
use crate::headers::Headers;
use crate::http1::{Incoming, MAX_BODY};
use crate::scenario::Dialect;

/// How many interim replies (100 Continue and the like) may come before the real one.
const MAX_INTERIM: usize = 16;
const READ: usize = 64 << 10;

/// How the length of a body is told.
enum Length {
    Chunked,
    Left(usize),
    UntilClose,
}

/// Reads a reply to its end, or until the client leaves.
pub(super) async fn receive<R>(incoming: &mut Incoming<R>, call: &Call, reply: &mut Reply) -> io::Result<()>
where
    R: AsyncRead + Unpin,
{
    read_head(incoming, reply).await?;
    let mut length = length_of(&reply.headers)?;
    let framing = framing_of(call, reply);
    let mut frames = Frames::new(framing);
    while let Some(bytes) = next(incoming, &mut length).await? {
        if reply.raw.len() + bytes.len() > MAX_BODY {
            return Err(io::ErrorKind::InvalidData.into());
        }
        reply.raw.extend_from_slice(&bytes);
        frames.push(&bytes);
        while let Some(event) = frames.next_event() {
            take(reply, call.dialect, event);
            if call.leave_after_events.is_some_and(|count| reply.events.len() >= count) {
                reply.transport = Transport::GaveUp;
                return Ok(());
            }
            if let Some((_, pause)) = call.pause.filter(|&(count, _)| reply.events.len() == count) {
                sleep(pause).await;
            }
        }
    }
    if framing == Framing::Whole {
        dialects::read_whole(reply, call.dialect);
    } else if let Some(event) = frames.last_event() {
        take(reply, call.dialect, event);
    }
    Ok(())
}

async fn read_head<R: AsyncRead + Unpin>(incoming: &mut Incoming<R>, reply: &mut Reply) -> io::Result<()> {
    for _ in 0..MAX_INTERIM {
        let head = incoming.head().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let status = head.first_line.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status: u16 = status.ok_or(io::ErrorKind::InvalidData)?;
        reply.status = Some(status);
        if status >= 200 {
            reply.status_at = Some(Instant::now());
            reply.headers = head.headers;
            return Ok(());
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

fn length_of(headers: &Headers) -> io::Result<Length> {
    match headers.get("content-length") {
        _ if headers.chunked() => Ok(Length::Chunked),
        Some(length) => Ok(Length::Left(length.parse().map_err(|_| io::ErrorKind::InvalidData)?)),
        None => Ok(Length::UntilClose),
    }
}

/// Ollama sends a document a line, whatever it calls that; elsewhere the content type tells.
fn framing_of(call: &Call, reply: &Reply) -> Framing {
    let kind = reply.headers.get("content-type").unwrap_or_default();
    if call.dialect == Dialect::Ollama {
        let answered = call.stream && reply.status == Some(200) && !kind.contains("html");
        return if answered { Framing::Lines } else { Framing::Whole };
    }
    if kind.contains("event-stream") { Framing::Events } else { Framing::Whole }
}

async fn next<R: AsyncRead + Unpin>(incoming: &mut Incoming<R>, length: &mut Length) -> io::Result<Option<Bytes>> {
    match length {
        Length::Chunked => incoming.chunk().await,
        Length::Left(0) => Ok(None),
        Length::Left(left) => {
            let bytes = incoming.some(READ.min(*left)).await?;
            if bytes.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            *left -= bytes.len();
            Ok(Some(bytes))
        }
        Length::UntilClose => Ok(Some(incoming.some(READ).await?).filter(|bytes| !bytes.is_empty())),
    }
}

fn take(reply: &mut Reply, dialect: Dialect, event: ReceivedEvent) {
    dialects::read_event(reply, dialect, &event);
    reply.events.push(event);
}
