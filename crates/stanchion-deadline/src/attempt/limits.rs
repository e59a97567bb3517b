use std::{fmt, time::Duration};

use super::FirstOutput;

/// The limits of one attempt. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptLimits {
    first_output: Option<FirstOutput>,
    first_output_is_default: bool,
    pub(super) stall_warning: Option<Duration>,
    pub(super) idle: Option<Duration>,
    pub(super) liveness: Option<Duration>,
    pub(super) total: Option<Duration>,
    pub(super) grace: Duration,
}

impl AttemptLimits {
    /// The default limit of the first-output clock.
    pub const FIRST_OUTPUT: Duration = Duration::from_secs(120);
    /// The default limit of the idle clock.
    pub const IDLE: Duration = Duration::from_secs(300);
    /// The default limit of the total clock.
    pub const TOTAL: Duration = Duration::from_secs(600);
    /// The default of the stall warning, which is never longer than half of the idle limit.
    pub const STALL_WARNING: Duration = Duration::from_secs(30);
    /// The default grace after a finish.
    pub const GRACE: Duration = Duration::from_secs(2);
    /// The code of a failure of the liveness clock, which tells it from one of the idle clock.
    pub const LIVENESS_CODE: &str = "liveness";

    /// Starts from the defaults.
    pub const fn builder() -> AttemptLimitsBuilder {
        AttemptLimitsBuilder::with(Defaults {
            first_output: FirstOutput::Fixed(Self::FIRST_OUTPUT),
            idle: Self::IDLE,
            total: Self::TOTAL,
        })
    }

    /// Starts from other defaults, for models that think before they speak: 120 s and 1 s for each thousand tokens of the prompt, at most
    /// 600 s, to the first output; idle for 300 s; 1 h in all. A reply that does not stream may take the whole hour.
    ///
    /// Sources: the octos client gives 30 s and 1 s for each thousand tokens, at most 180 s, to models of any kind; PI-Desktop measured
    /// silences before the first token of 5.6 s at the median, 13.4 s at the 90th, 55 s at the 99th and 174 s at the 99.9th percentile.
    /// The base is twice the 99th percentile, and both the cap and the idle limit are above the longest of those silences.
    pub const fn thinking_builder() -> AttemptLimitsBuilder {
        AttemptLimitsBuilder::with(Defaults {
            first_output: FirstOutput::Scaled {
                base: Duration::from_secs(120),
                per_1k: Duration::from_secs(1),
                cap: Duration::from_secs(600),
            },
            idle: Self::IDLE,
            total: Duration::from_secs(3600),
        })
    }

    /// The limits of [`thinking_builder`](Self::thinking_builder), as they are.
    pub fn thinking() -> Self {
        Self::thinking_builder().build().expect("the preset is in order")
    }

    /// From the attempt's start, response head included, to its first real output; the longest, where it grows with the prompt.
    pub const fn first_output(&self) -> Option<Duration> {
        match self.first_output {
            Some(rule) => Some(rule.longest()),
            None => None,
        }
    }

    /// How that limit comes about.
    pub const fn first_output_rule(&self) -> Option<FirstOutput> {
        self.first_output
    }

    /// The same for one call. A reply that does not stream comes whole, so that its first output is its last: there the default gives
    /// way to the total, and only a limit that was set counts.
    pub(super) fn first_output_of(&self, streams: bool, tokens: usize) -> Option<Duration> {
        if streams || !self.first_output_is_default {
            self.first_output.map(|rule| rule.of(tokens))
        } else {
            self.total
        }
    }

    /// After how long without progress a stall is told.
    pub const fn stall_warning(&self) -> Option<Duration> {
        self.stall_warning
    }

    /// Between two events that show progress, once output has begun.
    pub const fn idle(&self) -> Option<Duration> {
        self.idle
    }

    /// Between two bytes of a streamed reply, once its head has come.
    pub const fn liveness(&self) -> Option<Duration> {
        self.liveness
    }

