//! Holding a reply back, and when to let it go.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    task::{Context as TaskContext, Poll, ready},
};

use bytes::Bytes;
use http::response::Parts;
use http_body::{Body, Frame};
use stanchion_core::{
    CommitPolicy, Context, Ending, Event, Failure, FailureKind, HoldEvent, Phase, Retained, StreamRecord,
};
use tokio::time::{Sleep, sleep};

use super::CommitWindow;

/// How many pieces are held as they came.
const AS_THEY_CAME: usize = 4;
/// A later one that is smaller than this, in bytes, is copied: as it came, it holds all memory that its read was given.
const SMALL: usize = 4 * 1024;

pub(super) struct Holding<B> {
    pub(super) head: Parts,
    pub(super) held: VecDeque<Frame<Bytes>>,
    pub(super) body: Pin<Box<B>>,
    record: Option<StreamRecord>,
    held_bytes: usize,
    /// Counts them among those that all requests retain.
    retained: Option<Retained>,
    limits: HoldLimits,
    window: Option<Opened>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct HoldLimits {
    pub(super) policy: CommitPolicy,
    pub(super) window: CommitWindow,
    pub(super) max_hold: usize,
}

/// The window, from the first output on.
#[derive(Debug)]
struct Opened {
    closes: Option<Pin<Box<Sleep>>>,
}

impl<B> fmt::Debug for Holding<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holding").field("held_bytes", &self.held_bytes).finish_non_exhaustive()
    }
}

/// How the holding back ended.
pub(super) enum Held {
    /// The reply may leave; whether its body is over.
    Release {
        ended: bool,
    },
    Fail(Failure),
}

impl<B> Holding<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Failure>,
{
    pub(super) fn new(head: Parts, body: B, limits: HoldLimits, retained: Option<Retained>) -> Self {
        let record = head.extensions.get().cloned();
        Self {
            head,
            held: VecDeque::new(),
            body: Box::pin(body),
            record,
            held_bytes: 0,
            retained,
            limits,
            window: None,
        }
    }

    pub(super) fn poll(&mut self, cx: &mut TaskContext<'_>, context: Option<&Context>) -> Poll<Held> {
        loop {
            // An error in a stream that is still held back was shown to nobody.
            let held_error = (self.limits.policy != CommitPolicy::FirstOutput)
                .then(|| self.record.as_ref().and_then(StreamRecord::failure))
                .flatten();
            if let Some(failure) = held_error {
                return Poll::Ready(Held::Fail(failure.with_phase(Phase::BeforeOutput)));
            }
            if self.may_leave() {
                return Poll::Ready(Held::Release { ended: false });
            }
            if self.held_bytes > self.limits.max_hold {
                let bytes = self.held_bytes as u64;
                Context::emit(context, || Event::CommitHold(HoldEvent { bytes }));
                return Poll::Ready(Held::Release { ended: false });
            }
            let Poll::Ready(frame) = self.body.as_mut().poll_frame(cx) else {
                ready!(self.poll_window(cx));
                return Poll::Ready(Held::Release { ended: false });
            };
            match frame {
                Some(Ok(frame)) => {
                    self.held_bytes += frame.data_ref().map_or(0, Bytes::len);
                    if let Some(retained) = &mut self.retained {
                        retained.set(self.held_bytes as u64);
                    }
                    let many = self.held.len() >= AS_THEY_CAME;
                    self.held.push_back(if many { frame.map_data(compact) } else { frame });
                }
                Some(Err(error)) => return Poll::Ready(Held::Fail(error.into().with_phase(Phase::BeforeOutput))),
                None if self.is_whole() => return Poll::Ready(Held::Release { ended: true }),
                None => {
                    let failure = Failure::new(FailureKind::EmptyReply).with_phase(Phase::BeforeOutput);
                    return Poll::Ready(Held::Fail(failure));
                }
            }
        }
    }

    /// At the end of the body: complete by the dialect's own rule, even if without output: a legal empty answer.
    fn is_whole(&self) -> bool {
        match &self.record {
            Some(record) => record.ending() == Some(Ending::Complete),
            None => self.held_bytes > 0,
        }
    }

    fn may_leave(&mut self) -> bool {
        let HoldLimits { policy, window, .. } = self.limits;
        let (output, terminal, events) = match &self.record {
            Some(record) => {
                let events = (record.progress() + 1).saturating_sub(record.progress_at_output());
                (record.output_started(), record.terminal(), events)
            }
            // Without a record the first byte is output, and every frame is progress.
            None => (self.held_bytes > 0, false, self.held.len() as u64),
        };
        match policy {
            _ if terminal => true,
            _ if !output => false,
            CommitPolicy::FirstOutput => true,
            CommitPolicy::Complete => false,
            CommitPolicy::Window => {
                self.window.get_or_insert_with(|| Opened { closes: window.time.map(|time| Box::pin(sleep(time))) });
                window.events.is_some_and(|limit| events >= limit)
                    || window.bytes.is_some_and(|bytes| self.held_bytes >= bytes)
            }
        }
    }

    /// Ready once the window's time is over.
    fn poll_window(&mut self, cx: &mut TaskContext<'_>) -> Poll<()> {
        match self.window.as_mut().and_then(|opened| opened.closes.as_mut()) {
            Some(closes) => closes.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

/// A piece that is small, in memory of its own.
fn compact(piece: Bytes) -> Bytes {
    if piece.len() < SMALL { Bytes::copy_from_slice(&piece) } else { piece }
}
