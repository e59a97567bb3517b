//! Several threads at one circuit, in every order that there is.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Wake, Waker},
    time::Duration,
};

use loom::thread;
use stanchion_core::{Candidate, Family, RetryReason};
use tokio::time::Instant;

use crate::{
    CircuitPolicy, CircuitRegistry,
    entry::{Entry, Wait},
    machine::{Cause, Check, Fault, Key, Outcome, Phase},
};

const LEASE: Duration = CircuitPolicy::MIN_PROBE_LEASE;
const OPEN: Duration = Duration::from_secs(10);

/// Threads are switched at most so often against their will: more find nothing new, and take long.
fn explore(scenario: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(scenario);
}

fn failed() -> Outcome {
    Outcome::Failure(Fault {
        cause: Cause { reason: RetryReason::Transport, status: None },
        delay: None,
        at_once: true,
    })
}

fn closed(now: Instant) -> Arc<Entry> {
    let entry = Entry::new("p/m".into(), CircuitPolicy::default().trip, now);
    entry.attach(now);
    Arc::new(entry)
}

/// An open circuit whose probe is due.
fn due(epoch: Instant) -> (Arc<Entry>, Instant) {
    let entry = closed(epoch);
    let Some(Check::Allowed(key)) = entry.check(epoch, LEASE) else { unreachable!("it is closed") };
    assert!(entry.settle(key, failed(), epoch).change.is_some());
    (entry, epoch + OPEN)
}

fn probe(entry: &Entry, now: Instant) -> Key {
    match entry.check(now, LEASE) {
        Some(Check::Probe(key, _)) => key,
        other => unreachable!("a probe is due: {other:?}"),
    }
}

