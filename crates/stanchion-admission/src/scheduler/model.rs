//! The rules as plainly as they can be written, and the scheduler held to them.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use stanchion_core::{
    AdmissionResource::{self, PendingBytes, PendingCount, Stream},
    AdmissionScope as Scope, RequestClass,
};

use super::*;

#[derive(Debug, Clone, Copy)]
struct Waiting {
    id: u32,
    arrival: Arrival,
    enqueued: u64,
}

/// Lists, searched from end to end.
struct Model {
    limits: Limits,
    rotation: Rotation,
    queue: Vec<Waiting>,
    running: Vec<(u32, Arrival)>,
    /// Key, order, weight, and what is kept of the credit.
    owners: Vec<(u64, u64, u8, u64)>,
    caps: HashMap<u32, u32>,
    /// Which shares are open, by domain and number, and what each may have.
    shares: HashMap<(u32, u32), u32>,
    orders: u64,
    cursor: u64,
    credit: u64,
    /// The last of those who were there when the lap began, and how many newcomers it still takes in.
    lap: (u64, usize),
    clock: u64,
}

/// How owners of one rank take turns.
#[derive(Clone, Copy, PartialEq)]
enum Rotation {
    /// The next in order is served one ticket, whatever it costs, whoever he is, and since whenever he is here.
    Simple,
    /// By weights and costs, and in laps.
    DeficitRoundRobin,
}

type Hit = Option<Constraint>;
type Which<'a> = &'a dyn Fn(&Arrival) -> bool;

fn hit(resource: AdmissionResource, scope: Scope, has: usize, limit: u32) -> Hit {
    (has as u64 >= u64::from(limit)).then_some(Constraint { resource, scope, in_flight: has as u32, limit })
}

impl Model {
    fn in_flight(&self, which: impl Fn(&Arrival) -> bool) -> usize {
        self.running.iter().filter(|(_, other)| which(other)).count()
    }

    fn queued(&self, which: impl Fn(&Arrival) -> bool) -> usize {
        self.queue.iter().filter(|ticket| which(&ticket.arrival)).count()
    }

    fn bytes(&self, which: impl Fn(&Arrival) -> bool) -> u64 {
        self.queue.iter().filter(|ticket| which(&ticket.arrival)).map(|ticket| u64::from(ticket.arrival.bytes)).sum()
    }

    fn share_limit(&self, asks: &Arrival) -> u32 {
        self.shares[&(asks.domain, asks.share)].min(self.caps[&asks.domain])
    }

    fn domain_limit(&self, asks: &Arrival) -> u32 {
        let shares = self.shares.iter().filter(|((domain, _), _)| *domain == asks.domain);
        shares.map(|(_, limit)| *limit).max().unwrap().min(self.caps[&asks.domain])
    }

    fn blocking(&self, asks: &Arrival) -> Hit {
        let owner = |other: &Arrival| other.owner == asks.owner;
        let domain = |other: &Arrival| other.domain == asks.domain;
        let others = |other: &Arrival| other.class != RequestClass::Foreground;
        let internal = |other: &Arrival| other.class == RequestClass::Internal;
        let classes = self.limits.classes.filter(|_| others(asks));
        let share = |other: &Arrival| domain(other) && other.share == asks.share;
        let (own, limit) = (self.share_limit(asks), self.domain_limit(asks));

        let mut hits = vec![hit(Stream, Scope::Owner, self.in_flight(owner), self.limits.owner)];
        if let Some(classes) = classes {
            let has = self.in_flight(|other| owner(other) && others(other));
            hits.push(hit(Stream, Scope::Class, has, classes.non_foreground_owner));
        }
        hits.push(hit(Stream, Scope::Domain, self.in_flight(share), own));
        hits.push(hit(Stream, Scope::Domain, self.in_flight(domain), limit));
        if classes.is_some() {
            let but_one = |limit| if limit > 2 { limit - 1 } else { 1 };
            let has = self.in_flight(|other| share(other) && others(other));
            hits.push(hit(Stream, Scope::Class, has, but_one(own)));
            let has = self.in_flight(|other| domain(other) && others(other));
            hits.push(hit(Stream, Scope::Class, has, but_one(limit)));
            if internal(asks) {
                hits.push(hit(Stream, Scope::Class, self.in_flight(|other| domain(other) && internal(other)), 1));
            }
        }
        hits.push(hit(Stream, Scope::Global, self.in_flight(|_| true), self.limits.global));
        if let Some(classes) = classes {
            hits.push(hit(Stream, Scope::Class, self.in_flight(others), classes.non_foreground_global));
            if internal(asks) {
                hits.push(hit(Stream, Scope::Class, self.in_flight(internal), classes.internal_global));
            }
        }
        hits.into_iter().flatten().next()
    }

