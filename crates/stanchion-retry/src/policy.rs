use std::{error::Error, fmt, ops::RangeInclusive, time::Duration};

use stanchion_core::{DispositionRules, RetryHint};

use crate::backoff::Backoff;

/// How often and after which waits a call is replayed. The table of settings is on the [crate's page](crate#settings).
#[derive(Debug, Clone, PartialEq)]
pub struct RetryPolicy {
    max_retries: u32,
    backoff: Backoff,
    hint_cap: Duration,
    rules: DispositionRules,
}

/// Builds a [`RetryPolicy`].
#[derive(Debug, Clone)]
#[must_use]
pub struct RetryPolicyBuilder(RetryPolicy);

/// A setting of a [`RetryPolicy`] is outside its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidPolicy {
    setting: &'static str,
    rule: &'static str,
}

impl RetryPolicy {
    /// Starts from the default policy.
    pub fn builder() -> RetryPolicyBuilder {
        RetryPolicyBuilder(Self::default())
    }

    /// How many retries may follow the first attempt.
    pub fn max_retries(&self) -> u32 {
        self.max_retries
    }

    /// The longest hint that is waited out.
    pub fn hint_cap(&self) -> Duration {
        self.hint_cap
    }

    /// The disputed cells of the table.
    pub fn rules(&self) -> &DispositionRules {
        &self.rules
    }

    /// The wait before retry number `retry` (from 1), or `None` if the hint is above the cap and the call is to be
    /// given up.
    ///
    /// `random` is asked for a number from 0 to 1, and only where a backoff is made. A hint of nothing is no hint, or a
    /// provider could have itself asked in a tight loop.
    pub fn wait(&self, retry: u32, hint: Option<RetryHint>, random: impl FnOnce() -> f64) -> Option<Duration> {
        match hint.map(RetryHint::delay) {
            Some(delay) if delay > self.hint_cap => None,
            Some(delay) if !delay.is_zero() => Some(whole_milliseconds(delay)),
            _ => Some(self.backoff.before(retry, random())),
        }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        let backoff =
            Backoff { base: Duration::from_millis(500), factor: 2.0, cap: Duration::from_secs(8), jitter: (0.75, 1.0) };
        Self { max_retries: 2, backoff, hint_cap: Duration::from_secs(60), rules: DispositionRules::default() }
    }
}

impl RetryPolicyBuilder {
    /// How many retries may follow the first attempt. 0 turns retries off, the free one too.
    pub fn max_retries(mut self, max_retries: u32) -> Self {
        self.0.max_retries = max_retries;
        self
    }

    /// The backoff before the first retry.
    pub fn base(mut self, base: Duration) -> Self {
        self.0.backoff.base = base;
        self
    }

    /// How much longer each backoff is than the one before.
    pub fn factor(mut self, factor: f64) -> Self {
        self.0.backoff.factor = factor;
        self
    }

    /// The longest backoff.
    pub fn cap(mut self, cap: Duration) -> Self {
        self.0.backoff.cap = cap;
        self
    }

    /// What a backoff is multiplied by, at random. `1.0..=1.0` turns jitter off.
    pub fn jitter(mut self, jitter: RangeInclusive<f64>) -> Self {
        self.0.backoff.jitter = (*jitter.start(), *jitter.end());
        self
    }

    /// The longest hint of a server that is waited out. Above it the call is given up at once.
    pub fn hint_cap(mut self, hint_cap: Duration) -> Self {
        self.0.hint_cap = hint_cap;
        self
    }

    /// The disputed cells of the table.
    pub fn rules(mut self, rules: DispositionRules) -> Self {
        self.0.rules = rules;
        self
    }

