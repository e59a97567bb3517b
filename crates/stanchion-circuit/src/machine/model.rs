//! The same circuit once more: slow, and obvious. It keeps everything that ever happened, and works out the rest.

use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::{Cause, Check, Due, Fault, Key, MAX_SERVER_DELAY, Machine, Outcome, Phase, RetryReason, Settled, nanos};
use crate::policy::{CircuitPolicy, Recovery, Trip};

/// What may happen to a circuit.
#[derive(Debug, Clone)]
enum Step {
    Pass(Duration),
    Check,
    Preflight,
    Spare,
    /// Of a request in the past, whether it is settled or not.
    Settle(usize, Outcome),
    ForceOpen,
    ForceClose,
    Reset,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Regular,
    Probe,
    Spared,
}

/// A request that was let in.
struct Request {
    role: Role,
    /// How often the circuit had changed its state then.
    changes: u32,
    key: Key,
    settled: bool,
}

struct Model {
    trip: Trip,
    now: Instant,
    phase: Phase,
    by_hand: bool,
    changes: u32,
    /// Every sample since the circuit closed last.
    samples: Vec<(Instant, bool)>,
    in_a_row: u32,
    opened_at: Instant,
    open_for: Duration,
    requests: Vec<Request>,
    /// Which request is the probe, and since when.
    probe: Option<(usize, Instant)>,
    /// Without probes: when a waiter may look again.
    look: Instant,
}

const LEASE: Duration = CircuitPolicy::MIN_PROBE_LEASE;

impl Model {
    fn counted(&self) -> Vec<bool> {
        let within = |(at, _): &&(Instant, bool)| *at + self.trip.window >= self.now;
        let newest = self.samples.iter().rev().take(self.trip.max_samples as usize);
        newest.filter(within).map(|(_, failed)| *failed).collect()
    }

    fn counts(&self) -> (u32, u32) {
        if self.trip.window.is_zero() {
            return (self.in_a_row, self.in_a_row);
        }
        let counted = self.counted();
        (counted.len() as u32, counted.iter().filter(|failed| **failed).count() as u32)
    }

    /// A lease that nobody else can have yet.
    fn is_leased(&self) -> bool {
        self.probe.is_some_and(|(_, since)| self.now < since + LEASE)
    }

    fn lets_in(&self) -> bool {
        match self.phase {
            Phase::Closed => true,
            Phase::Open => {
                !self.by_hand && self.trip.recovery == Recovery::Lease && self.now >= self.opened_at + self.open_for
            }
            Phase::HalfOpen => !self.is_leased(),
        }
    }

    fn check(&mut self) -> Option<Role> {
        if !self.lets_in() {
            if self.phase == Phase::Open && self.now >= self.look {
                self.look = self.now + self.open_for;
            }
            return None;
        }
        match self.phase {
            Phase::Closed => Some(Role::Regular),
            Phase::Open | Phase::HalfOpen => {
                if self.phase == Phase::Open {
                    self.become_(Phase::HalfOpen);
                }
                self.probe = Some((self.requests.len(), self.now));
                Some(Role::Probe)
            }
        }
    }

    fn become_(&mut self, phase: Phase) {
        self.changes += 1;
        self.phase = phase;
        self.by_hand = false;
        self.probe = None;
    }

    fn close(&mut self) {
        self.become_(Phase::Closed);
        self.samples.clear();
        self.in_a_row = 0;
        self.open_for = self.trip.open;
    }

    fn open(&mut self, fault: Fault) {
        self.become_(Phase::Open);
        self.opened_at = self.now;
        self.open_for = self.trip.open.max(fault.delay.unwrap_or_default().min(MAX_SERVER_DELAY));
        self.look = self.now + self.open_for;
    }

