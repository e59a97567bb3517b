//! Where tickets stand until they are granted.

use super::{Arrival, NIL, Scheduler, Ticket, account::give_back, bounds::allowed, rotation::Costs, tree::Tree};

/// What lanes of different owners have in common: domain, share of it, and class. It has a bit of one page.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) domain: u32,
    pub(super) class: u8,
    pub(super) share: u32,
    pub(super) page: u32,
    pub(super) bit: u8,
    lanes: u32,
    /// Of its tickets; none while all that wait cost 1.
    pub(super) costs: Option<Box<Costs>>,
}

/// Up to 64 groups, and the owners that wait in them.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) used: u64,
    /// Those whose domain leaves room.
    pub(super) open: u64,
    /// Which group has which bit.
    pub(super) groups: [u32; 64],
    pub(super) tree: Tree,
}

impl Default for Page {
    fn default() -> Self {
        Self { used: 0, open: 0, groups: [NIL; 64], tree: Tree::default() }
    }
}

/// The tickets of one owner in one group, the first and the last of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lane {
    pub(super) group: u32,
    pub(super) first: u32,
    pub(super) last: u32,
}

impl<W> Scheduler<W> {
    /// The group of a request's lane.
    pub(super) fn group(&mut self, arrival: &Arrival) -> u32 {
        let class = arrival.class as u8;
        let share = arrival.share;
        let known = self.domains[arrival.domain].groups.iter().copied().find(|at| {
            let group = &self.groups[*at];
            group.class == class && group.share == share
        });
        if let Some(known) = known {
            return known;
        }
        let page = self.pages.iter().position(|page| page.used != u64::MAX).unwrap_or_else(|| {
            self.pages.push(Page::default());
            self.pages.len() - 1
        });
        let bit = self.pages[page].used.trailing_ones() as u8;
        let group = Group { domain: arrival.domain, class, share, page: page as u32, bit, lanes: 0, costs: None };
        let at = self.groups.insert(group);
        self.domains[arrival.domain].groups.push(at);
        let page = &mut self.pages[page];
        page.used |= 1 << bit;
        page.groups[usize::from(bit)] = at;
        page.tree.classes[usize::from(class)] |= 1 << bit;
        self.refresh_domain(arrival.domain);
        at
    }

    fn drop_group(&mut self, at: u32) {
        let Group { domain, class, page, bit, .. } = self.groups.remove(at);
        self.domains[domain].groups.retain(|group| *group != at);
        let page = &mut self.pages[page as usize];
        page.used &= !(1 << bit);
        page.open &= !(1 << bit);
        page.tree.classes[usize::from(class)] &= !(1 << bit);
        // One page is kept for whoever comes next.
        while self.pages.len() > 1 && self.pages.last().is_some_and(|page| page.used == 0) {
            self.pages.pop();
        }
    }

    pub(super) fn lane_mut(&mut self, owner: u32, group: u32) -> Option<&mut Lane> {
        let own = &mut self.owners[owner].lane;
        if own.group == group { Some(own) } else { self.lanes.get_mut(&(owner, group)) }
    }

    /// The first ticket of a lane that is there.
    pub(super) fn first_in(&self, owner: u32, group: u32) -> u32 {
        let own = &self.owners[owner].lane;
        if own.group == group { own.first } else { self.lanes[&(owner, group)].first }
    }

    pub(super) fn join_lane(&mut self, at: u32, owner: u32, group: u32) {
        if let Some(lane) = self.lane_mut(owner, group) {
            let last = std::mem::replace(&mut lane.last, at);
            self.tickets[last].behind = at;
            self.tickets[at].before = last;
            return;
        }
        let lane = Lane { group, first: at, last: at };
        let of_owner = &mut self.owners[owner];
        of_owner.lanes += 1;
        if of_owner.lane.group == NIL {
            of_owner.lane = lane;
        } else {
            self.lanes.insert((owner, group), lane);
        }
        let is_first = of_owner.lanes == 1;
        self.waiting_owners += u32::from(is_first);
        self.groups[group].lanes += 1;
        let rank = self.tickets[at].rank;
        if is_first { self.enter(owner, group, rank) } else { self.place(owner, group, Some(rank)) }
    }

    pub(super) fn leave_lane(&mut self, at: u32) {
        let Ticket { owner, group, before, behind, rank, .. } = self.tickets[at];
        if before != NIL {
            self.tickets[before].behind = behind;
        }
        if behind != NIL {
            self.tickets[behind].before = before;
        }
        if before != NIL && behind != NIL {
            return;
        }
        let lane = self.lane_mut(owner, group).expect("its lane is there");
        if behind == NIL {
            lane.last = before;
        }
        if before != NIL {
            return;
        }
        lane.first = behind;
        if behind != NIL {
            let next = self.tickets[behind].rank;
            if next != rank {
                self.place(owner, group, Some(next));
            }
            return;
        }
        let of_owner = &mut self.owners[owner];
        of_owner.lanes -= 1;
        self.waiting_owners -= u32::from(of_owner.lanes == 0);
        if of_owner.lane.group == group {
            of_owner.lane.group = NIL;
        } else {
            self.lanes.remove(&(owner, group));
            give_back(&mut self.lanes);
        }
        self.place(owner, group, None);
        self.groups[group].lanes -= 1;
        if self.groups[group].lanes == 0 {
            self.drop_group(group);
        }
    }

    /// Puts a lane into its tree, by the rank of its first ticket, or takes it out.
    pub(super) fn place(&mut self, owner: u32, group: u32, rank: Option<u8>) {
        let Group { page, bit, .. } = self.groups[group];
        let of_owner = &self.owners[owner];
        let tree = &mut self.pages[page as usize].tree;
        match rank.map(usize::from) {
            None if of_owner.lanes == 0 => tree.exit(of_owner.order),
            rank => tree.put(of_owner.order, owner, bit, rank, of_owner.allowed),
        }
    }

    /// Puts the first lane of an owner into its tree.
    fn enter(&mut self, owner: u32, group: u32, rank: u8) {
        let Group { page, bit, .. } = self.groups[group];
        let of_owner = &mut self.owners[owner];
        // Nobody has kept it up to date meanwhile.
        of_owner.allowed = allowed(&self.limits, &of_owner.counts);
        let tree = &mut self.pages[page as usize].tree;
        tree.enter(of_owner.order, owner, bit, rank.into(), of_owner.allowed);
    }
}
