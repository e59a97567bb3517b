//! Who is next.

use super::{MAX_COST, Scheduler, lanes::Page, tree::RANKS};

/// Where the rotation stands.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    pub(super) order: u64,
    owner: u32,
    pub(super) credit: u64,
    /// The last owner who was there when the lap began.
    lap: u64,
    /// How many who came later it may still take in.
    newcomers: u32,
}

/// How many tickets of each cost there are, of those that cost more than 1.
#[derive(Debug)]
pub(super) struct Costs {
    counts: [u32; MAX_COST as usize + 1],
    present: u128,
}

impl Default for Costs {
    fn default() -> Self {
        Self { counts: [0; MAX_COST as usize + 1], present: 0 }
    }
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
        self.present.checked_ilog2().unwrap_or(1)
    }
}

impl<W> Scheduler<W> {
    /// The next ticket to be granted, if one could start.
    pub(super) fn pick(&mut self) -> Option<u32> {
        if self.counts.queued() == 0 || self.counts.in_flight() >= self.limits.global {
            return None;
        }
        let others = self.counts.in_flight[1] + self.counts.in_flight[2];
        let others_open = self.limits.classes.is_none_or(|classes| others < classes.non_foreground_global);
        let internal_open =
            self.limits.classes.is_none_or(|classes| self.counts.in_flight[2] < classes.internal_global);
        let open = |page: &Page| {
            let classes = &page.tree.classes;
            let mut open = page.open & classes[0];
            if others_open {
                open |= page.open & classes[1];
                if internal_open {
                    open |= page.open & classes[2];
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
        let ahead = next(self.cursor.order + 1);
        let (order, owner) = match ahead.filter(|(order, _)| *order <= self.cursor.lap) {
            Some(ahead) => ahead,
            None => {
                let first = next(0).expect("one has this rank");
                match ahead.filter(|ahead| *ahead != first && self.cursor.newcomers > 0) {
                    Some(newcomer) => {
                        self.cursor.newcomers -= 1;
                        newcomer
                    }
                    None => {
                        (self.cursor.lap, self.cursor.newcomers) = (self.orders, self.waiting_owners);
                        first
                    }
                }
            }
        };
        let (at, cost) = self.first_of(order, owner, rank, open).expect("it has a ticket of this rank");
        let unit = self.largest_cost(open);
        self.visit(order, owner, unit);
        self.cursor.credit -= cost;
        Some(at)
    }

    pub(super) fn add_cost(&mut self, group: u32, cost: u8) {
        if cost > 1 {
            self.costly += 1;
            self.groups[group].costs.get_or_insert_default().add(cost);
        }
    }

    pub(super) fn remove_cost(&mut self, group: u32, cost: u8) {
        if cost > 1 {
            self.costly -= 1;
            self.groups[group].costs.as_mut().expect("it was added").remove(cost);
        }
    }

    /// The largest cost of those that could start if it were not for their owners.
    fn largest_cost(&self, open: impl Fn(&Page) -> u64) -> u32 {
        if self.costly == 0 {
            return 1;
        }
        let groups = self.pages.iter().flat_map(|page| {
            let open = open(page);
            let bits = (0..64).filter(move |bit| open >> bit & 1 == 1);
            bits.filter_map(|bit: usize| self.groups.get(page.groups[bit]))
        });
        groups.filter_map(|group| group.costs.as_ref()).map(|costs| costs.largest()).max().unwrap_or(1)
    }

    /// Moves the rotation on to an owner, whose credit grows by its weight times a unit.
    fn visit(&mut self, order: u64, owner: u32, unit: u32) {
        let Cursor { order: last, owner: last_at, credit, .. } = self.cursor;
        if self.owners.get(last_at).is_some_and(|owner| owner.order == last) {
            self.owners[last_at].kept = credit.min((unit - 1).into()) as u8;
        }
        let next = &mut self.owners[owner];
        let credit = u64::from(std::mem::take(&mut next.kept)) + u64::from(next.weight) * u64::from(unit);
        self.cursor = Cursor { order, owner, credit, ..self.cursor };
    }

    /// The oldest ticket of an owner at this rank in an open group, and its cost.
    fn first_of(&self, order: u64, owner: u32, rank: usize, open: impl Fn(&Page) -> u64) -> Option<(u32, u64)> {
        let mut best: Option<u32> = None;
        for page in &self.pages {
            let mut groups = page.tree.get(order, rank, open(page));
            while groups != 0 {
                let bit = groups.trailing_zeros() as u8;
                groups &= groups - 1;
                let first = self.first_in(owner, page.groups[usize::from(bit)]);
                let number = |at: u32| self.tickets[at].number;
                if best.is_none_or(|best| number(first).wrapping_sub(number(best)).cast_signed() < 0) {
                    best = Some(first);
                }
            }
        }
        best.map(|at| (at, self.tickets[at].cost.into()))
    }
}
