//! Where a request stands: what its events mean, as plain data. No clock of its own.

use std::{sync::Arc, time::Duration};

use http::StatusCode;
use serde::Serialize;
use stanchion_core::{
    AdmissionPhase, AttemptPhase, CircuitPhase, Ending, Event, FailureKind, Phase, ProviderAttempt, RetryPhase,
    RotationReason, Selected, StallPhase, StreamRecord,
};
use tokio::time::Instant;

use crate::{
    AttemptOutcome, AttemptRecord, CacheBreakRecord, RequestBegan, RequestRecord, UsageRecord, Waits,
    record::{End, milliseconds},
    request::cut,
};

/// What a request is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RequestPhase {
    /// It waits for its turn.
    Queued,
    /// It waits before another attempt: see [`Standing::wait`].
    Waiting,
    /// The provider works on it, and there is no output yet.
    FirstOutputPending,
    /// Output passes.
    Streaming,
    /// The provider has shown no progress for a while.
    Stalled,
}

impl RequestPhase {
    /// Every phase, in the order in which a request may come to them.
    pub const ALL: [Self; 5] = [Self::Queued, Self::Waiting, Self::FirstOutputPending, Self::Streaming, Self::Stalled];

    /// The name used in snapshots and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Waiting => "waiting",
            Self::FirstOutputPending => "first_output_pending",
            Self::Streaming => "streaming",
            Self::Stalled => "stalled",
        }
    }
}

/// What a request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Wait {
    /// Its turn.
    Queue,
    /// The time of its retry.
    Backoff,
    /// A circuit.
    Circuit,
}

/// Where a request stands. See [`InFlight::standing`](crate::InFlight::standing).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// What it is doing.
    pub phase: RequestPhase,
    /// What it waits for; absent if it does not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
    /// For how long it has done so.
    #[serde(rename = "phase_ms", serialize_with = "milliseconds")]
    pub phase_age: Duration,
    /// The candidate it is for just now, as `provider/model`; absent before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate: Option<Arc<str>>,
    /// The number of the last attempt, from 1; 0 before the first.
    pub attempt: u32,
    /// How long after the request its reply's first output came; absent before.
    #[serde(
        rename = "first_output_ms",
        skip_serializing_if = "Option::is_none",
        serialize_with = "crate::record::optional_milliseconds"
    )]
    pub first_output: Option<Duration>,
}

/// What there is to tell of a reply's beginning.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    pub(crate) first_chunk: Option<Duration>,
    pub(crate) first_output: Option<Duration>,
}

/// All that is known of a request after it came.
#[derive(Debug)]
pub(crate) struct Progress {
    started: Instant,
    phase: RequestPhase,
    wait: Option<Wait>,
    since: Instant,
    waits: Waits,
    candidate: Option<Arc<str>>,
    model: Option<Arc<str>>,
    attempt: u32,
    attempts: Vec<AttemptRecord>,
    attempts_omitted: u32,
    /// When an attempt came to its first output, as it was told.
    committed: Option<Instant>,
    first_chunk: Option<Duration>,
    first_output: Option<Duration>,
    status: Option<u16>,
    replied: bool,
    retries: u32,
    fallbacks: u32,
    rotations: u32,
    stalls: u32,
    usage: Option<UsageRecord>,
    cache_break: Option<CacheBreakRecord>,
    ended: bool,
}

