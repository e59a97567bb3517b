//! Who may run, who waits, and who is next. Plain data: it knows neither futures nor requests, and is told the time.
//!
//! # The rules
//!
//! A request runs if all its limits leave room: of all requests together, of its failure domain, of its owner, and of
//! its class within these. Otherwise it gets a ticket, if there is room for one. Whenever room appears, tickets are
//! granted until none could start:
//!
//! 1. Of the tickets that could start, those of the best effective rank: 0 for foreground, 1 for background, 2 for
//!    internal, and one less for each full aging interval that the ticket has waited.
//! 2. Of their owners, the next in the rotation.
//! 3. Of that owner's tickets, the one that came first.
//!
//! As every change ends with this, no ticket that could start ever waits. So a newcomer that could start may do so at
//! once, and overtakes nobody who could have.
//!
//! # The rotation
//!
//! Deficit round robin (Shreedhar and Varghese, "Efficient Fair Queuing using Deficit Round Robin", SIGCOMM 1995).
//! Owners stand in the order in which they came. Where the rotation comes to an owner, its credit grows by its weight
//! times the largest cost among all tickets that wait, and it stays there as long as the owner has a ticket of the best
//! rank that could start and that its credit pays for. Since the credit of one visit pays for any ticket, each visit
//! grants at least one, and nobody is passed over for want of credit. What is left then is kept for the next visit, as
//! far as it is less than the largest cost; an owner with nothing waiting keeps nothing. With all weights and costs 1
//! that is one ticket an owner and round.
//!
//! # How it is found without a search
//!
//! Tickets of one owner, domain, class and set of limits stand in a *lane*, first come, first served. All of a lane
//! could start or none, and the first of it has the best rank; so lanes are looked at, not tickets. What lanes of
//! different owners have in common, domain, class and limits, is a *group*, and has a bit. Owners stand in a
//! [`Tree`] by their order, each with the bits of its lanes by the rank of the first ticket, and every node with the
//! union of what is below. A domain that fills up or gets room changes one bit, however many wait for it; an owner that
//! fills up or gets room changes one leaf; and the next owner with a lane in an open group is one path down.
//!
//! So enqueueing, granting, cancelling and releasing are O(log n) as long as no more than 64 groups have tickets at one
//! time, and for each 64 more there is one more tree to look into. A bound without that factor is not to be had: with
//! owners and domains that open and close at will, whether any ticket could start is online matrix-vector
//! multiplication, for which nothing much better than such bits is known (Henzinger and others, "Unifying and
//! Strengthening Hardness for Dynamic Problems", STOC 2015). Where one owner has lanes in several open groups at once,
//! their first tickets are compared.
//!
//! Aging walks no queue either. The tickets that have one and the same number of steps to go stand in order of arrival;
//! only those whose time has come are taken from the front, each at most twice.

mod line;
mod pace;
mod slab;
mod tree;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use stanchion_core::{AdmissionResource, AdmissionScope, RequestClass};

use crate::mix::BuildMix;

use self::{
    line::Line,
    pace::Pace,
    slab::Slab,
    tree::{RANKS, Tree},
};

/// None, in a list.
const NIL: u32 = u32::MAX;

/// What all requests together, each owner, and each class may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) global: u32,
    pub(crate) owner: u32,
    /// None: classes share, and are told apart by their rank only.
    pub(crate) classes: Option<Classes>,
    pub(crate) pending: u32,
    pub(crate) owner_pending: u32,
    pub(crate) bytes: u64,
    pub(crate) owner_bytes: u64,
    /// In nanoseconds, as all times here.
    pub(crate) aging: u64,
}

/// What is kept for the foreground. In a domain, one permit is, if there are two or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Classes {
    pub(crate) non_foreground_global: u32,
    pub(crate) non_foreground_owner: u32,
    pub(crate) internal_global: u32,
}

impl Classes {
    /// How many internal requests run in a domain.
    const INTERNAL_DOMAIN: u32 = 1;
}

/// What the requests of one policy may have of a domain. It is no part of the domain's identity: each request is held
/// against its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DomainLimits {
    pub(crate) concurrency: u32,
    pub(crate) pending: u32,
    pub(crate) bytes: u64,
}

/// A request that asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) domain: u64,
    pub(crate) limits: DomainLimits,
    /// A limit of the domain's own, which moves.
    pub(crate) cap: u32,
    pub(crate) owner: u128,
    pub(crate) weight: u32,
    pub(crate) class: RequestClass,
    pub(crate) bytes: u32,
    /// 1 to [`MAX_COST`].
    pub(crate) cost: u8,
}

pub(crate) const MAX_COST: u8 = 100;

/// The right to run. To be given back once.
#[derive(Debug)]
pub(crate) struct Grant {
    owner: u32,
    domain: u32,
    class: u8,
}

/// What stands in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Constraint {
    pub(crate) resource: AdmissionResource,
    pub(crate) scope: AdmissionScope,
    pub(crate) in_flight: u32,
    pub(crate) limit: u32,
}

