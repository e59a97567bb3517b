use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use stanchion_core::Failure;

use crate::watch::Watch;

pin_project! {
    /// The body of [`Telemetry`](crate::Telemetry): the inner one, counted, and seen to its end.
    pub struct TelemetryBody<B> {
        #[pin]
        inner: B,
        // None where nobody is told, and once it is over. Behind the inner body: see TelemetryFuture.
        watch: Option<Watch>,
    }
}

impl<B: Body> TelemetryBody<B> {
    pub(crate) fn new(inner: B, mut watch: Option<Watch>) -> Self {
        if inner.is_end_stream()
            && let Some(watch) = watch.take()
        {
            // Nobody has to poll it.
            watch.over();
        }
        Self { inner, watch }
    }
}

impl<B> Body for TelemetryBody<B>
where
    B: Body<Error: Into<Failure>>,
{
    type Data = B::Data;
    type Error = Failure;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, Failure>>> {
        let mut this = self.project();
        let frame = ready!(this.inner.as_mut().poll_frame(cx)).map(|frame| frame.map_err(Into::into));
        let Some(watch) = this.watch else { return Poll::Ready(frame) };
        match &frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    watch.pass(data.remaining());
                }
                // Told before the end marker leaves: behind it nobody reads.
                if watch.is_over() || this.inner.is_end_stream() {
                    this.watch.take().expect("just looked at").over();
                }
            }
            Some(Err(failure)) => this.watch.take().expect("just looked at").failed(failure),
            None => this.watch.take().expect("just looked at").over(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B> fmt::Debug for TelemetryBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TelemetryBody").field("watched", &self.watch.is_some()).finish_non_exhaustive()
    }
}
