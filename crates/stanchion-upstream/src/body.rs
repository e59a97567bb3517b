use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use stanchion_core::{Failure, Phase};

use crate::{
    decode::{Coding, Decoded},
    future::Stamp,
};

pin_project! {
    /// The body of a provider's reply, decoded. Dropping it ends the exchange.
    ///
    /// Its failures carry the candidate's name and the number of attempts. Their phase is [`Phase::BeforeOutput`]: this
    /// body does not look at what passes, and a layer that does sets the phase anew.
    pub struct UpstreamBody<B> {
        #[pin]
        decoded: Decoded<B>,
        stamp: Stamp,
    }
}

impl<B> UpstreamBody<B> {
    pub(crate) fn new(body: B, coding: Coding, stamp: Stamp) -> Self {
        Self { decoded: Decoded::new(body, coding), stamp }
    }
}

impl<B> Body for UpstreamBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Failure>,
{
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let this = self.project();
        this.decoded.poll_frame(cx).map_err(|failure| {
            let phase = failure.phase().max(Phase::BeforeOutput);
            this.stamp.on(failure.with_phase(phase))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.decoded.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.decoded.size_hint()
    }
}

impl<B> fmt::Debug for UpstreamBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamBody").finish_non_exhaustive()
    }
}
