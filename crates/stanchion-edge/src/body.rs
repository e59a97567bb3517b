use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use stanchion_core::{Dialect, Failure, Framing, StreamRecord};
use stanchion_wire::render;

use crate::live::Live;

pin_project! {
    /// The body of [`Edge`](crate::Edge): a failure within it becomes the dialect's in-band error, and then it ends.
    ///
    /// Where the dialect has no such thing (a whole document that broke off), the body fails: the connection is cut,
    /// and the client knows.
    ///
    /// `B` is the body of the reply. `F` is the future of the service within: with a heartbeat, the body waits for the
    /// reply itself. Then, and where the client gets control events, all of it lies in one box; otherwise there is
    /// none.
    pub struct EdgeBody<F, B> {
        #[pin]
        inner: Inner<F, B>,
    }
}

pin_project! {
    #[project = InnerProjection]
    enum Inner<F, B> {
        Whole { bytes: Bytes },
        Streamed {
            #[pin]
            body: B,
            dialect: Dialect,
            framing: Option<Framing>,
            record: Option<StreamRecord>,
        },
        Live { live: Pin<Box<Live<F, B>>> },
    }
}

impl<F, B> fmt::Debug for EdgeBody<F, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EdgeBody").finish_non_exhaustive()
    }
}

impl<F, B> EdgeBody<F, B> {
    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self { inner: Inner::Whole { bytes } }
    }

    pub(crate) fn streamed(body: B, dialect: Dialect, framing: Option<Framing>, record: Option<StreamRecord>) -> Self {
        Self { inner: Inner::Streamed { body, dialect, framing, record } }
    }

    pub(crate) fn live(live: Pin<Box<Live<F, B>>>) -> Self {
        Self { inner: Inner::Live { live } }
    }
}

impl<F, B, E> Body for EdgeBody<F, B>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Into<Failure>,
    B: Body<Data = Bytes>,
    B::Error: Into<Failure>,
{
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let mut inner = self.project().inner;
        match inner.as_mut().project() {
            InnerProjection::Whole { bytes } => {
                let bytes = std::mem::take(bytes);
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            InnerProjection::Streamed { body, dialect, framing, record } => {
                let failure = match ready!(body.poll_frame(cx)) {
                    Some(Ok(frame)) => return Poll::Ready(Some(Ok(frame))),
                    Some(Err(error)) => error.into(),
                    None => return Poll::Ready(None),
                };
                let sequence = record.as_ref().map_or(0, StreamRecord::frames);
                let told = framing.and_then(|framing| render::in_band(*dialect, framing, &failure, sequence));
                // Dropped at once: nothing more is wanted of the provider.
                inner.set(Inner::Whole { bytes: Bytes::new() });
                Poll::Ready(Some(match told {
                    Some(error) => Ok(Frame::data(error)),
                    None => Err(failure),
                }))
            }
            InnerProjection::Live { live } => live.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            Inner::Whole { bytes } => bytes.is_empty(),
            Inner::Streamed { body, .. } => body.is_end_stream(),
            Inner::Live { live } => live.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Whole { bytes } => SizeHint::with_exact(bytes.len() as u64),
            Inner::Streamed { body, framing, .. } => {
                let hint = body.size_hint();
                if matches!(framing, None | Some(Framing::Document)) {
                    return hint;
                }
                // An error may follow.
                let mut open = SizeHint::new();
                open.set_lower(hint.lower());
                open
            }
            Inner::Live { live } => live.size_hint(),
        }
    }
}
