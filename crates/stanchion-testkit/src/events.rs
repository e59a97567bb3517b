use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use stanchion_core::{
    CircuitPhase, Context, ContextBuilder, Event, Observer, ProviderCircuit, ProviderRetry, RetryReason,
};
use tokio::time::Instant;

/// Collects the events of requests, and shows them in short.
///
/// The short form names kind, phase and number: `R.scheduled#1~500` is a retry put off by 500 ms,
/// `R.exhausted#2(server_error/503)` the end of retries with its reason and status (and after a `!` the limit that
/// ended them), `C.opened~10000(4/4)` a circuit with its wait, failures and samples, `S.detected#1~10000(output)` the
/// first silence of an attempt and how long it is, once output had begun, `M.fallback a/x>b/x` another candidate,
/// `P.failed#1(overloaded)` a physical attempt.
#[derive(Clone)]
pub struct Events(Arc<Inner>);

struct Inner {
    began: Instant,
    seen: Mutex<Vec<(Instant, Event)>>,
}

impl Events {
    /// An empty collection. Its clock starts now.
    pub fn new() -> Self {
        Self(Arc::new(Inner { began: Instant::now(), seen: Mutex::default() }))
    }

    /// Starts building a context whose events are collected here.
    pub fn context_builder(&self) -> ContextBuilder {
        Context::builder().observer(Arc::new(self.clone()))
    }

    /// A context whose events are collected here.
    pub fn context(&self) -> Context {
        self.context_builder().build()
    }

    /// All events so far.
    pub fn all(&self) -> Vec<Event> {
        self.map(|_, event| event.clone())
    }

    /// All events so far, in short.
    pub fn lines(&self) -> Vec<String> {
        self.map(|_, event| line(event))
    }

    /// All events so far in short, each after the milliseconds since the collection began.
    pub fn timed_lines(&self) -> Vec<String> {
        self.map(|at, event| format!("{} {}", (at - self.0.began).as_millis(), line(event)))
    }

    fn map<T>(&self, show: impl Fn(Instant, &Event) -> T) -> Vec<T> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|(at, event)| show(*at, event)).collect()
    }
}

impl Default for Events {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for Events {
    fn observe(&self, event: &Event) {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), event.clone()));
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Events").field(&self.lines()).finish()
    }
}

fn line(event: &Event) -> String {
    match event {
        Event::ProviderRetry(event) => {
            format!("R.{}#{}{}", snake(event.phase), event.attempt, retry_detail(event))
        }
        Event::ProviderCircuit(event) => format!("C.{}{}", snake(event.phase), circuit_detail(event)),
        Event::ModelFallback(event) => format!("M.fallback {}>{}", event.from, event.to),
        Event::ProviderAttempt(event) => {
            let cause = event.failure.map(|kind| format!("({})", kind.code())).unwrap_or_default();
            format!("P.{}#{}{cause}", snake(event.phase), event.attempt)
        }
        Event::StreamFrame(event) => format!("F.{}~{}", snake(event.fault), event.bytes),
        Event::CommitHold(event) => format!("H.let_go~{}", event.bytes),
        Event::ProviderStall(event) => {
            let output = if event.output_started { "(output)" } else { "" };
            format!("S.{}#{}~{}{output}", snake(event.phase), event.stall_count, event.duration.as_millis())
        }
        other => format!("{other:?}"),
    }
}

fn retry_detail(event: &ProviderRetry) -> String {
    if let Some(delay) = event.delay {
        return format!("~{}", delay.as_millis());
    }
    if event.phase != stanchion_core::RetryPhase::Exhausted {
        return String::new();
    }
    let by = event.exhausted_by.map(|by| format!("!{}", snake(by))).unwrap_or_default();
    format!("{}{by}", cause(event.reason, event.status_code))
}

fn circuit_detail(event: &ProviderCircuit) -> String {
    let wait = event.retry_after.map(|wait| format!("~{}", wait.as_millis())).unwrap_or_default();
    match event.phase {
        CircuitPhase::Opened => format!("{wait}({}/{})", event.failure_count, event.sample_count),
        CircuitPhase::Reopened => format!("{wait}{}", cause(event.reason, event.status_code)),
        _ => wait,
    }
}

fn cause(reason: RetryReason, status: Option<u16>) -> String {
    match status {
        Some(status) => format!("({}/{status})", snake(reason)),
        None => format!("({})", snake(reason)),
    }
}

/// `RateLimit` as `rate_limit`.
fn snake(name: impl fmt::Debug) -> String {
    let mut out = String::new();
    for letter in format!("{name:?}").chars() {
        if letter.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use stanchion_core::{FallbackEvent, FrameEvent, FrameFault, ProviderStall, RetryPhase, StallPhase};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn events_are_shown_in_short_with_their_time() {
        let events = Events::new();
        let context = events.context();
        let retry = |phase, delay| {
            let new = ProviderRetry::new(phase, RetryReason::RateLimit);
            Event::ProviderRetry(ProviderRetry { attempt: 1, max_retries: 2, status_code: Some(429), delay, ..new })
        };
        Context::emit(Some(&context), || retry(RetryPhase::Scheduled, Some(Duration::from_millis(500))));
        tokio::time::sleep(Duration::from_millis(500)).await;
        Context::emit(Some(&context), || retry(RetryPhase::Attempt, None));
        Context::emit(Some(&context), || retry(RetryPhase::Exhausted, None));
        Context::emit(Some(&context), || Event::ModelFallback(FallbackEvent { from: "a".into(), to: "b".into() }));
        Context::emit(Some(&context), || Event::StreamFrame(FrameEvent { fault: FrameFault::TooLarge, bytes: 7 }));
        let stall = ProviderStall {
            phase: StallPhase::Detected,
            candidate: None,
            stall_count: 1,
            duration: Duration::from_secs(10),
            warning_after: Duration::from_secs(10),
            timeout: None,
            output_started: true,
        };
        Context::emit(Some(&context), || Event::ProviderStall(stall.clone()));
        let lines = [
            "R.scheduled#1~500",
            "R.attempt#1",
            "R.exhausted#1(rate_limit/429)",
            "M.fallback a>b",
            "F.too_large~7",
            "S.detected#1~10000(output)",
        ];
        assert_eq!(events.lines(), lines);
        assert_eq!(events.timed_lines()[..2], ["0 R.scheduled#1~500", "500 R.attempt#1"]);
        assert_eq!(events.all().len(), lines.len());
    }
}
