use std::{error::Error, fmt, time::Duration};

use serde::{Deserialize, Serialize};
use stanchion_core::{DispositionRules, ForceOpenOn};

/// When a circuit opens, for how long, and what it counts. The table of settings is on the
/// [crate's page](crate#settings).
#[derive(Debug, Clone, PartialEq)]
pub struct CircuitPolicy {
    pub(crate) trip: Trip,
    pub(crate) probe_lease: Duration,
    pub(crate) max_open_share: Option<f64>,
    pub(crate) judging: Judging,
}

/// What belongs to a circuit itself: circuits that differ in it are different ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trip {
    pub(crate) open: Duration,
    pub(crate) window: Duration,
    pub(crate) min_samples: u32,
    pub(crate) max_samples: u32,
    pub(crate) failure_rate: f64,
    pub(crate) consecutive: u32,
    pub(crate) concurrency: u32,
    pub(crate) recovery: Recovery,
}

/// How the outcome of a request is told. Belongs to a layer, not to the circuit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Judging {
    pub(crate) rules: DispositionRules,
    pub(crate) slow_call: Duration,
    pub(crate) success_on: SuccessOn,
    pub(crate) late_failure: LateFailure,
}

/// When a reply counts as a success. Default: with its first output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuccessOn {
    /// With the first real output: a provider that answers is well.
    #[default]
    FirstOutput,
    /// With the end of the reply. A reply that breaks off after output is then no success; to make it a failure, set
    /// [`LateFailure::Count`].
    End,
}

/// What a failure after output is. Default: nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LateFailure {
    /// Nothing: the circuit does not change.
    #[default]
    Ignore,
    /// What the table says of the same failure before output: one more sample, as a rule.
    Count,
}

/// How an open circuit closes again. Default: by a leased probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recovery {
    /// When its time is over, one request is let through under a lease. Its outcome decides.
    #[default]
    Lease,
    /// Not by time. Only when all circuits of the model are open, the one with the fewest failures in a row lets
    /// requests through, and a success closes it. Wants [`CircuitLayer::with_candidates`](crate::CircuitLayer::with_candidates): a circuit that knows
    /// no others never turns a request away. This is how octos' chain does it.
    None,
}

/// Builds a [`CircuitPolicy`].
#[derive(Debug, Clone)]
#[must_use]
pub struct CircuitPolicyBuilder(CircuitPolicy);

/// A setting of a [`CircuitPolicy`] or of a [`CircuitRegistry`](crate::CircuitRegistry) is outside its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidCircuit {
    pub(crate) setting: &'static str,
    pub(crate) rule: &'static str,
}

impl Trip {
    /// How many failures in a row open the circuit; 0 if none do.
    ///
    /// A burst of parallel requests meets one outage together: twice the concurrency of them says no more than one.
    pub(crate) fn consecutive_threshold(&self) -> u32 {
        if self.consecutive == 0 { 0 } else { self.consecutive.max(self.concurrency.saturating_mul(2)) }
    }
}

impl CircuitPolicy {
    /// How long a probe holds its lease at least, and by default: 5 min.
    pub const MIN_PROBE_LEASE: Duration = Duration::from_secs(300);
    /// How long a probe holds its lease at most: 10 min.
    pub const MAX_PROBE_LEASE: Duration = Duration::from_secs(600);
    /// How many samples a circuit keeps at most, and by default.
    pub const MAX_SAMPLES: u32 = 256;

    /// Starts from the default policy.
    pub fn builder() -> CircuitPolicyBuilder {
        CircuitPolicyBuilder(Self::default())
    }

    /// Starts from the policy of a chain of candidates: three failures in a row take one out for a minute, or until a
    /// probe succeeds, whatever the rate; the one that failed least is always reachable. A reply is a success when it is
    /// whole, and one that breaks off after its first output is a failure. With the candidates named
    /// ([`CircuitLayer::with_candidates`](crate::CircuitLayer::with_candidates)) this is octos' chain, but that only the table's
    /// failures count and that time heals.
    pub fn chain() -> CircuitPolicyBuilder {
        Self::builder()
            .window(Duration::ZERO)
            .consecutive(3)
            .open(Duration::from_secs(60))
            .success_on(SuccessOn::End)
            .late_failure(LateFailure::Count)
    }

