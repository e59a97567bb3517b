//! Playing one attempt.

use std::future::{Future, poll_fn};
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::attempt::{Attempt, Ending, LastStream};
use super::ledger::Abandoned;
use super::meter::{Meter, Sent};

/// How long silence lasts at most.
const HANG: Duration = Duration::from_secs(60);
/// The pause between the pieces of a step that is split.
const BETWEEN_PIECES: Duration = Duration::from_millis(2);
const MAX_BODY: usize = 256 << 20;

/// The goodbye of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Goodbye {
    pub(super) last_stream: u32,
    pub(super) reason: Reason,
}

fn left(reset: Result<Reason, h2::Error>) -> Abandoned {
    Abandoned { at: Instant::now(), reason: reset.ok() }
}

/// Reads a request's body to its end.
pub(super) async fn read_body(mut body: RecvStream) -> Result<Bytes, Abandoned> {
    let mut whole = Vec::new();
    while let Some(piece) = body.data().await {
        let piece = piece.map_err(|error| left(error.reason().ok_or(error)))?;
        // The window is given back at once: the size is bounded here, not by the protocol.
        let _ = body.flow_control().release_capacity(piece.len());
        if whole.len() + piece.len() > MAX_BODY {
            break;
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.into())
}

/// Does something, unless the client gives the stream up first.
async fn unless_left<T>(stream: &mut SendStream<Bytes>, work: impl Future<Output = T>) -> Result<T, Abandoned> {
    tokio::select! {
        biased;
        done = work => Ok(done),
        reset = poll_fn(|context| stream.poll_reset(context)) => Err(left(reset)),
    }
}

/// Plays an attempt to its end, or until the client gives it up.
pub(super) async fn play(
    attempt: &Attempt,
    mut respond: SendResponse<Bytes>,
    meter: &Meter,
    goodbye: &mpsc::Sender<Goodbye>,
) -> Result<(), Abandoned> {
    let id = respond.stream_id().as_u32();
    wait(&mut respond, attempt.delay).await?;
    let Some(head) = &attempt.head else {
        match attempt.end {
            Ending::Reset(reason) => respond.send_reset(reason),
            Ending::Goaway { last_stream, reason } => say(goodbye, id, last_stream, reason).await,
            Ending::Hang => wait(&mut respond, HANG).await?,
            Ending::Refuse | Ending::Fin => respond.send_reset(Reason::REFUSED_STREAM),
        }
        return Ok(());
    };
    let mut stream = respond.send_response(head.response(), false).map_err(|error| left(Err(error)))?;
    let mut sent = Sent { head: true, ..Sent::default() };
    for step in &attempt.body {
        for _ in 0..step.times {
            if let Some(wait) = step.wait {
                unless_left(&mut stream, tokio::time::sleep(wait)).await?;
            }
            for piece in step.pieces() {
                sent.bytes += piece.len();
                stream.send_data(piece, false).map_err(|error| left(Err(error)))?;
                if step.split.is_some() {
                    unless_left(&mut stream, tokio::time::sleep(BETWEEN_PIECES)).await?;
                }
            }
        }
    }
    unless_left(&mut stream, meter.sent(id, sent)).await?;
    // Only now: a stream that has been told its end no longer notices that its client gives it up.
    if matches!(attempt.end, Ending::Fin | Ending::Goaway { last_stream: LastStream::Finished, .. }) {
        sent.ended = true;
        stream.send_data(Bytes::new(), true).map_err(|error| left(Err(error)))?;
        unless_left(&mut stream, meter.sent(id, sent)).await?;
    }
    match attempt.end {
        Ending::Reset(reason) => stream.send_reset(reason),
        Ending::Goaway { last_stream, reason } => say(goodbye, id, last_stream, reason).await,
        Ending::Hang => unless_left(&mut stream, tokio::time::sleep(HANG)).await?,
        Ending::Refuse | Ending::Fin => {}
    }
    Ok(())
}

/// Waits, unless the client gives the request up first.
async fn wait(respond: &mut SendResponse<Bytes>, duration: Duration) -> Result<(), Abandoned> {
    tokio::select! {
        biased;
        reset = poll_fn(|context| respond.poll_reset(context)) => Err(left(reset)),
        () = tokio::time::sleep(duration) => Ok(()),
    }
}

async fn say(goodbye: &mpsc::Sender<Goodbye>, id: u32, last_stream: LastStream, reason: Reason) {
    let last_stream = match last_stream {
        // Only a client's streams count here: their numbers are odd.
        LastStream::Before => id.saturating_sub(2),
        LastStream::Cut | LastStream::Finished => id,
    };
    // A connection that has ended needs no goodbye.
    if goodbye.send(Goodbye { last_stream, reason }).await.is_ok() {
        // Dropping the stream would reset it before the goodbye is out; the connection ends this task.
        std::future::pending::<()>().await;
    }
}
