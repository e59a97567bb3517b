//! What is known of owners and domains.

use super::{
    Arrival, Classes, Grant, Index, NIL, Scheduler,
    bounds::{allowed, non_foreground},
    lanes::Lane,
    line::Line,
    pace::Pace,
    slab::Slab,
};

/// Counts by class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) in_flight: [u32; 3],
    pub(crate) queued: [u32; 3],
    /// The limit of all is far below what this holds.
    pub(crate) bytes: [u32; 3],
}

impl Counts {
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.iter().sum()
    }

    pub(crate) fn queued(&self) -> u32 {
        self.queued.iter().sum()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.iter().map(|bytes| u64::from(*bytes)).sum()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_flight() == 0 && self.queued() == 0
    }
}

/// Known as long as a request of it runs or waits, and one a little longer. There is one for each owner that waits, so it is kept small.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) key: u64,
    /// Its place in the rotation.
    pub(super) order: u64,
    pub(super) counts: Counts,
    /// Where its tickets stand among each other. None while there is one at most, whose number is 0.
    line: Option<Box<Line>>,
    pub(super) pace: Pace,
    /// One of its lanes, if the group is not [`NIL`]. Few have more; those stand in a map.
    pub(super) lane: Lane,
    pub(super) lanes: u32,
    pub(super) weight: u8,
    /// Credit that is kept from the last visit, less than the largest cost.
    pub(super) kept: u8,
    /// As the trees know it.
    pub(super) allowed: Allowed,
}

/// Which classes the owner's own limits leave room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub(crate) foreground: bool,
    pub(crate) others: bool,
}

/// Known from [`open_domain`](Scheduler::open_domain) to [`close_domain`](Scheduler::close_domain).
#[derive(Debug)]
pub(super) struct Domain {
    pub(super) cap: u32,
    pub(super) counts: Counts,
    pub(super) line: Line,
    pub(super) pace: Pace,
    /// By their numbers. One that nobody has open is used anew.
    pub(super) shares: Vec<Share>,
    /// Those that have lanes: as many as there are classes and limits in use.
    pub(super) groups: Vec<u32>,
}

/// What the requests under one limit of concurrency have of a domain. Policies are no part of a domain's identity: all
/// shares together may have what the widest of them may.
#[derive(Debug)]
pub(super) struct Share {
    pub(super) concurrency: u32,
    pub(super) in_flight: [u32; 3],
    /// How often it is open.
    open: u32,
}

/// How far a domain is open to the requests of one of its shares.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// What the share has in flight.
    pub(super) own: [u32; 3],
    /// What the share may have.
    pub(super) own_limit: u32,
    /// What all of the domain may have.
    pub(super) limit: u32,
}

impl Domain {
    /// What the widest of its shares may have.
    pub(super) fn widest(&self) -> Option<u32> {
        self.shares.iter().filter(|share| share.open > 0).map(|share| share.concurrency).max()
    }

    pub(super) fn room(&self, share: u32) -> Room {
        let Share { concurrency, in_flight, .. } = self.shares[share as usize];
        let all = self.widest().unwrap_or(concurrency);
        Room { own: in_flight, own_limit: concurrency.min(self.cap), limit: all.min(self.cap) }
    }

    /// Whether it is open to a class in this share, whoever asks.
    fn is_open(&self, share: u32, class: u8, classes: bool) -> bool {
        let Room { own, own_limit, limit } = self.room(share);
        let all = &self.counts.in_flight;
        let fits = |of: &[u32; 3], limit: u32| {
            of.iter().sum::<u32>() < limit && (!classes || class == 0 || of[1] + of[2] < non_foreground(limit))
        };
        fits(&own, own_limit) && fits(all, limit) && (!classes || class < 2 || all[2] < Classes::INTERNAL_DOMAIN)
    }
}

impl Owner {
    /// To be counted after.
    pub(super) fn join_line(&mut self) -> u32 {
        match &mut self.line {
            None if self.counts.queued() == 0 => 0,
            None => {
                let line = self.line.insert(Box::default());
                line.join();
                line.join()
            }
            Some(line) => line.join(),
        }
    }

    /// To be counted before.
    pub(super) fn leave_line(&mut self, number: u32) {
        match &mut self.line {
            _ if self.counts.queued() == 0 => self.line = None,
            Some(line) => line.leave(number),
            None => unreachable!("one of several has a line"),
        }
    }

    pub(super) fn place(&self, number: u32) -> u64 {
        self.line.as_ref().map_or(1, |line| line.place(number))
    }
}

impl<W> Scheduler<W> {
    /// A domain, with a limit of its own that moves. To be closed once.
    pub(crate) fn open_domain(&mut self, cap: u32) -> u32 {
        let (counts, line, pace) = (Counts::default(), Line::default(), Pace::default());
        self.domains.insert(Domain { cap, counts, line, pace, shares: Vec::new(), groups: Vec::new() })
    }

