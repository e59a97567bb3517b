//! Owners in the order of their rotation, each with what it could start.

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
    nodes: Vec<Node>,
    root: u32,
    free: u32,
}

#[derive(Debug)]
struct Node {
    order: u64,
    /// Where the scheduler keeps the owner.
    owner: u32,
    /// The groups that this owner waits in.
    own: Sets,
    /// Of those, what the owner's own limits allow, and those of all nodes below.
    below: Sets,
    /// The groups that the owner's own limits allow.
    allowed: u64,
    left: u32,
    right: u32,
}

impl Default for Tree {
    fn default() -> Self {
        Self { nodes: Vec::new(), root: NIL, free: NIL }
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
        let node = &self.nodes[at as usize];
        if node.order < from {
            return self.next_below(node.right, from, rank, open);
        }
        // A search that fails on the left has gone down one path: what is wholly behind `from` cannot fail.
        self.next_below(node.left, from, rank, open).or_else(|| {
            let groups = node.own[rank] & node.allowed & open;
            if groups != 0 { Some((node.order, node.owner)) } else { self.next_below(node.right, from, rank, open) }
        })
    }

    /// The groups of one owner at this rank, as far as they are open.
    pub(crate) fn get(&self, order: u64, rank: usize, open: u64) -> u64 {
        let mut at = self.root;
        while at != NIL {
            let node = &self.nodes[at as usize];
            match order.cmp(&node.order) {
                std::cmp::Ordering::Less => at = node.left,
                std::cmp::Ordering::Greater => at = node.right,
                std::cmp::Ordering::Equal => return node.own[rank] & node.allowed & open,
            }
        }
        0
    }

    /// Puts a group of an owner at a rank, or takes it out. An owner comes in with its first, and goes with its last.
    pub(crate) fn put(&mut self, order: u64, owner: u32, group: u8, rank: Option<usize>, allowed: u64) {
        let bit = 1u64 << group;
        let place = |own: &mut Sets| {
            for (place, set) in own.iter_mut().enumerate() {
                let belongs = rank == Some(place);
                *set = *set & !bit | u64::from(belongs) << group;
            }
        };
        match self.change(self.root, order, &mut |node| {
            place(&mut node.own);
            node.allowed = allowed;
            node.own == Sets::default()
        }) {
            Some(true) => {
                self.root = self.remove(self.root, order);
                if self.root == NIL {
                    // What a rush has grown is given back.
                    self.nodes.clear();
                    self.nodes.shrink_to(64);
                    self.free = NIL;
                }
            }
            Some(false) => {}
            None => {
                let mut own = Sets::default();
                place(&mut own);
                if own != Sets::default() {
                    let new = self.allocate(Node { order, owner, own, below: own, allowed, left: NIL, right: NIL });
                    self.mend(new);
                    self.root = self.insert(self.root, new);
                }
            }
        }
    }

    /// Says what the owner's own limits allow. Nothing, if it is not here.
    pub(crate) fn allow(&mut self, order: u64, allowed: u64) {
        self.change(self.root, order, &mut |node| {
            node.allowed = allowed;
            false
        });
    }

    fn below(&self, at: u32) -> Sets {
        if at == NIL { Sets::default() } else { self.nodes[at as usize].below }
    }

    fn mend(&mut self, at: u32) {
        let Node { own, allowed, left, right, .. } = self.nodes[at as usize];
        let (left, right) = (self.below(left), self.below(right));
        let below = &mut self.nodes[at as usize].below;
        for rank in 0..RANKS {
            below[rank] = (own[rank] & allowed) | left[rank] | right[rank];
        }
    }

    /// Changes a node, and what those above it know. `None` if there is none.
    fn change(&mut self, at: u32, order: u64, act: &mut dyn FnMut(&mut Node) -> bool) -> Option<bool> {
        if at == NIL {
            return None;
        }
        let node = &mut self.nodes[at as usize];
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
        let (order, here) = (self.nodes[new as usize].order, self.nodes[at as usize].order);
        if priority(order) > priority(here) {
            let (left, right) = self.split(at, order);
            self.nodes[new as usize].left = left;
            self.nodes[new as usize].right = right;
            self.mend(new);
            return new;
        }
        if order < here {
            let left = self.insert(self.nodes[at as usize].left, new);
            self.nodes[at as usize].left = left;
        } else {
            let right = self.insert(self.nodes[at as usize].right, new);
            self.nodes[at as usize].right = right;
        }
        self.mend(at);
        at
    }

