use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use stanchion_core::{Failure, StreamRecord};

use crate::lease::Lease;

pin_project! {
    /// The body of [`Credentials`](crate::Credentials): the inner one. As long as it goes on, the credential is in use.
    pub struct CredentialsBody<B> {
        #[pin]
        inner: B,
        // None once it has ended, and where the provider has no pool.
        watched: Option<Watched>,
    }
}

struct Watched {
    record: Option<StreamRecord>,
    lease: Lease,
}

impl<B: Body> CredentialsBody<B> {
    pub(crate) fn unwatched(inner: B) -> Self {
        Self { inner, watched: None }
    }

    pub(crate) fn new(inner: B, record: Option<StreamRecord>, lease: Lease) -> Self {
        let ended = inner.is_end_stream();
        Self { inner, watched: Some(Watched { record, lease }).filter(|_| !ended) }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // An error in the middle of a stream was passed on to the client as a part of it.
        if let Some(failure) = self.record.as_ref().and_then(StreamRecord::failure) {
            self.lease.broke_off(&failure);
        }
    }
}

impl<B> Body for CredentialsBody<B>
where
    B: Body,
    B::Error: Into<Failure>,
{
    type Data = B::Data;
    type Error = Failure;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, Failure>>> {
        let mut this = self.project();
        let frame = ready!(this.inner.as_mut().poll_frame(cx));
        Poll::Ready(match frame {
            Some(Ok(frame)) => {
                if this.inner.is_end_stream() {
                    *this.watched = None;
                }
                Some(Ok(frame))
            }
            Some(Err(error)) => {
                let failure = error.into();
                if let Some(mut watched) = this.watched.take() {
                    // One reply, one lesson.
                    watched.record = None;
                    watched.lease.broke_off(&failure);
                }
                Some(Err(failure))
            }
            None => {
                *this.watched = None;
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

impl<B> fmt::Debug for CredentialsBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialsBody").field("watched", &self.watched.is_some()).finish_non_exhaustive()
    }
}
