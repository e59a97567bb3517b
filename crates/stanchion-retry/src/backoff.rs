use std::time::Duration;

/// An exponential backoff with a ceiling and jitter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Backoff {
    pub(crate) base: Duration,
    pub(crate) factor: f64,
    pub(crate) cap: Duration,
    pub(crate) jitter: (f64, f64),
}

impl Backoff {
    /// The wait before retry number `retry`, from 1, in whole milliseconds. `random` runs from 0 to 1.
    pub(crate) fn before(&self, retry: u32, random: f64) -> Duration {
        if self.base.is_zero() {
            return Duration::ZERO;
        }
        let cap = milliseconds(self.cap);
        let steps = i32::try_from(retry.saturating_sub(1)).unwrap_or(i32::MAX);
        // The power may run up to infinity: the ceiling takes it back.
        let exponential = (milliseconds(self.base) * self.factor.powi(steps)).min(cap);
        let (low, high) = self.jitter;
        let random = if random.is_nan() { 0.0 } else { random.clamp(0.0, 1.0) };
        let jittered = exponential * (low + (high - low) * random);
        Duration::from_millis(jittered.round().min(cap) as u64)
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STANDARD: Backoff =
        Backoff { base: Duration::from_millis(500), factor: 2.0, cap: Duration::from_secs(8), jitter: (0.75, 1.0) };

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
            let backoff = Backoff { base: Duration::from_millis(base), factor, cap, jitter: (low, low + width) };
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