    /// The whole attempt.
    pub const fn total(&self) -> Option<Duration> {
        self.total
    }
}

impl Default for AttemptLimits {
    fn default() -> Self {
        Self::builder().build().expect("the defaults are in order")
    }
}

/// Builds [`AttemptLimits`]. A limit that is not set is the smaller of its default and the total; a limit of zero is none.
#[derive(Debug, Clone, Copy)]
pub struct AttemptLimitsBuilder {
    defaults: Defaults,
    first_output: Option<FirstOutput>,
    idle: Option<Duration>,
    liveness: Duration,
    total: Option<Duration>,
    stall_warning: Option<Duration>,
    grace: Duration,
}

/// What counts where nothing is set.
#[derive(Debug, Clone, Copy)]
struct Defaults {
    first_output: FirstOutput,
    idle: Duration,
    total: Duration,
}

impl AttemptLimitsBuilder {
    const fn with(defaults: Defaults) -> Self {
        Self {
            defaults,
            first_output: None,
            idle: None,
            liveness: Duration::ZERO,
            total: None,
            stall_warning: None,
            grace: AttemptLimits::GRACE,
        }
    }

    /// From the attempt's start, response head included, to its first real output. Default 120 s; zero is no limit.
    #[must_use]
    pub const fn first_output(self, limit: Duration) -> Self {
        self.first_output_by(FirstOutput::Fixed(limit))
    }

    /// The same, for the size of the prompt: `base` and `per_1k` for each thousand tokens, in proportion, at most `cap`. A base or a cap
    /// of zero is no limit.
    ///
    /// The tokens are [estimated](stanchion_core::Call::estimated_tokens) from the size of the request; where the request carries
    /// no [`Call`](stanchion_core::Call), the limit is the base.
    #[must_use]
    pub const fn first_output_scaled(self, base: Duration, per_1k: Duration, cap: Duration) -> Self {
        self.first_output_by(FirstOutput::Scaled { base, per_1k, cap })
    }

    const fn first_output_by(mut self, rule: FirstOutput) -> Self {
        self.first_output = Some(rule);
        self
    }

    /// Between two events that show progress, once output has begun. Default 300 s; zero is no limit.
    ///
    /// Where the first-output clock is off, it counts before output too.
    #[must_use]
    pub const fn idle(mut self, limit: Duration) -> Self {
        self.idle = Some(limit);
        self
    }

    /// Between two bytes of a streamed reply, comments and pings among them, from its head to its finish: finds a dead connection long
    /// before the idle clock, which has to leave room for thought. Off by default; at most the idle limit; zero is no limit.
    ///
    /// For providers that ping: Anthropic is reported to do so every 15 to 30 s, Azure's Responses after 30 s of silence, while
    /// OpenAI's own have been seen silent for 170 s on a connection in good health. A reply that does not stream may send nothing
    /// until it is done, so that this clock does not count there.
    ///
    /// It ends as an [`IdleTimeout`](stanchion_core::FailureKind::IdleTimeout) with the code
    /// [`LIVENESS_CODE`](AttemptLimits::LIVENESS_CODE): for whoever retries or falls back it is the same silence.
    #[must_use]
    pub const fn liveness(mut self, limit: Duration) -> Self {
        self.liveness = limit;
        self
    }

    /// The whole attempt, from its start to the end of the body. Default 600 s; zero is no limit.
    ///
    /// It is a hard deadline: the time that a slow consumer takes counts, even after the provider has sent its last byte.
    #[must_use]
    pub const fn total(mut self, limit: Duration) -> Self {
        self.total = Some(limit);
        self
    }

    /// After how long without progress a stall is told, as an event. Default: 30 s, or half of the idle limit if that is less, which is the
    /// most in any case; zero tells none.
    #[must_use]
    pub const fn stall_warning(mut self, after: Duration) -> Self {
        self.stall_warning = Some(after);
        self
    }

