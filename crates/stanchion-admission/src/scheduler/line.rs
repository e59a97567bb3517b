//! The order of arrival within one scope, as far as one may ask for a place in it.

/// Who waits in a scope, by the number that each got when it came. Tells how many came before and still wait.
///
/// One word of presence for up to 64 numbers; beyond that, words in order with a binary indexed tree over their counts.
/// Every operation is O(log n), and memory is bounded by those who wait: words that became empty in the middle are
/// swept out once they are half of all.
///
/// Numbers go round after 2^32. That confuses nobody, as long as those who wait at one time are closer together.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// The first number of the first word. A multiple of 64.
    base: u32,
    next: u32,
    words: Words,
}

#[derive(Debug)]
enum Words {
    One(u64),
    Many(Box<Many>),
}

impl Default for Words {
    fn default() -> Self {
        Self::One(0)
    }
}

/// In order, the last of them never swept.
#[derive(Debug, Default)]
struct Many {
    words: Vec<Word>,
    tree: Vec<u32>,
    empty: usize,
}

#[derive(Debug, Clone, Copy)]
struct Word {
    start: u32,
    bits: u64,
}

impl Line {
    /// Joins at the end. Returns the number.
    pub(crate) fn join(&mut self) -> u32 {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let start = number & !63;
        let bit = 1 << (number & 63);
        match &mut self.words {
            Words::One(0) => {
                self.base = start;
                self.words = Words::One(bit);
            }
            Words::One(bits) if self.base == start => *bits |= bit,
            Words::One(bits) => {
                let mut many = Many::default();
                many.push(Word { start: self.base, bits: *bits });
                many.push(Word { start, bits: bit });
                self.words = Words::Many(Box::new(many));
            }
            Words::Many(many) => many.join(start, bit),
        }
        number
    }

    /// Leaves.
    pub(crate) fn leave(&mut self, number: u32) {
        let bit = 1 << (number & 63);
        match &mut self.words {
            Words::One(bits) => *bits &= !bit,
            Words::Many(many) => {
                if !many.leave(number & !63, bit) {
                    self.words = Words::default();
                }
            }
        }
    }

    /// How many wait whose number is no later than this one's.
    pub(crate) fn place(&self, number: u32) -> u64 {
        let mask = u64::MAX >> (63 - (number & 63));
        match &self.words {
            Words::One(bits) => (bits & mask).count_ones().into(),
            Words::Many(many) => many.place(number & !63, mask),
        }
    }
}

impl Many {
    fn push(&mut self, word: Word) {
        self.words.push(word);
        // One-based. A node holds the sum of its own word and of the nodes directly below it.
        let index = self.words.len();
        let mut sum = word.bits.count_ones();
        let mut step = 1;
        while step < index & index.wrapping_neg() {
            sum += self.tree[index - step - 1];
            step <<= 1;
        }
        self.tree.push(sum);
    }

    fn join(&mut self, start: u32, bit: u64) {
        let last = self.words.len() - 1;
        if self.words[last].start == start {
            self.set(last, self.words[last].bits | bit);
        } else {
            self.push(Word { start, bits: bit });
        }
    }

    /// Returns whether anybody is left.
    fn leave(&mut self, start: u32, bit: u64) -> bool {
        let index = self.find(start);
        let left = self.words[index].bits & !bit;
        self.set(index, left);
        if left == 0 {
            self.empty += 1;
            if self.empty == self.words.len() {
                return false;
            }
            if self.empty > 16 && self.empty * 2 > self.words.len() {
                self.sweep();
            }
        }
        true
    }

    fn set(&mut self, index: usize, bits: u64) {
        let before = std::mem::replace(&mut self.words[index].bits, bits);
        if before == 0 && bits != 0 {
            self.empty -= 1;
        }
        let change = bits.count_ones().wrapping_sub(before.count_ones());
        let mut node = index + 1;
        while node <= self.tree.len() {
            self.tree[node - 1] = self.tree[node - 1].wrapping_add(change);
            node += node & node.wrapping_neg();
        }
    }

    fn place(&self, start: u32, mask: u64) -> u64 {
        let index = self.find(start);
        let mut sum = u64::from((self.words[index].bits & mask).count_ones());
        let mut node = index;
        while node > 0 {
            sum += u64::from(self.tree[node - 1]);
            node &= node - 1;
        }
        sum
    }

    fn find(&self, start: u32) -> usize {
        let first = self.words[0].start;
        let found = self.words.binary_search_by_key(&start.wrapping_sub(first), |word| word.start.wrapping_sub(first));
        found.expect("whoever waits has its word")
    }

    fn sweep(&mut self) {
        let last = self.words.len() - 1;
        let words = std::mem::take(&mut self.words);
        self.tree.clear();
        self.empty = 0;
        let kept = words.into_iter().enumerate().filter(|(index, word)| word.bits != 0 || *index == last);
        for (_, word) in kept {
            self.empty += usize::from(word.bits == 0);
            self.push(word);
        }
        self.words.shrink_to_fit();
        self.tree.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn places_are_counted_right(begin: u32, acts in prop::collection::vec((0..4u8, any::<prop::sample::Index>()), 1..900)) {
            let mut line = Line { next: begin, ..Line::default() };
            let mut waiting: Vec<u32> = Vec::new();
            for (act, which) in acts {
                if act > 0 || waiting.is_empty() {
                    waiting.push(line.join());
                } else {
                    line.leave(waiting.remove(which.index(waiting.len())));
                }
                if !waiting.is_empty() {
                    let index = which.index(waiting.len());
                    prop_assert_eq!(line.place(waiting[index]), index as u64 + 1);
                }
            }
            for (index, number) in waiting.iter().enumerate() {
                prop_assert_eq!(line.place(*number), index as u64 + 1);
            }
        }
    }

    #[test]
    fn memory_is_that_of_those_who_wait() {
        let mut line = Line::default();
        let patient = line.join();
        for _ in 0..1_000_000 {
            let number = line.join();
            line.leave(number);
        }
        assert_eq!(line.place(patient), 1);
        let Words::Many(many) = &line.words else { panic!("two words or more") };
        assert!(many.words.len() < 64, "{}", many.words.len());
        line.leave(patient);
        assert!(matches!(line.words, Words::One(0)));
    }
}
