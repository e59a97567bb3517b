use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use stanchion_core::Failure;

use crate::permit::Permit;

pin_project! {
    /// The body of [`Admission`](crate::Admission): the inner one, with the permit in it. It is given back at the body's
    /// end, at its error, or when it is dropped; once, since then it is gone.
    pub struct AdmissionBody<B> {
        // Dropped before the permit, so that the exchange is over when another may begin. None once it has failed.
        #[pin]
        inner: Option<B>,
        permit: Option<Permit>,
    }
}

impl<B: Body> AdmissionBody<B> {
    pub(crate) fn new(inner: B, permit: Option<Permit>) -> Self {
        let permit = permit.filter(|_| !inner.is_end_stream());
        Self { inner: Some(inner), permit }
    }
}

impl<B> Body for AdmissionBody<B>
where
    B: Body,
    B::Error: Into<Failure>,
{
    type Data = B::Data;
    type Error = Failure;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, Failure>>> {
        let mut this = self.project();
        let Some(mut inner) = this.inner.as_mut().as_pin_mut() else { return Poll::Ready(None) };
        let frame = ready!(inner.as_mut().poll_frame(cx));
        if this.permit.is_some() {
            if matches!(frame, Some(Err(_))) {
                // The exchange may still be open.
                this.inner.set(None);
                *this.permit = None;
            } else if frame.is_none() || inner.is_end_stream() {
                *this.permit = None;
            }
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl<B> fmt::Debug for AdmissionBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionBody").field("holds_permit", &self.permit.is_some()).finish_non_exhaustive()
    }
}
