use std::{
    error::Error,
    fmt,
    ops::RangeInclusive,
    sync::Arc,
    time::{Duration, SystemTime},
};

use stanchion_core::{
    DispositionRules, Failure, FailureKind, HintSource, HintSources, PoolState, RecoveryMode, RetryClass, RetryHint,
};

use crate::backoff::{Backoff, CapStage};

/// How often and after which waits a call is replayed. The table of settings is on the [crate's page](crate#settings).
#[derive(Debug, Clone, PartialEq)]
pub struct RetryPolicy {
    pub(crate) limits: Limits,
    /// The limits were set, and count for each candidate of a bounded foreground request as well.
    pub(crate) limits_are_set: bool,
    pub(crate) scope: Scope,
    standard: Waits,
    recovering: Waits,
    combine: Combine,
    hints: Option<Arc<[HintSource]>>,
    hint_pad: Duration,
    heeds_client_retries: bool,
    rules: DispositionRules,
}

/// How many retries may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limits {
    /// For whatever cause.
    One(u32),
    /// For each class of causes by itself.
    Two { rate_limit: u32, transient: u32 },
}

/// What the waits of one mode of recovery have of their own.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Waits {
    backoffs: [Backoff; 2],
    hint_caps: [Duration; 2],
    over_cap: OverCap,
}

/// What the number of retries counts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// Each candidate of a request by itself.
    #[default]
    Candidate,
    /// The whole request: what one candidate used up the next does not have. Needs a
    /// [`Context`](stanchion_core::Context) in the request; without one it is as [`Candidate`](Self::Candidate).
    Request,
}

/// What becomes of a hint above the cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverCap {
    /// The failure is given back at once, with the hint.
    GiveUp,
    /// The cap is waited instead: the provider is asked before it wants to be.
    Clamp,
    /// It is waited out, however long it is.
    Honour,
}

/// How a hint and the backoff become one wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Combine {
    /// The hint counts alone, also where it is the shorter one.
    #[default]
    Replace,
    /// The longer of both counts.
    Max,
}

/// The policy of a system that others know, by name. See [`RetryPolicy::preset`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Preset {
    /// Ours: 2 retries, 500 ms doubled up to 8 s, hints of up to 60 s. In bounded foreground as [`BoundedForeground`](Self::BoundedForeground).
    Standard,
    /// 12 retries, 500 ms doubled up to 60 s, longer hints cut to 60 s: where a person waits and sees that something happens.
    BoundedForeground,
    /// PI-Desktop's: 10 retries for rate limits (2 s doubled up to 30 s, up to a quarter longer at random) and 10 for what else passes
    /// (1, 2, 4, 8, 8 s …); longer hints are cut to those caps; a silent provider is asked again.
    DualBudget,
    /// Pi's provider layer: 2 retries, 500 ms doubled up to 8 s, hints out of the two standard headers, of up to 60 s.
    Transport,
    /// octos's: 3 retries after 1, 2 and 4 s without jitter; a rate limit waits for what the message says and one second, or 30 s; a silent
    /// provider is asked again.
    Ladder,
    /// `PolyGateway`'s: 3 attempts in all over all candidates, 1 s doubled up to 30 s and then half to one and a half of that at random; a hint
    /// lengthens a wait and never shortens it, however long it is; a silent provider is asked again. Its numbers are our choice: it has none.
    Gateway,
}

impl Preset {
    /// All presets.
    pub const ALL: [Self; 6] =
        [Self::Standard, Self::BoundedForeground, Self::DualBudget, Self::Transport, Self::Ladder, Self::Gateway];

    /// The name used in configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::BoundedForeground => "bounded_foreground",
            Self::DualBudget => "dual_budget",
            Self::Transport => "transport",
            Self::Ladder => "ladder",
            Self::Gateway => "gateway",
        }
    }

    /// The preset of a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.as_str() == name)
    }
}

/// Builds a [`RetryPolicy`].
#[derive(Debug, Clone)]
#[must_use]
pub struct RetryPolicyBuilder {
    policy: RetryPolicy,
    retry_on_silence: Option<bool>,
}

/// A setting of a [`RetryPolicy`] is outside its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidPolicy {
    setting: &'static str,
    rule: &'static str,
}

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

impl RetryPolicy {
    /// How many retries of one candidate there are unless a number is set.
    pub(crate) const STANDARD_RETRIES: u32 = 2;

    /// Starts from the default policy, which is [`Preset::Standard`].
    pub fn builder() -> RetryPolicyBuilder {
        RetryPolicyBuilder { policy: Self::default(), retry_on_silence: None }
    }

