use std::time::Duration;

use crate::{InvalidAdmission, policy::must};

/// A limit of a failure domain that adapts to what its provider can take. Off unless a policy has one.
///
/// # The algorithm
///
/// Additive increase, multiplicative decrease, whose share of the common capacity is stable and fair among those who use
/// it (Chiu and Jain, "Analysis of the Increase and Decrease Algorithms for Congestion Avoidance in Computer Networks",
/// 1989). The limit begins at the ceiling, so that nothing is held back before the provider has complained.
///
/// * **Down**, to [`decrease`](AdaptiveBuilder::decrease) times what is in flight, as TCP does it (RFC 5681, section 3.1),
///   though to no less than half of the limit at once (or `decrease` times the limit, where that is less). That is when
///   the provider answers that the rate is limited (429) or that it is overloaded, or brings no output in time; and when
///   first outputs have become slow: when their mean of late (each counts for an eighth) is more than
///   [`tolerance`](AdaptiveBuilder::tolerance) times the mean of long (each counts for a hundredth), once there were 20. The comparison of a short mean with a long one is that of the gradient limit
///   of Netflix' concurrency-limits. What was sent before the last decrease tells of the time before it, and counts
///   nowhere: as in TCP, one decrease a round trip.
/// * **Up**, by one over the limit for each request that brought output, so by about one a round trip of the whole
///   limit; but only while at least half of the limit is in flight, since what is not used proves nothing.
///
/// It stays between the [floor](AdaptiveBuilder::floor) and the [ceiling](AdaptiveBuilder::ceiling), and never exceeds
/// the policy's `concurrency`. A domain has one such limit. Where layers that share it set it differently, the narrower
/// of each setting holds, in whatever order they come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adaptive {
    floor: u32,
    ceiling: u32,
    decrease: f64,
    tolerance: Option<f64>,
}

/// Builds [`Adaptive`] limits.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct AdaptiveBuilder(Adaptive);

impl Adaptive {
    /// Starts from a floor of 1, a ceiling of 64, a decrease to 0.7 and a tolerance of 2.
    pub fn builder() -> AdaptiveBuilder {
        AdaptiveBuilder(Self { floor: 1, ceiling: 64, decrease: 0.7, tolerance: Some(2.0) })
    }

    /// The lowest that the limit goes.
    pub fn floor(&self) -> u32 {
        self.floor
    }

    /// The highest that the limit goes, and where it begins.
    pub fn ceiling(&self) -> u32 {
        self.ceiling
    }
}

impl AdaptiveBuilder {
    /// The lowest that the limit goes. Between 1 and the ceiling; 1 by default.
    pub fn floor(mut self, floor: u32) -> Self {
        self.0.floor = floor;
        self
    }

    /// The highest that the limit goes, and where it begins. Between 1 and 1,000,000; 64 by default.
    pub fn ceiling(mut self, ceiling: u32) -> Self {
        self.0.ceiling = ceiling;
        self
    }

    /// What of the requests in flight the limit leaves room for after a decrease. Between 0.1 and 0.99; 0.7 by default.
    pub fn decrease(mut self, decrease: f64) -> Self {
        self.0.decrease = decrease;
        self
    }

    /// How many times slower than usual first outputs may become. Between 1.1 and 100; 2 by default. `None`: slowness
    /// decreases nothing.
    pub fn tolerance(mut self, tolerance: impl Into<Option<f64>>) -> Self {
        self.0.tolerance = tolerance.into();
        self
    }

    /// The limits, if every setting is within its range.
    pub fn build(self) -> Result<Adaptive, InvalidAdmission> {
        let Adaptive { floor, ceiling, decrease, tolerance } = self.0;
        must((1..=1_000_000).contains(&ceiling), "ceiling", "between 1 and 1,000,000")?;
        must((1..=ceiling).contains(&floor), "floor", "between 1 and `ceiling`")?;
        must((0.1..=0.99).contains(&decrease), "decrease", "between 0.1 and 0.99")?;
        let tolerances = 1.1..=100.0;
        must(tolerance.is_none_or(|times| tolerances.contains(&times)), "tolerance", "between 1.1 and 100")?;
        Ok(self.0)
    }
}

/// What one request has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Its first output came after so long.
    Output(Duration),
    /// The provider asked for less.
    TooMuch,
}

/// The limit of one domain as it stands.
#[derive(Debug)]
pub(crate) struct Limit {
    settings: Adaptive,
    now: f64,
    /// How many decreases there were: what began before the last one decreases nothing.
    epoch: u64,
    samples: u32,
    short: f64,
    long: f64,
}