    /// Forgets a domain that nobody asks for any more. Nothing of it runs or waits.
    pub(crate) fn close_domain(&mut self, domain: u32) {
        let domain = self.domains.remove(domain);
        debug_assert!(domain.counts.is_idle(), "somebody is there");
    }

    /// The share of a domain under a limit of concurrency, to be closed as often as it is opened. Somebody may start: drain.
    pub(crate) fn open_share(&mut self, domain: u32, concurrency: u32) -> u32 {
        let shares = &mut self.domains[domain].shares;
        let known = shares.iter().position(|share| share.open > 0 && share.concurrency == concurrency);
        let at = known.or_else(|| shares.iter().position(|share| share.open == 0)).unwrap_or_else(|| {
            shares.push(Share { concurrency, in_flight: [0; 3], open: 0 });
            shares.len() - 1
        });
        shares[at].concurrency = concurrency;
        shares[at].open += 1;
        self.refresh_domain(domain);
        at as u32
    }

    /// Closes a share. Who had it open has nothing in it that runs or waits.
    pub(crate) fn close_share(&mut self, domain: u32, share: u32) {
        self.domains[domain].shares[share as usize].open -= 1;
        self.refresh_domain(domain);
    }

    /// Where an owner's record is; a new one if there is none.
    pub(super) fn owner(&mut self, arrival: &Arrival) -> u32 {
        if let Some(at) = self.owner_of.get(&arrival.owner).copied() {
            self.welcome(at);
            return at;
        }
        self.orders += 1;
        let at = self.owners.insert(Owner {
            key: arrival.owner,
            order: self.orders,
            counts: Counts::default(),
            line: None,
            pace: Pace::default(),
            lane: Lane { group: NIL, first: NIL, last: NIL },
            lanes: 0,
            weight: arrival.weight,
            kept: 0,
            allowed: Allowed { foreground: true, others: true },
        });
        self.owner_of.insert(arrival.owner, at);
        at
    }

    /// An owner whose record is known asks again. One who was gone comes in at the end.
    pub(super) fn welcome(&mut self, at: u32) {
        if self.idle == Some(at) {
            self.idle = None;
            self.orders += 1;
            let owner = &mut self.owners[at];
            owner.order = self.orders;
            owner.pace = Pace::default();
        }
    }

    /// How many owners have requests that run or wait.
    pub(crate) fn owner_count(&self) -> usize {
        self.owners.len() - usize::from(self.idle.is_some())
    }

    pub(super) fn run(&mut self, owner: u32, domain: u32, share: u32, class: u8) -> Grant {
        let index = usize::from(class);
        self.counts.in_flight[index] += 1;
        self.owners[owner].counts.in_flight[index] += 1;
        let of_domain = &mut self.domains[domain];
        self.busy_domains += usize::from(of_domain.counts.is_idle());
        of_domain.counts.in_flight[index] += 1;
        of_domain.shares[share as usize].in_flight[index] += 1;
        self.refresh_owner(owner);
        self.refresh_domain(domain);
        Grant { owner, domain, share, class }
    }

    /// Forgets an owner of whom nothing runs or waits any more, and says anew what the limits leave room for.
    pub(super) fn tidy(&mut self, owner: u32, domain: u32) {
        if self.owners[owner].counts.is_idle() {
            // The record of whoever went last is kept: often there is nobody else, and he comes again. Not one that would
            // keep the places of a whole rush with it.
            let gone = if owner < Slab::<Owner>::CHUNK { self.idle.replace(owner) } else { Some(owner) };
            if let Some(gone) = gone {
                let key = self.owners.remove(gone).key;
                self.owner_of.remove(&key);
                give_back(&mut self.owner_of);
            }
        } else {
            self.refresh_owner(owner);
        }
        self.busy_domains -= usize::from(self.domains[domain].counts.is_idle());
        self.refresh_domain(domain);
    }

    pub(super) fn refresh_owner(&mut self, at: u32) {
        let owner = &mut self.owners[at];
        if owner.lanes == 0 {
            return;
        }
        let now = allowed(&self.limits, &owner.counts);
        if std::mem::replace(&mut owner.allowed, now) != now {
            for page in &mut self.pages {
                page.tree.allow(owner.order, now);
            }
        }
    }

    pub(super) fn refresh_domain(&mut self, at: u32) {
        let domain = &self.domains[at];
        for group in &domain.groups {
            let group = &self.groups[*group];
            let is_open = domain.is_open(group.share, group.class, self.limits.classes.is_some());
            let page = &mut self.pages[group.page as usize];
            page.open = page.open & !(1 << group.bit) | u64::from(is_open) << group.bit;
        }
    }
}

/// Gives back what a rush has grown. It is a walk through what is left, after as many removals as three times that.
pub(super) fn give_back<K: std::hash::Hash + Eq, V>(index: &mut Index<K, V>) {
    if index.capacity() > 128 && index.len() < index.capacity() / 8 {
        index.shrink_to((2 * index.len()).max(64));
    }
}
