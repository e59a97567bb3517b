//! Who has waited long enough for a better rank.

use super::{NIL, Scheduler, Ticket};

/// Tickets with the same steps to go, the oldest first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ages {
    pub(super) oldest: u32,
    pub(super) youngest: u32,
}

/// In which list a ticket of this class and rank ages: background of rank 1, internal of rank 2, internal of rank 1.
fn list_of(class: u8, rank: u8) -> Option<usize> {
    match (class, rank) {
        (1, 1) => Some(0),
        (2, 2) => Some(1),
        (2, 1) => Some(2),
        _ => None,
    }
}

impl<W> Scheduler<W> {
    pub(super) fn join_ages(&mut self, at: u32) {
        let ticket = &self.tickets[at];
        let Some(list) = list_of(ticket.class, ticket.rank) else { return };
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

    pub(super) fn leave_ages(&mut self, at: u32) {
        let Ticket { class, rank, older, younger, .. } = self.tickets[at];
        let Some(list) = list_of(class, rank) else { return };
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
    pub(super) fn promote(&mut self) {
        // The last list is filled from the one before. So many steps in all are to be waited for to leave each.
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
}
