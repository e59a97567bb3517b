//! What happened, in lines that a person can read.

use std::sync::{Arc, Mutex, PoisonError};

use stanchion::core::{AttemptPhase, Event, RetryPhase, StallPhase};
use stanchion_faults::client::Reply;
use tokio::time::Instant;

/// Collects the events of one request after another.
#[derive(Debug, Clone, Default)]
pub(super) struct Timeline(Arc<Mutex<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    began: Option<Instant>,
    lines: Vec<String>,
}

impl Timeline {
    /// A new request begins.
    pub(super) fn start(&self) {
        *self.lock() = Lines { began: Some(Instant::now()), lines: Vec::new() };
    }

    pub(super) fn note(&self, event: &Event) {
        let Some(text) = describe(event) else { return };
        let mut lines = self.lock();
        let at = lines.began.map_or(0.0, |began| began.elapsed().as_secs_f64());
        lines.lines.push(format!("{at:>6.2}s  {text}"));
    }

    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().lines)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn describe(event: &Event) -> Option<String> {
    Some(match event {
        Event::ProviderAttempt(attempt) => match attempt.phase {
            AttemptPhase::Started => format!("attempt {} at {}", attempt.attempt, attempt.candidate),
            AttemptPhase::Committed => {
                "commit: the first output is at hand, from here on nothing is replayed".to_owned()
            }
            AttemptPhase::Failed => {
                let what = attempt.failure.map_or("it failed", |kind| kind.summary());
                let status = attempt.status_code.map(|status| format!(" (HTTP {status})")).unwrap_or_default();
                format!("failed: {what}{status}")
            }
            _ => return None,
        },
        Event::ProviderRetry(retry) => match retry.phase {
            RetryPhase::Scheduled => format!(
                "retry {} of {} in {:.2} s",
                retry.attempt,
                retry.max_retries,
                retry.delay.unwrap_or_default().as_secs_f64()
            ),
            RetryPhase::Recovered => "recovered".to_owned(),
            RetryPhase::Exhausted => "no further retry here".to_owned(),
            _ => return None,
        },
        Event::ProviderStall(stall) => match stall.phase {
            StallPhase::Detected => format!("stall: no progress for {:.1} s", stall.duration.as_secs_f64()),
            StallPhase::Recovered => format!("progress again after {:.1} s", stall.duration.as_secs_f64()),
        },
        Event::ModelFallback(fallback) => format!("fallback: {} takes over from {}", fallback.to, fallback.from),
        Event::StreamFrame(frame) => format!("a frame of {} bytes is broken", frame.bytes),
        Event::CommitHold(hold) => format!("{} bytes are too much to hold back", hold.bytes),
        _ => return None,
    })
}

/// What the client saw.
pub(super) fn outcome(reply: &Reply) -> String {
    let at = reply.elapsed().as_secs_f64();
    let shown = if reply.text.is_empty() { String::new() } else { format!(" {:?}", reply.text) };
    let error =
        reply.error.as_ref().and_then(|error| error.get("message")).and_then(serde_json::Value::as_str).unwrap_or("");
    let status = reply.status.map_or_else(|| "no reply".to_owned(), |status| format!("HTTP {status}"));
    if reply.error.is_none() {
        format!("{at:>6.2}s  -> {status}{shown}")
    } else if shown.is_empty() {
        format!("{at:>6.2}s  -> {status}: {error}")
    } else {
        format!("{at:>6.2}s  -> {status}{shown}, then an error: {error}")
    }
}
