use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use stanchion_core::Failure;

use super::{connection::Connection, failure, origin::Origin};

/// The body of a response, as it comes from the connection. Dropping it ends the exchange.
pub struct TransportBody {
    incoming: Incoming,
    ended: bool,
    /// Dropped after the body, so that the connection knows whether it can go on.
    lease: Option<Lease>,
}

impl TransportBody {
    pub(super) fn new(incoming: Incoming, lease: Option<Lease>) -> Self {
        let mut body = Self { incoming, ended: false, lease };
        body.give_back_at_the_end();
        body
    }

    /// Whoever keeps a body that has ended, or does not look for its end, keeps no connection.
    fn give_back_at_the_end(&mut self) {
        if self.incoming.is_end_stream() {
            self.lease = None;
        }
    }
}

/// A connection that serves one body, and goes back where it came from when that has ended.
pub(super) struct Lease {
    connection: Option<Connection>,
    origin: Arc<Origin>,
}

impl Lease {
    pub(super) fn new(connection: Connection, origin: Arc<Origin>) -> Self {
        Self { connection: Some(connection), origin }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.origin.put(connection);
        }
    }
}

impl Body for TransportBody {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let failure = match ready!(Pin::new(&mut self.incoming).poll_frame(cx)) {
            Some(Ok(frame)) => {
                self.give_back_at_the_end();
                return Poll::Ready(Some(Ok(frame)));
            }
            Some(Err(error)) => failure::of_body(error),
            // An HTTP/2 stream that is reset with NO_ERROR ends like a whole one, however much of it is missing.
            None if self.incoming.size_hint().lower() > 0 => failure::short_body(),
            None => {
                self.ended = true;
                self.lease = None;
                return Poll::Ready(None);
            }
        };
        self.ended = true;
        Poll::Ready(Some(Err(failure)))
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.ended { SizeHint::with_exact(0) } else { self.incoming.size_hint() }
    }
}

impl fmt::Debug for TransportBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransportBody").field("ended", &self.ended).finish_non_exhaustive()
    }
}