    fn pending(&self, asks: &Arrival) -> Hit {
        let owner = |other: &Arrival| other.owner == asks.owner;
        let domain = |other: &Arrival| other.domain == asks.domain;
        let all = |_: &Arrival| true;
        let others = |other: &Arrival| other.class != RequestClass::Foreground;
        let internal = |other: &Arrival| other.class == RequestClass::Internal;
        let limits = &self.limits;
        let scopes: [(Scope, Which<'_>, u32, u64, u32, u64); 3] = [
            (Scope::Global, &all, limits.pending, limits.bytes, limits.global, 8u64),
            (Scope::Owner, &owner, limits.owner_pending, limits.owner_bytes, limits.owner, 4),
            (Scope::Domain, &domain, asks.limits.pending, asks.limits.bytes, self.domain_limit(asks), 8),
        ];
        let least = |limit: u64| limit.max(1);
        if limits.classes.is_some() {
            for (_, of, pending, _, _, share) in scopes.iter().filter(|_| internal(asks)) {
                let pending = u64::from((*pending).min(limits.pending));
                let limit = least(pending / share).min(least(pending * 3 / 4)) as u32;
                let has = self.queued(|other| of(other) && internal(other));
                if let Some(found) = hit(PendingCount, Scope::Class, has, limit) {
                    return Some(found);
                }
            }
            for (_, of, pending, ..) in scopes.iter().filter(|_| others(asks)) {
                let limit = least(u64::from((*pending).min(limits.pending)) * 3 / 4) as u32;
                let has = self.queued(|other| of(other) && others(other));
                if let Some(found) = hit(PendingCount, Scope::Class, has, limit) {
                    return Some(found);
                }
            }
        }
        for (scope, of, pending, ..) in &scopes {
            if let Some(found) = hit(PendingCount, *scope, self.queued(of), (*pending).min(limits.pending)) {
                return Some(found);
            }
        }
        let own = u64::from(asks.bytes);
        let class_hit = Constraint {
            resource: PendingBytes,
            scope: Scope::Class,
            in_flight: self.in_flight(all) as u32,
            limit: limits.global,
        };
        for (scope, of, _, bytes, ..) in scopes.iter().filter(|_| internal(asks)) {
            let ceiling = (*bytes).min(limits.bytes);
            let ceiling = least(if *scope == Scope::Global { ceiling / 8 } else { ceiling / 4 });
            if self.bytes(|other| of(other) && internal(other)) + own > ceiling {
                return Some(class_hit);
            }
        }
        for (scope, of, _, bytes, ..) in scopes.iter().filter(|_| others(asks)) {
            let ceiling = (*bytes).min(limits.bytes);
            let ceiling = least(if *scope == Scope::Owner { ceiling / 2 } else { ceiling * 3 / 4 });
            if self.bytes(|other| of(other) && others(other)) + own > ceiling {
                return Some(class_hit);
            }
        }
        for (scope, of, _, bytes, limit, _) in &scopes {
            if self.bytes(of) + own > (*bytes).min(limits.bytes) {
                let in_flight = self.in_flight(of) as u32;
                return Some(Constraint { resource: PendingBytes, scope: *scope, in_flight, limit: *limit });
            }
        }
        None
    }

    fn domain_count(&self) -> usize {
        let busy = self.queue.iter().map(|ticket| &ticket.arrival).chain(self.running.iter().map(|(_, run)| run));
        busy.map(|arrival| arrival.domain).collect::<HashSet<_>>().len()
    }

    fn remember(&mut self, asks: &Arrival) {
        if !self.owners.iter().any(|owner| owner.0 == asks.owner) {
            self.orders += 1;
            self.owners.push((asks.owner, self.orders, asks.weight, 0));
        }
    }

    fn forget(&mut self) {
        let (queue, running) = (&self.queue, &self.running);
        self.owners.retain(|owner| {
            queue.iter().any(|ticket| ticket.arrival.owner == owner.0)
                || running.iter().any(|(_, run)| run.owner == owner.0)
        });
        for owner in &mut self.owners {
            if !queue.iter().any(|ticket| ticket.arrival.owner == owner.0) {
                owner.3 = 0;
                if owner.1 == self.cursor {
                    self.credit = 0;
                }
            }
        }
    }

    fn rank(&self, ticket: &Waiting) -> u64 {
        (ticket.arrival.class as u64).saturating_sub((self.clock - ticket.enqueued) / self.limits.aging)
    }

    /// Grants what can start. Returns whose tickets, in order.
    fn drain(&mut self) -> Vec<u32> {
        let mut granted = Vec::new();
        loop {
            let could: Vec<&Waiting> =
                self.queue.iter().filter(|ticket| self.blocking(&ticket.arrival).is_none()).collect();
            let Some(rank) = could.iter().map(|ticket| self.rank(ticket)).min() else { return granted };
            // What could start if nobody knew its owner.
            let stranger = |ticket: &&Waiting| self.blocking(&Arrival { owner: u64::MAX, ..ticket.arrival }).is_none();
            let costs = self.queue.iter().filter(stranger).map(|ticket| u64::from(ticket.arrival.cost));
            let unit = costs.max().unwrap();
            // The queue is in order of arrival, so the first found is the oldest.
            let ticket_of = |key: u64| {
                could.iter().find(|ticket| ticket.arrival.owner == key && self.rank(ticket) == rank).copied()
            };
            let current = self.owners.iter().find(|owner| owner.1 == self.cursor).map(|owner| owner.0);
            let current = current.filter(|_| self.rotation == Rotation::DeficitRoundRobin);
            let stays = current.and_then(ticket_of).filter(|ticket| u64::from(ticket.arrival.cost) <= self.credit);
            let mut lap = self.lap;
            let ticket = stays.unwrap_or_else(|| {
                let turns = || self.owners.iter().filter(|owner| ticket_of(owner.0).is_some());
                let mut next = turns().min_by_key(|owner| (owner.1 <= self.cursor, owner.1)).unwrap();
                let (last, newcomers) = lap;
                if self.rotation == Rotation::DeficitRoundRobin && (next.1 <= self.cursor || next.1 > last) {
                    let first = turns().min_by_key(|owner| owner.1).unwrap();
                    if next.1 == first.1 || newcomers == 0 {
                        let waiting: HashSet<u64> = self.queue.iter().map(|ticket| ticket.arrival.owner).collect();
                        lap = (self.orders, waiting.len());
                        next = first;
                    } else {
                        lap.1 -= 1;
                    }
                }
                ticket_of(next.0).unwrap()
            });
            let ticket = *ticket;
            self.lap = lap;
            if stays.is_none() {
                if let Some(last) = self.owners.iter_mut().find(|owner| owner.1 == self.cursor) {
                    last.3 = self.credit.min(unit - 1);
                }
                let next = self.owners.iter_mut().find(|owner| owner.0 == ticket.arrival.owner).unwrap();
                self.credit = std::mem::take(&mut next.3) + u64::from(next.2) * unit;
                self.cursor = next.1;
            }
            // The simple rotation looks at no credit.
            self.credit = self.credit.saturating_sub(ticket.arrival.cost.into());
            self.queue.retain(|other| other.id != ticket.id);
            self.running.push((ticket.id, ticket.arrival));
            self.forget();
            granted.push(ticket.id);
        }
    }
}

#[derive(Debug, Clone)]
enum Act {
    Arrive {
        domain: u32,
        policy: usize,
        owner: u64,
        class: usize,
        bytes: u32,
        cost: u8,
    },
    Release(prop::sample::Index),
    Leave(prop::sample::Index),
    Pass(u64),
    Cap(u32, u32),
    /// A share is opened, or closed if nobody uses it.
    Share(u32, usize),
    Limit(Limits, u8),
}

fn act(costs: bool) -> impl Strategy<Value = Act> {
    let cost = if costs { 1..=5u8 } else { 1..=1u8 };
    let arrive = (0..4u32, 0..2usize, 0..6u64, 0..3usize, 0..40u32, cost).prop_map(
        |(domain, policy, owner, class, bytes, cost)| Act::Arrive { domain, policy, owner, class, bytes, cost },
    );
    prop_oneof![
        8 => arrive,
        5 => any::<prop::sample::Index>().prop_map(Act::Release),
        2 => any::<prop::sample::Index>().prop_map(Act::Leave),
        2 => (0..25u64).prop_map(Act::Pass),
        1 => (0..4u32, 1..5u32).prop_map(|(domain, cap)| Act::Cap(domain, cap)),
        1 => (0..4u32, 0..2usize).prop_map(|(domain, policy)| Act::Share(domain, policy)),
        1 => (limits(), 1..4u8).prop_map(|(limits, weight)| Act::Limit(limits, weight)),
    ]
}

fn limits() -> impl Strategy<Value = Limits> {
    let classes = prop::option::of((1..6u32, 1..3u32, 1..3u32)).prop_map(|classes| {
        classes.map(|(non_foreground_global, non_foreground_owner, internal_global)| Classes {
            non_foreground_global,
            non_foreground_owner,
            internal_global,
        })
    });
    let pending = prop_oneof![Just((40, 20)), (4..40u32, 2..20u32)];
    let bytes = prop_oneof![Just((10_000, 10_000)), (50..400u64, 30..200u64)];
    let shared = prop_oneof![Just(u32::MAX), 1..8u32];
    (shared.clone(), shared, classes, pending, bytes).prop_map(|(global, owner, classes, pending, bytes)| Limits {
        global,
        owner,
        classes,
        pending: pending.0,
        owner_pending: pending.1.min(pending.0),
        bytes: bytes.0,
        owner_bytes: bytes.1.min(bytes.0),
        aging: 30,
    })
}

const WEIGHTS: [u8; 6] = [1, 3, 1, 2, 1, 5];

/// The limits of concurrency of the shares.
const SHARES: [u32; 2] = [2, 4];
/// The domains that the acts are about come first; then one where nothing is limited, and such where nothing runs.
const FREE: u32 = 4;
const SHUT: std::ops::Range<u32> = 5..27;

/// Plays acts to the scheduler and to the model. In a crowd, more lanes than a page has stand before all others.
fn play(mut limits: Limits, acts: Vec<Act>, rotation: Rotation, crowd: bool) {
    // The simple rotation does not care when an owner came: there they are all here from the beginning to the end.
    let standing = if rotation == Rotation::Simple { WEIGHTS.len() } else { 0 };
    let widen = |limits: &mut Limits| {
        limits.global = limits.global.saturating_add(standing as u32);
        limits.owner = limits.owner.saturating_add(u32::from(standing > 0));
        let waiting = if crowd { 3 * SHUT.len() as u32 } else { 0 };
        (limits.pending, limits.owner_pending) = (limits.pending + waiting, limits.owner_pending + waiting);
    };
    widen(&mut limits);
    let mut model = Model {
        limits: limits.clone(),
        rotation,
        queue: Vec::new(),
        running: Vec::new(),
        owners: Vec::new(),
        caps: (0..SHUT.end).map(|domain| (domain, if domain < SHUT.start { u32::MAX } else { 0 })).collect(),
        shares: HashMap::new(),
        orders: 0,
        cursor: 0,
        credit: 0,
        lap: (0, 0),
        clock: 0,
    };
    let mut scheduler = Scheduler::<u32>::new(limits);
    (0..SHUT.end).for_each(|domain| assert_eq!(scheduler.open_domain(model.caps[&domain]), domain));
    let policies = [DomainLimits { pending: 8, bytes: 150 }, DomainLimits { pending: 30, bytes: 10_000 }];
    // What the scheduler calls a policy's share of a domain.
    let mut shares: HashMap<(u32, usize), u32> = HashMap::new();
    let open = |scheduler: &mut Scheduler<u32>, model: &mut Model, (domain, policy): (u32, usize)| {
        let share = scheduler.open_share(domain, SHARES[policy]);
        assert_eq!(model.shares.insert((domain, share), SHARES[policy]), None);
        share
    };
    // By the number of the arrival: where the ticket is, and the grant.
    let mut tickets: HashMap<u32, u32> = HashMap::new();
    let mut grants: HashMap<u32, Grant> = HashMap::new();
    let mut id = 0;
    let equal = rotation == Rotation::Simple;
    let mut weights = if equal { [1; 6] } else { WEIGHTS };
    for owner in 0..standing as u64 {
        let limits = DomainLimits { pending: 1, bytes: 1 };
        let class = RequestClass::Foreground;
        let share = scheduler.open_share(FREE, u32::MAX);
        model.shares.insert((FREE, share), u32::MAX);
        let arrival = Arrival { domain: FREE, share, limits, owner, weight: 1, class, bytes: 0, cost: 1 };
        id += 1;
        model.remember(&arrival);
        model.running.push((id, arrival));
        grants.insert(id, scheduler.start(&arrival).expect("there is room"));
    }
    for domain in SHUT.filter(|_| crowd) {
        let share = open(&mut scheduler, &mut model, (domain, 0));
        for class in CLASSES {
            id += 1;
            let limits = policies[1];
            let arrival = Arrival { domain, share, limits, owner: 0, weight: 1, class, bytes: 0, cost: 1 };
            tickets.insert(id, scheduler.enqueue(&arrival, id, 0));
            model.remember(&arrival);
            model.queue.push(Waiting { id, arrival, enqueued: 0 });
        }
    }
    for act in acts {
        match act {
            Act::Arrive { domain, policy, owner, class, bytes, cost } => {
                id += 1;
                let weight = weights[owner as usize];
                let class = CLASSES[class];
                let share = *shares
                    .entry((domain, policy))
                    .or_insert_with(|| open(&mut scheduler, &mut model, (domain, policy)));
                let arrival = Arrival { domain, share, limits: policies[policy], owner, weight, class, bytes, cost };
                let blocking = model.blocking(&arrival);
                match scheduler.start(&arrival) {
                    Some(grant) => {
                        assert_eq!(blocking, None);
                        model.remember(&arrival);
                        model.running.push((id, arrival));
                        grants.insert(id, grant);
                    }
                    None => {
                        assert_eq!(Some(scheduler.obstacle(&arrival)), blocking);
                        let full = scheduler.may_wait(&arrival, model.clock).err();
                        assert_eq!(full.map(|full| full.constraint), model.pending(&arrival));
                        if full.is_none() {
                            tickets.insert(id, scheduler.enqueue(&arrival, id, model.clock));
                            model.remember(&arrival);
                            model.queue.push(Waiting { id, arrival, enqueued: model.clock });
                        }
                    }
                }
            }
            Act::Release(which) if model.running.len() > standing => {
                let at = standing + which.index(model.running.len() - standing);
                let (id, _) = model.running.remove(at);
                model.forget();
                scheduler.release(grants.remove(&id).unwrap());
            }
            Act::Leave(which) if !model.queue.is_empty() => {
                let ticket = model.queue.remove(which.index(model.queue.len()));
                model.forget();
                let (grant, waiter) = scheduler.take(tickets.remove(&ticket.id).unwrap());
                assert!(grant.is_none() && waiter == ticket.id);
            }
            Act::Pass(time) => model.clock += time,
            Act::Cap(domain, cap) => {
                model.caps.insert(domain, cap);
                scheduler.cap(domain, cap);
            }
            Act::Share(domain, policy) => match shares.get(&(domain, policy)).copied() {
                None => {
                    let share = open(&mut scheduler, &mut model, (domain, policy));
                    shares.insert((domain, policy), share);
                }
                Some(share) => {
                    let uses = |arrival: &Arrival| (arrival.domain, arrival.share) == (domain, share);
                    if model.in_flight(uses) + model.queued(uses) == 0 {
                        scheduler.close_share(domain, share);
                        shares.remove(&(domain, policy));
                        model.shares.remove(&(domain, share));
                    }
                }
            },
            Act::Limit(mut limits, factor) => {
                widen(&mut limits);
                weights = if equal { [1; 6] } else { WEIGHTS.map(|weight| weight * factor) };
                for owner in &mut model.owners {
                    owner.2 = weights[owner.0 as usize];
                }
                model.limits = limits.clone();
                scheduler.set_limits(limits, |owner| weights[owner as usize]);
            }
            Act::Release(_) | Act::Leave(_) => {}
        }
        let mut granted = Vec::new();
        scheduler.drain(model.clock, |at, id| granted.push((at, *id)));
        assert_eq!(granted.iter().map(|(_, id)| *id).collect::<Vec<_>>(), model.drain());
        for (at, id) in granted {
            assert_eq!(tickets.remove(&id), Some(at));
            grants.insert(id, scheduler.take(at).0.unwrap());
        }
        for (index, ticket) in model.queue.iter().enumerate() {
            let Snapshot { constraint, position } = scheduler.snapshot(tickets[&ticket.id]);
            assert_eq!(Some(constraint), model.blocking(&ticket.arrival));
            let ahead = model.queue[..=index].iter().filter(|other| match constraint.scope {
                Scope::Owner => other.arrival.owner == ticket.arrival.owner,
                Scope::Domain => other.arrival.domain == ticket.arrival.domain,
                Scope::Class => other.arrival.class == ticket.arrival.class,
                _ => true,
            });
            assert_eq!(position, ahead.count() as u64);
        }
        let counts = scheduler.counts();
        assert_eq!((counts.queued() as usize, counts.in_flight() as usize), (model.queue.len(), model.running.len()));
        assert_eq!(counts.bytes(), model.bytes(|_| true));
        assert_eq!(scheduler.owner_count(), model.owners.len());
        assert_eq!(scheduler.domain_count(), model.domain_count());
    }
    // All leave: nothing stays behind.
    for at in tickets.into_values() {
        scheduler.take(at);
    }
    for grant in grants.into_values() {
        scheduler.release(grant);
    }
    assert_eq!(*scheduler.counts(), Counts::default());
    assert_eq!((scheduler.owner_count(), scheduler.domain_count()), (0, 0));
    assert!(scheduler.pages.len() <= 1 && scheduler.pages.iter().all(|page| page.used == 0 && page.open == 0));
    assert_eq!((scheduler.lanes.len(), scheduler.groups.len(), scheduler.costly), (0, 0, 0));
    assert!(scheduler.ages.iter().all(|ages| ages.oldest == NIL && ages.youngest == NIL));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn with_equal_weights_and_costs_owners_take_turns_in_the_order_in_which_they_came(limits in limits(), acts in prop::collection::vec(act(false), 1..150)) {
        play(limits, acts, Rotation::Simple, false);
    }

    #[test]
    fn it_grants_what_the_rules_grant_in_their_order(limits in limits(), acts in prop::collection::vec(act(true), 1..150)) {
        play(limits, acts, Rotation::DeficitRoundRobin, false);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn it_grants_the_same_with_more_lanes_than_a_page_has(limits in limits(), acts in prop::collection::vec(act(true), 1..100)) {
        play(limits, acts, Rotation::DeficitRoundRobin, true);
    }
}