    /// Those before `order`, and those behind it.
    fn split(&mut self, at: u32, order: u64) -> (u32, u32) {
        if at == NIL {
            return (NIL, NIL);
        }
        if self.nodes[at as usize].order < order {
            let (left, right) = self.split(self.nodes[at as usize].right, order);
            self.nodes[at as usize].right = left;
            self.mend(at);
            (at, right)
        } else {
            let (left, right) = self.split(self.nodes[at as usize].left, order);
            self.nodes[at as usize].left = right;
            self.mend(at);
            (left, at)
        }
    }

    fn remove(&mut self, at: u32, order: u64) -> u32 {
        let Node { order: here, left, right, .. } = self.nodes[at as usize];
        if order == here {
            self.nodes[at as usize].left = self.free;
            self.free = at;
            return self.merge(left, right);
        }
        if order < here {
            let left = self.remove(left, order);
            self.nodes[at as usize].left = left;
        } else {
            let right = self.remove(right, order);
            self.nodes[at as usize].right = right;
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
        let at = if priority(self.nodes[left as usize].order) > priority(self.nodes[right as usize].order) {
            let merged = self.merge(self.nodes[left as usize].right, right);
            self.nodes[left as usize].right = merged;
            left
        } else {
            let merged = self.merge(left, self.nodes[right as usize].left);
            self.nodes[right as usize].left = merged;
            right
        };
        self.mend(at);
        at
    }

    fn allocate(&mut self, node: Node) -> u32 {
        if self.free == NIL {
            self.nodes.push(node);
            return self.nodes.len() as u32 - 1;
        }
        let at = self.free;
        self.free = self.nodes[at as usize].left;
        self.nodes[at as usize] = node;
        at
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_finds_what_a_search_through_all_finds(
            acts in prop::collection::vec((0..40u64, 0..6u8, prop::option::of(0..RANKS), 0..64u64, 0..40u64, 0..64u64), 1..300)
        ) {
            let mut tree = Tree::default();
            let mut plain: BTreeMap<u64, (Sets, u64)> = BTreeMap::new();
            for (order, group, rank, allowed, from, open) in acts {
                tree.put(order, order as u32, group, rank, allowed);
                let (own, allows) = plain.entry(order).or_default();
                for set in own.iter_mut() {
                    *set &= !(1 << group);
                }
                if let Some(rank) = rank {
                    own[rank] |= 1 << group;
                }
                *allows = allowed;
                tree.allow(from, open);
                if let Some((_, allows)) = plain.get_mut(&from) {
                    *allows = open;
                }
                plain.retain(|_, (own, _)| *own != Sets::default());
                for rank in 0..RANKS {
                    let groups = |(own, allows): &(Sets, u64)| own[rank] & allows & open;
                    let next = plain.range(from..).find(|found| groups(found.1) != 0);
                    prop_assert_eq!(tree.next(from, rank, open), next.map(|(order, _)| (*order, *order as u32)));
                    prop_assert_eq!(tree.has(rank, open), plain.values().any(|node| groups(node) != 0));
                    prop_assert_eq!(tree.get(order, rank, open), plain.get(&order).map_or(0, groups));
                }
            }
        }
    }

    #[test]
    fn it_stays_shallow() {
        fn depth(tree: &Tree, at: u32) -> usize {
            if at == NIL {
                return 0;
            }
            let node = &tree.nodes[at as usize];
            1 + depth(tree, node.left).max(depth(tree, node.right))
        }
        let mut tree = Tree::default();
        for order in 0..100_000 {
            tree.put(order, 0, 0, Some(0), 1);
        }
        assert!(depth(&tree, tree.root) < 60, "{}", depth(&tree, tree.root));
        for order in 0..100_000 {
            tree.put(order, 0, 0, None, 1);
        }
        assert_eq!(tree.root, NIL);
    }
}