    /// Whether circuits are off: nothing is counted, and nobody turned away.
    pub fn is_off(&self) -> bool {
        self.trip.open.is_zero()
    }

    /// For how long a circuit opens.
    pub fn open(&self) -> Duration {
        self.trip.open
    }

    /// How long a probe holds its lease.
    pub fn probe_lease(&self) -> Duration {
        self.probe_lease
    }

    /// The disputed cells of the table.
    pub fn rules(&self) -> &DispositionRules {
        &self.judging.rules
    }

    /// How many failures in a row open a circuit, concurrency considered; 0 if none do.
    pub fn consecutive_threshold(&self) -> u32 {
        self.trip.consecutive_threshold()
    }

    /// How a circuit closes again.
    pub fn recovery(&self) -> Recovery {
        self.trip.recovery
    }

    /// What keeps circuits apart that are under different policies.
    pub(crate) fn key(&self) -> [(&'static str, u64); 8] {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let Trip { open, window, min_samples, max_samples, failure_rate, recovery, .. } = self.trip;
        [
            ("open_ms", milliseconds(open)),
            ("window_ms", milliseconds(window)),
            ("min_samples", min_samples.into()),
            ("max_samples", max_samples.into()),
            ("failure_rate", failure_rate.to_bits()),
            ("consecutive", self.trip.consecutive_threshold().into()),
            ("slow_call_ms", milliseconds(self.judging.slow_call)),
            ("recovery", recovery as u64),
        ]
    }
}

impl Default for CircuitPolicy {
    fn default() -> Self {
        Self {
            trip: Trip {
                open: Duration::from_secs(10),
                window: Duration::from_secs(60),
                min_samples: 4,
                max_samples: Self::MAX_SAMPLES,
                failure_rate: 0.8,
                consecutive: 0,
                concurrency: 0,
                recovery: Recovery::Lease,
            },
            probe_lease: Self::MIN_PROBE_LEASE,
            max_open_share: None,
            judging: Judging {
                rules: DispositionRules::default(),
                slow_call: Duration::ZERO,
                success_on: SuccessOn::FirstOutput,
                late_failure: LateFailure::Ignore,
            },
        }
    }
}

impl CircuitPolicyBuilder {
    /// For how long a circuit opens. A server's hint stretches it, up to 5 min. Zero turns circuits off.
    pub fn open(mut self, open: Duration) -> Self {
        self.0.trip.open = open;
        self
    }

    /// How long a sample counts for the failure rate. Zero turns the rate off as a reason to open.
    pub fn window(mut self, window: Duration) -> Self {
        self.0.trip.window = window;
        self
    }

    /// How many samples the rate wants before it says anything.
    pub fn min_samples(mut self, min_samples: u32) -> Self {
        self.0.trip.min_samples = min_samples;
        self
    }

    /// How many samples are kept; beyond it the oldest go.
    pub fn max_samples(mut self, max_samples: u32) -> Self {
        self.0.trip.max_samples = max_samples;
        self
    }

    /// The share of failures among the samples at which a circuit opens.
    pub fn failure_rate(mut self, failure_rate: f64) -> Self {
        self.0.trip.failure_rate = failure_rate;
        self
    }

    /// How many failures in a row open a circuit, whatever the rate. 0 turns this off.
    pub fn consecutive(mut self, failures: u32) -> Self {
        self.0.trip.consecutive = failures;
        self
    }

    /// How many requests may be in flight to one candidate. Failures in a row then open no circuit before there are
    /// twice as many: one outage fails all that are in flight. 0: not considered.
    pub fn concurrency(mut self, concurrency: u32) -> Self {
        self.0.trip.concurrency = concurrency;
        self
    }

