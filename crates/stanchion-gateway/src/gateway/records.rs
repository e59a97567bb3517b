//! Call records as the configuration wants them, from one configuration to the next.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use stanchion::telemetry::{CallRecordSettings, CallRecords, metrics::Pulled};

/// Who writes call records, once any were wanted. Clones are the same.
///
/// There is one for the whole process: another configuration has it write elsewhere, also for the requests that run.
#[derive(Debug, Clone, Default)]
pub struct Records(Arc<Mutex<Option<Open>>>);

#[derive(Debug)]
struct Open {
    settings: CallRecordSettings,
    records: CallRecords,
}

impl Records {
    fn open(&self) -> MutexGuard<'_, Option<Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes as these settings say from now on. Fails, and changes nothing, if that cannot be.
    pub(super) fn write_to(&self, settings: &CallRecordSettings) -> io::Result<()> {
        let mut open = self.open();
        match &mut *open {
            Some(open) if open.settings == *settings => {}
            Some(open) => {
                open.records.reopen(settings.clone())?;
                open.settings = settings.clone();
            }
            None => *open = Some(Open { settings: settings.clone(), records: CallRecords::open(settings.clone())? }),
        }
        Ok(())
    }

    /// Who writes, if anybody does.
    pub(super) fn sink(&self) -> Option<CallRecords> {
        self.open().as_ref().map(|open| open.records.clone())
    }

    /// Tells metrics how many were written and lost.
    pub(super) fn pull(&self, pulled: &mut Pulled) {
        if let Some(records) = self.sink() {
            records.pull(pulled);
        }
    }

    /// Writes what there is, and nothing that comes later. Blocks, but not longer than this. Says whether all was written.
    pub fn close(&self, limit: Duration) -> bool {
        self.sink().is_none_or(|records| records.close(limit))
    }
}