/// There is no room to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) constraint: Constraint,
    /// How long what waits there will take at the pace of late, if that is known.
    pub(crate) drains_in: Option<u64>,
}

/// A ticket as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) constraint: Constraint,
    pub(crate) position: u64,
}

/// What has become of a ticket.
#[derive(Debug)]
pub(crate) enum Turn<'a, W> {
    Waits(&'a mut W),
    Granted,
    Closed,
}

/// Counts by class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) in_flight: [u32; 3],
    pub(crate) queued: [u32; 3],
    pub(crate) bytes: [u64; 3],
}

impl Counts {
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.iter().sum()
    }

    pub(crate) fn queued(&self) -> u32 {
        self.queued.iter().sum()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.iter().sum()
    }

    fn is_idle(&self) -> bool {
        self.in_flight() == 0 && self.queued() == 0
    }
}

#[derive(Debug)]
struct Owner {
    key: u128,
    /// Its place in the rotation.
    order: u64,
    weight: u32,
    /// Credit that is kept from the last visit.
    kept: u32,
    /// As the trees know it.
    allowed: Allowed,
    counts: Counts,
    line: Line,
    pace: Pace,
}

/// Which classes the owner's own limits leave room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Allowed {
    foreground: bool,
    others: bool,
}

#[derive(Debug)]
struct Domain {
    key: u64,
    cap: u32,
    counts: Counts,
    line: Line,
    pace: Pace,
    /// Those that have lanes: as many as there are classes and limits in use.
    groups: Vec<u32>,
}

#[derive(Debug)]
struct Group {
    domain: u32,
    class: u8,
    limits: DomainLimits,
    page: u32,
    bit: u8,
    lanes: u32,
}

/// Up to 64 groups, and the owners that wait in them.
#[derive(Debug)]
struct Page {
    used: u64,
    /// Those whose domain leaves room.
    open: u64,
    classes: [u64; 3],
    /// Which group has which bit.
    groups: [u32; 64],
    tree: Tree,
}

impl Default for Page {
    fn default() -> Self {
        Self { used: 0, open: 0, classes: [0; 3], groups: [NIL; 64], tree: Tree::default() }
    }
}

#[derive(Debug)]
struct Lane {
    first: u32,
    last: u32,
}

#[derive(Debug)]
struct Ticket<W> {
    waiter: W,
    enqueued: u64,
    bytes: u32,
    owner: u32,
    /// The group while it waits, the domain once it is granted.
    group: u32,
    before: u32,
    behind: u32,
    older: u32,
    younger: u32,
    /// Its numbers in the lines of all, of its domain, of its owner and of its class.
    number: u32,
    in_domain: u32,
    in_owner: u32,
    in_class: u32,
    class: u8,
    rank: u8,
    cost: u8,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waits,
    Granted,
    Closed,
}

/// Tickets with the same steps to go, the oldest first.
#[derive(Debug, Clone, Copy)]
struct Ages {
    oldest: u32,
    youngest: u32,
}

/// Where the rotation stands.
#[derive(Debug, Default)]
struct Cursor {
    order: u64,
    owner: u32,
    credit: u64,
}

/// How many tickets of each cost wait.
#[derive(Debug)]
struct Costs {
    counts: [u32; MAX_COST as usize + 1],
    present: u128,
}

impl Costs {
    fn add(&mut self, cost: u8) {
        self.counts[usize::from(cost)] += 1;
        self.present |= 1 << cost;
    }

    fn remove(&mut self, cost: u8) {
        self.counts[usize::from(cost)] -= 1;
        if self.counts[usize::from(cost)] == 0 {
            self.present &= !(1 << cost);
        }
    }

    fn largest(&self) -> u32 {
        self.present.checked_ilog2().unwrap_or(1).max(1)
    }
}

type Index<K> = HashMap<K, u32, BuildMix>;

/// The scheduler. `W` is whom to tell of a grant.
#[derive(Debug)]
pub(crate) struct Scheduler<W> {
    limits: Limits,
    closed: bool,
    /// The latest time that was told: it never goes back.
    clock: u64,
    counts: Counts,
    /// Bytes that are retained for requests that run.
    elsewhere: u64,
    line: Line,
    class_lines: [Line; 3],
    pace: Pace,
    tickets: Slab<Ticket<W>>,
    lanes: Slab<Lane>,
    lane_of: Index<(u32, u32)>,
    groups: Slab<Group>,
    pages: Vec<Page>,
    owners: Slab<Owner>,
    owner_of: Index<u128>,
    orders: u64,
    domains: Slab<Domain>,
    domain_of: Index<u64>,
    /// Background tickets of rank 1, internal ones of rank 2, internal ones of rank 1.
    ages: [Ages; 3],
    costs: Costs,
    cursor: Cursor,
}

