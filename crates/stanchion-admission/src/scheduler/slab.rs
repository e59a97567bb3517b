const CHUNK: usize = 64;
/// None, in the list of free places.
const NIL: u32 = u32::MAX;

/// Values at places that are used again. It grows by small chunks, so that nothing is moved and little is kept in reserve; and free places at the
/// end are given back, so that a rush leaves no more behind than what stands before the last that is left of it.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    chunks: Vec<Vec<Place<T>>>,
    /// How many places there are, free ones among them. The last is used.
    places: u32,
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
        Self { chunks: Vec::new(), places: 0, free: NIL, len: 0 }
    }
}

impl<T> Slab<T> {
    /// How many places a chunk has.
    pub(crate) const CHUNK: u32 = CHUNK as u32;

    pub(crate) fn insert(&mut self, value: T) -> u32 {
        self.len += 1;
        if self.free != NIL {
            let at = self.free;
            self.unlink(at);
            *self.place_mut(at) = Place::Used(value);
            return at;
        }
        let at = self.places;
        let chunk = at as usize / CHUNK;
        if chunk == self.chunks.len() {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        self.chunks[chunk].push(Place::Used(value));
        self.places += 1;
        at
    }

    pub(crate) fn remove(&mut self, at: u32) -> T {
        self.len -= 1;
        let place = if at + 1 == self.places {
            let last = self.pop();
            while self.places > 0 && matches!(self.place(self.places - 1), Some(Place::Free { .. })) {
                self.unlink(self.places - 1);
                self.pop();
            }
            last
        } else {
            let behind = std::mem::replace(&mut self.free, at);
            if let Some(Place::Free { before, .. }) = self.get_place_mut(behind) {
                *before = at;
            }
            std::mem::replace(self.place_mut(at), Place::Free { before: NIL, behind })
        };
        match place {
            Place::Used(value) => value,
            Place::Free { .. } => unreachable!("what is there is removed once"),
        }
    }

    fn pop(&mut self) -> Place<T> {
        self.places -= 1;
        let chunk = self.places as usize / CHUNK;
        // One empty chunk is kept for whoever comes next.
        self.chunks.truncate(chunk + 2);
        if self.chunks.len() < self.chunks.capacity() / 4 {
            self.chunks.shrink_to(2 * self.chunks.len());
        }
        self.chunks[chunk].pop().expect("the last place is in it")
    }

    /// Takes a free place out of the list.
    fn unlink(&mut self, at: u32) {
        let Place::Free { before, behind } = *self.place_mut(at) else { unreachable!("it is free") };
        match self.get_place_mut(before) {
            Some(Place::Free { behind: of_before, .. }) => *of_before = behind,
            _ => self.free = behind,
        }
        if let Some(Place::Free { before: of_behind, .. }) = self.get_place_mut(behind) {
            *of_behind = before;
        }
    }

    fn place(&self, at: u32) -> Option<&Place<T>> {
        self.chunks.get(at as usize / CHUNK)?.get(at as usize % CHUNK)
    }

    fn get_place_mut(&mut self, at: u32) -> Option<&mut Place<T>> {
        self.chunks.get_mut(at as usize / CHUNK)?.get_mut(at as usize % CHUNK)
    }

    fn place_mut(&mut self, at: u32) -> &mut Place<T> {
        self.get_place_mut(at).expect("it is there")
    }

    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        match self.place(at) {
            Some(Place::Used(value)) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The places that are used.
    pub(crate) fn used(&self) -> impl Iterator<Item = u32> {
        let used = self.chunks.iter().flatten().enumerate().filter(|(_, place)| matches!(place, Place::Used(_)));
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
        match self.place_mut(at) {
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
        fn it_keeps_what_it_was_given(acts in prop::collection::vec((0..5u8, any::<prop::sample::Index>()), 1..900)) {
            let mut slab = Slab::default();
            let mut plain = BTreeMap::new();
            for (number, (act, which)) in acts.into_iter().enumerate() {
                if act < 3 || plain.is_empty() {
                    prop_assert_eq!(plain.insert(slab.insert(number), number), None);
                } else {
                    let at = *plain.keys().nth(which.index(plain.len())).unwrap();
                    prop_assert_eq!(Some(slab.remove(at)), plain.remove(&at));
                    prop_assert_eq!(slab.get(at), None);
                }
                prop_assert_eq!(slab.len(), plain.len());
                let last = plain.keys().next_back().map_or(0, |last| last + 1);
                prop_assert_eq!(slab.places, last);
                prop_assert!(slab.chunks.len() <= last as usize / 64 + 2);
            }
            prop_assert_eq!(slab.used().map(|at| (at, slab[at])).collect::<BTreeMap<_, _>>(), plain);
        }
    }

    #[test]
    fn what_a_rush_has_grown_is_given_back() {
        let mut slab = Slab::default();
        let places: Vec<u32> = (0..100_000).map(|number| slab.insert(number)).collect();
        for place in places.into_iter().filter(|place| *place != 100) {
            slab.remove(place);
        }
        assert_eq!((slab.len(), slab.places, slab[100]), (1, 101, 100));
        assert!(slab.chunks.len() <= 3 && slab.chunks.capacity() <= 16, "{}", slab.chunks.capacity());
    }
}