    /// Starts from the policy of a known system.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use stanchion_core::{RecoveryMode, RetryClass};
    /// use stanchion_retry::{Preset, RetryPolicy};
    ///
    /// let policy = RetryPolicy::preset(Preset::Ladder).build().unwrap();
    /// let waits = [1, 2, 3].map(|retry| {
    ///     policy.wait(RecoveryMode::Standard, RetryClass::Transient, retry, None, || 0.5).unwrap()
    /// });
    /// assert_eq!(waits.map(|wait| wait.as_secs()), [1, 2, 4]);
    /// ```
    pub fn preset(preset: Preset) -> RetryPolicyBuilder {
        let builder = Self::builder();
        let backoff = |base: u64, cap: u64, jitter| Backoff {
            base: Duration::from_secs(base),
            cap: Duration::from_secs(cap),
            jitter,
            ..Backoff::STANDARD
        };
        let header_hints = [HintSource::RetryAfterMs, HintSource::RetryAfter];
        match preset {
            Preset::Standard => builder,
            Preset::BoundedForeground => {
                let mut builder = builder.cap(MINUTE).over_cap(OverCap::Clamp);
                builder.policy.limits = Limits::One(12);
                builder
            }
            Preset::DualBudget => {
                let (rate_limit, transient) = (Duration::from_secs(30), Duration::from_secs(8));
                builder
                    .max_retries_by_class(10, 10)
                    .backoff(RetryClass::RateLimit, backoff(2, 30, (1.0, 1.25)))
                    .backoff(RetryClass::Transient, backoff(1, 8, (1.0, 1.0)))
                    .hint_cap_of(RetryClass::RateLimit, rate_limit)
                    .hint_cap_of(RetryClass::Transient, transient)
                    .over_cap(OverCap::Clamp)
                    .hints(header_hints)
                    .retry_on_silence(true)
            }
            Preset::Transport => {
                builder.max_retries(2).cap(Duration::from_secs(8)).over_cap(OverCap::GiveUp).hints(header_hints)
            }
            Preset::Ladder => {
                let unasked = Backoff { factor: 1.0, ..backoff(30, 60, (1.0, 1.0)) };
                builder
                    .max_retries(3)
                    .backoff(RetryClass::RateLimit, unasked)
                    .backoff(RetryClass::Transient, backoff(1, 60, (1.0, 1.0)))
                    .over_cap(OverCap::Clamp)
                    .hints([HintSource::Text])
                    .hint_pad(Duration::from_secs(1))
                    .retry_on_silence(true)
            }
            Preset::Gateway => {
                let wide = Backoff { cap_stage: CapStage::BeforeJitter, ..backoff(1, 30, (0.5, 1.5)) };
                builder
                    .total_attempts(3)
                    .scope(Scope::Request)
                    .backoff(RetryClass::RateLimit, wide)
                    .backoff(RetryClass::Transient, wide)
                    .over_cap(OverCap::Honour)
                    .combine(Combine::Max)
                    .hints([HintSource::RetryAfter])
                    .retry_on_silence(true)
            }
        }
    }

    /// How many retries may follow the first attempt, for whatever cause.
    pub fn max_retries(&self) -> u32 {
        self.limits.total()
    }

    /// The disputed cells of the table.
    pub fn rules(&self) -> &DispositionRules {
        &self.rules
    }

    /// Whether what the caller's client library has retried by itself is taken off the number of retries.
    pub fn heeds_client_retries(&self) -> bool {
        self.heeds_client_retries
    }

    /// How long the provider asks us to wait, as far as this policy listens to it.
    pub fn hint(&self, failure: &Failure) -> Option<RetryHint> {
        // What holds for the key that failed does not hold for another.
        if failure.pool() == Some(PoolState::AnotherReady) {
            return None;
        }
        // What our own layers say is no provider's word, and is not read again.
        let ours = |hint: &RetryHint| {
            matches!(hint.source(), HintSource::Credentials | HintSource::Circuit | HintSource::Admission)
        };
        if failure.hint().as_ref().is_some_and(ours) {
            return failure.hint();
        }
        let Some(order) = self.hints.as_deref() else { return failure.hint() };
        // Windows are reported with every reply, and matter only to one that refuses.
        let limited = matches!(failure.kind(), FailureKind::RateLimited | FailureKind::Overloaded);
        let now = SystemTime::now();
        let read = |source: HintSource| {
            let window = matches!(source, HintSource::RateLimitReset | HintSource::AnthropicReset);
            if window && !limited {
                return None;
            }
            let known = failure.hint().filter(|hint| hint.source() == source);
            let sources = HintSources::none().with(source);
            known.or_else(|| match (failure.reply(), failure.message()) {
                (Some(reply), _) => RetryHint::read(&reply.headers, &reply.body, now, sources),
                // An error inside of a stream has no head, and its words are all that is left of its body.
                (None, Some(message)) => RetryHint::read(&http::HeaderMap::new(), message.as_bytes(), now, sources),
                (None, None) => None,
            })
        };
        order.iter().find_map(|source| read(*source))
    }