impl<W> Scheduler<W> {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            closed: false,
            clock: 0,
            counts: Counts::default(),
            elsewhere: 0,
            line: Line::default(),
            class_lines: Default::default(),
            pace: Pace::default(),
            tickets: Slab::default(),
            lanes: Slab::default(),
            lane_of: Index::default(),
            groups: Slab::default(),
            pages: Vec::new(),
            owners: Slab::default(),
            owner_of: Index::default(),
            orders: 0,
            domains: Slab::default(),
            domain_of: Index::default(),
            ages: [Ages { oldest: NIL, youngest: NIL }; 3],
            costs: Costs { counts: [0; MAX_COST as usize + 1], present: 0 },
            cursor: Cursor::default(),
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(crate) fn owner_count(&self) -> usize {
        self.owners.len()
    }

    pub(crate) fn domain_count(&self) -> usize {
        self.domains.len()
    }

    /// What a domain has just now.
    pub(crate) fn domain_counts(&self, domain: u64) -> Counts {
        self.domain_of.get(&domain).map_or_else(Counts::default, |at| self.domains[*at].counts)
    }

    /// Whether anybody waits.
    pub(crate) fn has_waiters(&self) -> bool {
        self.counts.queued() > 0
    }

    /// Lets a request run at once, if it may.
    pub(crate) fn start(&mut self, arrival: &Arrival) -> Option<Grant> {
        let domain = self.domain_of.get(&arrival.domain).copied();
        let owner = self.owner_of.get(&arrival.owner).copied();
        let (of_domain, of_owner) = (domain.map(|at| &self.domains[at]), owner.map(|at| &self.owners[at]));
        if self.closed || self.blocking(arrival, of_domain, of_owner).is_some() {
            return None;
        }
        let (domain, owner) = match (domain, owner) {
            (Some(domain), Some(owner)) => (domain, owner),
            _ => self.records(arrival),
        };
        Some(self.run(owner, domain, arrival.class as u8))
    }

    /// What keeps a request from running. Nothing is stored.
    pub(crate) fn obstacle(&self, arrival: &Arrival) -> Constraint {
        let (domain, owner) = (self.find_domain(arrival), self.find_owner(arrival));
        self.blocking(arrival, domain, owner).unwrap_or_else(|| Self::domain_total(arrival, domain))
    }

    /// Whether a request that cannot run may wait. Nothing is stored.
    pub(crate) fn may_wait(&self, arrival: &Arrival, now: u64) -> Result<(), Full> {
        let (domain, owner) = (self.find_domain(arrival), self.find_owner(arrival));
        let Some(constraint) = self.pending(arrival, domain, owner) else { return Ok(()) };
        let now = now.max(self.clock);
        let drains_in = match constraint.scope {
            AdmissionScope::Domain => domain.map(|domain| (&domain.counts, &domain.pace)),
            AdmissionScope::Owner => owner.map(|owner| (&owner.counts, &owner.pace)),
            _ => Some((&self.counts, &self.pace)),
        };
        let drains_in = drains_in.and_then(|(counts, pace)| pace.time_for(counts.queued(), now));
        Err(Full { constraint, drains_in })
    }

    /// Queues a request that cannot run and may wait.
    pub(crate) fn enqueue(&mut self, arrival: &Arrival, waiter: W, now: u64) -> u32 {
        self.clock = self.clock.max(now);
        let now = self.clock;
        let (domain, owner) = self.records(arrival);
        let group = self.group(domain, arrival);
        let class = arrival.class as u8;
        let index = usize::from(class);
        let bytes = u64::from(arrival.bytes);
        let (of_domain, of_owner) = (&mut self.domains[domain], &mut self.owners[owner]);
        for (counts, pace) in [
            (&mut self.counts, &mut self.pace),
            (&mut of_domain.counts, &mut of_domain.pace),
            (&mut of_owner.counts, &mut of_owner.pace),
        ] {
            if counts.queued() == 0 {
                pace.begin(now);
            }
            counts.queued[index] += 1;
            counts.bytes[index] += bytes;
        }
        self.costs.add(arrival.cost);
        let ticket = Ticket {
            waiter,
            enqueued: now,
            bytes: arrival.bytes,
            owner,
            group,
            before: NIL,
            behind: NIL,
            older: NIL,
            younger: NIL,
            number: self.line.join(),
            in_domain: of_domain.line.join(),
            in_owner: of_owner.line.join(),
            in_class: self.class_lines[index].join(),
            class,
            rank: class,
            cost: arrival.cost,
            state: State::Waits,
        };
        let at = self.tickets.insert(ticket);
        self.join_ages(at);
        self.join_lane(at, owner, group);
        at
    }

    /// Grants what can start now. Calls `granted` for each, in order.
    pub(crate) fn drain(&mut self, now: u64, mut granted: impl FnMut(u32, &mut W)) {
        if self.closed {
            return;
        }
        self.clock = self.clock.max(now);
        self.promote();
        while let Some(at) = self.pick() {
            let Ticket { owner, group, class, .. } = self.tickets[at];
            let domain = self.groups[group].domain;
            for pace in [&mut self.pace, &mut self.domains[domain].pace, &mut self.owners[owner].pace] {
                pace.note(self.clock);
            }
            // Runs before it leaves, so that its records are never idle in between.
            self.run(owner, domain, class);
            self.leave(at);
            let ticket = &mut self.tickets[at];
            ticket.state = State::Granted;
            ticket.group = domain;
            granted(at, &mut ticket.waiter);
        }
    }