    /// The policy, if every setting is within its range.
    pub fn build(self) -> Result<RetryPolicy, InvalidPolicy> {
        let Backoff { base, factor, cap, jitter: (low, high) } = self.0.backoff;
        let must = |holds: bool, setting, rule| {
            if holds { Ok(()) } else { Err(InvalidPolicy { setting, rule }) }
        };
        must(cap <= Duration::from_secs(3600), "cap", "at most 1 h")?;
        must(base <= cap, "base", "at most `cap`")?;
        must((1.0..=10.0).contains(&factor), "factor", "between 1 and 10")?;
        must(0.0 <= low && low <= high && high <= 2.0, "jitter", "a range between 0 and 2")?;
        must(self.0.hint_cap <= Duration::from_secs(24 * 3600), "hint_cap", "at most 24 h")?;
        Ok(self.0)
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
    if part == 0 { delay } else { delay + Duration::from_nanos(u64::from(1_000_000 - part)) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stanchion_core::{FallbackOn, HintSource};

    use super::*;

    fn hint(delay: Duration) -> RetryHint {
        RetryHint::new(delay, HintSource::RetryAfter)
    }

    #[test]
    fn a_setting_outside_its_range_is_named() {
        let hour = Duration::from_secs(3600);
        let of = RetryPolicy::builder;
        for (builder, setting) in [
            (of().cap(hour + Duration::from_millis(1)), "cap"),
            (of().base(Duration::from_secs(9)), "base"),
            (of().factor(0.9), "factor"),
            (of().factor(f64::NAN), "factor"),
            (of().factor(10.1), "factor"),
            (of().jitter(-0.1..=1.0), "jitter"),
            (of().jitter(0.0..=2.1), "jitter"),
            (of().jitter(1.0..=0.9), "jitter"),
            (of().jitter(f64::NAN..=1.0), "jitter"),
            (of().hint_cap(hour * 25), "hint_cap"),
        ] {
            assert_eq!(builder.build().unwrap_err().setting(), setting);
        }
        let error = of().factor(0.0).build().unwrap_err();
        assert_eq!(error.to_string(), "the retry setting `factor` must be between 1 and 10");
        let widest = of().cap(hour).base(hour).factor(10.0).jitter(0.0..=2.0).hint_cap(hour * 24).max_retries(u32::MAX);
        let rules = DispositionRules::default().with_fallback_on(FallbackOn::Quota);
        let widest = widest.rules(rules).build().unwrap();
        assert_eq!((widest.max_retries(), widest.hint_cap(), *widest.rules()), (u32::MAX, hour * 24, rules));
    }

    #[test]
    fn a_hint_replaces_the_backoff_up_to_its_cap() {
        let policy = RetryPolicy::default();
        for (asked, wait) in [
            (Duration::from_secs(3), Some(3000)),
            (Duration::from_millis(250), Some(250)),
            (Duration::from_micros(1), Some(1)),
            (Duration::from_micros(1_250_500), Some(1251)),
            (Duration::from_secs(60), Some(60_000)),
            (Duration::from_millis(60_001), None),
            (Duration::from_secs(121_180), None),
            (Duration::MAX, None),
        ] {
            let waited = policy.wait(1, Some(hint(asked)), || unreachable!("a hint has no jitter"));
            assert_eq!(waited, wait.map(Duration::from_millis), "{asked:?}");
        }
        assert_eq!(policy.wait(1, Some(hint(Duration::ZERO)), || 1.0), Some(Duration::from_millis(500)));
        assert_eq!(policy.wait(2, None, || 1.0), Some(Duration::from_secs(1)));
    }

    proptest! {
        #[test]
        fn a_hint_is_never_shortened(nanos in 1_u64..90_000_000_000, retry in 1_u32..20) {
            let asked = Duration::from_nanos(nanos);
            match RetryPolicy::default().wait(retry, Some(hint(asked)), || 0.0) {
                Some(wait) => {
                    prop_assert!(asked <= wait && wait < asked + Duration::from_millis(1));
                    prop_assert_eq!(wait.subsec_nanos() % 1_000_000, 0);
                }
                None => prop_assert!(asked > Duration::from_secs(60)),
            }
        }
    }
}