    /// How long a stream may be silent once the model has finished, before it counts as complete. Default 2 s.
    #[must_use]
    pub const fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// The limits.
    ///
    /// # Errors
    ///
    /// If a limit that is set is larger than the total, or the liveness limit larger than the idle limit: it could never end anything.
    pub fn build(self) -> Result<AttemptLimits, LimitsError> {
        let on = |limit: Duration| (!limit.is_zero()).then_some(limit);
        let total = on(self.total.unwrap_or(self.defaults.total));
        let within_total = |limit: Duration| total.map_or(limit, |total| limit.min(total));
        let within = |name, limit: Duration, wider: &'static str, bound: Option<Duration>| match bound {
            Some(bound) if limit > bound => Err(LimitsError { name, limit, wider, bound }),
            _ => Ok(limit),
        };

        let idle = match self.idle {
            None => Some(within_total(self.defaults.idle)),
            Some(limit) => on(within("idle", limit, "total", total)?),
        };
        let first_output = match self.first_output {
            None => Some(total.map_or(self.defaults.first_output, |total| self.defaults.first_output.within(total))),
            Some(rule) if rule.is_off() => None,
            Some(rule) => {
                within("first_output", rule.longest(), "total", total)?;
                Some(rule)
            }
        };
        let liveness = within("liveness", self.liveness, "idle", idle)?;
        let liveness = on(within("liveness", liveness, "total", total)?);
        let stall_warning = self.stall_warning.unwrap_or(AttemptLimits::STALL_WARNING);
        Ok(AttemptLimits {
            first_output,
            first_output_is_default: self.first_output.is_none(),
            stall_warning: on(idle.map_or(stall_warning, |idle| stall_warning.min(idle / 2))),
            idle,
            liveness,
            total,
            grace: self.grace,
        })
    }
}

/// A limit that could never end anything, because a wider one ends the attempt before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitsError {
    name: &'static str,
    limit: Duration,
    wider: &'static str,
    bound: Duration,
}

impl LimitsError {
    /// Which limit: `first_output`, `idle` or `liveness`.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl fmt::Display for LimitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, limit, wider, bound } = self;
        write!(
            f,
            "timeouts.{name} is {limit:?}, longer than timeouts.{wider} of {bound:?}: lower it to at most the {wider}, or raise the {wider} \
             (\"0s\" is no limit)"
        )
    }
}

