//! The clocks, as data: pure, told the time.

use std::time::Duration;

use stanchion_core::FailureKind;
use tokio::time::Instant;

use super::AttemptLimits;

/// How far the stream has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// No real output yet.
    BeforeOutput,
    /// Output has begun.
    Streaming,
    /// The model has finished: nothing but usage and the end marker may follow.
    Finished,
}

/// What a clock that has run out means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expiry {
    Fail(FailureKind, Duration),
    /// Not a byte for so long: the connection is taken for dead.
    Dead(Duration),
    /// The grace after a finish is over: the stream is complete.
    End,
}

/// The clocks of one attempt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watch {
    limits: AttemptLimits,
    started: Instant,
    /// How long the consumer has waited for progress, without the wait that is going on.
    waited: Duration,
    waiting_since: Option<Instant>,
    first_output: Option<Duration>,
    streams: bool,
    /// The head has come.
    answered: bool,
    stalls: u32,
    /// The silence that goes on has been told.
    stall_told: bool,
}

/// A stall to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stall {
    pub(super) count: u32,
    pub(super) duration: Duration,
    pub(super) warning_after: Duration,
    pub(super) timeout: Option<Duration>,
}

impl Watch {
    /// The clocks of an attempt whose reply streams or not, for a prompt of about so many tokens.
    pub(super) fn new(limits: AttemptLimits, started: Instant, streams: bool, tokens: usize) -> Self {
        Self {
            limits,
            started,
            waited: Duration::ZERO,
            waiting_since: None,
            first_output: limits.first_output_of(streams, tokens),
            streams,
            answered: false,
            stalls: 0,
            stall_told: false,
        }
    }

    /// How long there has been no progress, of the time that the consumer waited.
    fn silence(&self, now: Instant) -> Duration {
        self.waited + self.waiting_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// When the silence that goes on is to be told as a stall; `None` if it was, or is not to be.
    pub(super) fn stall_due(&self, stage: Stage) -> Option<Instant> {
        if self.stall_told || stage == Stage::Finished {
            return None;
        }
        self.since_wait(self.limits.stall_warning).map(|(at, _)| at)
    }

    /// The silence is told now.
    pub(super) fn stalled(&mut self, now: Instant) -> Stall {
        self.stalls += 1;
        self.stall_told = true;
        self.stall(now)
    }

    /// Whether the silence that goes on has been told as a stall.
    pub(super) fn has_told_stall(&self) -> bool {
        self.stall_told
    }

    fn stall(&self, now: Instant) -> Stall {
        let warning_after = self.limits.stall_warning.unwrap_or_default();
        Stall {
            count: self.stalls,
            duration: self.silence(now).max(warning_after),
            warning_after,
            timeout: self.limits.idle,
        }
    }

    /// Nothing came: the consumer waits from now on.
    pub(super) fn waits(&mut self, now: Instant) {
        self.waiting_since.get_or_insert(now);
    }

    /// Whether a wait goes on.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting_since.is_some()
    }

    /// A frame came that shows progress: the idle clock starts anew. Returns the stall that this ends, if one was told.
    pub(super) fn progressed(&mut self, now: impl FnOnce() -> Instant) -> Option<Stall> {
        let ended = std::mem::replace(&mut self.stall_told, false).then(|| self.stall(now()));
        self.waited = Duration::ZERO;
        self.waiting_since = None;
        ended
    }

    /// The head came, which is no progress, but the first byte: from now on others have to follow.
    pub(super) fn answered(&mut self, now: Instant) {
        self.interrupted(now);
        self.answered = true;
    }

    /// A frame came that shows no progress: the wait was interrupted, not ended.
    pub(super) fn interrupted(&mut self, now: Instant) {
        if let Some(since) = self.waiting_since.take() {
            self.waited += now.saturating_duration_since(since);
        }
    }

    /// The clock that will run out first, and when. `None` if no clock is on.
    pub(super) fn deadline(&self, stage: Stage) -> Option<(Instant, Expiry)> {
        let total = self.since_start(self.limits.total, FailureKind::TotalTimeout);
        let other = match stage {
            Stage::BeforeOutput if self.first_output.is_some() => {
                self.since_start(self.first_output, FailureKind::FirstOutputTimeout)
            }
            Stage::BeforeOutput | Stage::Streaming => {
                self.since_wait(self.limits.idle).map(|(at, limit)| (at, Expiry::Fail(FailureKind::IdleTimeout, limit)))
            }
            Stage::Finished => self.since_wait(Some(self.limits.grace)).map(|(at, _)| (at, Expiry::End)),
        };
        earlier(earlier(self.dead(stage), other), total)
    }

    /// Every frame ends a wait, so that the wait that goes on is the silence on the wire. After a finish it is an end, not a death.
    fn dead(&self, stage: Stage) -> Option<(Instant, Expiry)> {
        let limit = self.limits.liveness.filter(|_| self.streams && self.answered && stage != Stage::Finished)?;
        Some((self.waiting_since?.checked_add(limit)?, Expiry::Dead(limit)))
    }

    fn since_start(&self, limit: Option<Duration>, kind: FailureKind) -> Option<(Instant, Expiry)> {
        let limit = limit?;
        Some((self.started.checked_add(limit)?, Expiry::Fail(kind, limit)))
    }

    fn since_wait(&self, limit: Option<Duration>) -> Option<(Instant, Duration)> {
        let limit = limit?;
        Some((self.waiting_since?.checked_add(limit.saturating_sub(self.waited))?, limit))
    }

    /// When the attempt must have ended, whatever comes.
    pub(super) fn total_deadline(&self) -> Option<(Instant, Expiry)> {
        self.since_start(self.limits.total, FailureKind::TotalTimeout)
    }
}

/// On a tie the narrower clock is the cause: a silent provider must not pass for a slow one, which would be asked again.
fn earlier(narrow: Option<(Instant, Expiry)>, wide: Option<(Instant, Expiry)>) -> Option<(Instant, Expiry)> {
    match (narrow, wide) {
        (Some(narrow), Some(wide)) => Some(if narrow.0 <= wide.0 { narrow } else { wide }),
        (narrow, wide) => narrow.or(wide),
    }
}
