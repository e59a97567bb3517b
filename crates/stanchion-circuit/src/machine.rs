//! One circuit as plain data: no lock, no clock of its own, no HTTP. It is told the time, and says what to do.

mod window;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::time::Duration;

use stanchion_core::{CircuitPhase, RetryReason};
use tokio::time::Instant;

use self::window::Window;
use crate::policy::{Recovery, Trip};

/// How long an opening is stretched by a server's word, at most.
pub(crate) const MAX_SERVER_DELAY: Duration = Duration::from_secs(300);

/// What those are told to wait who find a probe under way. A guess: it may end at any moment.
pub(crate) const PROBE_GUESS: Duration = Duration::from_millis(50);

/// The state of one circuit.
#[derive(Debug)]
pub(crate) struct Machine {
    trip: Trip,
    /// What the times of samples are counted from.
    epoch: Instant,
    window: Window,
    /// Failures since the last success.
    consecutive: u32,
    state: State,
    /// Grows with every change of state, so that what was let in before it counts for nothing after it.
    generation: u64,
    /// Grows with every probe, so that who lost its lease counts for nothing.
    leases: u64,
    cause: Option<Cause>,
    /// For how long it opened last, as long as it is not closed.
    open_for: Duration,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Closed,
    /// Nobody is let in until `due`.
    Open {
        due: Instant,
        held: Held,
    },
    /// One at a time is let in, under a lease. `due` is when that became possible.
    HalfOpen {
        due: Instant,
        lease: Option<Lease>,
    },
}

/// What ends an opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    /// A probe.
    ForProbe,
    /// A success of a request that was let through because every other door is shut.
    ForSpared,
    /// A hand.
    ByHand,
}

#[derive(Debug, Clone, Copy)]
struct Lease {
    id: u64,
    expires: Instant,
}

/// Why a circuit opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) reason: RetryReason,
    pub(crate) status: Option<u16>,
}

impl Default for Cause {
    fn default() -> Self {
        Self { reason: RetryReason::ServerError, status: None }
    }
}

/// A failure, as far as a circuit cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) cause: Cause,
    /// How long the server asks to be left alone.
    pub(crate) delay: Option<Duration>,
    /// Whether the circuit opens whatever it has seen before.
    pub(crate) at_once: bool,
}

/// What a request was let in as. Whatever it comes to is said with this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// Through a closed circuit.
    Regular { generation: u64 },
    /// As the one probe.
    Probe { generation: u64, lease: u64 },
    /// Through an open circuit, since too many others are open, too.
    Spared { generation: u64 },
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    Failure(Fault),
    /// The provider answered, and the request was at fault.
    Neutral,
    /// Nothing was learnt.
    Abandoned,
}

/// Whether a request is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    Allowed(Key),
    Probe(Key, View),
    Denied(View),
}

/// What a settlement changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Whether it counted. What comes too late does not.
    pub(crate) counted: bool,
    /// What it changed, to be told. Boxed, since it seldom does.
    pub(crate) change: Option<Box<(CircuitPhase, View)>>,
    /// Whether whoever waits should look again.
    pub(crate) wakes: bool,
    /// What a later failure of the same request is said with.
    pub(crate) late: Option<Key>,
}

/// A circuit as events and listings tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) phase: Phase,
    pub(crate) cause: Cause,
    /// How long until it is worth asking again.
    pub(crate) wait: Duration,
    pub(crate) open_for: Duration,
    pub(crate) samples: u32,
    pub(crate) failures: u32,
    pub(crate) consecutive: u32,
    pub(crate) by_hand: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Closed,
    Open,
    HalfOpen,
}

/// When the first who waits may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Now,
    At(Instant),
    /// Not before something happens.
    Never,
}

