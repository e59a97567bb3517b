use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use stanchion_core::{Failure, StreamRecord};

use crate::judge::Watch;

pin_project! {
    /// The body of [`Circuit`](crate::Circuit): the inner one, watched until its circuit has learnt what it can.
    pub struct CircuitBody<B> {
        #[pin]
        inner: B,
        watched: Option<Watched>,
    }

    impl<B> PinnedDrop for CircuitBody<B> {
        fn drop(this: Pin<&mut Self>) {
            // A client that leaves once the model has finished has its answer.
            if let Some(Watched { record: Some(record), mut watch }) = this.project().watched.take()
                && (record.finished() || record.terminal())
                && record.error().is_none()
            {
                watch.ended();
            }
        }
    }
}

struct Watched {
    record: Option<StreamRecord>,
    watch: Watch,
}

impl<B: Body> CircuitBody<B> {
    pub(crate) fn unwatched(inner: B) -> Self {
        Self { inner, watched: None }
    }

    pub(crate) fn new(inner: B, record: Option<StreamRecord>, watch: Watch) -> Self {
        let mut watched = Some(Watched { record, watch });
        Watched::settle(&mut watched, inner.is_end_stream());
        Self { inner, watched }
    }
}

impl Watched {
    /// After something has passed: ends the watch when the reply has ended, or when there is nothing more to learn.
    fn settle(this: &mut Option<Self>, ended: bool) {
        if let Some(Self { watch, .. }) = this {
            if ended {
                watch.ended();
            }
            if watch.is_over() {
                *this = None;
            }
        }
    }
}

impl<B> Body for CircuitBody<B>
where
    B: Body,
    B::Error: Into<Failure>,
{
    type Data = B::Data;
    type Error = Failure;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, Failure>>> {
        let mut this = self.project();
        let frame = ready!(this.inner.as_mut().poll_frame(cx));
        let Some(Watched { record, watch }) = this.watched else {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        };
        Poll::Ready(match frame {
            Some(Ok(frame)) => {
                let output = watch.has_answered() || frame.data_ref().is_some_and(Buf::has_remaining);
                watch.look(record.as_ref(), output);
                Watched::settle(this.watched, this.inner.is_end_stream());
                Some(Ok(frame))
            }
            Some(Err(error)) => {
                // Output may have begun and the error have come with the same bytes.
                watch.look(record.as_ref(), watch.has_answered());
                let failure = watch.failed(error.into());
                *this.watched = None;
                Some(Err(failure))
            }
            None => {
                watch.look(record.as_ref(), watch.has_answered());
                Watched::settle(this.watched, true);
                None
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B> fmt::Debug for CircuitBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitBody").field("watched", &self.watched.is_some()).finish_non_exhaustive()
    }
}
