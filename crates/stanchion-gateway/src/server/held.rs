use std::{
    pin::Pin,
    task::{Context, Poll},
};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::keys::Running;

pin_project! {
    /// A body that holds its request's place among those of its client until it is dropped.
    #[derive(Debug)]
    pub struct Held<B> {
        #[pin]
        body: B,
        running: Option<Running>,
    }
}

impl<B> Held<B> {
    pub(super) fn new(body: B, running: Option<Running>) -> Self {
        Self { body, running }
    }
}

impl<B: Body> Body for Held<B> {
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
