use std::{
    pin::Pin,
    task::{Context, Poll},
};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// A body that keeps something until it is dropped: its request's place among those of its client, or of its
    /// connection.
    #[derive(Debug)]
    pub struct Held<B, T> {
        #[pin]
        body: B,
        kept: T,
    }
}

impl<B, T> Held<B, T> {
    pub(super) fn new(body: B, kept: T) -> Self {
        Self { body, kept }
    }
}

impl<B: Body, T> Body for Held<B, T> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.project().body.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