    /// The wait before retry number `retry` (from 1) of its class, or `None` if the hint is above the cap and the call
    /// is to be given up.
    ///
    /// `random` is asked for a number from 0 to 1, and only where a backoff is made. A hint of nothing is no hint, or a
    /// provider could have itself asked in a tight loop.
    pub fn wait(
        &self,
        mode: RecoveryMode,
        class: RetryClass,
        retry: u32,
        hint: Option<RetryHint>,
        random: impl FnOnce() -> f64,
    ) -> Option<Duration> {
        let waits = match mode {
            RecoveryMode::Standard => &self.standard,
            RecoveryMode::BoundedForeground => &self.recovering,
        };
        let backoff = |random: f64| waits.backoffs[class as usize].before(retry, random);
        let Some(hint) = hint.map(RetryHint::delay).filter(|delay| !delay.is_zero()) else {
            return Some(backoff(random()));
        };
        let cap = waits.hint_caps[class as usize];
        let asked = whole_milliseconds(hint).saturating_add(self.hint_pad);
        let asked = match waits.over_cap {
            OverCap::GiveUp if hint > cap => return None,
            OverCap::Clamp => asked.min(cap),
            OverCap::GiveUp | OverCap::Honour => asked,
        };
        Some(match self.combine {
            Combine::Replace => asked,
            Combine::Max => asked.max(backoff(random())),
        })
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        let standard = Waits { backoffs: [Backoff::STANDARD; 2], hint_caps: [MINUTE; 2], over_cap: OverCap::GiveUp };
        let long = Backoff { cap: MINUTE, ..Backoff::STANDARD };
        Self {
            limits: Limits::One(Self::STANDARD_RETRIES),
            limits_are_set: false,
            scope: Scope::Candidate,
            standard,
            recovering: Waits { backoffs: [long; 2], over_cap: OverCap::Clamp, ..standard },
            combine: Combine::Replace,
            hints: None,
            hint_pad: Duration::ZERO,
            heeds_client_retries: false,
            rules: DispositionRules::default(),
        }
    }
}

impl Limits {
    pub(crate) fn total(self) -> u32 {
        match self {
            Self::One(retries) => retries,
            Self::Two { rate_limit, transient } => rate_limit.saturating_add(transient),
        }
    }

    /// How many retries of a class may be made, when `other` were made of the other one.
    pub(crate) fn of(self, class: RetryClass, other: u32) -> u32 {
        match (self, class) {
            (Self::One(retries), _) => retries.saturating_sub(other),
            (Self::Two { rate_limit, .. }, RetryClass::RateLimit) => rate_limit,
            (Self::Two { transient, .. }, RetryClass::Transient) => transient,
        }
    }

    pub(crate) fn lowered_by(self, retries: u32) -> Self {
        match self {
            Self::One(limit) => Self::One(limit.saturating_sub(retries)),
            Self::Two { rate_limit, transient } => Self::Two {
                rate_limit: rate_limit.saturating_sub(retries),
                transient: transient.saturating_sub(retries),
            },
        }
    }
}

impl RetryPolicyBuilder {
    fn waits(mut self, mut change: impl FnMut(&mut Waits)) -> Self {
        change(&mut self.policy.standard);
        change(&mut self.policy.recovering);
        self
    }

    fn backoffs(self, mut change: impl FnMut(&mut Backoff)) -> Self {
        self.waits(|waits| waits.backoffs.iter_mut().for_each(&mut change))
    }

    fn limits(mut self, limits: Limits) -> Self {
        self.policy.limits = limits;
        self.policy.limits_are_set = true;
        self
    }

    /// How many retries may follow the first attempt. 0 turns retries off, the free one too. A number that is set here
    /// counts for each candidate of a bounded foreground request as well, in place of the attempts that they share.
    pub fn max_retries(self, max_retries: u32) -> Self {
        self.limits(Limits::One(max_retries))
    }

    /// How many attempts may be made in all: one more than retries. 0 is as 1: the first attempt is always made.
    pub fn total_attempts(self, attempts: u32) -> Self {
        self.max_retries(attempts.saturating_sub(1))
    }

    /// How many retries may be made for rate limits, and how many for all else: two budgets that do not touch each other.
    /// A later [`max_retries`](Self::max_retries) makes one of them again.
    pub fn max_retries_by_class(self, rate_limit: u32, transient: u32) -> Self {
        self.limits(Limits::Two { rate_limit, transient })
    }

    /// What the number of retries counts for.
    pub fn scope(mut self, scope: Scope) -> Self {
        self.policy.scope = scope;
        self
    }

    /// The whole backoff of one class, in both modes of recovery.
    pub fn backoff(self, class: RetryClass, backoff: Backoff) -> Self {
        self.waits(|waits| waits.backoffs[class as usize] = backoff)
    }

