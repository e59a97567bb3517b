use std::{fmt, time::Duration};

/// The limits of one attempt. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptLimits {
    pub(super) first_output: Option<Duration>,
    pub(super) first_output_is_default: bool,
    pub(super) stall_warning: Option<Duration>,
    pub(super) idle: Option<Duration>,
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

    /// Starts from the defaults.
    pub const fn builder() -> AttemptLimitsBuilder {
        AttemptLimitsBuilder { first_output: None, idle: None, total: None, stall_warning: None, grace: Self::GRACE }
    }

    /// From the attempt's start, response head included, to its first real output.
    pub const fn first_output(&self) -> Option<Duration> {
        self.first_output
    }

    /// The same for one call. A reply that does not stream comes whole, so that its first output is its last: there the default gives
    /// way to the total, and only a limit that was set counts.
    pub(super) const fn first_output_of(&self, streams: bool) -> Option<Duration> {
        if streams || !self.first_output_is_default { self.first_output } else { self.total }
    }

    /// After how long without progress a stall is told.
    pub const fn stall_warning(&self) -> Option<Duration> {
        self.stall_warning
    }

    /// Between two events that show progress, once output has begun.
    pub const fn idle(&self) -> Option<Duration> {
        self.idle
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
    first_output: Option<Duration>,
    idle: Option<Duration>,
    total: Option<Duration>,
    stall_warning: Option<Duration>,
    grace: Duration,
}

impl AttemptLimitsBuilder {
    /// From the attempt's start, response head included, to its first real output. Default 120 s; zero is no limit.
    #[must_use]
    pub const fn first_output(mut self, limit: Duration) -> Self {
        self.first_output = Some(limit);
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

    /// The whole attempt, from its start to the end of the body. Default 600 s; zero is no limit.
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
    /// If a limit that is set is larger than the total that is set: it could never end anything.
    pub fn build(self) -> Result<AttemptLimits, LimitsError> {
        let on = |limit: Duration| (!limit.is_zero()).then_some(limit);
        let total = on(self.total.unwrap_or(AttemptLimits::TOTAL));
        let within_total = |limit: Duration| total.map_or(limit, |total| limit.min(total));
        let limit = |name: &'static str, set: Option<Duration>, default: Duration| match (set, total) {
            (None, _) => Ok(Some(within_total(default))),
            (Some(limit), Some(total)) if limit > total => Err(LimitsError { name, limit, total }),
            (Some(limit), _) => Ok(on(limit)),
        };
        let idle = limit("idle", self.idle, AttemptLimits::IDLE)?;
        let stall_warning = self.stall_warning.unwrap_or(AttemptLimits::STALL_WARNING);
        Ok(AttemptLimits {
            first_output: limit("first_output", self.first_output, AttemptLimits::FIRST_OUTPUT)?,
            first_output_is_default: self.first_output.is_none(),
            stall_warning: on(idle.map_or(stall_warning, |idle| stall_warning.min(idle / 2))),
            idle,
            total,
            grace: self.grace,
        })
    }
}

/// A limit that could never end anything, because the total ends the attempt before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitsError {
    name: &'static str,
    limit: Duration,
    total: Duration,
}

impl LimitsError {
    /// Which limit: `first_output` or `idle`.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl fmt::Display for LimitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "timeouts.{} is {:?}, longer than timeouts.total of {:?}: lower it to at most the total, or raise the total (\"0s\" is no limit)",
            self.name, self.limit, self.total
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
}
