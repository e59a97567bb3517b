use std::{collections::BTreeMap, task::Waker};

/// Who waits for a circuit, in order, and who has been let go. Plain data: it hands out wakers, and wakes nobody.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: BTreeMap<u64, Option<Waker>>,
    places: u64,
    turns: u64,
    /// The turn that was given and is not over. There is one at most.
    turn: Option<u64>,
}

impl Queue {
    /// Joins at the end, or at a place that one held before.
    pub(crate) fn join(&mut self, place: Option<u64>) -> u64 {
        let place = place.filter(|place| !self.waiting.contains_key(place)).unwrap_or_else(|| {
            self.places += 1;
            self.places
        });
        self.waiting.insert(place, None);
        place
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether it is the turn of this place, as far as the others go.
    pub(crate) fn is_next(&self, place: u64) -> bool {
        self.turn.is_none() && self.waiting.first_key_value().is_some_and(|(first, _)| *first == place)
    }

    /// Whom to wake when this place comes first.
    pub(crate) fn wait(&mut self, place: u64, waker: &Waker) {
        if let Some(known) = self.waiting.get_mut(&place) {
            match known {
                Some(known) => known.clone_from(waker),
                None => *known = Some(waker.clone()),
            }
        }
    }

    /// Gives a turn to this place, which goes from the queue.
    pub(crate) fn take(&mut self, place: u64) -> u64 {
        self.waiting.remove(&place);
        self.turns += 1;
        self.turn = Some(self.turns);
        self.turns
    }

    /// Ends a turn. Returns whom to wake.
    pub(crate) fn end(&mut self, turn: u64) -> Option<Waker> {
        if self.turn != Some(turn) {
            return None;
        }
        self.turn = None;
        self.first()
    }

    /// Leaves. Returns whom to wake.
    pub(crate) fn leave(&mut self, place: u64) -> Option<Waker> {
        let was_first = self.waiting.first_key_value().is_some_and(|(first, _)| *first == place);
        self.waiting.remove(&place)?;
        if was_first && self.turn.is_none() { self.first() } else { None }
    }

    /// The circuit has closed: whoever holds a turn need not hold up the others any longer.
    pub(crate) fn release(&mut self) {
        self.turn = None;
    }

    /// The first, to be woken.
    pub(crate) fn first(&mut self) -> Option<Waker> {
        self.waiting.first_entry().and_then(|mut first| first.get_mut().take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn woken(waker: Option<Waker>) -> bool {
        waker.is_some()
    }

    #[test]
    fn turns_go_round_in_order_and_one_at_a_time() {
        let mut queue = Queue::default();
        let [a, b, c] = [(); 3].map(|()| queue.join(None));
        for place in [a, b, c] {
            queue.wait(place, Waker::noop());
        }
        assert!(queue.is_next(a) && !queue.is_next(b));
        let turn = queue.take(a);
        assert!(!queue.is_next(b));
        assert!(!woken(queue.end(turn + 1)), "nobody else's turn is over");
        assert!(woken(queue.end(turn)) && !woken(queue.end(turn)));
        assert!(queue.is_next(b));
        assert!(woken(queue.leave(b)) && !woken(queue.leave(b)));
        assert!(queue.is_next(c));
        assert_eq!(queue.len(), 1);
    }

    #[test]
    fn a_place_is_kept_for_one_who_comes_back_but_never_given_twice() {
        let mut queue = Queue::default();
        let [a, b] = [(); 2].map(|()| queue.join(None));
        queue.take(a);
        assert_eq!(queue.join(Some(a)), a);
        let other = queue.join(Some(a));
        assert!(other > b);
        queue.release();
        assert!(queue.is_next(a));
    }
}
