use super::*;
use crate::policy::CircuitPolicy;

const LEASE: Duration = CircuitPolicy::MIN_PROBE_LEASE;

/// A machine, and a clock of its own.
struct Bench {
    machine: Machine,
    now: Instant,
}

/// A settlement, with its change at hand.
struct Told {
    counted: bool,
    change: Option<(CircuitPhase, View)>,
    wakes: bool,
    late: Option<Key>,
}

impl Bench {
    fn new(trip: Trip) -> Self {
        let now = Instant::now();
        Self { machine: Machine::new(trip, now), now }
    }

    fn pass(&mut self, milliseconds: u64) {
        self.now += Duration::from_millis(milliseconds);
    }

    fn check(&mut self) -> Key {
        match self.machine.check(self.now, LEASE) {
            Check::Allowed(key) | Check::Probe(key, _) => key,
            Check::Denied(view) => panic!("turned away: {view:?}"),
        }
    }

    fn settle(&mut self, key: Key, outcome: Outcome) -> Told {
        let Settled { counted, change, wakes, late } = self.machine.settle(key, outcome, self.now);
        Told { counted, change: change.map(|change| *change), wakes, late }
    }

    /// A request and its end.
    fn play(&mut self, outcome: Outcome) -> Told {
        let key = self.check();
        self.settle(key, outcome)
    }

    fn counts(&mut self) -> (u32, u32) {
        let view = self.machine.view(self.now);
        (view.failures, view.samples)
    }
}

fn trip() -> Trip {
    CircuitPolicy::default().trip
}

fn fault(reason: RetryReason, status: u16) -> Fault {
    Fault { cause: Cause { reason, status: Some(status) }, delay: None, at_once: false }
}

fn failed() -> Outcome {
    Outcome::Failure(fault(RetryReason::ServerError, 503))
}

fn opened(trip: Trip) -> Bench {
    let mut bench = Bench::new(trip);
    while bench.machine.phase() == Phase::Closed {
        bench.play(failed());
    }
    bench
}

#[test]
fn no_failure_rate_below_the_mark_opens() {
    let mut bench = Bench::new(trip());
    for outcome in [failed(), failed(), failed(), Outcome::Success] {
        assert_eq!(bench.play(outcome).change, None);
    }
    assert_eq!(bench.counts(), (3, 4));
    // 4 of 5 are the mark itself.
    assert!(matches!(bench.play(failed()).change, Some((CircuitPhase::Opened, _))));
    assert_eq!(bench.counts(), (4, 5));
}

#[test]
fn only_a_failure_opens() {
    // A success that ages out leaves a rate above the mark, and nothing happens until the next failure.
    let mut bench = Bench::new(trip());
    bench.play(Outcome::Success);
    bench.play(Outcome::Success);
    bench.pass(30_000);
    for _ in 0..4 {
        bench.play(failed());
    }
    bench.pass(30_001);
    assert_eq!((bench.counts(), bench.machine.phase()), ((4, 4), Phase::Closed));
    assert!(bench.play(Outcome::Success).change.is_none());
    assert!(bench.play(failed()).change.is_some());
}

#[test]
fn a_sample_counts_for_exactly_the_window() {
    let mut bench = Bench::new(trip());
    bench.play(failed());
    bench.pass(60_000);
    assert_eq!(bench.counts(), (1, 1));
    bench.pass(1);
    assert_eq!(bench.counts(), (0, 0));
    // Twenty seconds apart, four never meet.
    for _ in 0..20 {
        bench.pass(20_001);
        assert_eq!(bench.play(failed()).change, None);
    }
}

#[test]
fn the_window_is_capped_and_then_only_the_new_count() {
    let mut bench = Bench::new(Trip { max_samples: 5, min_samples: 5, failure_rate: 1.0, ..trip() });
    for _ in 0..6 {
        bench.play(failed());
        bench.play(Outcome::Success);
    }
    assert_eq!(bench.counts(), (2, 5));
    bench.pass(60_001);
    bench.play(failed());
    assert_eq!(bench.counts(), (1, 1));
}

#[test]
fn failures_in_a_row_open_whatever_the_rate() {
    let mut bench = Bench::new(Trip { consecutive: 3, ..trip() });
    for _ in 0..20 {
        bench.play(Outcome::Success);
    }
    bench.play(failed());
    bench.play(failed());
    bench.play(Outcome::Success);
    assert!(bench.play(failed()).change.is_none() && bench.play(failed()).change.is_none());
    assert!(bench.play(failed()).change.is_some());
    assert_eq!(bench.counts(), (5, 26));
}