    /// The backoff before the first retry.
    pub fn base(self, base: Duration) -> Self {
        self.backoffs(|backoff| backoff.base = base)
    }

    /// How much longer each backoff is than the one before.
    pub fn factor(self, factor: f64) -> Self {
        self.backoffs(|backoff| backoff.factor = factor)
    }

    /// The longest backoff.
    pub fn cap(self, cap: Duration) -> Self {
        self.backoffs(|backoff| backoff.cap = cap)
    }

    /// What a backoff is multiplied by, at random. `1.0..=1.0` turns jitter off.
    pub fn jitter(self, jitter: RangeInclusive<f64>) -> Self {
        self.backoffs(|backoff| backoff.jitter = (*jitter.start(), *jitter.end()))
    }

    /// Where the ceiling of a backoff applies.
    pub fn cap_stage(self, stage: CapStage) -> Self {
        self.backoffs(|backoff| backoff.cap_stage = stage)
    }

    /// The longest hint of a server that is waited out as it is.
    pub fn hint_cap(self, hint_cap: Duration) -> Self {
        self.waits(|waits| waits.hint_caps = [hint_cap; 2])
    }

    /// The same for one class.
    pub fn hint_cap_of(self, class: RetryClass, hint_cap: Duration) -> Self {
        self.waits(|waits| waits.hint_caps[class as usize] = hint_cap)
    }

    /// What becomes of a hint above the cap.
    pub fn over_cap(self, over_cap: OverCap) -> Self {
        self.waits(|waits| waits.over_cap = over_cap)
    }

    /// How a hint and the backoff become one wait.
    pub fn combine(mut self, combine: Combine) -> Self {
        self.policy.combine = combine;
        self
    }

    /// Where hints are taken from: the first of these places that gives one counts. Without this, all places but prose,
    /// in the order of [`stanchion_core::hint`]. An empty list ignores hints.
    pub fn hints(mut self, order: impl IntoIterator<Item = HintSource>) -> Self {
        self.policy.hints = Some(order.into_iter().collect());
        self
    }

    /// What is added to every hint: for providers whose clock is a little behind.
    pub fn hint_pad(mut self, pad: Duration) -> Self {
        self.policy.hint_pad = pad;
        self
    }

    /// Whether a candidate that was silent for too long is asked again. Set here, it goes over what the
    /// [`rules`](Self::rules) say.
    pub fn retry_on_silence(mut self, retries: bool) -> Self {
        self.retry_on_silence = Some(retries);
        self
    }

    /// Whether what the caller's client library has retried by itself, as its headers say, is taken off the number of
    /// retries: so that its retries and ours do not multiply.
    pub fn heed_client_retries(mut self, heed: bool) -> Self {
        self.policy.heeds_client_retries = heed;
        self
    }

    /// The disputed cells of the table.
    pub fn rules(mut self, rules: DispositionRules) -> Self {
        self.policy.rules = rules;
        self
    }

    /// The policy, if every setting is within its range.
    pub fn build(self) -> Result<RetryPolicy, InvalidPolicy> {
        let Self { mut policy, retry_on_silence } = self;
        let must = |holds: bool, setting, rule| {
            if holds { Ok(()) } else { Err(InvalidPolicy { setting, rule }) }
        };
        for waits in [&policy.standard, &policy.recovering] {
            for backoff in waits.backoffs {
                let (low, high) = backoff.jitter;
                must(backoff.cap <= HOUR, "cap", "at most 1 h")?;
                must(backoff.base <= backoff.cap, "base", "at most `cap`")?;
                must((1.0..=10.0).contains(&backoff.factor), "factor", "between 1 and 10")?;
                must(0.0 <= low && low <= high && high <= 2.0, "jitter", "a range between 0 and 2")?;
            }
            must(waits.hint_caps.iter().all(|cap| *cap <= 24 * HOUR), "hint_cap", "at most 24 h")?;
        }
        must(policy.hint_pad <= MINUTE, "hint_pad", "at most 60 s")?;
        if let Some(retries) = retry_on_silence {
            policy.rules = policy.rules.with_retry_on_silence(retries);
        }
        Ok(policy)
    }
}

impl InvalidPolicy {
    /// The setting, as the builder calls it.
    pub fn setting(&self) -> &'static str {
        self.setting
    }
}

impl fmt::Display for InvalidPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the retry setting `{}` must be {}", self.setting, self.rule)
    }
}

impl Error for InvalidPolicy {}

/// Rounded up: a hint is never shortened.
fn whole_milliseconds(delay: Duration) -> Duration {
    let part = delay.subsec_nanos() % 1_000_000;
    if part == 0 { delay } else { delay.saturating_add(Duration::from_nanos(u64::from(1_000_000 - part))) }
}

#[cfg(test)]
mod tests;
