use std::{
    pin::Pin,
    task::{Context as TaskContext, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use stanchion_core::Failure;

use super::reply::Reply;

pin_project! {
    /// The body of [`Observe`](super::Observe).
    #[derive(Debug)]
    pub struct ObserveBody<B> {
        #[pin]
        inner: B,
        reading: Reading,
        trailers: Option<http::HeaderMap>,
        ended: bool,
    }
}

/// Tells the record of a drop: outside of the pinned body, which cannot have a `Drop` of its own.
#[derive(Debug)]
struct Reading(Option<Box<Reply>>);

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(reply) = &mut self.0 {
            reply.dropped();
        }
    }
}

impl<B> ObserveBody<B> {
    pub(super) fn unread(inner: B) -> Self {
        Self { inner, reading: Reading(None), trailers: None, ended: false }
    }

    pub(super) fn read(inner: B, reply: Reply) -> Self {
        Self { inner, reading: Reading(Some(Box::new(reply))), trailers: None, ended: false }
    }
}

impl<B> Body for ObserveBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Failure>,
{
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let mut this = self.project();
        let Some(reply) = &mut this.reading.0 else {
            return this.inner.poll_frame(cx).map_err(Into::into);
        };
        loop {
            if let Some(bytes) = reply.release() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            if let Some(failure) = reply.take_fault() {
                *this.ended = true;
                *this.trailers = None;
                return Poll::Ready(Some(Err(failure)));
            }
            if *this.ended {
                return Poll::Ready(this.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))));
            }
            match ready!(this.inner.as_mut().poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(chunk) => {
                        reply.push(chunk);
                        // Some consumers stop polling once the inner body says that it has ended.
                        if this.inner.is_end_stream() {
                            *this.ended = true;
                            reply.finish();
                        }
                    }
                    Err(other) => *this.trailers = other.into_trailers().ok(),
                },
                Some(Err(error)) => {
                    *this.ended = true;
                    return Poll::Ready(reply.broke(error.into()).map(Err));
                }
                None => {
                    *this.ended = true;
                    reply.finish();
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.reading.0 {
            None => self.inner.is_end_stream(),
            Some(reply) => self.ended && self.trailers.is_none() && !reply.has_more(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let inner = if self.ended { SizeHint::with_exact(0) } else { self.inner.size_hint() };
        let Some(reply) = &self.reading.0 else { return self.inner.size_hint() };
        let mut hint = SizeHint::new();
        // Of a stream frames may be dropped and an error may follow, and an empty body is an error: no length may be promised.
        if !reply.keeps_length() || (!self.ended && inner.exact() == Some(0)) {
            return hint;
        }
        let held = reply.held() as u64;
        hint.set_lower(inner.lower() + held);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + held);
        }
        hint
    }
}
