//! Owners in the order of their rotation, each with what it could start.

use super::{account::Allowed, slab::Slab};

/// How urgent a ticket is: 0 for the most urgent.
pub(crate) const RANKS: usize = 3;

/// None, as a child.
const NIL: u32 = u32::MAX;

/// For each rank a set of up to 64 groups.
pub(crate) type Sets = [u64; RANKS];

/// A balanced search tree over owners by their order. Each has the groups in which it has a ticket at the head, by
/// rank; each node knows the union of those below it. So the next owner who could start in one of the open groups is
/// found without a look at those who could not: O(log n).
///
/// A treap whose priorities are a hash of the order. Orders are counted up by the scheduler, so nobody can choose them
/// to unbalance it.
#[derive(Debug)]
pub(crate) struct Tree {
    /// Which of the groups are of which class.
    pub(crate) classes: [u64; 3],
    nodes: Slab<Node>,
    root: u32,
}

#[derive(Debug)]
struct Node {
    order: u64,
    /// The groups that this owner waits in.
    own: Sets,
    /// Of those, what the owner's own limits allow, and those of all nodes below.
    below: Sets,
    /// Where the scheduler keeps the owner.
    owner: u32,
    left: u32,
    right: u32,
    allowed: Allowed,
}

impl Default for Tree {
    fn default() -> Self {
        Self { classes: [0; 3], nodes: Slab::default(), root: NIL }
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood, 2014), a bijection.
fn priority(order: u64) -> u64 {
    let mut mixed = order.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Tree {
    /// Whether anybody could start in one of `open` at this rank.
    pub(crate) fn has(&self, rank: usize, open: u64) -> bool {
        self.below(self.root)[rank] & open != 0
    }

    /// The first owner at or behind `from` who could start in one of `open` at this rank: its order, and where it is.
    pub(crate) fn next(&self, from: u64, rank: usize, open: u64) -> Option<(u64, u32)> {
        self.next_below(self.root, from, rank, open)
    }

    fn next_below(&self, at: u32, from: u64, rank: usize, open: u64) -> Option<(u64, u32)> {
        if self.below(at)[rank] & open == 0 {
            return None;
        }
        let node = &self.nodes[at];
        if node.order < from {
            return self.next_below(node.right, from, rank, open);
        }
        // A search that fails on the left has gone down one path: what is wholly behind `from` cannot fail.
        self.next_below(node.left, from, rank, open).or_else(|| {
            let groups = node.own[rank] & self.mask(node.allowed) & open;
            if groups != 0 { Some((node.order, node.owner)) } else { self.next_below(node.right, from, rank, open) }
        })
    }

    /// The groups of one owner at this rank, as far as they are open.
    pub(crate) fn get(&self, order: u64, rank: usize, open: u64) -> u64 {
        let mut at = self.root;
        while at != NIL {
            let node = &self.nodes[at];
            match order.cmp(&node.order) {
                std::cmp::Ordering::Less => at = node.left,
                std::cmp::Ordering::Greater => at = node.right,
                std::cmp::Ordering::Equal => return node.own[rank] & self.mask(node.allowed) & open,
            }
        }
        0
    }

    /// Lets an owner in that is not here, with its first group.
    pub(crate) fn enter(&mut self, order: u64, owner: u32, group: u8, rank: usize, allowed: Allowed) {
        let mut own = Sets::default();
        own[rank] = 1 << group;
        let new = self.nodes.insert(Node { order, owner, own, below: own, allowed, left: NIL, right: NIL });
        self.mend(new);
        self.root = self.insert(self.root, new);
    }

    /// Takes an owner out that is here.
    pub(crate) fn exit(&mut self, order: u64) {
        self.root = self.remove(self.root, order);
    }

    /// Puts a group of an owner at a rank, or takes it out. An owner comes in with its first, and goes with its last.
    pub(crate) fn put(&mut self, order: u64, owner: u32, group: u8, rank: Option<usize>, allowed: Allowed) {
        let bit = 1u64 << group;
        let is_empty = self.change(self.root, order, &mut |node| {
            for (place, set) in node.own.iter_mut().enumerate() {
                *set = *set & !bit | u64::from(rank == Some(place)) << group;
            }
            node.allowed = allowed;
            node.own == Sets::default()
        });
        match (is_empty, rank) {
            (Some(true), _) => self.exit(order),
            (None, Some(rank)) => self.enter(order, owner, group, rank, allowed),
            (Some(false), _) | (None, None) => {}
        }
    }

    /// Says what the owner's own limits allow. Nothing, if it is not here.
    pub(crate) fn allow(&mut self, order: u64, allowed: Allowed) {
        self.change(self.root, order, &mut |node| {
            node.allowed = allowed;
            false
        });
    }

    /// The groups that an owner's limits leave room for.
    fn mask(&self, allowed: Allowed) -> u64 {
        let [foreground, background, internal] = self.classes;
        let others = if allowed.others { background | internal } else { 0 };
        others | if allowed.foreground { foreground } else { 0 }
    }

    fn below(&self, at: u32) -> Sets {
        if at == NIL { Sets::default() } else { self.nodes[at].below }
    }

    fn mend(&mut self, at: u32) {
        let Node { own, allowed, left, right, .. } = self.nodes[at];
        let allowed = self.mask(allowed);
        let (left, right) = (self.below(left), self.below(right));
        let below = &mut self.nodes[at].below;
        for rank in 0..RANKS {
            below[rank] = (own[rank] & allowed) | left[rank] | right[rank];
        }
    }

    /// Changes a node, and what those above it know. `None` if there is none.
    fn change(&mut self, at: u32, order: u64, act: &mut dyn FnMut(&mut Node) -> bool) -> Option<bool> {
        if at == NIL {
            return None;
        }
        let node = &mut self.nodes[at];
        let result = match order.cmp(&node.order) {
            std::cmp::Ordering::Equal => act(node),
            std::cmp::Ordering::Less => {
                let left = node.left;
                self.change(left, order, act)?
            }
            std::cmp::Ordering::Greater => {
                let right = node.right;
                self.change(right, order, act)?
            }
        };
        self.mend(at);
        Some(result)
    }

    fn insert(&mut self, at: u32, new: u32) -> u32 {
        if at == NIL {
            return new;
        }
        let (order, here) = (self.nodes[new].order, self.nodes[at].order);
        if priority(order) > priority(here) {
            let (left, right) = self.split(at, order);
            self.nodes[new].left = left;
            self.nodes[new].right = right;
            self.mend(new);
            return new;
        }
        if order < here {
            let left = self.insert(self.nodes[at].left, new);
            self.nodes[at].left = left;
        } else {
            let right = self.insert(self.nodes[at].right, new);
            self.nodes[at].right = right;
        }
        self.mend(at);
        at
    }

    /// Those before `order`, and those behind it.
    fn split(&mut self, at: u32, order: u64) -> (u32, u32) {
        if at == NIL {
            return (NIL, NIL);
        }
        if self.nodes[at].order < order {
            let (left, right) = self.split(self.nodes[at].right, order);
            self.nodes[at].right = left;
            self.mend(at);
            (at, right)
        } else {
            let (left, right) = self.split(self.nodes[at].left, order);
            self.nodes[at].left = right;
            self.mend(at);
            (left, at)
        }
    }

    fn remove(&mut self, at: u32, order: u64) -> u32 {
        let Node { order: here, left, right, .. } = self.nodes[at];
        if order == here {
            self.nodes.remove(at);
            return self.merge(left, right);
        }
        if order < here {
            let left = self.remove(left, order);
            self.nodes[at].left = left;
        } else {
            let right = self.remove(right, order);
            self.nodes[at].right = right;
        }
        self.mend(at);
        at
    }

    fn merge(&mut self, left: u32, right: u32) -> u32 {
        if left == NIL {
            return right;
        }
        if right == NIL {
            return left;
        }
        let at = if priority(self.nodes[left].order) > priority(self.nodes[right].order) {
            let merged = self.merge(self.nodes[left].right, right);
            self.nodes[left].right = merged;
            left
        } else {
            let merged = self.merge(left, self.nodes[right].left);
            self.nodes[right].left = merged;
            right
        };
        self.mend(at);
        at
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const ALL: Allowed = Allowed { foreground: true, others: true };

    fn allowed() -> impl Strategy<Value = Allowed> {
        (any::<bool>(), any::<bool>()).prop_map(|(foreground, others)| Allowed { foreground, others })
    }

    /// Groups 0 and 3 are of the foreground.
    fn mask(allowed: Allowed) -> u64 {
        (0..6)
            .filter(|group| if group % 3 == 0 { allowed.foreground } else { allowed.others })
            .map(|group| 1 << group)
            .sum()
    }

    proptest! {
        #[test]
        fn it_finds_what_a_search_through_all_finds(
            acts in prop::collection::vec(
                (0..40u64, 0..6u8, prop::option::of(0..RANKS), allowed(), 0..40u64, allowed(), 0..64u64),
                1..300,
            )
        ) {
            let mut tree = Tree { classes: [0b00_1001, 0b01_0010, 0b10_0100], ..Tree::default() };
            let mut plain: BTreeMap<u64, (Sets, Allowed)> = BTreeMap::new();
            for (order, group, rank, allowed, from, other, open) in acts {
                tree.put(order, order as u32, group, rank, allowed);
                let (own, allows) = plain.entry(order).or_insert((Sets::default(), allowed));
                for set in own.iter_mut() {
                    *set &= !(1 << group);
                }
                if let Some(rank) = rank {
                    own[rank] |= 1 << group;
                }
                *allows = allowed;
                tree.allow(from, other);
                if let Some((_, allows)) = plain.get_mut(&from) {
                    *allows = other;
                }
                plain.retain(|_, (own, _)| *own != Sets::default());
                for rank in 0..RANKS {
                    let groups = |(own, allows): &(Sets, Allowed)| own[rank] & mask(*allows) & open;
                    let next = plain.range(from..).find(|found| groups(found.1) != 0);
                    prop_assert_eq!(tree.next(from, rank, open), next.map(|(order, _)| (*order, *order as u32)));
                    prop_assert_eq!(tree.has(rank, open), plain.values().any(|node| groups(node) != 0));
                    prop_assert_eq!(tree.get(order, rank, open), plain.get(&order).map_or(0, groups));
                }
                prop_assert_eq!(tree.nodes.len(), plain.len());
            }
        }
    }

    #[test]
    fn it_stays_shallow() {
        fn depth(tree: &Tree, at: u32) -> usize {
            if at == NIL {
                return 0;
            }
            let node = &tree.nodes[at];
            1 + depth(tree, node.left).max(depth(tree, node.right))
        }
        let mut tree = Tree { classes: [1, 0, 0], ..Tree::default() };
        for order in 0..100_000 {
            tree.put(order, 0, 0, Some(0), ALL);
        }
        assert!(depth(&tree, tree.root) < 60, "{}", depth(&tree, tree.root));
        for order in 0..100_000 {
            tree.put(order, 0, 0, None, ALL);
        }
        assert_eq!((tree.root, tree.nodes.len()), (NIL, 0));
    }
}
