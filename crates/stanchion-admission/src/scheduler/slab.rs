/// None, in the list of free places.
const NIL: u32 = u32::MAX;

/// Values at places that are used again. Free places at the end are given back, so that a rush leaves no more behind than
/// what stands before the last that is left of it.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: u32,
    len: usize,
}

#[derive(Debug)]
enum Place<T> {
    Used(T),
    Free { before: u32, behind: u32 },
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: NIL, len: 0 }
    }
}

impl<T> Slab<T> {
    /// So many places are always kept.
    pub(crate) const KEPT: usize = 64;

    pub(crate) fn insert(&mut self, value: T) -> u32 {
        self.len += 1;
        if self.free == NIL {
            self.places.push(Place::Used(value));
            return self.places.len() as u32 - 1;
        }
        let at = self.free;
        self.unlink(at);
        self.places[at as usize] = Place::Used(value);
        at
    }

    pub(crate) fn remove(&mut self, at: u32) -> T {
        let behind = std::mem::replace(&mut self.free, at);
        let value = match std::mem::replace(&mut self.places[at as usize], Place::Free { before: NIL, behind }) {
            Place::Used(value) => value,
            Place::Free { .. } => unreachable!("what is there is removed once"),
        };
        if let Some(Place::Free { before, .. }) = self.places.get_mut(behind as usize) {
            *before = at;
        }
        self.len -= 1;
        while let Some(Place::Free { .. }) = self.places.last() {
            self.unlink(self.places.len() as u32 - 1);
            self.places.pop();
        }
        if self.places.capacity() > Self::KEPT && self.places.len() < self.places.capacity() / 4 {
            self.places.shrink_to((2 * self.places.len()).max(Self::KEPT));
        }
        value
    }

    /// Takes a free place out of the list.
    fn unlink(&mut self, at: u32) {
        let Place::Free { before, behind } = self.places[at as usize] else { unreachable!("it is free") };
        match self.places.get_mut(before as usize) {
            Some(Place::Free { behind: of_before, .. }) => *of_before = behind,
            _ => self.free = behind,
        }
        if let Some(Place::Free { before: of_behind, .. }) = self.places.get_mut(behind as usize) {
            *of_behind = before;
        }
    }

    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        match self.places.get(at as usize) {
            Some(Place::Used(value)) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The places that are used.
    pub(crate) fn used(&self) -> impl Iterator<Item = u32> {
        let used = self.places.iter().enumerate().filter(|(_, place)| matches!(place, Place::Used(_)));
        used.map(|(at, _)| at as u32)
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, at: u32) -> &T {
        self.get(at).expect("it is there")
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, at: u32) -> &mut T {
        match &mut self.places[at as usize] {
            Place::Used(value) => value,
            Place::Free { .. } => unreachable!("it is there"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_keeps_what_it_was_given(acts in prop::collection::vec((0..3u8, any::<prop::sample::Index>()), 1..400)) {
            let mut slab = Slab::default();
            let mut plain = BTreeMap::new();
            for (number, (act, which)) in acts.into_iter().enumerate() {
                if act == 0 || plain.is_empty() {
                    prop_assert_eq!(plain.insert(slab.insert(number), number), None);
                } else {
                    let at = *plain.keys().nth(which.index(plain.len())).unwrap();
                    prop_assert_eq!(Some(slab.remove(at)), plain.remove(&at));
                    prop_assert_eq!(slab.get(at), None);
                }
                prop_assert_eq!(slab.used().map(|at| (at, slab[at])).collect::<BTreeMap<_, _>>(), plain.clone());
                prop_assert_eq!(slab.len(), plain.len());
                let last = plain.keys().next_back().map_or(0, |last| last + 1);
                prop_assert_eq!(slab.places.len(), last as usize);
            }
        }
    }

    #[test]
    fn what_a_rush_has_grown_is_given_back() {
        let mut slab = Slab::default();
        let places: Vec<u32> = (0..100_000).map(|number| slab.insert(number)).collect();
        for place in places.into_iter().filter(|place| *place != 100) {
            slab.remove(place);
        }
        assert_eq!((slab.len(), slab.places.len(), slab[100]), (1, 101, 100));
        assert!(slab.places.capacity() <= 500, "{}", slab.places.capacity());
    }
}