impl Progress {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            started: now,
            phase: RequestPhase::FirstOutputPending,
            wait: None,
            since: now,
            waits: Waits::default(),
            candidate: None,
            model: None,
            attempt: 0,
            attempts: Vec::new(),
            attempts_omitted: 0,
            committed: None,
            first_chunk: None,
            first_output: None,
            status: None,
            replied: false,
            retries: 0,
            fallbacks: 0,
            rotations: 0,
            stalls: 0,
            usage: None,
            cache_break: None,
            ended: false,
        }
    }

    pub(crate) fn standing(&self, now: Instant) -> Standing {
        Standing {
            phase: self.phase,
            wait: self.wait,
            phase_age: now.saturating_duration_since(self.since),
            candidate: self.candidate.clone(),
            attempt: self.attempt,
            first_output: self.first_output,
        }
    }

    /// Takes an event down. `false` if the request is over: then it concerns nobody any more.
    pub(crate) fn observe(&mut self, event: &Event, now: Instant) -> bool {
        if self.ended {
            return false;
        }
        match event {
            Event::ProviderAttempt(event) => self.attempt(event, now),
            Event::ProviderRetry(event) => match event.phase {
                RetryPhase::Scheduled | RetryPhase::Waiting => self.wait_for(Wait::Backoff, now),
                RetryPhase::Attempt => {
                    self.retries += 1;
                    self.go_on(now);
                }
                RetryPhase::Exhausted => self.go_on(now),
                _ => {}
            },
            Event::ProviderCircuit(event) => match event.phase {
                CircuitPhase::Waiting => self.wait_for(Wait::Circuit, now),
                CircuitPhase::Probe | CircuitPhase::Rejected => self.go_on(now),
                _ => {}
            },
            Event::ProviderAdmission(event) => match event.phase {
                AdmissionPhase::Queued => self.wait_for(Wait::Queue, now),
                _ => self.go_on(now),
            },
            Event::ProviderStall(event) => match event.phase {
                StallPhase::Detected => {
                    self.stalls += 1;
                    self.enter(RequestPhase::Stalled, None, now);
                }
                StallPhase::Recovered if event.output_started => self.enter(RequestPhase::Streaming, None, now),
                StallPhase::Recovered => self.enter(RequestPhase::FirstOutputPending, None, now),
            },
            Event::ModelFallback(event) => {
                self.fallbacks += 1;
                self.candidate = Some(event.to.clone());
                self.go_on(now);
            }
            Event::CredentialRotation(event) => self.rotations += u32::from(event.reason != RotationReason::Initial),
            Event::PromptCacheBreak(event) => {
                self.cache_break = Some(CacheBreakRecord {
                    reason: event.reason,
                    lost_tokens: event.lost_tokens,
                    lost_nanodollars: event.lost_nanodollars,
                });
            }
            Event::Usage(event) => {
                let (quality, tokens) = (event.quality, event.tokens);
                let used = UsageRecord { quality, tokens, cost_nanodollars: event.cost_nanodollars };
                self.usage = Some(self.usage.map_or(used, |before| before.and(&used)));
                self.model = event.model.as_ref().map(cut).or(self.model.take());
                self.candidate = self.candidate.take().or_else(|| event.candidate.clone());
            }
            _ => {}
        }
        true
    }

    fn enter(&mut self, phase: RequestPhase, wait: Option<Wait>, now: Instant) {
        if (phase, wait) == (self.phase, self.wait) {
            return;
        }
        self.leave_wait(now);
        (self.phase, self.wait, self.since) = (phase, wait, now);
    }

    fn leave_wait(&mut self, now: Instant) {
        let waited = now.saturating_duration_since(self.since);
        match self.wait.take() {
            Some(Wait::Queue) => self.waits.queue += waited,
            Some(Wait::Backoff) => self.waits.backoff += waited,
            Some(Wait::Circuit) => self.waits.circuit += waited,
            None => {}
        }
    }

    fn wait_for(&mut self, wait: Wait, now: Instant) {
        let phase = if wait == Wait::Queue { RequestPhase::Queued } else { RequestPhase::Waiting };
        self.enter(phase, Some(wait), now);
    }

    /// A wait is over, or an attempt.
    fn go_on(&mut self, now: Instant) {
        self.enter(RequestPhase::FirstOutputPending, None, now);
    }

    fn attempt(&mut self, event: &ProviderAttempt, now: Instant) {
        match event.phase {
            AttemptPhase::Started => {
                self.go_on(now);
                self.attempt = event.attempt;
                self.candidate = Some(event.candidate.clone());
                let attempt = AttemptRecord {
                    number: event.attempt,
                    candidate: event.candidate.clone(),
                    span_id: None,
                    started_after: now.saturating_duration_since(self.started),
                    first_output: None,
                    duration: None,
                    outcome: AttemptOutcome::Abandoned,
                    failure: None,
                    failed_in: None,
                    status_code: None,
                };
                let after = attempt.started_after;
                if let Some(given_up) = self.attempts.last_mut().filter(|attempt| attempt.duration.is_none()) {
                    given_up.duration = Some(after.saturating_sub(given_up.started_after));
                }
                if self.attempts.len() == RequestRecord::MAX_ATTEMPTS {
                    // The last one is the one that matters most.
                    self.attempts.pop();
                    self.attempts_omitted += 1;
                }
                self.attempts.push(attempt);
            }
            AttemptPhase::Committed => {
                self.enter(RequestPhase::Streaming, None, now);
                self.committed = Some(now);
                let after = now.saturating_duration_since(self.started);
                if let Some(attempt) = self.attempt_mut(event.attempt) {
                    attempt.outcome = AttemptOutcome::Answered;
                    attempt.first_output = Some(after.saturating_sub(attempt.started_after));
                }
            }
            AttemptPhase::Failed => {
                self.go_on(now);
                let after = now.saturating_duration_since(self.started);
                if let Some(attempt) = self.attempt_mut(event.attempt) {
                    attempt.outcome = AttemptOutcome::Failed;
                    attempt.duration = Some(after.saturating_sub(attempt.started_after));
                    attempt.failure = event.failure;
                    attempt.failed_in = event.failed_in;
                    attempt.status_code = event.status_code;
                }
            }
            _ => {}
        }
    }

    fn attempt_mut(&mut self, number: u32) -> Option<&mut AttemptRecord> {
        self.attempts.last_mut().filter(|attempt| attempt.number == number)
    }

    pub(crate) fn replied(&mut self, status: StatusCode, selected: Option<&Selected>) {
        self.replied = true;
        self.status = Some(status.as_u16());
        if let Some(Selected { candidate, .. }) = selected {
            self.candidate = Some(candidate.name().clone());
            self.model = candidate.model().cloned().or(self.model.take());
        }
    }

    /// What is new since the last time, and whether nothing more can be.
    pub(crate) fn passed(&mut self, record: Option<&StreamRecord>, chunk: bool, now: Instant) -> (News, bool) {
        let mut news = News::default();
        if self.ended {
            return (news, true);
        }
        let after = |at: Instant| at.saturating_duration_since(self.started);
        if self.first_chunk.is_none() {
            let at = record.and_then(StreamRecord::begun_at).or(chunk.then_some(now));
            news.first_chunk = at.map(after);
        }
        if self.first_output.is_none() {
            // Who reads the stream knows better than who lets it go.
            news.first_output = match record {
                Some(record) => record.output_at(),
                None => self.committed,
            }
            .map(after);
        }
        self.first_chunk = self.first_chunk.or(news.first_chunk);
        if let Some(after) = news.first_output {
            self.first_output = Some(after);
            if let Some(attempt) = self.attempts.last_mut() {
                attempt.first_output = Some(after.saturating_sub(attempt.started_after));
            }
        }
        (news, self.first_chunk.is_some() && self.first_output.is_some())
    }

    pub(crate) fn end(
        &mut self,
        end: End<'_>,
        bytes: u64,
        began: &RequestBegan,
        now: Instant,
    ) -> Option<RequestRecord> {
        if std::mem::replace(&mut self.ended, true) {
            return None;
        }
        self.leave_wait(now);
        let duration = now.saturating_duration_since(self.started);
        let (ending, failure, failed_in) = self.ending(&end);
        if let End::Failed(failure) = end {
            self.status = failure.status().map(|status| status.as_u16()).or(self.status);
            self.candidate = failure.candidate().cloned().or(self.candidate.take());
        }
        if let Some(last) = self.attempts.last_mut().filter(|attempt| attempt.duration.is_none()) {
            last.duration = Some(duration.saturating_sub(last.started_after));
            if ending == Ending::Complete {
                last.outcome = AttemptOutcome::Answered;
            }
        }
        for attempt in &mut self.attempts {
            attempt.span_id = began.trace.map(|trace| trace.attempt(attempt.number));
        }
        Some(RequestRecord {
            began: began.clone(),
            ending,
            failure,
            failed_in,
            status_code: self.status,
            replied: self.replied,
            candidate: self.candidate.take(),
            provider_model: self.model.take(),
            duration,
            first_chunk: self.first_chunk,
            first_output: self.first_output,
            waits: self.waits,
            retries: self.retries,
            fallbacks: self.fallbacks,
            rotations: self.rotations,
            stalls: self.stalls,
            bytes,
            usage: self.usage,
            cache_break: self.cache_break,
            attempts: std::mem::take(&mut self.attempts),
            attempts_omitted: self.attempts_omitted,
        })
    }

    fn ending(&self, end: &End<'_>) -> (Ending, Option<FailureKind>, Option<Phase>) {
        match end {
            End::Failed(failure) => {
                let ending = match failure.kind() {
                    FailureKind::Truncated => Ending::Truncated,
                    FailureKind::Cancelled => Ending::Cancelled,
                    _ => Ending::Failed,
                };
                (ending, Some(failure.kind()), Some(failure.phase()))
            }
            End::Over(record) | End::Dropped(record) => {
                if let Some(kind) = record.and_then(StreamRecord::error) {
                    return (Ending::Failed, Some(kind), Some(Phase::AfterOutput));
                }
                let dropped = matches!(end, End::Dropped(_));
                let ending = match record {
                    Some(record) if record.ending().is_some() => record.ending().expect("just asked"),
                    _ if dropped => Ending::Cancelled,
                    _ if self.status.is_some_and(|status| !(200..300).contains(&status)) => Ending::Failed,
                    _ => Ending::Complete,
                };
                (ending, None, None)
            }
        }
    }
}
