use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use http::Request;

use crate::Context;

/// Bytes that layers retain for requests that run, as replies that are held back: counted by whoever holds them, and
/// looked at by whoever bounds what all requests retain. A request carries it, given by the layer that bounds; clones
/// count together.
#[derive(Debug, Clone, Default)]
pub struct RetainedBytes(Arc<AtomicU64>);

/// What one holder retains. Given back when it is dropped.
pub struct Retained {
    total: RetainedBytes,
    own: u64,
}

impl RetainedBytes {
    /// Where a request's layers are to count; `None` if nobody bounds it.
    pub fn of<B>(request: &Request<B>) -> Option<&Self> {
        request.extensions().get().or_else(|| Context::of(request)?.retained())
    }

    /// Has a request's layers count here, unless its [`Context`] says already where. Without one the request's extensions
    /// tell.
    pub fn attach<B>(&self, request: &mut Request<B>) {
        match Context::of(request) {
            Some(context) => context.retain_in(self),
            None => drop(request.extensions_mut().insert(self.clone())),
        }
    }

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
    fn a_request_carries_it_with_or_without_a_context() {
        let total = RetainedBytes::default();
        for context in [None, Some(Context::default())] {
            let mut request = Request::new(());
            if let Some(context) = context {
                request.extensions_mut().insert(context);
            }
            assert!(RetainedBytes::of(&request).is_none());
            total.attach(&mut request);
            let mut held = RetainedBytes::of(&request).unwrap().hold();
            held.set(7);
            assert_eq!(total.bytes(), 7);
        }
    }

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