impl Machine {
    pub(crate) fn new(trip: Trip, epoch: Instant) -> Self {
        Self {
            trip,
            epoch,
            window: Window::default(),
            consecutive: 0,
            state: State::Closed,
            generation: 0,
            leases: 0,
            cause: None,
            open_for: trip.open,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.state {
            State::Closed => Phase::Closed,
            State::Open { .. } => Phase::Open,
            State::HalfOpen { .. } => Phase::HalfOpen,
        }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn consecutive(&self) -> u32 {
        self.consecutive
    }

    pub(crate) fn is_held_by_hand(&self) -> bool {
        matches!(self.state, State::Open { held: Held::ByHand, .. })
    }

    /// Whether a request would be let in, and claims nothing. Otherwise how long that will take.
    pub(crate) fn preflight(&self, now: Instant) -> Result<(), Duration> {
        match self.state {
            State::Open { held: Held::ByHand, .. } => Err(self.open_for),
            State::Open { due, held: _ } if now < due => Err(due - now),
            State::Open { held: Held::ForSpared, .. } => Err(self.open_for),
            State::HalfOpen { lease: Some(lease), .. } if now < lease.expires => {
                Err((lease.expires - now).clamp(Duration::from_millis(1), PROBE_GUESS))
            }
            State::Closed | State::Open { held: Held::ForProbe, .. } | State::HalfOpen { .. } => Ok(()),
        }
    }

    /// Lets a request in, or turns it away. A probe is claimed for as long as `lease`.
    pub(crate) fn check(&mut self, now: Instant, lease: Duration) -> Check {
        if self.preflight(now).is_err() {
            let view = self.view(now);
            // Whoever waits for an opening without probes looks again once an interval, not all the time.
            if let State::Open { due, held: Held::ForSpared } = &mut self.state
                && *due <= now
            {
                *due = now + self.open_for;
            }
            return Check::Denied(view);
        }
        let due = match self.state {
            State::Closed => return Check::Allowed(Key::Regular { generation: self.generation }),
            State::Open { due, .. } => {
                self.generation += 1;
                due
            }
            // Taking over a lease that ran out is no change of state: its old owner is known by the lease.
            State::HalfOpen { due, .. } => due,
        };
        self.leases += 1;
        self.state = State::HalfOpen { due, lease: Some(Lease { id: self.leases, expires: now + lease }) };
        let key = Key::Probe { generation: self.generation, lease: self.leases };
        Check::Probe(key, self.view(now))
    }

    /// Lets a request in that [`check`](Self::check) turned away.
    pub(crate) fn spare(&self) -> Key {
        match self.state {
            State::Closed => Key::Regular { generation: self.generation },
            _ => Key::Spared { generation: self.generation },
        }
    }

    /// Whether `key` still counts.
    fn is_current(&self, key: Key) -> bool {
        let (generation, fits) = match (key, self.state) {
            (Key::Regular { generation }, state) => (generation, matches!(state, State::Closed)),
            (Key::Spared { generation }, state) => (generation, !matches!(state, State::Closed)),
            (Key::Probe { generation, lease }, State::HalfOpen { lease: Some(current), .. }) => {
                (generation, lease == current.id)
            }
            (Key::Probe { .. }, _) => return false,
        };
        fits && generation == self.generation
    }

    /// Learns what became of a request. To be called once for each key.
    pub(crate) fn settle(&mut self, key: Key, outcome: Outcome, now: Instant) -> Settled {
        if !self.is_current(key) {
            return Settled { counted: false, change: None, wakes: false, late: None };
        }
        let change = match (key, outcome) {
            (Key::Regular { .. }, Outcome::Success) => {
                self.sample(self.nanos(now), false);
                None
            }
            (Key::Regular { .. }, Outcome::Failure(fault)) => {
                self.sample(self.nanos(now), true);
                (fault.at_once || self.trips()).then(|| self.open(CircuitPhase::Opened, fault, now))
            }
            (Key::Probe { .. }, Outcome::Success | Outcome::Neutral) | (Key::Spared { .. }, Outcome::Success) => {
                Some(self.close(now))
            }
            (Key::Probe { .. }, Outcome::Failure(fault)) => {
                self.consecutive = self.consecutive.saturating_add(1);
                Some(self.open(CircuitPhase::Reopened, fault, now))
            }
            (Key::Probe { .. }, Outcome::Abandoned) => {
                if let State::HalfOpen { lease, .. } = &mut self.state {
                    *lease = None;
                }
                return Settled { counted: true, change: None, wakes: true, late: None };
            }
            (Key::Spared { .. }, Outcome::Failure(_)) => {
                // The next time another of the list is the least failed.
                self.consecutive = self.consecutive.saturating_add(1);
                None
            }
            (Key::Regular { .. } | Key::Spared { .. }, Outcome::Neutral | Outcome::Abandoned) => None,
        };
        let late = (outcome == Outcome::Success).then_some(Key::Regular { generation: self.generation });
        Settled { counted: true, wakes: change.is_some(), change: change.map(Box::new), late }
    }

    /// What most requests come to, in short: the success of one that a closed circuit let in. `now` is in nanoseconds
    /// since the epoch. Returns whether it counted.
    pub(crate) fn succeed(&mut self, generation: u64, now: u64) -> bool {
        let counted = self.is_current(Key::Regular { generation });
        if counted {
            self.sample(now, false);
        }
        counted
    }

    /// Opens, until a hand closes it.
    pub(crate) fn force_open(&mut self, now: Instant) -> View {
        self.generation += 1;
        self.open_for = self.trip.open;
        self.state = State::Open { due: now + self.open_for, held: Held::ByHand };
        self.view(now)
    }

    /// Closes, if it is not closed. What was learnt goes; why it opened last is kept.
    pub(crate) fn force_close(&mut self, now: Instant) -> Option<View> {
        (self.phase() != Phase::Closed).then(|| self.close(now).1)
    }

    /// Forgets everything but the number of its generation.
    pub(crate) fn reset(&mut self, now: Instant) {
        self.close(now);
        self.cause = None;
    }

    /// The circuit as it stands.
    pub(crate) fn view(&mut self, now: Instant) -> View {
        let (samples, failures) = self.counts(now);
        View {
            phase: self.phase(),
            cause: self.cause.unwrap_or_default(),
            wait: self.preflight(now).err().unwrap_or_default(),
            open_for: self.open_for,
            samples,
            failures,
            consecutive: self.consecutive,
            by_hand: self.is_held_by_hand(),
        }
    }

    /// When the first who waits may go.
    pub(crate) fn due(&self, now: Instant) -> Due {
        let at = match self.state {
            State::Closed | State::HalfOpen { lease: None, .. } => return Due::Now,
            State::Open { held: Held::ByHand, .. } => return Due::Never,
            State::Open { due, .. } => due,
            State::HalfOpen { lease: Some(lease), .. } => lease.expires,
        };
        if now < at { Due::At(at) } else { Due::Now }
    }

    fn nanos(&self, at: Instant) -> u64 {
        nanos(at.saturating_duration_since(self.epoch))
    }

    /// A sample at `now`, in nanoseconds since the epoch.
    fn sample(&mut self, now: u64, failed: bool) {
        self.consecutive = if failed { self.consecutive.saturating_add(1) } else { 0 };
        if !self.trip.window.is_zero() {
            self.forget(now);
            self.window.push(now, failed, self.trip.max_samples);
        }
    }

    fn forget(&mut self, now: u64) {
        if let Some(from) = now.checked_sub(nanos(self.trip.window)) {
            self.window.forget_before(from);
        }
    }

    /// Samples and failures. Without a window, the failures in a row.
    fn counts(&mut self, now: Instant) -> (u32, u32) {
        if self.trip.window.is_zero() {
            return (self.consecutive, self.consecutive);
        }
        self.forget(self.nanos(now));
        (self.window.count(), self.window.failures())
    }

    /// Whether a failure that was just sampled opens the circuit.
    fn trips(&self) -> bool {
        let (samples, failures) = (self.window.count(), self.window.failures());
        let by_rate = !self.trip.window.is_zero()
            && samples >= self.trip.min_samples
            && f64::from(failures) / f64::from(samples) >= self.trip.failure_rate;
        let in_a_row = self.trip.consecutive_threshold();
        by_rate || in_a_row > 0 && self.consecutive >= in_a_row
    }

    fn open(&mut self, phase: CircuitPhase, fault: Fault, now: Instant) -> (CircuitPhase, View) {
        let asked = fault.delay.unwrap_or_default().min(MAX_SERVER_DELAY);
        self.generation += 1;
        self.open_for = self.trip.open.max(whole_milliseconds(asked));
        let held = match self.trip.recovery {
            Recovery::Lease => Held::ForProbe,
            Recovery::None => Held::ForSpared,
        };
        self.state = State::Open { due: now + self.open_for, held };
        self.cause = Some(fault.cause);
        (phase, self.view(now))
    }

    fn close(&mut self, now: Instant) -> (CircuitPhase, View) {
        self.generation += 1;
        self.state = State::Closed;
        self.window.clear();
        self.consecutive = 0;
        self.open_for = self.trip.open;
        (CircuitPhase::Closed, self.view(now))
    }
}

/// In 63 bits, which are enough for three centuries.
pub(crate) fn nanos(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos().into()) & u64::MAX >> 1
}

/// A server's delay is never shortened.
fn whole_milliseconds(delay: Duration) -> Duration {
    Duration::from_millis(delay.as_nanos().div_ceil(1_000_000) as u64)
}