    /// How an open circuit closes again.
    pub fn recovery(mut self, recovery: Recovery) -> Self {
        self.0.trip.recovery = recovery;
        self
    }

    /// How long a probe may take before its place is given to another: the idle limit of an attempt is the measure. It
    /// is put between 5 and 10 min.
    pub fn probe_lease(mut self, lease: Duration) -> Self {
        self.0.probe_lease = lease.clamp(CircuitPolicy::MIN_PROBE_LEASE, CircuitPolicy::MAX_PROBE_LEASE);
        self
    }

    /// The share of a model's circuits that may turn requests away at once. Default: all but one. See the
    /// [crate's page](crate#the-others-of-a-model).
    pub fn max_open_share(mut self, share: f64) -> Self {
        self.0.max_open_share = Some(share);
        self
    }

    /// A call whose first output takes longer than this is a failure for the circuit, although its caller gets the
    /// reply. Counted from when the circuit lets it in. Zero turns this off.
    pub fn slow_call(mut self, slow_call: Duration) -> Self {
        self.0.judging.slow_call = slow_call;
        self
    }

    /// When a reply counts as a success.
    pub fn success_on(mut self, success_on: SuccessOn) -> Self {
        self.0.judging.success_on = success_on;
        self
    }

    /// What a failure after output is.
    pub fn late_failure(mut self, late_failure: LateFailure) -> Self {
        self.0.judging.late_failure = late_failure;
        self
    }

    /// The disputed cells of the table.
    pub fn rules(mut self, rules: DispositionRules) -> Self {
        self.0.judging.rules = rules;
        self
    }

    /// Opens a circuit at the first failure of this class. In addition to those of the [`rules`](Self::rules), which
    /// are to be set before it.
    pub fn force_open_on(mut self, class: ForceOpenOn) -> Self {
        self.0.judging.rules = self.0.judging.rules.with_forced_opening_on(class);
        self
    }

    /// The policy, if every setting is within its range.
    pub fn build(self) -> Result<CircuitPolicy, InvalidCircuit> {
        let seconds = Duration::from_secs;
        let Trip { open, window, min_samples, max_samples, failure_rate, consecutive, .. } = self.0.trip;
        let rules = self.0.judging.rules;
        must(open.is_zero() || (seconds(1)..=seconds(300)).contains(&open), "open", "0, or between 1 s and 5 min")?;
        must(
            window.is_zero() || (seconds(1)..=seconds(3600)).contains(&window),
            "window",
            "0, or between 1 s and 1 h",
        )?;
        must((1..=CircuitPolicy::MAX_SAMPLES).contains(&max_samples), "max_samples", "between 1 and 256")?;
        must((1..=max_samples).contains(&min_samples), "min_samples", "between 1 and `max_samples`")?;
        must(failure_rate > 0.0 && failure_rate <= 1.0, "failure_rate", "above 0, and at most 1")?;
        must(
            !window.is_zero() || consecutive > 0 || rules.force_open_on().next().is_some(),
            "window",
            "above 0 where nothing else opens a circuit",
        )?;
        must(
            self.0.max_open_share.is_none_or(|share| (0.0..=1.0).contains(&share)),
            "max_open_share",
            "between 0 and 1",
        )?;
        must(self.0.judging.slow_call <= seconds(3600), "slow_call", "at most 1 h")?;
        Ok(self.0)
    }
}

pub(crate) fn must(holds: bool, setting: &'static str, rule: &'static str) -> Result<(), InvalidCircuit> {
    if holds { Ok(()) } else { Err(InvalidCircuit { setting, rule }) }
}

impl InvalidCircuit {
    /// The setting, as the builder calls it.
    pub fn setting(&self) -> &'static str {
        self.setting
    }
}

impl fmt::Display for InvalidCircuit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the circuit setting `{}` must be {}", self.setting, self.rule)
    }
}

impl Error for InvalidCircuit {}