impl std::error::Error for LimitsError {}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_limit_that_is_not_set_is_the_smaller_of_its_default_and_the_total() {
        let builder = AttemptLimits::builder;
        for (limits, first_output, idle, total) in [
            (builder(), Some(120), Some(300), Some(600)),
            (builder().total(s(6)), Some(6), Some(6), Some(6)),
            (builder().total(s(200)), Some(120), Some(200), Some(200)),
            (builder().total(s(0)), Some(120), Some(300), None),
            (builder().total(s(0)).first_output(s(0)).idle(s(0)), None, None, None),
            (builder().total(s(6)).first_output(s(3)).idle(s(3)), Some(3), Some(3), Some(6)),
            (builder().total(s(0)).idle(s(9000)), Some(120), Some(9000), None),
        ] {
            let built = limits.build().unwrap();
            assert_eq!(
                (built.first_output(), built.idle(), built.total()),
                (first_output.map(s), idle.map(s), total.map(s)),
                "{limits:?}"
            );
        }
        assert_eq!(builder().build().unwrap(), AttemptLimits::default());
    }

    #[test]
    fn the_defaults_for_thinking_models_give_way_to_what_is_set() {
        let builder = AttemptLimits::thinking_builder;
        assert_eq!(builder().build().unwrap(), AttemptLimits::thinking());
        for (limits, first_output, idle, total) in [
            (builder(), Some(600), Some(300), Some(3600)),
            (builder().total(s(60)), Some(60), Some(60), Some(60)),
            (builder().total(s(0)), Some(600), Some(300), None),
            (builder().first_output(s(30)), Some(30), Some(300), Some(3600)),
            (builder().idle(s(0)), Some(600), None, Some(3600)),
        ] {
            let built = limits.build().unwrap();
            let expected = (first_output.map(s), idle.map(s), total.map(s));
            assert_eq!((built.first_output(), built.idle(), built.total()), expected, "{limits:?}");
        }
    }

    #[test]
    fn a_limit_above_the_total_is_refused_by_name() {
        let error = AttemptLimits::builder().total(s(60)).idle(s(61)).build().unwrap_err();
        assert_eq!(error.name(), "idle");
        assert_eq!(
            error.to_string(),
            "timeouts.idle is 61s, longer than timeouts.total of 60s: lower it to at most the total, or raise the total (\"0s\" is no limit)"
        );
        // The default total is a total as well.
        assert_eq!(AttemptLimits::builder().first_output(s(601)).build().unwrap_err().name(), "first_output");
    }

    #[test]
    fn the_stall_warning_is_at_most_half_of_the_idle_limit() {
        for (idle, set, warning) in [
            (300, None, Some(30)),
            (20, None, Some(10)),
            (20, Some(4), Some(4)),
            (20, Some(15), Some(10)),
            (20, Some(0), None),
            (0, None, Some(30)),
        ] {
            let mut limits = AttemptLimits::builder().idle(s(idle));
            if let Some(set) = set {
                limits = limits.stall_warning(s(set));
            }
            assert_eq!(limits.build().unwrap().stall_warning(), warning.map(s), "{idle} {set:?}");
        }
    }

    #[test]
    fn liveness_is_off_by_default_and_within_the_other_clocks() {
        let builder = AttemptLimits::builder;
        assert_eq!(AttemptLimits::default().liveness(), None);
        for (limits, liveness) in [
            (builder().liveness(s(0)), None),
            (builder().liveness(s(300)), Some(300)),
            (builder().liveness(s(400)).idle(s(0)), Some(400)),
            (builder().liveness(s(9000)).idle(s(0)).total(s(0)), Some(9000)),
        ] {
            assert_eq!(limits.build().unwrap().liveness(), liveness.map(s), "{limits:?}");
        }
        // The default idle limit is a limit as well.
        let error = builder().liveness(s(301)).build().unwrap_err();
        assert_eq!(error.name(), "liveness");
        assert_eq!(
            error.to_string(),
            "timeouts.liveness is 301s, longer than timeouts.idle of 300s: lower it to at most the idle, or raise the idle (\"0s\" is no limit)"
        );
        let error = builder().liveness(s(601)).idle(s(0)).build().unwrap_err();
        assert!(error.to_string().contains("longer than timeouts.total of 600s"), "{error}");
    }

    #[test]
    fn the_cap_of_a_scaled_first_output_is_within_the_total() {
        let scaled = |base, cap| AttemptLimits::builder().first_output_scaled(s(base), s(1), s(cap));
        let limits = scaled(30, 180).build().unwrap();
        assert_eq!(limits.first_output(), Some(s(180)));
        assert_eq!(limits.first_output_rule(), Some(FirstOutput::Scaled { base: s(30), per_1k: s(1), cap: s(180) }));
        assert_eq!(scaled(30, 601).build().unwrap_err().name(), "first_output");
        assert_eq!(scaled(30, 601).total(s(0)).build().unwrap().first_output(), Some(s(601)));
        for off in [scaled(0, 180), scaled(30, 0)] {
            assert_eq!(off.build().unwrap().first_output(), None);
        }
    }

    #[test]
    fn thinking_models_have_more_time() {
        let limits = AttemptLimits::thinking();
        for (streams, tokens, limit) in
            [(true, 0, 120), (true, 20_000, 140), (true, 1_000_000, 600), (false, 20_000, 3600)]
        {
            assert_eq!(limits.first_output_of(streams, tokens), Some(s(limit)), "{streams} {tokens}");
        }
        assert_eq!((limits.idle(), limits.total(), limits.liveness()), (Some(s(300)), Some(s(3600)), None));
    }
}
