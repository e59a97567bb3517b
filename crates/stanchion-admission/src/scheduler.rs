//! Who may run, who waits, and who is next. Plain data: it knows neither futures nor requests, and is told the time.
//!
//! # The rules
//!
//! A request runs if all its limits leave room: of all requests together, of its failure domain, of its share of that, of
//! its owner, and of its class within these. Requests under one policy's limit have a share of a domain, which holds no
//! more than that; and all shares of the domain together hold no more than the widest of them may. Otherwise it gets a
//! ticket, if there is room for one. Whenever room appears, tickets are granted until none could start:
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
//! times the largest cost among the tickets that could start if it were not for their owners. It stays there as long as
//! the owner has a ticket of the best rank that could start and that its credit pays for. Since the credit of one visit
//! pays for any ticket, each visit grants at least one, and nobody is passed over for want of credit. What is left then
//! is kept for the next visit, as far as it is less than the largest cost; an owner with nothing waiting keeps nothing.
//! With all weights and costs 1 that is one ticket an owner and round.
//!
//! Who comes while the rotation goes round stands at the end, and is still served in the same lap; but a lap takes in no
//! more newcomers than owners waited when it began. Otherwise new owners who keep coming, such as short sessions, would
//! draw it out for ever, and whoever has had a turn would never have another. So no lap has more visits than twice the
//! owners who wait at its beginning, and each of those who could start is visited in it.
//!
//! So nobody starves who could start where the rotation comes by. That is not so with two limits that are seldom free at
//! one time: where an owner is at its own limit with requests to one domain whenever another domain has room, its ticket
//! for that one waits on, and what bounds that is its patience. To hold a place free for it would have one domain that
//! hangs stop its owner's requests to all.
//!
//! # How it is found without a search
//!
//! Tickets of one owner, domain, share of it and class stand in a *lane*, first come, first served. All of a lane
//! could start or none, and the first of it has the best rank; so lanes are looked at, not tickets. What lanes of
//! different owners have in common, domain, share and class, is a *group*, and has a bit. Owners stand in a
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

mod account;
mod ages;
mod bounds;
mod lanes;
mod line;
mod pace;
mod rotation;
mod slab;
mod terms;
mod tree;

#[cfg(test)]
mod fairness;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use stanchion_core::{AdmissionScope, BuildMix};

use self::terms::CLASSES;
pub(crate) use self::{
    account::Counts,
    terms::{Arrival, Classes, Constraint, DomainLimits, Full, Grant, Limits, MAX_COST, Snapshot, Turn},
};
use self::{
    account::{Domain, Owner},
    ages::Ages,
    bounds::stream,
    lanes::{Group, Lane, Page},
    line::Line,
    pace::Pace,
    rotation::Cursor,
    slab::Slab,
};

/// None, in a list.
const NIL: u32 = u32::MAX;

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
    /// Its numbers in the lines of all, of its domain, of its owner and of its class. Once it is granted, that of the
    /// domain is its share.
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