#[test]
fn one_outage_under_a_parallel_load_is_no_row() {
    // The window is off, and three in a row would do; but five may be in flight.
    let mut bench = Bench::new(Trip { consecutive: 3, concurrency: 5, window: Duration::ZERO, ..trip() });
    for _ in 0..9 {
        assert_eq!(bench.play(failed()).change, None);
    }
    let Some((CircuitPhase::Opened, view)) = bench.play(failed()).change else { panic!("ten are twice five") };
    assert_eq!((view.failures, view.samples), (10, 10));
}

#[test]
fn a_failure_may_open_at_once() {
    let mut bench = Bench::new(trip());
    let fault = Fault { at_once: true, ..fault(RetryReason::RateLimit, 429) };
    let Some((CircuitPhase::Opened, view)) = bench.play(Outcome::Failure(fault)).change else { panic!("it opens") };
    assert_eq!((view.failures, view.samples, view.cause.status), (1, 1, Some(429)));
}

#[test]
fn a_servers_word_stretches_an_opening_up_to_five_minutes() {
    for (asked, open_for) in [
        (Duration::from_secs(45), Duration::from_secs(45)),
        (Duration::from_secs(3), Duration::from_secs(10)),
        (Duration::from_micros(10_000_100), Duration::from_millis(10_001)),
        (Duration::from_secs(301), Duration::from_secs(300)),
        (Duration::MAX, Duration::from_secs(300)),
    ] {
        let mut bench = Bench::new(trip());
        let fault = Fault { delay: Some(asked), at_once: true, ..fault(RetryReason::RateLimit, 429) };
        bench.play(Outcome::Failure(fault));
        let view = bench.machine.view(bench.now);
        assert_eq!((view.open_for, view.wait), (open_for, open_for), "{asked:?}");
        // Once it closes, its own time applies again.
        bench.now += open_for;
        bench.play(Outcome::Success);
        assert_eq!(bench.machine.view(bench.now).open_for, Duration::from_secs(10));
    }
}

#[test]
fn neutral_and_given_up_requests_leave_no_trace_in_a_closed_circuit() {
    let mut bench = Bench::new(trip());
    for outcome in [Outcome::Neutral, Outcome::Abandoned] {
        let settled = bench.play(outcome);
        assert_eq!((settled.change, settled.wakes, settled.late), (None, false, None));
    }
    assert_eq!(bench.counts(), (0, 0));
}

#[test]
fn a_probe_whose_lease_ran_out_still_counts_until_another_takes_over() {
    let mut bench = opened(trip());
    bench.pass(10_000);
    let old = bench.check();
    bench.pass(300_000);
    assert!(bench.settle(old, Outcome::Success).counted);
    assert_eq!(bench.machine.phase(), Phase::Closed);
}

#[test]
fn an_opening_without_probes_ends_by_a_spared_request() {
    let mut bench = opened(Trip { recovery: Recovery::None, ..trip() });
    for _ in 0..3 {
        bench.pass(3_600_000);
        assert!(matches!(bench.machine.check(bench.now, LEASE), Check::Denied(_)));
        // Whoever waits looks again after the time of an opening.
        assert_eq!(bench.machine.due(bench.now), Due::At(bench.now + Duration::from_secs(10)));
    }
    let (first, second) = (bench.machine.spare(), bench.machine.spare());
    assert_eq!(bench.settle(first, failed()).change, None);
    assert_eq!(bench.machine.consecutive(), 5);
    assert!(matches!(bench.settle(second, Outcome::Success).change, Some((CircuitPhase::Closed, _))));
}

#[test]
fn a_late_failure_of_the_request_that_closed_it_is_a_sample_of_the_new_time() {
    let mut bench = opened(trip());
    bench.pass(10_000);
    let late = bench.play(Outcome::Success).late.expect("it closed the circuit");
    assert!(bench.settle(late, failed()).counted);
    assert_eq!(bench.counts(), (1, 1));
}

#[test]
fn a_hand_opens_until_a_hand_closes() {
    let mut bench = Bench::new(trip());
    let under_way = bench.check();
    bench.machine.force_open(bench.now);
    assert!(!bench.settle(under_way, Outcome::Success).counted);
    bench.pass(86_400_000);
    let Check::Denied(view) = bench.machine.check(bench.now, LEASE) else { panic!("no time closes it") };
    assert!(view.by_hand && view.wait == Duration::from_secs(10));
    assert_eq!(bench.machine.due(bench.now), Due::Never);
    assert!(bench.machine.force_close(bench.now).is_some());
    assert!(bench.machine.force_close(bench.now).is_none());
    bench.play(Outcome::Success);
}

#[test]
fn a_reset_circuit_remembers_no_failure() {
    let mut bench = opened(trip());
    bench.machine.force_close(bench.now);
    assert_eq!(bench.machine.view(bench.now).cause.status, Some(503));
    bench.machine.reset(bench.now);
    assert_eq!(bench.machine.view(bench.now).cause, Cause::default());
}
