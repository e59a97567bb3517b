use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Whether candidates take new attempts: a switch for an operator's hand. All clones are the same switch, and so is that of
/// every clone of a [candidate](crate::Candidate::with_drain) that has it.
///
/// Unlike an open circuit, which a failing provider brings about, a drain says nothing of the provider: the candidate is passed
/// over without a word against it, its circuit learns nothing, and nobody waits for it. What runs goes on to its end.
#[derive(Debug, Clone, Default)]
pub struct Drain(Arc<AtomicBool>);

impl Drain {
    /// No new attempt is made from now on, or they are made again. Returns whether that is news.
    pub fn set(&self, drained: bool) -> bool {
        self.0.swap(drained, Ordering::Relaxed) != drained
    }

    /// Whether no new attempt is to be made.
    pub fn is_drained(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