type Index<K, V = u32> = HashMap<K, V, BuildMix>;

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
    /// Those lanes, by owner and group, that do not stand with their owner.
    lanes: Index<(u32, u32), Lane>,
    groups: Slab<Group>,
    pages: Vec<Page>,
    owners: Slab<Owner>,
    owner_of: Index<u64>,
    /// The owner that went last; its record is still there.
    idle: Option<u32>,
    orders: u64,
    waiting_owners: u32,
    domains: Slab<Domain>,
    /// How many domains have requests that run or wait.
    busy_domains: usize,
    /// Background tickets of rank 1, internal ones of rank 2, internal ones of rank 1.
    ages: [Ages; 3],
    /// How many tickets cost more than 1.
    costly: u32,
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
            lanes: Index::default(),
            groups: Slab::default(),
            pages: Vec::new(),
            owners: Slab::default(),
            owner_of: Index::default(),
            idle: None,
            orders: 0,
            waiting_owners: 0,
            domains: Slab::default(),
            busy_domains: 0,
            ages: [Ages { oldest: NIL, youngest: NIL }; 3],
            costly: 0,
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

    /// How many domains have requests that run or wait.
    pub(crate) fn domain_count(&self) -> usize {
        self.busy_domains
    }

    /// What a domain has just now.
    pub(crate) fn domain_counts(&self, domain: u32) -> Counts {
        self.domains[domain].counts
    }

    /// What the widest share of a domain may have in flight, whatever its cap.
    pub(crate) fn domain_limit(&self, domain: u32) -> u32 {
        self.domains[domain].widest().unwrap_or(u32::MAX)
    }

    /// Whether anybody waits.
    pub(crate) fn has_waiters(&self) -> bool {
        self.counts.queued() > 0
    }

    /// Says how many bytes are retained for requests that run. They count toward what may be held in all.
    pub(crate) fn retain_elsewhere(&mut self, bytes: u64) {
        self.elsewhere = bytes;
    }

    fn parties(&self, arrival: &Arrival) -> (&Domain, Option<&Owner>) {
        (&self.domains[arrival.domain], self.owner_of.get(&arrival.owner).map(|at| &self.owners[*at]))
    }

    /// Lets a request run at once, if it may.
    pub(crate) fn start(&mut self, arrival: &Arrival) -> Option<Grant> {
        let known = self.owner_of.get(&arrival.owner).copied();
        let owner = known.map(|at| &self.owners[at]);
        if self.closed || self.blocking(arrival, &self.domains[arrival.domain], owner).is_some() {
            return None;
        }
        let owner = match known {
            Some(at) => {
                self.welcome(at);
                at
            }
            None => self.owner(arrival),
        };
        Some(self.run(owner, arrival.domain, arrival.share, arrival.class as u8))
    }

    /// What keeps a request from running. Nothing is stored.
    pub(crate) fn obstacle(&self, arrival: &Arrival) -> Constraint {
        let (domain, owner) = self.parties(arrival);
        self.blocking(arrival, domain, owner).unwrap_or_else(|| Self::domain_total(arrival, domain))
    }

    /// Whether a request that cannot run may wait. Nothing is stored.
    pub(crate) fn may_wait(&self, arrival: &Arrival, now: u64) -> Result<(), Full> {
        let (domain, owner) = self.parties(arrival);
        let Some(constraint) = self.pending(arrival, domain, owner) else { return Ok(()) };
        let now = now.max(self.clock);
        let drains_in = match constraint.scope {
            AdmissionScope::Domain => Some((&domain.counts, &domain.pace)),
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
        let owner = self.owner(arrival);
        let group = self.group(arrival);
        let class = arrival.class as u8;
        let index = usize::from(class);
        let (of_domain, of_owner) = (&mut self.domains[arrival.domain], &mut self.owners[owner]);
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
            in_owner: of_owner.join_line(),
            in_class: self.class_lines[index].join(),
            class,
            rank: class,
            cost: arrival.cost,
            state: State::Waits,
        };
        self.busy_domains += usize::from(of_domain.counts.is_idle());
        for (counts, pace) in [
            (&mut self.counts, &mut self.pace),
            (&mut of_domain.counts, &mut of_domain.pace),
            (&mut of_owner.counts, &mut of_owner.pace),
        ] {
            if counts.queued() == 0 {
                pace.begin(now);
            }
            counts.queued[index] += 1;
            counts.bytes[index] += arrival.bytes;
        }
        self.add_cost(group, arrival.cost);
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
            let Group { domain, share, .. } = self.groups[group];
            for pace in [&mut self.pace, &mut self.domains[domain].pace, &mut self.owners[owner].pace] {
                pace.note(self.clock);
            }
            // Runs before it leaves, so that its owner is never idle in between.
            self.run(owner, domain, share, class);
            self.leave(at);
            let ticket = &mut self.tickets[at];
            ticket.state = State::Granted;
            (ticket.group, ticket.in_domain) = (domain, share);
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
        let Ticket { waiter, owner, group: domain, in_domain: share, class, state, .. } = self.tickets.remove(at);
        ((state == State::Granted).then_some(Grant { owner, domain, share, class }), waiter)
    }

    /// Ends a run. Somebody else may start: drain.
    pub(crate) fn release(&mut self, grant: Grant) {
        let Grant { owner, domain, share, class } = grant;
        let index = usize::from(class);
        self.counts.in_flight[index] -= 1;
        self.owners[owner].counts.in_flight[index] -= 1;
        let of_domain = &mut self.domains[domain];
        of_domain.counts.in_flight[index] -= 1;
        of_domain.shares[share as usize].in_flight[index] -= 1;
        self.tidy(owner, domain);
    }

    /// Moves the domain's own limit. Somebody may start: drain.
    pub(crate) fn cap(&mut self, domain: u32, cap: u32) {
        self.domains[domain].cap = cap;
        self.refresh_domain(domain);
    }

    /// Takes other limits, and other weights of owners. What runs goes on and what waits stays, even if it is more than may be from
    /// now on; a rank that a ticket was given for its wait is not taken back. Somebody may start: drain.
    pub(crate) fn set_limits(&mut self, limits: Limits, weight: impl Fn(u64) -> u8) {
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
            domain: group.domain,
            share: group.share,
            // They are for those who come.
            limits: DomainLimits { pending: 0, bytes: 0 },
            owner: owner.key,
            weight: owner.weight,
            class: CLASSES[usize::from(ticket.class)],
            bytes: ticket.bytes,
            cost: ticket.cost,
        };
        let constraint = self.blocking(&arrival, domain, Some(owner));
        let constraint = constraint.unwrap_or_else(|| Self::domain_total(&arrival, domain));
        let position = match constraint.scope {
            AdmissionScope::Domain => domain.line.place(ticket.in_domain),
            AdmissionScope::Owner => owner.place(ticket.in_owner),
            AdmissionScope::Class => self.class_lines[usize::from(ticket.class)].place(ticket.in_class),
            _ => self.line.place(ticket.number),
        };
        Snapshot { constraint, position }
    }

    /// All together, as what is told of those who run, and of a scheduler that is closed.
    pub(crate) fn all(&self) -> Constraint {
        stream(AdmissionScope::Global, self.counts.in_flight(), self.limits.global)
    }

    /// Takes a ticket that waits out of the queue, with its charge.
    fn leave(&mut self, at: u32) {
        self.leave_ages(at);
        let Ticket { owner, group, class, bytes, cost, number, in_domain, in_owner, in_class, .. } = self.tickets[at];
        let domain = self.groups[group].domain;
        self.remove_cost(group, cost);
        self.leave_lane(at);
        let index = usize::from(class);
        let (of_domain, of_owner) = (&mut self.domains[domain], &mut self.owners[owner]);
        for counts in [&mut self.counts, &mut of_domain.counts, &mut of_owner.counts] {
            counts.queued[index] -= 1;
            counts.bytes[index] -= bytes;
        }
        self.line.leave(number);
        self.class_lines[index].leave(in_class);
        of_domain.line.leave(in_domain);
        of_owner.leave_line(in_owner);
        if of_owner.counts.queued() == 0 {
            // Credit is for those who wait.
            of_owner.kept = 0;
            if self.cursor.order == of_owner.order {
                self.cursor.credit = 0;
            }
        }
        self.tidy(owner, domain);
    }
}
