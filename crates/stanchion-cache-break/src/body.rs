use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use stanchion_core::Failure;

use crate::watch::Watch;

pin_project! {
    /// The body of [`CacheBreak`](crate::CacheBreak): the inner one, watched until its usage is known.
    pub struct CacheBreakBody<B> {
        #[pin]
        inner: B,
        // Judged when it is dropped: with the end, an error, or this body.
        watch: Option<Box<Watch>>,
    }
}

impl<B: Body> CacheBreakBody<B> {
    pub(crate) fn new(inner: B, watch: Option<Box<Watch>>) -> Self {
        let watch = watch.filter(|_| !inner.is_end_stream());
        Self { inner, watch }
    }
}

impl<B> Body for CacheBreakBody<B>
where
    B: Body,
    B::Error: Into<Failure>,
{
    type Data = B::Data;
    type Error = Failure;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, Failure>>> {
        let mut this = self.project();
        let frame = ready!(this.inner.as_mut().poll_frame(cx));
        if let Some(watch) = this.watch {
            // With the end marker, not after it: a client may leave once it has that.
            let over = !matches!(frame, Some(Ok(_))) || watch.is_over() || this.inner.is_end_stream();
            if over {
                *this.watch = None;
            }
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B> fmt::Debug for CacheBreakBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheBreakBody").field("watched", &self.watch.is_some()).finish_non_exhaustive()
    }
}
