//! Collecting a body within a bound.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use http_body::Body;

/// What has come of a body so far. A body of one piece is not copied.
#[derive(Default)]
pub(crate) struct Collected {
    first: Bytes,
    rest: BytesMut,
}

/// Why a body could not be collected.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CollectError {
    TooLarge,
    /// The other side broke off.
    Broken,
    /// Nothing more came for too long.
    Stalled,
    /// The whole of it did not come in time.
    Slow,
}

impl Collected {
    /// Collects on. Nothing beyond `limit` bytes is ever held.
    pub(crate) fn poll<B>(
        &mut self,
        mut body: Pin<&mut B>,
        limit: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Bytes, CollectError>>
    where
        B: Body,
        B::Data: Into<Bytes>,
    {
        if body.size_hint().lower() > limit.saturating_sub(self.len()) as u64 {
            return Poll::Ready(Err(CollectError::TooLarge));
        }
        loop {
            match ready!(body.as_mut().poll_frame(cx)) {
                None => return Poll::Ready(Ok(self.take())),
                Some(Err(_)) => return Poll::Ready(Err(CollectError::Broken)),
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    let data = data.into();
                    if self.len() + data.len() > limit {
                        return Poll::Ready(Err(CollectError::TooLarge));
                    }
                    self.push(data);
                }
            }
        }
    }

    /// How many bytes have come.
    pub(crate) fn len(&self) -> usize {
        self.first.len() + self.rest.len()
    }

    pub(crate) fn push(&mut self, data: Bytes) {
        if self.len() == 0 {
            self.first = data;
            return;
        }
        if self.rest.is_empty() {
            self.rest.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.rest.extend_from_slice(&data);
    }

    pub(crate) fn take(&mut self) -> Bytes {
        if self.rest.is_empty() { std::mem::take(&mut self.first) } else { self.rest.split().freeze() }
    }
}
