use std::{
    error::Error,
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use http::Uri;
use stanchion_core::BoxError;
use tokio::time::{Sleep, sleep};
use tower_service::Service;

use super::stream::{Tracked, TrackedIo};

/// Bounds the whole of a connect, and tracks the connection that comes of it.
#[derive(Debug, Clone)]
pub(super) struct Connect<C> {
    connector: C,
    limit: Duration,
}

impl<C> Connect<C> {
    pub(super) fn new(connector: C, limit: Duration) -> Self {
        Self { connector, limit }
    }
}

impl<C> Service<Uri> for Connect<C>
where
    C: Service<Uri>,
    C::Error: Into<BoxError>,
    C::Future: Unpin,
{
    type Response = TrackedIo<C::Response>;
    type Error = BoxError;
    type Future = Connecting<C::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Connecting { inner: self.connector.call(uri), timeout: Box::pin(sleep(self.limit)), limit: self.limit }
    }
}

/// `Unpin`, as the client wants it: hence the box, one a connection.
pub(super) struct Connecting<F> {
    inner: F,
    timeout: Pin<Box<Sleep>>,
    limit: Duration,
}

impl<F, S, E> Future for Connecting<F>
where
    F: Future<Output = Result<S, E>> + Unpin,
    E: Into<BoxError>,
{
    type Output = Result<TrackedIo<S>, BoxError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(connected) = Pin::new(&mut self.inner).poll(cx) {
            return Poll::Ready(connected.map(Tracked::wrap).map_err(Into::into));
        }
        ready!(self.timeout.as_mut().poll(cx));
        Poll::Ready(Err(ConnectTimeout { limit: self.limit }.into()))
    }
}

/// No connection within the limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConnectTimeout {
    pub(super) limit: Duration,
}

impl fmt::Display for ConnectTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no connection within {:?}", self.limit)
    }
}

impl Error for ConnectTimeout {}