impl Limit {
    /// How many first outputs tell what is usual.
    const SAMPLES: u32 = 20;
    const SHORT: f64 = 1.0 / 8.0;
    const LONG: f64 = 1.0 / 100.0;

    pub(crate) fn new(settings: Adaptive) -> Self {
        Self { settings, now: settings.ceiling.into(), epoch: 0, samples: 0, short: 0.0, long: 0.0 }
    }

    /// Another policy sets the limit too.
    pub(crate) fn narrow(&mut self, other: Adaptive) {
        let Adaptive { floor, ceiling, decrease, tolerance } = &mut self.settings;
        *floor = other.floor.min(*floor);
        *ceiling = other.ceiling.min(*ceiling);
        *decrease = other.decrease.min(*decrease);
        *tolerance = [*tolerance, other.tolerance].into_iter().flatten().min_by(f64::total_cmp);
        self.now = self.now.min((*ceiling).into());
    }

    pub(crate) fn limit(&self) -> u32 {
        (self.now as u32).max(self.settings.floor)
    }

    /// What a request that begins now is to say with its signal.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Learns from a request that began in `epoch`, while so many are in flight, itself among them, of at most so many.
    pub(crate) fn learn(&mut self, signal: Signal, epoch: u64, in_flight: u32, most: u32) {
        if epoch != self.epoch {
            return;
        }
        let Adaptive { floor, ceiling, decrease, tolerance } = self.settings;
        let in_flight = f64::from(in_flight);
        let slow = match signal {
            Signal::TooMuch => true,
            Signal::Output(after) => {
                let after = after.as_secs_f64();
                self.samples = self.samples.saturating_add(1);
                // The first ones count alike.
                let equal = 1.0 / f64::from(self.samples);
                self.short += (after - self.short) * equal.max(Self::SHORT);
                self.long += (after - self.long) * equal.max(Self::LONG);
                self.samples > Self::SAMPLES && tolerance.is_some_and(|times| self.short > self.long * times)
            }
        };
        if slow {
            // What can never be in flight holds nothing back.
            let limit = self.now.min(most.into());
            let least = limit * decrease.min(0.5);
            self.now = (limit.min(in_flight) * decrease).max(least).max(floor.into());
            self.epoch += 1;
            // The mean of late tells of the time before; it is to be learnt anew.
            self.short = self.long;
        } else if in_flight * 2.0 >= self.now {
            self.now = (self.now + 1.0 / self.now).min(ceiling.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(adaptive: AdaptiveBuilder) -> Limit {
        Limit::new(adaptive.build().unwrap())
    }

    fn output(milliseconds: u64) -> Signal {
        Signal::Output(Duration::from_millis(milliseconds))
    }

    #[test]
    fn one_burst_of_refusals_is_one_decrease() {
        let mut limit = limit(Adaptive::builder().ceiling(20).floor(3));
        let epoch = limit.epoch();
        for _ in 0..20 {
            limit.learn(Signal::TooMuch, epoch, 20, u32::MAX);
        }
        assert_eq!(limit.limit(), 14);
        for _ in 0..20 {
            limit.learn(Signal::TooMuch, limit.epoch(), 20, u32::MAX);
        }
        assert_eq!(limit.limit(), 3, "the floor");
    }

    #[test]
    fn a_limit_far_above_what_is_in_use_is_soon_below_it() {
        for (most, expected) in [(u32::MAX, [32, 16, 8]), (12, [7, 4, 2]), (10, [7, 4, 2])] {
            let mut limit = limit(Adaptive::builder());
            let limits = expected.map(|_| {
                limit.learn(Signal::TooMuch, limit.epoch(), limit.limit().min(10), most);
                limit.limit()
            });
            assert_eq!(limits, expected, "of {most}");
        }
    }

    #[test]
    fn a_decrease_is_as_large_as_it_is_set() {
        for (decrease, in_flight, expected) in [(0.1, 40, 4), (0.1, 4, 4), (0.3, 40, 12), (0.9, 40, 36), (0.9, 4, 20)] {
            let mut limit = limit(Adaptive::builder().ceiling(40).decrease(decrease));
            limit.learn(Signal::TooMuch, limit.epoch(), in_flight, u32::MAX);
            assert_eq!(limit.limit(), expected, "{decrease} of {in_flight}");
        }
    }

    #[test]
    fn a_burst_of_slow_outputs_is_one_decrease_however_late_they_tell_of_it() {
        let mut limit = limit(Adaptive::builder().ceiling(40).floor(1));
        for _ in 0..100 {
            limit.learn(output(1_000), limit.epoch(), 40, u32::MAX);
        }
        let epoch = limit.epoch();
        for _ in 0..40 {
            limit.learn(output(6_000), epoch, 40, u32::MAX);
        }
        assert_eq!((limit.epoch(), limit.limit()), (epoch + 1, 28));
        for _ in 0..10 {
            limit.learn(output(1_000), limit.epoch(), 20, u32::MAX);
        }
        assert_eq!((limit.epoch(), limit.limit()), (epoch + 1, 28));
    }

    #[test]
    fn it_grows_by_one_a_round_and_only_where_it_is_used() {
        let mut limit = limit(Adaptive::builder().ceiling(12));
        limit.learn(Signal::TooMuch, 0, 12, u32::MAX);
        let low = limit.limit();
        for _ in 0..1_000 {
            limit.learn(output(100), limit.epoch(), low / 2 - 1, u32::MAX);
        }
        assert_eq!(limit.limit(), low);
        for _ in 0..=low {
            limit.learn(output(100), limit.epoch(), low, u32::MAX);
        }
        assert_eq!(limit.limit(), low + 1);
        for _ in 0..1_000 {
            limit.learn(output(100), limit.epoch(), 12, u32::MAX);
        }
        assert_eq!(limit.limit(), 12, "the ceiling");
    }

    #[test]
    fn slowness_of_all_decreases_and_one_slow_request_does_not() {
        let mut limit = limit(Adaptive::builder().ceiling(10));
        for _ in 0..100 {
            limit.learn(output(200), limit.epoch(), 10, u32::MAX);
        }
        limit.learn(output(1_000), limit.epoch(), 10, u32::MAX);
        assert_eq!(limit.limit(), 10);
        for _ in 0..20 {
            limit.learn(output(1_000), limit.epoch(), 10, u32::MAX);
        }
        assert!(limit.limit() < 10, "{}", limit.limit());
        let mut deaf = Limit::new(Adaptive::builder().ceiling(10).tolerance(None).build().unwrap());
        for after in [100, 100_000] {
            for _ in 0..100 {
                deaf.learn(output(after), deaf.epoch(), 10, u32::MAX);
            }
        }
        assert_eq!(deaf.limit(), 10);
    }

    #[test]
    fn of_several_settings_the_narrower_hold_in_any_order() {
        let wide = Adaptive::builder().ceiling(40).floor(4).decrease(0.9).tolerance(None).build().unwrap();
        let low = Adaptive::builder().ceiling(8).floor(8).decrease(0.5).tolerance(3.0).build().unwrap();
        for (first, second) in [(wide, low), (low, wide)] {
            let mut limit = Limit::new(first);
            limit.narrow(second);
            let expected = Adaptive::builder().ceiling(8).floor(4).decrease(0.5).tolerance(3.0).build().unwrap();
            assert_eq!((limit.settings, limit.limit()), (expected, 8));
        }
    }

    #[test]
    fn it_finds_what_a_provider_can_take() {
        // A provider that refuses whatever goes beyond 10 at once.
        let mut limit = limit(Adaptive::builder().ceiling(64));
        let mut seen = Vec::new();
        for round in 0..400 {
            let (sent, epoch) = (limit.limit(), limit.epoch());
            for number in 0..sent {
                limit.learn(if number < 10 { output(100) } else { Signal::TooMuch }, epoch, sent, u32::MAX);
            }
            if round > 50 {
                seen.push(limit.limit());
            }
        }
        assert!(seen.iter().all(|limit| (7..=11).contains(limit)), "{seen:?}");
    }

    #[test]
    fn settings_have_ranges() {
        let setting = |builder: AdaptiveBuilder| builder.build().unwrap_err().setting();
        assert_eq!(setting(Adaptive::builder().ceiling(0)), "ceiling");
        assert_eq!(setting(Adaptive::builder().ceiling(4).floor(5)), "floor");
        assert_eq!(setting(Adaptive::builder().floor(0)), "floor");
        assert_eq!(setting(Adaptive::builder().decrease(1.0)), "decrease");
        assert_eq!(setting(Adaptive::builder().tolerance(1.0)), "tolerance");
        let valid = Adaptive::builder().build().unwrap();
        assert_eq!((valid.floor(), valid.ceiling()), (1, 64));
    }
}
