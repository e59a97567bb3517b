//! Several threads at one queue, in every order that there is with at most three switches against a thread's will.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use loom::thread;
use stanchion_core::{DomainSecret, RequestClass};
use tokio::time::Instant;

use crate::{
    AdmissionPolicy,
    domain::{Domain, Share},
    permit::{Permit, Waiter},
    scheduler::{Counts, DomainLimits, Limits},
    shared::{Ask, Asked, Refused, Shared},
};

/// Threads are switched at most so often against their will: more find nothing new, and take long.
fn explore(scenario: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(scenario);
}

/// A queue with one permit.
struct Queue {
    shared: Arc<Shared>,
    share: Arc<Share>,
}

impl Queue {
    fn new() -> Arc<Self> {
        let limits = Limits {
            global: 1,
            owner: u32::MAX,
            classes: None,
            pending: 8,
            owner_pending: 8,
            bytes: 1 << 20,
            owner_bytes: 1 << 20,
            aging: 30_000_000_000,
        };
        let shared = Arc::new(Shared::new(limits, true, DomainSecret::from_bytes([1; 32]), Vec::new()));
        let share = Share::open(Domain::new(&shared, None), 8);
        Arc::new(Self { shared, share })
    }

    fn ask(&self, owner: u64) -> Asked {
        let ask = Ask {
            share: self.share.clone(),
            limits: DomainLimits { pending: 8, bytes: 1 << 20 },
            owner,
            class: RequestClass::Foreground,
            cost: 1,
            max_wait: AdmissionPolicy::MAX_WAIT,
        };
        self.shared.ask(ask, || (Instant::now(), 1))
    }

    fn runs(&self, owner: u64) -> Permit {
        match self.ask(owner) {
            Asked::Runs(permit) => permit,
            _ => unreachable!("nobody else is here"),
        }
    }

    fn waits(&self, owner: u64) -> Waiter {
        match self.ask(owner) {
            Asked::Waits(waiter) => waiter,
            _ => unreachable!("the permit is taken"),
        }
    }

    fn counts(&self) -> Counts {
        self.shared.read(|state| *state.counts())
    }
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
    fn poll(self: &Arc<Self>, waiter: &mut Waiter) -> Option<Permit> {
        match waiter.poll(&Context::from_waker(&Waker::from(self.clone()))) {
            Poll::Ready(Ok(permit)) => Some(permit),
            Poll::Ready(Err(refusal)) => unreachable!("nobody closes it: {refusal:?}"),
            Poll::Pending => None,
        }
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

#[test]
fn never_more_than_the_limit_run() {
    explore(|| {
        let (queue, running) = (Queue::new(), Arc::new(loom::sync::atomic::AtomicUsize::new(0)));
        let enter = |queue: &Queue, running: &loom::sync::atomic::AtomicUsize, owner| {
            if let Asked::Runs(permit) = queue.ask(owner) {
                assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0);
                running.fetch_sub(1, Ordering::SeqCst);
                drop(permit);
            }
        };
        let other = {
            let (queue, running) = (queue.clone(), running.clone());
            thread::spawn(move || enter(&queue, &running, 1))
        };
        enter(&queue, &running, 2);
        other.join().unwrap();
        assert_eq!(queue.counts(), Counts::default());
    });
}

#[test]
fn no_wake_up_is_lost_between_a_release_and_a_poll() {
    explore(|| {
        let queue = Queue::new();
        let permit = queue.runs(1);
        let mut waiter = queue.waits(2);
        let releaser = thread::spawn(move || drop(permit));
        let woken = Arc::<Woken>::default();
        let early = woken.poll(&mut waiter);
        releaser.join().unwrap();
        assert!(early.is_some() || woken.count() == 1, "woken once");
        let late = early.or_else(|| woken.poll(&mut waiter));
        assert!(late.is_some());
        drop(late);
        assert_eq!((woken.count() <= 1, queue.counts()), (true, Counts::default()));
    });
}

#[test]
fn a_request_that_enqueues_while_the_permit_is_given_back_is_not_left_behind() {
    explore(|| {
        let queue = Queue::new();
        let permit = queue.runs(1);
        let releaser = thread::spawn(move || drop(permit));
        let woken = Arc::<Woken>::default();
        match queue.ask(2) {
            Asked::Runs(permit) => drop(permit),
            Asked::Waits(mut waiter) => {
                let early = woken.poll(&mut waiter);
                releaser.join().unwrap();
                assert!(early.or_else(|| woken.poll(&mut waiter)).is_some());
                drop(waiter);
                assert_eq!(queue.counts(), Counts::default());
                return;
            }
            Asked::Refused(refusal) => unreachable!("{refusal:?}"),
        }
        releaser.join().unwrap();
        assert_eq!(queue.counts(), Counts::default());
    });
}

#[test]
fn a_grant_to_one_who_leaves_goes_on_to_the_next() {
    explore(|| {
        let queue = Queue::new();
        let permit = queue.runs(1);
        let (mut first, mut second) = (queue.waits(2), queue.waits(3));
        let [of_first, of_second] = [(); 2].map(|()| Arc::<Woken>::default());
        assert!(of_first.poll(&mut first).is_none() && of_second.poll(&mut second).is_none());
        let releaser = thread::spawn(move || drop(permit));
        let leaver = thread::spawn(move || drop(first));
        releaser.join().unwrap();
        leaver.join().unwrap();
        assert_eq!(of_second.count(), 1);
        drop(of_second.poll(&mut second).expect("it is its turn"));
        assert_eq!(queue.counts(), Counts::default());
    });
}

#[test]
fn who_waits_when_it_closes_is_told_or_was_granted() {
    explore(|| {
        let queue = Queue::new();
        let permit = queue.runs(1);
        let mut waiter = queue.waits(2);
        let woken = Arc::<Woken>::default();
        assert!(woken.poll(&mut waiter).is_none());
        let closing = queue.clone();
        let closer = thread::spawn(move || closing.shared.close());
        drop(permit);
        closer.join().unwrap();
        assert_eq!(woken.count(), 1);
        match waiter.poll(&Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(permit)) => drop(permit),
            Poll::Ready(Err(refusal)) => assert!(matches!(refusal.kind, Refused::Closed)),
            Poll::Pending => unreachable!("it was woken"),
        }
        assert_eq!(queue.counts(), Counts::default());
        assert!(matches!(queue.ask(3), Asked::Refused(_)));
    });
}
