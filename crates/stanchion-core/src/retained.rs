use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// Bytes that layers retain for requests that run, as replies that are held back: counted by whoever holds them, and
/// looked at by whoever bounds what all requests retain. Lives in a request's extensions, put there by the layer that
/// bounds; clones count together.
#[derive(Debug, Clone, Default)]
pub struct RetainedBytes(Arc<AtomicU64>);

/// What one holder retains. Given back when it is dropped.
pub struct Retained {
    total: RetainedBytes,
    own: u64,
}

impl RetainedBytes {
    /// How many bytes are retained in all.
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Begins to hold, with nothing.
    pub fn hold(&self) -> Retained {
        Retained { total: self.clone(), own: 0 }
    }
}

impl Retained {
    /// Says how many bytes are held by now.
    pub fn set(&mut self, bytes: u64) {
        match bytes.checked_sub(self.own) {
            Some(more) => self.total.0.fetch_add(more, Ordering::Relaxed),
            None => self.total.0.fetch_sub(self.own - bytes, Ordering::Relaxed),
        };
        self.own = bytes;
    }
}

impl Drop for Retained {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl fmt::Debug for Retained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retained").field("bytes", &self.own).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_count_together_and_give_back() {
        let total = RetainedBytes::default();
        let (mut one, mut other) = (total.hold(), total.clone().hold());
        one.set(100);
        other.set(20);
        one.set(70);
        assert_eq!(total.bytes(), 90);
        drop(one);
        assert_eq!(total.bytes(), 20);
        drop(other);
        assert_eq!(total.bytes(), 0);
    }
}
