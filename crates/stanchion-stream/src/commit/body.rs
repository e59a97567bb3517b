use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    task::{Context as TaskContext, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use stanchion_core::{Failure, Phase};

use super::{future::tell_failed, service::AttemptInfo};

/// The body of [`Commit`](super::Commit): what was held back, then the rest as it comes.
pub struct CommitBody<B> {
    held: VecDeque<Frame<Bytes>>,
    /// Boxed because it was polled before it moved here; so it may be any body, and moves through the layers outside for the price of a pointer.
    inner: Pin<Box<B>>,
    info: AttemptInfo,
    /// The inner body has said that it is over.
    ended: bool,
}

impl<B> CommitBody<B> {
    pub(super) fn new(held: VecDeque<Frame<Bytes>>, inner: Pin<Box<B>>, info: AttemptInfo, ended: bool) -> Self {
        Self { held, inner, info, ended }
    }
}

impl<B> fmt::Debug for CommitBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommitBody")
            .field("held_frames", &self.held.len())
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl<B> Body for CommitBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Failure>,
{
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let this = &mut *self;
        if let Some(frame) = this.held.pop_front() {
            return Poll::Ready(Some(Ok(frame)));
        }
        if this.ended {
            return Poll::Ready(None);
        }
        this.inner.as_mut().poll_frame(cx).map(|frame| match frame {
            Some(Ok(frame)) => Some(Ok(frame)),
            Some(Err(error)) => {
                this.ended = true;
                // What fails from here on was preceded by output: a fact, not a value to be judged.
                let failure = this.info.stamp(error.into()).with_phase(Phase::AfterOutput);
                tell_failed(&this.info, &failure);
                Some(Err(failure))
            }
            None => {
                this.ended = true;
                None
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_empty() && (self.ended || self.inner.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let held: u64 = self.held.iter().filter_map(Frame::data_ref).map(|data| data.len() as u64).sum();
        let inner = if self.ended { SizeHint::with_exact(0) } else { self.inner.size_hint() };
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower() + held);
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper + held);
        }
        hint
    }
}
