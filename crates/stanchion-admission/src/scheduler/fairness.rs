//! Whose turn comes when, and that everyone's does.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use stanchion_core::RequestClass::{self, Background, Foreground, Internal};

use super::{tests::shared, *};

/// A queue of owners by number.
struct Rush {
    scheduler: Scheduler<u64>,
    weights: Vec<u8>,
    cost: u8,
    running: Grant,
}

impl Rush {
    /// One runs, and everything else waits for it.
    fn new(weights: Vec<u8>) -> Self {
        let limits = Limits { pending: 1 << 20, owner_pending: 1 << 20, ..shared() };
        let mut scheduler = Scheduler::new(limits);
        scheduler.open_domain(u32::MAX);
        scheduler.open_share(0, 1);
        let arrival = Self::arrival(u64::MAX, 1, 1, Foreground);
        let running = scheduler.start(&arrival).unwrap();
        Self { scheduler, weights, cost: 1, running }
    }

    fn arrival(owner: u64, weight: u8, cost: u8, class: RequestClass) -> Arrival {
        let limits = DomainLimits { pending: 1 << 20, bytes: 1 << 30 };
        Arrival { domain: 0, share: 0, limits, owner, weight, class, bytes: 0, cost }
    }

    fn enqueue(&mut self, owner: u64, class: RequestClass, now: u64) {
        let weight = self.weights.get(owner as usize).copied().unwrap_or(1);
        let arrival = Self::arrival(owner, weight, self.cost, class);
        self.scheduler.may_wait(&arrival, now).unwrap();
        self.scheduler.enqueue(&arrival, owner, now);
    }

    /// Whose turn it is next.
    fn next(&mut self, now: u64) -> u64 {
        let mut granted = Vec::new();
        let done = std::mem::replace(&mut self.running, Grant { owner: 0, domain: 0, share: 0, class: 0 });
        self.scheduler.release(done);
        self.scheduler.drain(now, |at, owner| granted.push((at, *owner)));
        assert_eq!(granted.len(), 1);
        self.running = self.scheduler.take(granted[0].0).0.unwrap();
        granted[0].1
    }
}

#[test]
fn a_flood_of_one_owner_delays_no_other_by_more_than_a_round() {
    let mut rush = Rush::new(Vec::new());
    for _ in 0..10_000 {
        rush.enqueue(0, Foreground, 0);
    }
    for owner in 1..=10 {
        rush.enqueue(owner, Foreground, 0);
    }
    let round: Vec<u64> = (0..11).map(|_| rush.next(0)).collect();
    assert_eq!(round, (0..11).collect::<Vec<_>>());
    // And whoever comes late, at whatever point.
    for owner in 11..40 {
        rush.enqueue(owner, Foreground, 0);
        let next = [rush.next(0), rush.next(0)];
        assert!(next.contains(&owner), "{next:?}");
    }
}

#[test]
fn shares_are_as_the_weights() {
    for (weights, costs) in [(vec![3, 1], [1, 1]), (vec![3, 1], [7, 2]), (vec![5, 2], [1, 3]), (vec![1, 1], [1, 10])] {
        let mut rush = Rush::new(weights.clone());
        let mut served = [0u64; 2];
        let refill = |rush: &mut Rush, owner: usize| {
            rush.cost = costs[owner];
            rush.enqueue(owner as u64, Foreground, 0);
        };
        for owner in [0, 1, 0, 1, 0, 1] {
            (0..10).for_each(|_| refill(&mut rush, owner));
        }
        for _ in 0..10_000 {
            let owner = rush.next(0) as usize;
            served[owner] += u64::from(costs[owner]);
            refill(&mut rush, owner);
        }
        let ratio = served[0] as f64 / served[1] as f64;
        let meant = f64::from(weights[0]) / f64::from(weights[1]);
        assert!((ratio / meant - 1.0).abs() < 0.02, "{weights:?} {costs:?}: {ratio}");
    }
}

#[test]
fn what_costs_much_elsewhere_makes_nobodys_turn_longer_here() {
    let mut rush = Rush::new(Vec::new());
    for _ in 0..200 {
        rush.enqueue(0, Foreground, 0);
    }
    (1..=3).for_each(|owner| rush.enqueue(owner, Foreground, 0));
    // A domain that is full, and that stays so.
    let full = rush.scheduler.open_domain(0);
    let share = rush.scheduler.open_share(full, 1);
    let dear = Arrival { domain: full, share, ..Rush::arrival(9, 1, MAX_COST, Foreground) };
    rush.scheduler.enqueue(&dear, 9, 0);
    let round: Vec<u64> = (0..4).map(|_| rush.next(0)).collect();
    assert_eq!(round, [0, 1, 2, 3]);
}