    /// Whether anything of it counts.
    fn settle(&mut self, index: usize, outcome: Outcome) -> bool {
        let request = &mut self.requests[index];
        let counts = !std::mem::replace(&mut request.settled, true) && request.changes == self.changes;
        let role = request.role;
        if !counts || role == Role::Probe && self.probe.is_none_or(|(probe, _)| probe != index) {
            return false;
        }
        match (role, outcome) {
            (Role::Regular, Outcome::Success) => {
                self.samples.push((self.now, false));
                self.in_a_row = 0;
            }
            (Role::Regular, Outcome::Failure(fault)) => {
                self.samples.push((self.now, true));
                self.in_a_row += 1;
                let (samples, failures) = self.counts();
                let by_rate = !self.trip.window.is_zero()
                    && samples >= self.trip.min_samples
                    && f64::from(failures) >= self.trip.failure_rate * f64::from(samples) - 1e-9;
                let in_a_row = self.trip.consecutive > 0
                    && self.in_a_row >= self.trip.consecutive
                    && self.in_a_row >= 2 * self.trip.concurrency;
                if by_rate || in_a_row || fault.at_once {
                    self.open(fault);
                }
            }
            (Role::Probe, Outcome::Success | Outcome::Neutral) | (Role::Spared, Outcome::Success) => self.close(),
            (Role::Probe, Outcome::Failure(fault)) => {
                self.in_a_row += 1;
                self.open(fault);
            }
            (Role::Probe, Outcome::Abandoned) => self.probe = None,
            (Role::Spared, Outcome::Failure(_)) => self.in_a_row += 1,
            _ => {}
        }
        true
    }

    /// When the first who waits may go.
    fn due(&self) -> Due {
        let at = match self.phase {
            Phase::Open if self.by_hand => return Due::Never,
            Phase::Open if self.trip.recovery == Recovery::None => self.look,
            Phase::Open => self.opened_at + self.open_for,
            Phase::HalfOpen if self.is_leased() => self.probe.expect("leased").1 + LEASE,
            Phase::HalfOpen | Phase::Closed => return Due::Now,
        };
        if at <= self.now { Due::Now } else { Due::At(at) }
    }
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let reasons = prop_oneof![Just(RetryReason::RateLimit), Just(RetryReason::Transport)];
    let delays = proptest::option::weighted(0.2, (0_u64..400_000).prop_map(Duration::from_millis));
    let fault = (reasons, proptest::option::of(400_u16..600), delays, proptest::bool::weighted(0.03));
    let fault = fault.prop_map(|(reason, status, delay, at_once)| {
        Outcome::Failure(Fault { cause: Cause { reason, status }, delay, at_once })
    });
    prop_oneof![2 => Just(Outcome::Success), 5 => fault, 1 => Just(Outcome::Neutral), 1 => Just(Outcome::Abandoned)]
}

fn step() -> impl Strategy<Value = Step> {
    let pass = prop_oneof![Just(0), 1_u64..1000, 1000_u64..20_000, 20_000_u64..700_000, Just(10_000), Just(60_000)];
    prop_oneof![
        4 => pass.prop_map(|pass| Step::Pass(Duration::from_millis(pass))),
        8 => Just(Step::Check),
        1 => Just(Step::Preflight),
        1 => Just(Step::Spare),
        10 => (0_usize..6, outcome()).prop_map(|(back, outcome)| Step::Settle(back, outcome)),
        2 => (0_usize..60, outcome()).prop_map(|(back, outcome)| Step::Settle(back, outcome)),
        1 => prop_oneof![2 => Just(Step::ForceOpen), 2 => Just(Step::ForceClose), 1 => Just(Step::Reset)],
    ]
}

fn trip() -> impl Strategy<Value = Trip> {
    let open = 1_u64..=300;
    let window = prop_oneof![4 => Just(60), 1 => 1_u64..600, 1 => Just(0)];
    let rates = prop_oneof![Just(0.8), Just(0.5), Just(1.0), Just(0.01)];
    let samples = (1_u32..6, prop_oneof![Just(256_u32), 6_u32..12]);
    let row = (prop_oneof![Just(0_u32), 1_u32..6], 0_u32..4);
    let recovery = prop_oneof![4 => Just(Recovery::Lease), 1 => Just(Recovery::None)];
    (open, window, rates, samples, row, recovery).prop_map(
        |(open, window, failure_rate, (min_samples, max_samples), (consecutive, concurrency), recovery)| Trip {
            open: Duration::from_secs(open),
            window: Duration::from_secs(window),
            min_samples,
            max_samples,
            failure_rate,
            consecutive,
            concurrency,
            recovery,
        },
    )
}

