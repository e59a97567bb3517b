use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use stanchion_core::{Failure, Phase, StallPhase, StreamRecord};
use tokio::{task::coop, time::Instant};

use super::{
    clocks::{Armed, Clocks},
    future::{failure, poll_clocks},
    watch::{Expiry, Stage},
};

/// How many frames in a row are let through before the total clock is looked at: reading the time costs more than passing a frame.
const FRAMES_PER_LOOK: u32 = 32;

pin_project! {
    /// The body of [`Attempt`](super::Attempt).
    #[project = AttemptBodyProjection]
    #[derive(Debug)]
    pub struct AttemptBody<B> {
        // Dropped the moment a clock has run out, so that the exchange ends at once.
        #[pin]
        inner: Option<B>,
        clocks: Pin<Box<Clocks>>,
    }
}

impl<B> AttemptBody<B> {
    pub(super) const fn new(inner: B, clocks: Pin<Box<Clocks>>) -> Self {
        Self { inner: Some(inner), clocks }
    }
}

/// Without a record every frame is output.
fn stage(record: Option<&StreamRecord>, frames: u64) -> Stage {
    match record {
        None if frames == 0 => Stage::BeforeOutput,
        None => Stage::Streaming,
        Some(record) if record.is_over() => Stage::Finished,
        Some(record) if record.output_started() => Stage::Streaming,
        Some(_) => Stage::BeforeOutput,
    }
}

impl<B> Body for AttemptBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Failure>,
{
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let AttemptBodyProjection { inner: mut body, clocks } = self.project();
        let Some(inner) = body.as_mut().as_pin_mut() else { return Poll::Ready(None) };
        let mut this = clocks.as_mut().project();
        let stage_of = |frames: u64| stage(this.record.as_ref(), frames);

        // Data before clocks: what has come has come in time.
        if let Poll::Ready(frame) = inner.poll_frame(cx) {
            let Some(Ok(_)) = &frame else {
                body.set(None);
                this.sleep.set(None);
                // An end is an answer to the silence before it; an error is not.
                if frame.is_none()
                    && let Some(stall) = this.watch.progressed(Instant::now)
                {
                    this.about.tell(StallPhase::Recovered, stall, *this.told);
                }
                return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
            };
            *this.frames += 1;
            let progress = this.record.as_ref().map_or(*this.frames, StreamRecord::progress);
            if progress != *this.progress {
                *this.progress = progress;
                if let Some(stall) = this.watch.progressed(Instant::now) {
                    this.about.tell(StallPhase::Recovered, stall, *this.told);
                }
                *this.told = stage_of(*this.frames);
            } else if this.watch.is_waiting() {
                this.watch.interrupted(Instant::now());
            }
            *this.unlooked += 1;
            if *this.unlooked >= FRAMES_PER_LOOK {
                *this.unlooked = 0;
                if let Some((at, expiry)) = this.watch.total_deadline()
                    && Instant::now() >= at
                {
                    let phase = phase_of(stage_of(*this.frames));
                    body.set(None);
                    this.sleep.set(None);
                    return Poll::Ready(Some(Err(failure(expiry).with_phase(phase))));
                }
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }

        *this.unlooked = 0;
        if !this.watch.is_waiting() {
            this.watch.waits(Instant::now());
        }
        let stage = stage_of(*this.frames);
        let armed = this.armed.as_ref();
        if armed.is_some_and(|armed| armed.still_holds(stage, this.sleep.as_ref().get_ref().as_ref(), cx.waker())) {
            return Poll::Pending;
        }
        let Poll::Ready(expiry) = poll_clocks(this.watch, this.sleep.as_mut(), stage, this.about, cx) else {
            // A task that has spent its turn is not registered with its timer.
            let holds = coop::has_budget_remaining() && !this.watch.has_told_stall();
            *this.armed = holds.then(|| Armed { stage, waker: cx.waker().clone() });
            return Poll::Pending;
        };
        body.set(None);
        this.sleep.set(None);
        Poll::Ready(match expiry {
            Expiry::End => None,
            Expiry::Fail(..) | Expiry::Dead(_) => Some(Err(failure(expiry).with_phase(phase_of(stage)))),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}

fn phase_of(stage: Stage) -> Phase {
    if stage == Stage::BeforeOutput { Phase::BeforeOutput } else { Phase::AfterOutput }
}
