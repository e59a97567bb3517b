//! What hyper and h2 tell of a broken exchange, as a [`Failure`].

use std::{error::Error, fmt, io, time::Duration};

use h2::Reason;
use stanchion_core::{Failure, FailureKind, HintSource, Phase, RetryHint};

use super::{connect::ConnectError, connection::Connection};

/// How long a server that asks for calm is left alone, at least.
const CALM: Duration = Duration::from_secs(1);

/// The first error of type `E`, at any depth.
fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// Whether a request failed because the kept connection that it was written to had died in the meantime.
pub(super) fn is_stale(error: &hyper::Error, connection: &Connection) -> bool {
    let history = connection.history();
    // On HTTP/2, bytes come for other streams as well; that none came for this one is why there is an error.
    history.answered() && (connection.is_http2() || history.silent()) && is_dead(error)
}

/// Whether the connection itself is gone, without a word from the server.
fn is_dead(error: &hyper::Error) -> bool {
    if let Some(error) = find::<h2::Error>(error) {
        return error.is_io();
    }
    error.is_incomplete_message()
        || error.is_closed()
        || error.is_canceled()
        || error.is_timeout()
        || find::<io::Error>(error).is_some()
}

/// There is nobody to send a request to.
pub(super) fn no_origin() -> Failure {
    Failure::new(FailureKind::Misconfigured).with_phase(Phase::Connect).with_source(io::Error::new(
        io::ErrorKind::InvalidInput,
        "the request's URI is not of the form http://host or https://host",
    ))
}

/// A tunnel is asked for.
pub(super) fn tunnel() -> Failure {
    Failure::new(FailureKind::Misconfigured)
        .with_phase(Phase::Connect)
        .with_source(io::Error::new(io::ErrorKind::Unsupported, "this transport makes no tunnels: CONNECT is not sent"))
}

/// A failure before there was a connection.
pub(super) fn of_connect(error: ConnectError) -> Failure {
    let failure = Failure::new(FailureKind::Connect).with_phase(Phase::Connect);
    match error {
        ConnectError::Timeout(timeout) => failure.with_limit(timeout.limit).with_source(timeout),
        error @ ConnectError::Failed(_) => failure.with_source(error),
    }
}

/// A failure before the response head.
pub(super) fn of_exchange(error: hyper::Error) -> Failure {
    let Some(http2) = find::<h2::Error>(&error).and_then(Http2Error::of) else {
        return Failure::new(FailureKind::Transport).with_source(error);
    };
    let failure = match http2 {
        Http2Error { reason: Reason::ENHANCE_YOUR_CALM, remote: true, .. } => {
            Failure::new(FailureKind::Overloaded).with_hint(Some(RetryHint::new(CALM, HintSource::RetryAfter)))
        }
        // A GOAWAY is told only to streams above its last stream id, and to those that were never sent: for them, its
        // reason is no matter.
        Http2Error { remote: true, go_away: true, .. }
        | Http2Error { reason: Reason::REFUSED_STREAM, remote: true, .. } => Failure::new(FailureKind::Unprocessed),
        _ => Failure::new(FailureKind::Transport),
    };
    failure.with_source(http2)
}

/// A failure after the response head.
pub(super) fn of_body(error: hyper::Error) -> Failure {
    let failure = Failure::new(FailureKind::Transport).with_phase(Phase::BeforeOutput);
    match find::<h2::Error>(&error).and_then(Http2Error::of) {
        Some(http2) => failure.with_source(http2),
        None => failure.with_source(error),
    }
}

/// A body that ended cleanly before its content length.
pub(super) fn short_body() -> Failure {
    Failure::new(FailureKind::Transport)
        .with_phase(Phase::BeforeOutput)
        .with_source(io::Error::new(io::ErrorKind::UnexpectedEof, "the body ended before its content length"))
}

/// An `RST_STREAM` or `GOAWAY`, without the debug data that a server may add to it: that may be anything.
#[derive(Debug, Clone, Copy)]
struct Http2Error {
    reason: Reason,
    go_away: bool,
    remote: bool,
}

impl Http2Error {
    fn of(error: &h2::Error) -> Option<Self> {
        Some(Self { reason: error.reason()?, go_away: error.is_go_away(), remote: error.is_remote() })
    }
}

impl fmt::Display for Http2Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frame = if self.go_away { "GOAWAY" } else { "RST_STREAM" };
        let from = if self.remote { "from the server" } else { "of our own" };
        write!(f, "HTTP/2 {frame} {from}: {:?}, {}", self.reason, self.reason)
    }
}

impl Error for Http2Error {}