/// Many where the machine has the time for it.
fn cases() -> u32 {
    if std::env::var_os("CI").is_some() { 10_000 } else { 500 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn the_machine_does_what_the_model_does(trip in trip(), steps in proptest::collection::vec(step(), 1..90)) {
        let epoch = Instant::now();
        let mut machine = Machine::new(trip, epoch);
        let mut model = Model {
            trip,
            now: epoch,
            phase: Phase::Closed,
            by_hand: false,
            changes: 0,
            samples: Vec::new(),
            in_a_row: 0,
            opened_at: epoch,
            open_for: trip.open,
            requests: Vec::new(),
            probe: None,
            look: epoch,
        };
        for step in steps {
            match step {
                Step::Pass(time) => model.now += time,
                Step::Preflight => prop_assert_eq!(machine.preflight(model.now).is_ok(), model.lets_in()),
                Step::Check => {
                    let (key, role) = match machine.check(model.now, LEASE) {
                        Check::Allowed(key) => (Some(key), Some(Role::Regular)),
                        Check::Probe(key, _) => (Some(key), Some(Role::Probe)),
                        Check::Denied(_) => (None, None),
                    };
                    prop_assert_eq!(role, model.check());
                    if let (Some(key), Some(role)) = (key, role) {
                        model.requests.push(Request { role, changes: model.changes, key, settled: false });
                    }
                }
                Step::Spare => {
                    let role = if model.phase == Phase::Closed { Role::Regular } else { Role::Spared };
                    let key = machine.spare();
                    model.requests.push(Request { role, changes: model.changes, key, settled: false });
                }
                Step::Settle(back, outcome) => {
                    let Some(index) = model.requests.len().checked_sub(back + 1) else { continue };
                    // A token settles once: the second time it has no key any more.
                    if model.requests[index].settled {
                        continue;
                    }
                    let before = model.phase;
                    let settled = match (model.requests[index].key, outcome) {
                        // The short way, which is taken most often.
                        (Key::Regular { generation }, Outcome::Success) => {
                            let counted = machine.succeed(generation, nanos(model.now - epoch));
                            Settled { counted, change: None, wakes: false, late: None }
                        }
                        (key, outcome) => machine.settle(key, outcome, model.now),
                    };
                    prop_assert_eq!(settled.counted, model.settle(index, outcome));
                    let changed = settled.counted && (before, model.requests[index].role) != (model.phase, Role::Regular)
                        && (before != model.phase);
                    prop_assert_eq!(settled.change.is_some(), changed, "{:?} {:?}", before, settled);
                    if let Some(view) = settled.change.map(|change| change.1) {
                        prop_assert_eq!(view.phase, model.phase);
                        prop_assert_eq!(view.open_for, model.open_for);
                    }
                }
                Step::ForceOpen => {
                    machine.force_open(model.now);
                    model.become_(Phase::Open);
                    model.by_hand = true;
                    model.open_for = trip.open;
                }
                Step::ForceClose => {
                    machine.force_close(model.now);
                    if model.phase != Phase::Closed {
                        model.close();
                    }
                }
                Step::Reset => {
                    machine.reset(model.now);
                    model.close();
                }
            }
            let view = machine.view(model.now);
            prop_assert_eq!((view.phase, view.by_hand), (model.phase, model.by_hand));
            prop_assert_eq!((view.samples, view.failures), model.counts());
            prop_assert_eq!((view.consecutive, view.open_for), (model.in_a_row, model.open_for));
            prop_assert_eq!(view.wait.is_zero(), model.lets_in());
            prop_assert_eq!(machine.due(model.now), model.due());
            // Never more than one probe.
            let live = |request: &&Request| request.role == Role::Probe && machine.is_current(request.key) && !request.settled;
            prop_assert!(model.requests.iter().filter(live).count() <= 1);
        }
    }
}
