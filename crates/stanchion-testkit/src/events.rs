use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use stanchion_core::{
    AdmissionPhase, AdmissionScope, CircuitPhase, Context, ContextBuilder, Event, Observer, ProviderAdmission,
    ProviderCircuit, ProviderRetry, RetryReason, UsageEvent,
};
use tokio::time::Instant;

/// Collects the events of requests, and shows them in short.
///
/// The short form names kind, phase and number: `R.scheduled#1~500` is a retry put off by 500 ms,
/// `R.exhausted#2(server_error/503)` the end of retries with its reason and status (and after a `!` the limit that
/// ended them), `C.opened~10000(4/4)` a circuit with its wait, failures and samples,
/// `A.queued#2/5~0(owner)` a request that is second in its owner's part of a queue of five, `A.admitted~800` one that
/// has waited for 800 ms, `A.rejected~0(queue_full/domain)` one that was turned away and by whose limit (the global
/// scope is not named), `S.detected#1~10000(output)` the first silence of an attempt and how long it is, once output had
/// begun, `M.fallback a/x>b/x` another candidate, `K.rate_limit_cooldown first~60000(1)` a
/// credential that is out for a minute and how many are left in service, `P.failed#1(overloaded)` a physical attempt,
/// `B.ttl_expired#2~5500(6000>500)` a prompt cache that broke at the second call and what was read from it before and
/// then, `B.volatile#3` a system prompt that was another once more at the third,
/// `U.measured 10+900/0>42~907500` what a reply has used: fresh input, what was read from the cache and written to it,
/// output, and the cost in nano-dollars; `?` is what is not known.
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
        Event::ProviderAdmission(event) => format!("A.{}{}", snake(event.phase), admission_detail(event)),
        Event::ModelFallback(event) => format!("M.fallback {}>{}", event.from, event.to),
        Event::CredentialRotation(event) => {
            let cooldown = event.cooldown.map(|cooldown| format!("~{}", cooldown.as_millis())).unwrap_or_default();
            format!("K.{} {}{cooldown}({})", event.reason.as_str(), event.credential_id, event.ready_count)
        }
        Event::ProviderAttempt(event) => {
            let cause = event.failure.map(|kind| format!("({})", kind.code())).unwrap_or_default();
            format!("P.{}#{}{cause}", snake(event.phase), event.attempt)
        }
        Event::StreamFrame(event) => format!("F.{}~{}", snake(event.fault), event.bytes),
        Event::CommitHold(event) => format!("H.let_go~{}", event.bytes),
        Event::PromptCacheBreak(event) => {
            let (before, then) = (event.previous_cache_read_tokens, event.cache_read_tokens);
            format!("B.{}#{}~{}({before}>{then})", event.reason.as_str(), event.call_number, event.token_drop)
        }
        Event::PromptCacheVolatile(event) => format!("B.volatile#{}", event.call_number),
        Event::ProviderStall(event) => {
            let output = if event.output_started { "(output)" } else { "" };
            format!("S.{}#{}~{}{output}", snake(event.phase), event.stall_count, event.duration.as_millis())
        }
        Event::Usage(event) => format!("U.{}{}", snake(event.quality), usage_detail(event)),
        other => format!("{other:?}"),
    }
}

fn usage_detail(event: &UsageEvent) -> String {
    let shown = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), |count| count.to_string());
    let tokens = &event.tokens;
    let cache = format!("+{}/{}", shown(tokens.cache_read), shown(tokens.cache_write));
    let cost = event.cost_nanodollars.map(|cost| format!("~{cost}")).unwrap_or_default();
    format!(" {}{cache}>{}{cost}", shown(tokens.input), shown(tokens.output))
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

fn admission_detail(event: &ProviderAdmission) -> String {
    let wait = event.wait.as_millis();
    let scope = if event.scope == AdmissionScope::Global { String::new() } else { snake(event.scope) };
    match (event.phase, event.reason) {
        (AdmissionPhase::Admitted, _) | (_, None) => format!("~{wait}"),
        (AdmissionPhase::Queued, _) if scope.is_empty() => {
            format!("#{}/{}~{wait}", event.queue_position, event.queue_depth)
        }
        (AdmissionPhase::Queued, _) => format!("#{}/{}~{wait}({scope})", event.queue_position, event.queue_depth),
        (_, Some(reason)) if scope.is_empty() => format!("~{wait}({})", snake(reason)),
        (_, Some(reason)) => format!("~{wait}({}/{scope})", snake(reason)),
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

    use stanchion_core::{
        AdmissionReason, AdmissionResource, CredentialRotation, CredentialStrategy, FallbackEvent, FrameEvent,
        FrameFault, ProviderStall, RequestClass, RetryPhase, RotationReason, StallPhase, Usage, UsageQuality,
    };

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
        let queued = ProviderAdmission {
            phase: AdmissionPhase::Queued,
            candidate: None,
            request_class: RequestClass::Foreground,
            resource: AdmissionResource::Stream,
            scope: AdmissionScope::Owner,
            reason: Some(AdmissionReason::Capacity),
            queue_position: 2,
            queue_depth: 5,
            in_flight: 2,
            limit: 2,
            wait: Duration::ZERO,
            max_wait: Duration::from_secs(180),
            recovery_remaining: None,
        };
        let admitted = ProviderAdmission {
            phase: AdmissionPhase::Admitted,
            reason: None,
            wait: Duration::from_millis(800),
            ..queued.clone()
        };
        let rejected = ProviderAdmission {
            phase: AdmissionPhase::Rejected,
            scope: AdmissionScope::Global,
            reason: Some(AdmissionReason::QueueFull),
            ..queued.clone()
        };
        for event in [queued, admitted, rejected] {
            Context::emit(Some(&context), || Event::ProviderAdmission(event.clone()));
        }
        let usage = UsageEvent {
            candidate: None,
            model: None,
            request_class: RequestClass::Foreground,
            quality: UsageQuality::Measured,
            tokens: Usage { input: Some(10), cache_read: Some(900), output: Some(42), ..Usage::default() },
            cost_nanodollars: Some(907_500),
        };
        Context::emit(Some(&context), || Event::Usage(usage.clone()));
        let rotation = CredentialRotation {
            reason: RotationReason::RateLimitCooldown,
            provider: "a".into(),
            candidate: None,
            credential_id: "first".into(),
            strategy: CredentialStrategy::RoundRobin,
            cooldown: Some(Duration::from_secs(60)),
            ready_count: 1,
        };
        Context::emit(Some(&context), || Event::CredentialRotation(rotation.clone()));
        let lines = [
            "R.scheduled#1~500",
            "R.attempt#1",
            "R.exhausted#1(rate_limit/429)",
            "M.fallback a>b",
            "F.too_large~7",
            "S.detected#1~10000(output)",
            "A.queued#2/5~0(owner)",
            "A.admitted~800",
            "A.rejected~0(queue_full)",
            "U.measured 10+900/?>42~907500",
            "K.rate_limit_cooldown first~60000(1)",
        ];
        assert_eq!(events.lines(), lines);
        assert_eq!(events.timed_lines()[..2], ["0 R.scheduled#1~500", "500 R.attempt#1"]);
        assert_eq!(events.all().len(), lines.len());
    }
}