fn phase(entry: &Entry, now: Instant) -> Phase {
    entry.view(now).0.phase
}

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Woken {
    fn poll(self: &Arc<Self>, entry: &Entry, place: u64, now: Instant) -> Option<u64> {
        match entry.poll_turn(place, now, &Context::from_waker(&Waker::from(self.clone()))) {
            Wait::Over(turn) => Some(turn),
            Wait::Until(_) | Wait::ForOthers => None,
        }
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

#[test]
fn one_of_many_becomes_the_probe() {
    explore(|| {
        let (entry, now) = due(Instant::now());
        let others: Vec<_> = (0..2)
            .map(|_| {
                let entry = entry.clone();
                thread::spawn(move || matches!(entry.check(now, LEASE), Some(Check::Probe(..))))
            })
            .collect();
        let own = matches!(entry.check(now, LEASE), Some(Check::Probe(..)));
        let probes = others.into_iter().map(|other| other.join().unwrap()).filter(|probe| *probe).count();
        assert_eq!(probes + usize::from(own), 1);
    });
}

#[test]
fn what_was_let_in_before_an_opening_counts_for_nothing_after_it() {
    explore(|| {
        let now = Instant::now();
        let entry = closed(now);
        let opening = entry.clone();
        let opener = thread::spawn(move || {
            let Some(Check::Allowed(key)) = opening.check(now, LEASE) else { unreachable!("nobody else opens it") };
            assert!(opening.settle(key, failed(), now).change.is_some());
        });
        let success = match entry.check(now, LEASE) {
            Some(Check::Allowed(key)) => entry.settle(key, Outcome::Success, now).counted,
            Some(Check::Denied(_)) => false,
            other => unreachable!("no probe is due: {other:?}"),
        };
        opener.join().unwrap();
        let (view, _) = entry.view(now);
        assert_eq!((view.phase, view.failures, view.samples), (Phase::Open, 1, 1 + u32::from(success)));
    });
}

#[test]
fn a_lost_lease_and_its_takeover_never_both_count() {
    explore(|| {
        let (entry, now) = due(Instant::now());
        let old = probe(&entry, now);
        let later = now + LEASE;
        let stale = entry.clone();
        let owner = thread::spawn(move || stale.settle(old, Outcome::Success, later).counted);
        let taken = match entry.check(later, LEASE) {
            Some(Check::Probe(key, _)) => Some(entry.settle(key, failed(), later).counted),
            // The old owner was faster.
            Some(Check::Allowed(_)) => None,
            other => unreachable!("the lease ran out: {other:?}"),
        };
        let counted = owner.join().unwrap();
        match taken {
            Some(new) => assert!((new, counted) == (true, false) && phase(&entry, later) == Phase::Open),
            None => assert!(counted && phase(&entry, later) == Phase::Closed),
        }
    });
}

#[test]
fn an_abandoned_probe_makes_room_and_a_settled_one_decides() {
    explore(|| {
        let (entry, now) = due(Instant::now());
        let key = probe(&entry, now);
        let dropped = entry.clone();
        let dropper = thread::spawn(move || dropped.abandon(key));
        let second = entry.check(now, LEASE);
        dropper.join().unwrap();
        match second {
            Some(Check::Probe(..)) => assert!(matches!(entry.check(now, LEASE), Some(Check::Denied(_)))),
            Some(Check::Denied(_)) => {
                probe(&entry, now);
            }
            other => unreachable!("nobody closed it: {other:?}"),
        }
    });
}

#[test]
fn no_wake_up_is_lost_when_a_circuit_closes() {
    explore(|| {
        let (entry, now) = due(Instant::now());
        let key = probe(&entry, now);
        let closing = entry.clone();
        let place = entry.join(None);
        let prober = thread::spawn(move || closing.settle(key, Outcome::Success, now));
        let woken = Arc::<Woken>::default();
        let turn = woken.poll(&entry, place, now);
        prober.join().unwrap();
        assert!(turn.is_some() || woken.count() == 1);
        assert!(turn.is_some() || woken.poll(&entry, place, now).is_some());
    });
}

#[test]
fn no_wake_up_is_lost_when_a_turn_ends_and_the_first_leaves() {
    explore(|| {
        let now = Instant::now();
        let entry = closed(now);
        let places = [(); 3].map(|()| entry.join(None));
        let [holder, first, second] = [(); 3].map(|()| Arc::<Woken>::default());
        let turn = holder.poll(&entry, places[0], now).expect("it is closed");
        assert!(first.poll(&entry, places[1], now).is_none());
        let (ending, leaving) = (entry.clone(), entry.clone());
        let ender = thread::spawn(move || ending.end_turn(turn));
        let leaver = thread::spawn(move || leaving.leave(places[1]));
        let early = second.poll(&entry, places[2], now);
        ender.join().unwrap();
        leaver.join().unwrap();
        assert!(early.is_some() || second.count() > 0);
        assert!(early.is_some() || second.poll(&entry, places[2], now).is_some());
    });
}

#[test]
fn turns_are_given_one_at_a_time() {
    explore(|| {
        let now = Instant::now();
        let entry = closed(now);
        let places = [entry.join(None), entry.join(None)];
        let other = entry.clone();
        let poller = thread::spawn(move || Arc::<Woken>::default().poll(&other, places[1], now));
        let own = Arc::<Woken>::default().poll(&entry, places[0], now).expect("it is the first");
        assert_eq!(poller.join().unwrap(), None);
        entry.end_turn(own);
        assert!(Arc::<Woken>::default().poll(&entry, places[1], now).is_some());
    });
}

#[test]
fn a_full_registry_forgets_one_at_a_time() {
    explore(|| {
        // Before the registry's own clock starts, so that it reads the same time in every run.
        let now = Instant::now();
        let registry = CircuitRegistry::builder().max_circuits(1).build().unwrap();
        let policy = CircuitPolicy::default();
        let entry = |name: &'static str| {
            registry.entry(&Candidate::new(name, Family::OpenAi, "https://provider.example/v1"), &policy)
        };
        let (ours, theirs) = (entry("a"), entry("b"));
        let (other, shared) = (theirs.clone(), registry.clone());
        let rival = thread::spawn(move || {
            shared.attach(&other, now);
            // A circuit that was forgotten in between lets everyone in, and learns nothing.
            if let Some(Check::Allowed(key)) = other.check(now, LEASE) {
                other.settle(key, failed(), now);
            }
        });
        registry.attach(&ours, now);
        rival.join().unwrap();
        assert_eq!(registry.len(), 1);
        assert_eq!(usize::from(ours.is_attached()) + usize::from(theirs.is_attached()), 1);
    });
}