    /// How a ticket stands.
    pub(crate) fn turn(&mut self, at: u32) -> Turn<'_, W> {
        let ticket = &mut self.tickets[at];
        match ticket.state {
            State::Waits => Turn::Waits(&mut ticket.waiter),
            State::Granted => Turn::Granted,
            State::Closed => Turn::Closed,
        }
    }

    /// Gives a ticket up, whatever has become of it. The grant, if it has one, is to be used or given back; and where
    /// it waited, somebody else may start: drain.
    pub(crate) fn take(&mut self, at: u32) -> (Option<Grant>, W) {
        if self.tickets[at].state == State::Waits {
            self.leave(at);
        }
        let Ticket { waiter, owner, group, class, state, .. } = self.tickets.remove(at);
        ((state == State::Granted).then_some(Grant { owner, domain: group, class }), waiter)
    }

    /// Ends a run. Somebody else may start: drain.
    pub(crate) fn release(&mut self, grant: Grant) {
        let Grant { owner, domain, class } = grant;
        let index = usize::from(class);
        self.counts.in_flight[index] -= 1;
        self.owners[owner].counts.in_flight[index] -= 1;
        self.domains[domain].counts.in_flight[index] -= 1;
        self.tidy(owner, domain);
    }

    /// Moves the domain's own limit. Somebody may start: drain.
    pub(crate) fn cap(&mut self, domain: u64, cap: u32) {
        if let Some(at) = self.domain_of.get(&domain).copied() {
            self.domains[at].cap = cap;
            self.refresh_domain(at);
        }
    }

    /// Takes other limits, and other weights of owners. What runs goes on and what waits stays, even if it is more than may be from
    /// now on; a rank that a ticket was given for its wait is not taken back. Somebody may start: drain.
    pub(crate) fn set_limits(&mut self, limits: Limits, weight: impl Fn(u128) -> u32) {
        self.limits = limits;
        for at in self.owners.used().collect::<Vec<_>>() {
            self.owners[at].weight = weight(self.owners[at].key);
            self.refresh_owner(at);
        }
        for at in self.domains.used().collect::<Vec<_>>() {
            self.refresh_domain(at);
        }
    }

    /// Lets nobody in any more. Calls `closed` for each who waits.
    pub(crate) fn close(&mut self, mut closed: impl FnMut(&mut W)) {
        self.closed = true;
        let waiting: Vec<u32> = self.tickets.used().filter(|at| self.tickets[*at].state == State::Waits).collect();
        for at in waiting {
            self.leave(at);
            let ticket = &mut self.tickets[at];
            ticket.state = State::Closed;
            closed(&mut ticket.waiter);
        }
    }

    /// A ticket that waits.
    pub(crate) fn snapshot(&self, at: u32) -> Snapshot {
        let ticket = &self.tickets[at];
        let (group, owner) = (&self.groups[ticket.group], &self.owners[ticket.owner]);
        let domain = &self.domains[group.domain];
        let arrival = Arrival {
            domain: domain.key,
            limits: group.limits,
            cap: domain.cap,
            owner: owner.key,
            weight: owner.weight,
            class: CLASSES[usize::from(ticket.class)],
            bytes: ticket.bytes,
            cost: ticket.cost,
        };
        let constraint = self.blocking(&arrival, Some(domain), Some(owner));
        let constraint = constraint.unwrap_or_else(|| Self::domain_total(&arrival, Some(domain)));
        let position = match constraint.scope {
            AdmissionScope::Domain => domain.line.place(ticket.in_domain),
            AdmissionScope::Owner => owner.line.place(ticket.in_owner),
            AdmissionScope::Class => self.class_lines[usize::from(ticket.class)].place(ticket.in_class),
            _ => self.line.place(ticket.number),
        };
        Snapshot { constraint, position }
    }

    /// All together, as what is told of those who run, and of a scheduler that is closed.
    pub(crate) fn all(&self) -> Constraint {
        stream(AdmissionScope::Global, self.counts.in_flight(), self.limits.global)
    }

    fn find_domain(&self, arrival: &Arrival) -> Option<&Domain> {
        self.domain_of.get(&arrival.domain).map(|at| &self.domains[*at])
    }

    fn find_owner(&self, arrival: &Arrival) -> Option<&Owner> {
        self.owner_of.get(&arrival.owner).map(|at| &self.owners[*at])
    }

    /// Where the records of a request are; new ones if there are none.
    fn records(&mut self, arrival: &Arrival) -> (u32, u32) {
        let domain = *self.domain_of.entry(arrival.domain).or_insert_with(|| {
            self.domains.insert(Domain {
                key: arrival.domain,
                cap: arrival.cap,
                counts: Counts::default(),
                line: Line::default(),
                pace: Pace::default(),
                groups: Vec::new(),
            })
        });
        let owner = *self.owner_of.entry(arrival.owner).or_insert_with(|| {
            self.orders += 1;
            self.owners.insert(Owner {
                key: arrival.owner,
                order: self.orders,
                weight: arrival.weight,
                kept: 0,
                allowed: Allowed { foreground: true, others: true },
                counts: Counts::default(),
                line: Line::default(),
                pace: Pace::default(),
            })
        });
        (domain, owner)
    }

    /// The first limit that a request would break by running.
    fn blocking(&self, arrival: &Arrival, domain: Option<&Domain>, owner: Option<&Owner>) -> Option<Constraint> {
        use AdmissionScope as Scope;
        let zero = Counts::default();
        let limit = arrival.limits.concurrency.min(domain.map_or(arrival.cap, |domain| domain.cap));
        let (domain, owner) =
            (domain.map_or(&zero, |domain| &domain.counts), owner.map_or(&zero, |owner| &owner.counts));
        let all = &self.counts;
        let classes = self.limits.classes.filter(|_| arrival.class != RequestClass::Foreground);
        let is_internal = arrival.class == RequestClass::Internal;
        let check = |scope, in_flight, limit| (in_flight >= limit).then(|| stream(scope, in_flight, limit));
        let others = |counts: &Counts| counts.in_flight[1] + counts.in_flight[2];
        check(Scope::Owner, owner.in_flight(), self.limits.owner)
            .or_else(|| check(Scope::Class, others(owner), classes?.non_foreground_owner))
            .or_else(|| check(Scope::Domain, domain.in_flight(), limit))
            .or_else(|| classes.and_then(|_| check(Scope::Class, others(domain), non_foreground(limit))))
            .or_else(|| {
                let limited = classes.filter(|_| is_internal);
                limited.and_then(|_| check(Scope::Class, domain.in_flight[2], Classes::INTERNAL_DOMAIN))
            })
            .or_else(|| check(Scope::Global, all.in_flight(), self.limits.global))
            .or_else(|| check(Scope::Class, others(all), classes?.non_foreground_global))
            .or_else(|| check(Scope::Class, all.in_flight[2], classes.filter(|_| is_internal)?.internal_global))
    }

    fn domain_total(arrival: &Arrival, domain: Option<&Domain>) -> Constraint {
        let limit = arrival.limits.concurrency.min(domain.map_or(arrival.cap, |domain| domain.cap));
        stream(AdmissionScope::Domain, domain.map_or(0, |domain| domain.counts.in_flight()), limit)
    }

    /// Says how many bytes are retained for requests that run. They count toward what may be held in all.
    pub(crate) fn retain_elsewhere(&mut self, bytes: u64) {
        self.elsewhere = bytes;
    }

    /// The first limit that a request would break by waiting.
    fn pending(&self, arrival: &Arrival, domain: Option<&Domain>, owner: Option<&Owner>) -> Option<Constraint> {
        use AdmissionScope as Scope;
        let zero = Counts::default();
        let cap = arrival.limits.concurrency.min(domain.map_or(arrival.cap, |domain| domain.cap));
        let (domain, owner) =
            (domain.map_or(&zero, |domain| &domain.counts), owner.map_or(&zero, |owner| &owner.counts));
        let all = &self.counts;
        let Limits { pending, owner_pending, bytes, owner_bytes, .. } = self.limits;
        let internal = arrival.class == RequestClass::Internal;
        let other = arrival.class != RequestClass::Foreground;
        let class_limits = self.limits.classes.is_some();

        let counts = [
            (all, Scope::Global, pending, 8),
            (owner, Scope::Owner, owner_pending.min(pending), 4),
            (domain, Scope::Domain, arrival.limits.pending.min(pending), 8),
        ];
        let count = |scope, queued: u32, limit: u32| {
            (queued >= limit).then_some(Constraint {
                resource: AdmissionResource::PendingCount,
                scope,
                in_flight: queued,
                limit,
            })
        };
        let by_class = counts.iter().find_map(|(counts, _, limit, share)| {
            let limit = (limit / share).max(1).min(three_quarters(u64::from(*limit)) as u32);
            if internal && class_limits { count(Scope::Class, counts.queued[2], limit) } else { None }
        });
        let by_class = by_class.or_else(|| {
            counts.iter().find_map(|(counts, _, limit, _)| {
                let limit = three_quarters(u64::from(*limit)) as u32;
                let queued = counts.queued[1] + counts.queued[2];
                if other && class_limits { count(Scope::Class, queued, limit) } else { None }
            })
        });
        let by_count = by_class
            .or_else(|| counts.iter().find_map(|(counts, scope, limit, _)| count(*scope, counts.queued(), *limit)));

        // Bytes are never told: what runs in the scope is.
        let domain_bytes = arrival.limits.bytes.min(bytes);
        let owner_bytes = owner_bytes.min(bytes);
        let scopes = [
            (all, Scope::Global, bytes, (three_quarters(bytes), bytes / 8), self.limits.global),
            (owner, Scope::Owner, owner_bytes, ((owner_bytes / 2).max(1), owner_bytes / 4), self.limits.owner),
            (domain, Scope::Domain, domain_bytes, (three_quarters(domain_bytes), domain_bytes / 4), cap),
        ];
        let fits = |held: u64, ceiling: u64| held.saturating_add(arrival.bytes.into()) <= ceiling;
        let memory =
            |scope, in_flight, limit| Constraint { resource: AdmissionResource::PendingBytes, scope, in_flight, limit };
        let of_class = memory(Scope::Class, all.in_flight(), self.limits.global);
        by_count
            .or_else(|| {
                let full = |(counts, _, _, (_, ceiling), _): &(&Counts, _, _, (u64, u64), u32)| {
                    !fits(counts.bytes[2], (*ceiling).max(1))
                };
                (internal && scopes.iter().any(full)).then_some(of_class)
            })
            .or_else(|| {
                let full = |(counts, _, _, (ceiling, _), _): &(&Counts, _, _, (u64, u64), u32)| {
                    !fits(counts.bytes[1] + counts.bytes[2], *ceiling)
                };
                (other && scopes.iter().any(full)).then_some(of_class)
            })
            .or_else(|| {
                // What those who run have their layers hold is of no scope but the whole.
                let held = |scope: &Scope| if *scope == Scope::Global { self.elsewhere } else { 0 };
                let full = scopes
                    .iter()
                    .find(|(counts, scope, ceiling, ..)| !fits(counts.bytes().saturating_add(held(scope)), *ceiling));
                full.map(|(counts, scope, _, _, limit)| memory(*scope, counts.in_flight(), *limit))
            })
    }

    /// The group of a request's lane.
    fn group(&mut self, domain: u32, arrival: &Arrival) -> u32 {
        let class = arrival.class as u8;
        let known = self.domains[domain].groups.iter().copied().find(|at| {
            let group = &self.groups[*at];
            group.class == class && group.limits == arrival.limits
        });
        if let Some(known) = known {
            return known;
        }
        let page = self.pages.iter().position(|page| page.used != u64::MAX).unwrap_or_else(|| {
            self.pages.push(Page::default());
            self.pages.len() - 1
        });
        let bit = self.pages[page].used.trailing_ones() as u8;
        let group = Group { domain, class, limits: arrival.limits, page: page as u32, bit, lanes: 0 };
        let at = self.groups.insert(group);
        self.domains[domain].groups.push(at);
        let page = &mut self.pages[page];
        page.used |= 1 << bit;
        page.groups[usize::from(bit)] = at;
        page.classes[usize::from(class)] |= 1 << bit;
        self.refresh_domain(domain);
        at
    }

    fn drop_group(&mut self, at: u32) {
        let Group { domain, class, page, bit, .. } = self.groups.remove(at);
        let groups = &mut self.domains[domain].groups;
        groups.retain(|group| *group != at);
        let page = &mut self.pages[page as usize];
        page.used &= !(1 << bit);
        page.open &= !(1 << bit);
        page.classes[usize::from(class)] &= !(1 << bit);
        while self.pages.last().is_some_and(|page| page.used == 0) {
            self.pages.pop();
        }
    }

    fn join_lane(&mut self, at: u32, owner: u32, group: u32) {
        match self.lane_of.get(&(owner, group)).copied() {
            Some(lane) => {
                let last = std::mem::replace(&mut self.lanes[lane].last, at);
                self.tickets[last].behind = at;
                self.tickets[at].before = last;
            }
            None => {
                let lane = self.lanes.insert(Lane { first: at, last: at });
                self.lane_of.insert((owner, group), lane);
                self.groups[group].lanes += 1;
                self.place(owner, group, Some(self.tickets[at].rank));
            }
        }
    }

    fn leave_lane(&mut self, at: u32) {
        let Ticket { owner, group, before, behind, .. } = self.tickets[at];
        let lane = self.lane_of[&(owner, group)];
        if before != NIL {
            self.tickets[before].behind = behind;
        }
        if behind == NIL {
            self.lanes[lane].last = before;
        } else {
            self.tickets[behind].before = before;
        }
        if before != NIL {
            return;
        }
        if behind != NIL {
            self.lanes[lane].first = behind;
            let rank = self.tickets[behind].rank;
            if rank != self.tickets[at].rank {
                self.place(owner, group, Some(rank));
            }
            return;
        }
        self.lanes.remove(lane);
        self.lane_of.remove(&(owner, group));
        give_back(&mut self.lane_of);
        self.place(owner, group, None);
        self.groups[group].lanes -= 1;
        if self.groups[group].lanes == 0 {
            self.drop_group(group);
        }
    }

    /// Puts a lane into its tree, by the rank of its first ticket, or takes it out.
    fn place(&mut self, owner: u32, group: u32, rank: Option<u8>) {
        let Group { page, bit, .. } = self.groups[group];
        let page = &mut self.pages[page as usize];
        let of_owner = &mut self.owners[owner];
        if rank.is_some() {
            of_owner.allowed = allowed(&self.limits, &of_owner.counts);
        }
        let mask = page.mask(of_owner.allowed);
        page.tree.put(of_owner.order, owner, bit, rank.map(usize::from), mask);
    }

    /// Which list a ticket ages in, and for how many steps it has to wait in all to leave it.
    fn ages_of(class: u8, rank: u8) -> Option<(usize, u64)> {
        match (class, rank) {
            (1, 1) => Some((0, 1)),
            (2, 2) => Some((1, 1)),
            (2, 1) => Some((2, 2)),
            _ => None,
        }
    }

    fn join_ages(&mut self, at: u32) {
        let ticket = &self.tickets[at];
        let Some((list, _)) = Self::ages_of(ticket.class, ticket.rank) else { return };
        let ages = &mut self.ages[list];
        let older = std::mem::replace(&mut ages.youngest, at);
        if older == NIL {
            ages.oldest = at;
        } else {
            self.tickets[older].younger = at;
        }
        self.tickets[at].older = older;
        self.tickets[at].younger = NIL;
    }

    fn leave_ages(&mut self, at: u32) {
        let Ticket { class, rank, older, younger, .. } = self.tickets[at];
        let Some((list, _)) = Self::ages_of(class, rank) else { return };
        match older {
            NIL => self.ages[list].oldest = younger,
            _ => self.tickets[older].younger = younger,
        }
        match younger {
            NIL => self.ages[list].youngest = older,
            _ => self.tickets[younger].older = older,
        }
    }

    /// Gives those a better rank who have waited long enough for it.
    fn promote(&mut self) {
        // The last list is filled from the one before.
        for (list, steps) in [(0, 1), (1, 1), (2, 2)] {
            let age = self.limits.aging.saturating_mul(steps);
            while let Some(ticket) = self.tickets.get(self.ages[list].oldest) {
                if self.clock.saturating_sub(ticket.enqueued) < age {
                    break;
                }
                let at = self.ages[list].oldest;
                self.leave_ages(at);
                self.tickets[at].rank -= 1;
                self.join_ages(at);
                let Ticket { owner, group, before, rank, .. } = self.tickets[at];
                if before == NIL {
                    self.place(owner, group, Some(rank));
                }
            }
        }
    }

    /// The next ticket to be granted, if one could start.
    fn pick(&mut self) -> Option<u32> {
        if self.counts.queued() == 0 || self.counts.in_flight() >= self.limits.global {
            return None;
        }
        let others = self.counts.in_flight[1] + self.counts.in_flight[2];
        let others_open = self.limits.classes.is_none_or(|classes| others < classes.non_foreground_global);
        let internal_open =
            self.limits.classes.is_none_or(|classes| self.counts.in_flight[2] < classes.internal_global);
        let open = |page: &Page| {
            let mut open = page.open & page.classes[0];
            if others_open {
                open |= page.open & page.classes[1];
                if internal_open {
                    open |= page.open & page.classes[2];
                }
            }
            open
        };
        let rank = (0..RANKS).find(|rank| self.pages.iter().any(|page| page.tree.has(*rank, open(page))))?;

        if self.cursor.credit > 0 {
            let first = self.first_of(self.cursor.order, self.cursor.owner, rank, open);
            if let Some((at, cost)) = first.filter(|(_, cost)| *cost <= self.cursor.credit) {
                self.cursor.credit -= cost;
                return Some(at);
            }
        }
        let next = |from| self.pages.iter().filter_map(|page| page.tree.next(from, rank, open(page))).min();
        let (order, owner) = next(self.cursor.order + 1).or_else(|| next(0)).expect("one has this rank");
        let (at, cost) = self.first_of(order, owner, rank, open).expect("it has a ticket of this rank");
        self.visit(order, owner);
        self.cursor.credit -= cost;
        Some(at)
    }

    /// Moves the rotation on to an owner.
    fn visit(&mut self, order: u64, owner: u32) {
        let unit = self.costs.largest();
        let Cursor { order: last, owner: last_at, credit } = self.cursor;
        if self.owners.get(last_at).is_some_and(|owner| owner.order == last) {
            self.owners[last_at].kept = credit.min((unit - 1).into()) as u32;
        }
        let next = &mut self.owners[owner];
        let credit = u64::from(std::mem::take(&mut next.kept)) + u64::from(next.weight) * u64::from(unit);
        self.cursor = Cursor { order, owner, credit };
    }

    /// The oldest ticket of an owner at this rank in an open group, and its cost.
    fn first_of(&self, order: u64, owner: u32, rank: usize, open: impl Fn(&Page) -> u64) -> Option<(u32, u64)> {
        let mut best: Option<u32> = None;
        for page in &self.pages {
            let mut groups = page.tree.get(order, rank, open(page));
            while groups != 0 {
                let bit = groups.trailing_zeros() as u8;
                groups &= groups - 1;
                let first = self.lanes[self.lane_of[&(owner, page.groups[usize::from(bit)])]].first;
                let number = |at: u32| self.tickets[at].number;
                if best.is_none_or(|best| number(first).wrapping_sub(number(best)).cast_signed() < 0) {
                    best = Some(first);
                }
            }
        }
        best.map(|at| (at, self.tickets[at].cost.into()))
    }

    fn run(&mut self, owner: u32, domain: u32, class: u8) -> Grant {
        let index = usize::from(class);
        self.counts.in_flight[index] += 1;
        self.owners[owner].counts.in_flight[index] += 1;
        self.domains[domain].counts.in_flight[index] += 1;
        self.refresh_owner(owner);
        self.refresh_domain(domain);
        Grant { owner, domain, class }
    }

    /// Takes a ticket that waits out of the queue, with its charge.
    fn leave(&mut self, at: u32) {
        self.leave_ages(at);
        let Ticket { owner, group, class, bytes, cost, number, in_domain, in_owner, in_class, .. } = self.tickets[at];
        let domain = self.groups[group].domain;
        self.leave_lane(at);
        self.costs.remove(cost);
        let index = usize::from(class);
        let (of_domain, of_owner) = (&mut self.domains[domain], &mut self.owners[owner]);
        for counts in [&mut self.counts, &mut of_domain.counts, &mut of_owner.counts] {
            counts.queued[index] -= 1;
            counts.bytes[index] -= u64::from(bytes);
        }
        self.line.leave(number);
        self.class_lines[index].leave(in_class);
        of_domain.line.leave(in_domain);
        of_owner.line.leave(in_owner);
        if of_owner.counts.queued() == 0 {
            // Credit is for those who wait.
            of_owner.kept = 0;
            if self.cursor.order == of_owner.order {
                self.cursor.credit = 0;
            }
        }
        self.tidy(owner, domain);
    }

    /// Forgets records that nobody uses any more, and says anew what the others leave room for.
    fn tidy(&mut self, owner: u32, domain: u32) {
        if self.owners[owner].counts.is_idle() {
            let key = self.owners.remove(owner).key;
            self.owner_of.remove(&key);
            give_back(&mut self.owner_of);
        } else {
            self.refresh_owner(owner);
        }
        if self.domains[domain].counts.is_idle() {
            let key = self.domains.remove(domain).key;
            self.domain_of.remove(&key);
            give_back(&mut self.domain_of);
        } else {
            self.refresh_domain(domain);
        }
    }

    fn refresh_owner(&mut self, at: u32) {
        let owner = &mut self.owners[at];
        if owner.counts.queued() == 0 {
            return;
        }
        let now = allowed(&self.limits, &owner.counts);
        if std::mem::replace(&mut owner.allowed, now) != now {
            for page in &mut self.pages {
                let mask = page.mask(now);
                page.tree.allow(owner.order, mask);
            }
        }
    }

    fn refresh_domain(&mut self, at: u32) {
        let Domain { cap, counts, groups, .. } = &self.domains[at];
        for group in groups {
            let Group { class, limits, page, bit, .. } = &self.groups[*group];
            let limit = limits.concurrency.min(*cap);
            let others = counts.in_flight[1] + counts.in_flight[2];
            let is_open = counts.in_flight() < limit
                && (*class == 0 || self.limits.classes.is_none() || others < non_foreground(limit))
                && (*class < 2 || self.limits.classes.is_none() || counts.in_flight[2] < Classes::INTERNAL_DOMAIN);
            let page = &mut self.pages[*page as usize];
            page.open = page.open & !(1 << bit) | u64::from(is_open) << bit;
        }
    }
}

