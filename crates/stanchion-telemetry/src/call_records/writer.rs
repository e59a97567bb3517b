//! What the thread does.

use std::{
    io,
    sync::{Arc, PoisonError, atomic::Ordering, mpsc::Receiver},
};

use super::{State, Storage};
use crate::RequestRecord;

/// Writes what comes until nothing can come any more.
pub(super) fn write_all(mut storage: Box<dyn Storage>, records: &Receiver<Arc<RequestRecord>>, state: &State) {
    let mut line = Vec::new();
    while let Ok(record) = records.recv() {
        if let Some(next) = state.next.lock().unwrap_or_else(PoisonError::into_inner).take() {
            storage = next;
        }
        line.clear();
        let written = serde_json::to_writer(&mut line, &*record).map_err(io::Error::from).and_then(|()| {
            line.push(b'\n');
            storage.append(&line)
        });
        drop(record);
        let count = if written.is_ok() { &state.written } else { &state.dropped };
        count.fetch_add(1, Ordering::Relaxed);
        if state.failing.swap(written.is_err(), Ordering::Relaxed) != written.is_err() {
            tell(&written, state.dropped.load(Ordering::Relaxed));
        }
    }
}

/// Tells that it fails, or that it works again.
#[cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "nobody can be told"))]
fn tell(written: &io::Result<()>, dropped: u64) {
    #[cfg(feature = "tracing")]
    match written {
        Err(error) => tracing::error!(target: "stanchion", %error, "call records cannot be written, and are dropped"),
        Ok(()) => tracing::info!(target: "stanchion", dropped, "call records are written again"),
    }
}