#[test]
fn nobody_starves() {
    // A stream of foreground requests that never lets up, from two owners, one of them heavy; and one of each class.
    let mut rush = Rush::new(vec![1, 3]);
    for owner in [0, 1, 0, 1, 0, 1, 0, 1] {
        rush.enqueue(owner, Foreground, 0);
    }
    rush.enqueue(2, Background, 0);
    rush.enqueue(3, Internal, 0);
    let mut served = HashMap::new();
    for now in (0..80_000).step_by(100) {
        let owner = rush.next(now);
        served.entry(owner).or_insert(now);
        if owner < 2 {
            rush.enqueue(owner, Foreground, now);
        }
    }
    // At its best rank within a round of four grants and one more.
    assert!((30_000..=30_500).contains(&served[&2]), "{served:?}");
    assert!((60_000..=60_500).contains(&served[&3]), "{served:?}");
}

#[test]
fn a_stream_of_new_owners_starves_nobody() {
    // Two who have asked twice; and then one new owner after the other, each as fast as another is served.
    let mut rush = Rush::new(Vec::new());
    for owner in [0, 1, 0, 1] {
        rush.enqueue(owner, Foreground, 0);
    }
    let mut order = Vec::new();
    for new in 2..200 {
        rush.enqueue(new, Foreground, 0);
        order.push(rush.next(0));
    }
    let last = order.iter().rposition(|owner| *owner < 2).unwrap();
    assert_eq!(order.iter().filter(|owner| **owner < 2).count(), 4, "{order:?}");
    assert!(last < 10, "{order:?}");
    // And the new ones come in the order in which they came.
    let new: Vec<_> = order.into_iter().filter(|owner| *owner >= 2).collect();
    assert!(new.is_sorted(), "{new:?}");
}

#[derive(Debug, Clone)]
enum Step {
    /// A known owner asks, or one who has never been seen.
    Known(u64, usize),
    New(usize),
    Serve,
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (0..3u64, 0..3usize).prop_map(|(owner, class)| Step::Known(owner, class)),
        5 => (0..3usize).prop_map(Step::New),
        6 => Just(Step::Serve),
        1 => (0..20_000u64).prop_map(Step::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// A ticket of the best rank waits for one lap that has begun, and for one more for each ticket of its owner that may
    /// come before it and for itself; and no lap has more visits than twice the owners who wait when it begins.
    #[test]
    fn every_wait_is_bounded_whoever_comes_meanwhile(steps in prop::collection::vec(step(), 1..600)) {
        let mut rush = Rush::new(Vec::new());
        let (mut now, mut served, mut new) = (0, 0u64, 1_000);
        let mut waiting: Vec<Patient> = Vec::new();
        for step in steps {
            let (owner, class) = match step {
                Step::Known(owner, class) => (owner, class),
                Step::New(class) => {
                    new += 1;
                    (new, class)
                }
                Step::Pass(time) => {
                    now += time;
                    // Who comes to the best rank is noticed by the next who asks or leaves.
                    continue;
                }
                Step::Serve if waiting.is_empty() => continue,
                Step::Serve => {
                    for patient in &mut waiting {
                        let is_best = patient.since + 30_000 * patient.class as u64 <= now;
                        patient.best_since = patient.best_since.or(is_best.then_some(served));
                    }
                    let owners = waiting.iter().map(|patient| patient.owner).collect::<HashSet<_>>().len() as u64;
                    for patient in &mut waiting {
                        patient.most_owners = patient.most_owners.max(owners);
                    }
                    let owner = rush.next(now);
                    served += 1;
                    let rank = |patient: &Patient| (patient.class as u64).saturating_sub((now - patient.since) / 30_000);
                    let best = waiting.iter().filter(|patient| patient.owner == owner).map(rank).min().unwrap();
                    let at = waiting.iter().position(|patient| patient.owner == owner && rank(patient) == best).unwrap();
                    waiting.remove(at);
                    for patient in &waiting {
                        let Some(since) = patient.best_since else { continue };
                        let bound = (patient.ahead + 2) * 2 * patient.most_owners;
                        prop_assert!(served - since <= bound, "{patient:?} after {} of {bound}", served - since);
                    }
                    continue;
                }
            };
            let class = CLASSES[class];
            rush.enqueue(owner, class, now);
            let ahead = waiting.iter().filter(|patient| patient.owner == owner).count() as u64;
            waiting.push(Patient { owner, class, since: now, ahead, best_since: None, most_owners: 0 });
        }
    }
}

/// One who waits.
#[derive(Debug)]
struct Patient {
    owner: u64,
    class: RequestClass,
    since: u64,
    /// How many of its owner came before it.
    ahead: u64,
    /// How many had been served when it had the best rank.
    best_since: Option<u64>,
    /// The most owners that have waited at one time since.
    most_owners: u64,
}
