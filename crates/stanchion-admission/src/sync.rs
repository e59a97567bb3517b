//! The locks of this crate. The unit tests of what is shared run under loom, which tries every order of events; all other
//! tests see the crate as it is.

#[cfg(test)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(not(test))]
pub(crate) use std::sync::{Mutex, MutexGuard};

use std::sync::PoisonError;

/// A panic under one of our locks leaves nothing half done that a later request could not live with.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
