//! How a model's calls are timed, replayed and recovered.

use std::{fmt::Debug, ops::Range, time::Duration};

use stanchion::{
    circuit::CircuitPolicy,
    core::DispositionRules,
    deadline::{AttemptLimits, RecoveryLimits},
    retry::{CapStage, Combine, OverCap, Preset, RetryBudget, RetryPolicy, Scope},
};

use super::{
    check::{Checker, picked},
    file,
    value::{Span, Spanned},
};

/// Retry budgets that are in use: models with equal settings share one, so that they protect a provider together.
#[derive(Debug, Default)]
pub(super) struct RetryBudgets(Vec<((u32, f64, f64), RetryBudget)>);

const SECOND: Duration = Duration::from_secs(1);
const LONGEST_HEARTBEAT: Duration = Duration::from_secs(600);

impl Checker<'_> {
    pub(super) fn limits(&mut self, own: &file::Timeouts, defaults: &file::Timeouts) -> AttemptLimits {
        let first_output = picked(&own.first_output, &defaults.first_output);
        let per_1k = picked(&own.first_output_per_1k, &defaults.first_output_per_1k);
        let first_output_cap = picked(&own.first_output_cap, &defaults.first_output_cap);
        let idle = picked(&own.idle, &defaults.idle);
        let liveness = picked(&own.liveness, &defaults.liveness);
        let total = picked(&own.total, &defaults.total);
        let mut limits = match own.preset.or(defaults.preset) {
            Some(file::TimeoutPreset::Thinking) => AttemptLimits::thinking_builder(),
            Some(file::TimeoutPreset::Standard) | None => AttemptLimits::builder(),
        };
        let of = |limit: &Spanned<Span>| limit.get_ref().0;
        if let Some(total) = total {
            limits = limits.total(of(total));
        }
        match (first_output.map(of), per_1k.map(of), first_output_cap.map(of)) {
            (None, None, None) => {}
            (Some(limit), None, None) => limits = limits.first_output(limit),
            (base, per_1k, cap) => {
                let base = base.unwrap_or(AttemptLimits::FIRST_OUTPUT);
                let cap = cap.or(total.map(of)).unwrap_or(AttemptLimits::TOTAL);
                let per_1k = per_1k.unwrap_or(SECOND);
                limits = limits.first_output_scaled(base, per_1k, cap);
            }
        }
        if let Some(idle) = idle {
            limits = limits.idle(of(idle));
        }
        if let Some(liveness) = liveness {
            limits = limits.liveness(of(liveness));
        }
        if let Some(after) = picked(&own.stall_warning, &defaults.stall_warning) {
            limits = limits.stall_warning(of(after));
        }
        limits.build().unwrap_or_else(|error| {
            let named = match error.name() {
                "idle" => idle,
                "liveness" => liveness,
                _ => first_output_cap.or(first_output).or(per_1k),
            };
            self.complain(named.or(total).map_or(0..0, Spanned::span), error.to_string());
            AttemptLimits::default()
        })
    }

    pub(super) fn retry(&mut self, own: &file::Retry, defaults: &file::Retry, rules: DispositionRules) -> RetryPolicy {
        // A preset that a model names is whole: the defaults were set for another policy.
        let none = file::Retry::default();
        let defaults = if own.preset.is_some() { &none } else { defaults };
        let mut retry = match picked(&own.preset, &defaults.preset) {
            None => RetryPolicy::builder(),
            Some(name) => match Preset::parse(name.get_ref()) {
                Some(preset) => RetryPolicy::preset(preset),
                None => {
                    let known = Preset::ALL.map(Preset::as_str).join(", ");
                    self.complain(name.span(), format!("there is no preset {:?}; there are: {known}", name.get_ref()));
                    RetryPolicy::builder()
                }
            },
        };
        retry = retry.rules(rules);
        let base = picked(&own.base, &defaults.base);
        let factor = picked(&own.factor, &defaults.factor);
        let cap = picked(&own.cap, &defaults.cap);
        let jitter = picked(&own.jitter, &defaults.jitter);
        let hint_cap = picked(&own.hint_cap, &defaults.hint_cap);
        let hint_pad = picked(&own.hint_pad, &defaults.hint_pad);
        if let Some(max_retries) = own.max_retries.or(defaults.max_retries) {
            retry = retry.max_retries(max_retries);
        }
        if let Some(scope) = own.scope.or(defaults.scope) {
            retry = retry.scope(match scope {
                file::Scope::Candidate => Scope::Candidate,
                file::Scope::Request => Scope::Request,
            });
        }
        if let Some(base) = base {
            retry = retry.base(base.get_ref().0);
        }
        if let Some(factor) = factor {
            retry = retry.factor(*factor.get_ref());
        }
        if let Some(cap) = cap {
            retry = retry.cap(cap.get_ref().0);
        }
        if let Some(jitter) = jitter {
            let (low, high) = *jitter.get_ref();
            retry = retry.jitter(low..=high);
        }
        if let Some(stage) = own.cap_stage.or(defaults.cap_stage) {
            retry = retry.cap_stage(match stage {
                file::CapStage::Both => CapStage::BeforeAndAfterJitter,
                file::CapStage::Before => CapStage::BeforeJitter,
                file::CapStage::After => CapStage::AfterJitter,
            });
        }
        if let Some(hint_cap) = hint_cap {
            retry = retry.hint_cap(hint_cap.get_ref().0);
        }
        if let Some(hint_pad) = hint_pad {
            retry = retry.hint_pad(hint_pad.get_ref().0);
        }
        if let Some(over_cap) = own.over_cap.or(defaults.over_cap) {
            retry = retry.over_cap(match over_cap {
                file::OverCap::GiveUp => OverCap::GiveUp,
                file::OverCap::Clamp => OverCap::Clamp,
                file::OverCap::Honour => OverCap::Honour,
            });
        }
        if let Some(combine) = own.combine.or(defaults.combine) {
            retry = retry.combine(match combine {
                file::Combine::Replace => Combine::Replace,
                file::Combine::Max => Combine::Max,
            });
        }
        if let Some(hints) = own.hints.as_ref().or(defaults.hints.as_ref()) {
            retry = retry.hints(hints.iter().copied());
        }
        if let Some(again) = own.on_silence.or(defaults.on_silence) {
            retry = retry.retry_on_silence(again);
        }
        if let Some(heed) = own.heed_client_retries.or(defaults.heed_client_retries) {
            retry = retry.heed_client_retries(heed);
        }
        retry.build().unwrap_or_else(|error| {
            let (span, value) = match error.setting() {
                "base" => match base {
                    Some(_) => place(base),
                    None => (cap.map_or(0..0, Spanned::span), "the policy's own, longer than this `cap`".to_owned()),
                },
                "hint_cap" => place(hint_cap),
                "hint_pad" => place(hint_pad),
                "factor" => place_of(factor),
                "jitter" => place_of(jitter),
                _ => place(cap),
            };
            self.complain(span, format!("{error}; it is {value}"));
            RetryPolicy::default()
        })
    }

    /// The budget that protects providers from retries; `None` if it is switched off.
    pub(super) fn retry_budget(
        &mut self,
        own: &file::RetryBudget,
        defaults: &file::RetryBudget,
        known: &mut RetryBudgets,
    ) -> Option<RetryBudget> {
        if !own.enabled.or(defaults.enabled).unwrap_or(true) {
            return None;
        }
        let capacity = picked(&own.capacity, &defaults.capacity);
        let refund = picked(&own.refund, &defaults.refund);
        let per_second = picked(&own.per_second, &defaults.per_second);
        let mut budget = RetryBudget::builder();
        if let Some(capacity) = capacity {
            budget = budget.capacity(*capacity.get_ref());
        }
        if let Some(refund) = refund {
            budget = budget.refund(*refund.get_ref());
        }
        if let Some(per_second) = per_second {
            budget = budget.per_second(*per_second.get_ref());
        }
        let settings = budget.settings();
        if let Some((_, known)) = known.0.iter().find(|(known, _)| *known == settings) {
            return Some(known.clone());
        }
        match budget.build() {
            Ok(budget) => {
                known.0.push((settings, budget.clone()));
                Some(budget)
            }
            Err(error) => {
                let span = match error.setting() {
                    "capacity" => capacity.map(Spanned::span),
                    "refund" => refund.map(Spanned::span),
                    _ => per_second.map(Spanned::span),
                };
                self.complain(span.unwrap_or(0..0), error.to_string());
                None
            }
        }
    }

    /// The circuits of a model's candidates. `idle` is the idle limit of an attempt, which a probe may take.
    pub(super) fn circuit(
        &mut self,
        own: &file::Circuit,
        defaults: &file::Circuit,
        mode: Option<file::FallbackMode>,
        rules: DispositionRules,
        idle: Option<Duration>,
    ) -> CircuitPolicy {
        let open = picked(&own.open, &defaults.open);
        let window = picked(&own.window, &defaults.window);
        let min_samples = picked(&own.min_samples, &defaults.min_samples);
        let failure_rate = picked(&own.failure_rate, &defaults.failure_rate);
        let slow_call = picked(&own.slow_call, &defaults.slow_call);
        let max_open_share = picked(&own.max_open_share, &defaults.max_open_share);
        let circuit = match mode {
            Some(file::FallbackMode::Chain) => CircuitPolicy::chain(),
            Some(file::FallbackMode::Ordered) | None => CircuitPolicy::builder(),
        };
        let mut circuit = circuit.rules(rules);
        if let Some(idle) = idle {
            circuit = circuit.probe_lease(idle);
        }
        if let Some(open) = open {
            circuit = circuit.open(open.get_ref().0);
        }
        if let Some(window) = window {
            circuit = circuit.window(window.get_ref().0);
        }
        if let Some(min_samples) = min_samples {
            circuit = circuit.min_samples(*min_samples.get_ref());
        }
        if let Some(failure_rate) = failure_rate {
            circuit = circuit.failure_rate(*failure_rate.get_ref());
        }
        if let Some(consecutive) = own.consecutive.or(defaults.consecutive) {
            circuit = circuit.consecutive(consecutive);
        }
        if let Some(concurrency) = own.concurrency.or(defaults.concurrency) {
            circuit = circuit.concurrency(concurrency);
        }
        if let Some(slow_call) = slow_call {
            circuit = circuit.slow_call(slow_call.get_ref().0);
        }
        if let Some(success_on) = own.success_on.or(defaults.success_on) {
            circuit = circuit.success_on(success_on);
        }
        if let Some(late_failure) = own.late_failure.or(defaults.late_failure) {
            circuit = circuit.late_failure(late_failure);
        }
        for class in own.force_open_on.as_ref().or(defaults.force_open_on.as_ref()).into_iter().flatten() {
            circuit = circuit.force_open_on(*class);
        }
        if let Some(recovery) = own.recovery.or(defaults.recovery) {
            circuit = circuit.recovery(recovery);
        }
        if let Some(share) = max_open_share {
            circuit = circuit.max_open_share(*share.get_ref());
        }
        circuit.build().unwrap_or_else(|error| {
            let (span, value) = match error.setting() {
                "open" => place(open),
                "window" => place(window),
                "slow_call" => place(slow_call),
                "min_samples" => place_of(min_samples),
                "failure_rate" => place_of(failure_rate),
                _ => place_of(max_open_share),
            };
            self.complain(span, format!("{error}; it is {value}"));
            CircuitPolicy::default()
        })
    }

    /// The bounded recovery of a model's foreground requests. Without a table it is off.
    pub(super) fn recovery(
        &mut self,
        own: Option<&file::Recovery>,
        defaults: Option<&file::Recovery>,
    ) -> RecoveryLimits {
        let mut limits = RecoveryLimits::builder();
        if own.is_none() && defaults.is_none() {
            return limits.budget(Duration::ZERO).build().expect("no budget is in order");
        }
        let budget = own.and_then(|own| own.budget.as_ref()).or(defaults.and_then(|defaults| defaults.budget.as_ref()));
        let attempts = own.and_then(|own| own.max_attempts).or(defaults.and_then(|defaults| defaults.max_attempts));
        if let Some(budget) = budget {
            limits = limits.budget(budget.get_ref().0);
        }
        if let Some(attempts) = attempts {
            limits = limits.attempts(attempts);
        }
        limits.build().unwrap_or_else(|error| {
            self.complain(budget.map_or(0..0, Spanned::span), error.to_string());
            RecoveryLimits::default()
        })
    }

    /// How often a client that waits is sent a sign of life; `None` if never.
    pub(super) fn heartbeat(&mut self, heartbeat: Option<&Spanned<Span>>) -> Option<Duration> {
        let heartbeat = heartbeat?;
        let every = heartbeat.get_ref().0;
        if every.is_zero() {
            return None;
        }
        if !(SECOND..=LONGEST_HEARTBEAT).contains(&every) {
            let rule = "set 1s to 600s (\"0s\" turns it off)";
            self.complain(heartbeat.span(), format!("heartbeat is {every:?}: {rule}"));
        }
        Some(every)
    }
}

/// Where a value stands, and what it is.
fn place(span: Option<&Spanned<Span>>) -> (Range<usize>, String) {
    span.map_or((0..0, String::new()), |span| (span.span(), format!("{:?}", span.get_ref().0)))
}

fn place_of<T: Debug>(value: Option<&Spanned<T>>) -> (Range<usize>, String) {
    value.map_or((0..0, String::new()), |value| (value.span(), format!("{:?}", value.get_ref())))
}