impl Page {
    /// The groups of the classes that are allowed.
    fn mask(&self, allowed: Allowed) -> u64 {
        let foreground = if allowed.foreground { self.classes[0] } else { 0 };
        let others = if allowed.others { self.classes[1] | self.classes[2] } else { 0 };
        foreground | others
    }
}

/// Gives back what a rush has grown. It is a walk through what is left, after as many removals as three times that.
fn give_back<K: std::hash::Hash + Eq>(index: &mut Index<K>) {
    if index.capacity() > 128 && index.len() < index.capacity() / 8 {
        index.shrink_to((2 * index.len()).max(Slab::<()>::KEPT));
    }
}

const CLASSES: [RequestClass; 3] = [RequestClass::Foreground, RequestClass::Background, RequestClass::Internal];

fn stream(scope: AdmissionScope, in_flight: u32, limit: u32) -> Constraint {
    Constraint { resource: AdmissionResource::Stream, scope, in_flight, limit }
}

fn allowed(limits: &Limits, counts: &Counts) -> Allowed {
    let foreground = counts.in_flight() < limits.owner;
    let others = counts.in_flight[1] + counts.in_flight[2];
    let room = limits.classes.is_none_or(|classes| others < classes.non_foreground_owner);
    Allowed { foreground, others: foreground && room }
}

/// What of a domain's permits is not kept for the foreground.
fn non_foreground(limit: u32) -> u32 {
    limit.saturating_sub(1).max(1)
}

fn three_quarters(limit: u64) -> u64 {
    (limit / 4 * 3 + limit % 4 * 3 / 4).max(1)
}
