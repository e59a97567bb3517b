//! A bounded map: where it is full, what was put in longest ago makes room.

use std::collections::{BTreeMap, HashMap};

use super::SessionKey;

pub(super) struct Aged<V> {
    room: usize,
    values: HashMap<SessionKey, (u64, V)>,
    /// By age, the oldest first: who makes room is found without a look at all of them.
    ages: BTreeMap<u64, SessionKey>,
    /// Counts what was put in.
    clock: u64,
}

impl<V> Aged<V> {
    pub(super) fn new(room: usize) -> Self {
        Self { room, values: HashMap::new(), ages: BTreeMap::new(), clock: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn get(&self, key: &SessionKey) -> Option<&V> {
        self.values.get(key).map(|(_, value)| value)
    }

    /// Puts in, as the youngest.
    pub(super) fn insert(&mut self, key: SessionKey, value: V) {
        self.remove(&key);
        if self.values.len() >= self.room
            && let Some((_, oldest)) = self.ages.pop_first()
        {
            self.values.remove(&oldest);
        }
        self.clock += 1;
        self.ages.insert(self.clock, key);
        self.values.insert(key, (self.clock, value));
    }

    pub(super) fn remove(&mut self, key: &SessionKey) -> Option<V> {
        let (age, value) = self.values.remove(key)?;
        self.ages.remove(&age);
        Some(value)
    }

    pub(super) fn clear(&mut self) {
        self.values.clear();
        self.ages.clear();
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (&SessionKey, &V)> {
        self.values.iter().map(|(key, (_, value))| (key, value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a list that is looked through.
        #[test]
        fn the_oldest_makes_room(room in 1..5_usize, steps in prop::collection::vec((any::<bool>(), 0..8_u8), 0..60)) {
            let mut aged = Aged::new(room);
            let mut list: Vec<(u8, usize)> = Vec::new();
            let key = |number: u8| SessionKey::new(None, &number.to_string());
            for (step, (puts, number)) in steps.into_iter().enumerate() {
                let old = list.iter().position(|(known, _)| *known == number).map(|at| list.remove(at).1);
                if puts {
                    aged.insert(key(number), step);
                    if list.len() == room {
                        list.remove(0);
                    }
                    list.push((number, step));
                } else {
                    prop_assert_eq!(aged.remove(&key(number)), old);
                }
                prop_assert_eq!((aged.len(), aged.ages.len()), (list.len(), list.len()));
                for (number, step) in &list {
                    prop_assert_eq!(aged.get(&key(*number)), Some(step));
                }
            }
        }
    }
}
