use std::time::Duration;

/// An exponential backoff with a ceiling and jitter.
///
/// The wait before retry *n* is `base × factor^(n-1)`, times a random number out of `jitter`, with the ceiling `cap`
/// applied where `cap_stage` says; in whole milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    /// The wait before the first retry; at most `cap`.
    pub base: Duration,
    /// How much longer each wait is than the one before, from 1 to 10.
    pub factor: f64,
    /// The longest wait, at most 1 h.
    pub cap: Duration,
    /// What a wait is multiplied by at random: the least and the most, between 0 and 2.
    pub jitter: (f64, f64),
    /// Where the ceiling applies.
    pub cap_stage: CapStage,
}

/// Where the ceiling of a [`Backoff`] applies: it decides how long the longest wait really is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CapStage {
    /// Before jitter and after it: no wait is longer than the ceiling, and the longest still differ.
    #[default]
    BeforeAndAfterJitter,
    /// Before jitter only: with a jitter above 1 a wait may be longer than the ceiling.
    BeforeJitter,
    /// After jitter only: once the waits are far above the ceiling all are equal to it.
    AfterJitter,
}

impl Backoff {
    /// From 500 ms, doubled each time, up to 8 s, of which at random up to a quarter is taken off.
    pub const STANDARD: Self = Self {
        base: Duration::from_millis(500),
        factor: 2.0,
        cap: Duration::from_secs(8),
        jitter: (0.75, 1.0),
        cap_stage: CapStage::BeforeAndAfterJitter,
    };

    /// The wait before retry number `retry`, from 1. `random` runs from 0 to 1.
    pub fn before(&self, retry: u32, random: f64) -> Duration {
        if self.base.is_zero() {
            return Duration::ZERO;
        }
        let cap = milliseconds(self.cap);
        let steps = i32::try_from(retry.saturating_sub(1)).unwrap_or(i32::MAX);
        // The power may run up to infinity: the ceiling takes it back.
        let mut wait = milliseconds(self.base) * self.factor.powi(steps);
        if self.cap_stage != CapStage::AfterJitter {
            wait = wait.min(cap);
        }
        let (low, high) = self.jitter;
        let random = if random.is_nan() { 0.0 } else { random.clamp(0.0, 1.0) };
        wait *= low + (high - low) * random;
        if self.cap_stage != CapStage::BeforeJitter {
            wait = wait.min(cap);
        }
        Duration::from_millis(wait.round() as u64)
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STANDARD: Backoff = Backoff::STANDARD;

    #[test]
    fn the_golden_ranges() {
        for (retry, low, high) in [
            (1, 375, 500),
            (2, 750, 1000),
            (3, 1500, 2000),
            (4, 3000, 4000),
            (5, 6000, 8000),
            (6, 6000, 8000),
            (20, 6000, 8000),
            (u32::MAX, 6000, 8000),
        ] {
            let range = [0.0, 1.0].map(|random| STANDARD.before(retry, random).as_millis());
            assert_eq!(range, [low, high], "retry {retry}");
        }
        let long = Backoff { cap: Duration::from_secs(60), ..STANDARD };
        for (retry, low, high) in [(6, 12_000, 16_000), (7, 24_000, 32_000), (8, 45_000, 60_000), (9, 45_000, 60_000)] {
            let range = [0.0, 1.0].map(|random| long.before(retry, random).as_millis());
            assert_eq!(range, [low, high], "retry {retry}");
        }
    }

    #[test]
    fn odd_numbers_make_no_odd_waits() {
        assert_eq!(STANDARD.before(0, 1.0), Duration::from_millis(500));
        for (random, wait) in [(f64::NAN, 375), (-1.0, 375), (7.0, 500), (f64::INFINITY, 500), (0.501, 438)] {
            assert_eq!(STANDARD.before(1, random).as_millis(), wait, "{random}");
        }
        let idle = Backoff { base: Duration::ZERO, factor: 10.0, ..STANDARD };
        assert_eq!(idle.before(u32::MAX, 1.0), Duration::ZERO);
        let upwards = Backoff { jitter: (1.0, 2.0), ..STANDARD };
        assert_eq!([1, 5].map(|retry| upwards.before(retry, 1.0).as_millis()), [1000, 8000]);
    }

    #[test]
    fn the_stage_of_the_ceiling_decides_what_the_longest_wait_is() {
        let wide = Backoff { jitter: (0.5, 1.5), ..STANDARD };
        for (cap_stage, retry, low, high) in [
            (CapStage::BeforeAndAfterJitter, 9, 4000, 8000),
            (CapStage::BeforeJitter, 9, 4000, 12_000),
            (CapStage::AfterJitter, 9, 8000, 8000),
            (CapStage::BeforeAndAfterJitter, 1, 250, 750),
            (CapStage::BeforeJitter, 1, 250, 750),
            (CapStage::AfterJitter, 1, 250, 750),
            (CapStage::AfterJitter, 5, 4000, 8000),
        ] {
            let backoff = Backoff { cap_stage, ..wide };
            let range = [0.0, 1.0].map(|random| backoff.before(retry, random).as_millis());
            assert_eq!(range, [low, high], "{cap_stage:?} {retry}");
        }
    }

    proptest! {
        #[test]
        fn a_backoff_stays_within_its_bounds(
            base in 0_u64..10_000,
            more in 0_u64..60_000,
            factor in 1.0_f64..=10.0,
            (low, width) in (0.0_f64..=1.0, 0.0_f64..=1.0),
            retry in 1_u32..2000,
            random in 0.0_f64..=1.0,
        ) {
            let cap = Duration::from_millis(base + more);
            let backoff = Backoff { base: Duration::from_millis(base), factor, cap, jitter: (low, low + width), ..STANDARD };
            let wait = backoff.before(retry, random);
            prop_assert!(wait <= cap);
            prop_assert_eq!(wait.subsec_nanos() % 1_000_000, 0);
            prop_assert!(wait >= backoff.before(retry, 0.0) && wait <= backoff.before(retry, 1.0));
            prop_assert!(backoff.before(retry + 1, random) >= wait, "a later wait is shorter");
            let unjittered = Backoff { jitter: (1.0, 1.0), ..backoff }.before(1, random);
            prop_assert_eq!(unjittered, Duration::from_millis(base));
        }
    }
}
