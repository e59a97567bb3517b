//! One line for each request, in a file.

mod file;
mod writer;

use std::{
    fmt, io,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use serde::Serialize;

pub use self::file::RotatingFile;
use crate::{RequestRecord, Sink, metrics::Pulled};

/// Where call records go, line by line. See [`CallRecords::start`].
pub trait Storage: Send + 'static {
    /// Takes a line, its line end included. After a failure the line is lost, and the next one is a new attempt.
    fn append(&mut self, line: &[u8]) -> io::Result<()>;
}

/// Settings of [`CallRecords`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRecordSettings {
    /// The file. Older ones have a number behind their name, from 1.
    pub path: PathBuf,
    /// How large a file grows, in bytes, before another is begun. Default 64 MiB.
    pub max_bytes: u64,
    /// How many files there are at most, the current one included. Default 8; less than 1 counts as 1.
    pub files: u32,
    /// How many records may wait for the disk. Default 4,096, at about 1 KiB; further ones are dropped, and counted.
    pub backlog: usize,
}

impl CallRecordSettings {
    /// The defaults, for this file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), max_bytes: 64 * 1024 * 1024, files: 8, backlog: 4096 }
    }
}

/// A [`Sink`] that writes one line of JSON for each request, a [`RequestRecord`], when it is over.
///
/// The lines are written by a thread of its own, behind a bounded channel: no request waits for a disk. Where that is too slow, or
/// fails, records are dropped and counted. A failure is told once, and its end once. A clone is the same one; when the last one is
/// gone, the thread writes what is left, and ends.
#[derive(Clone)]
pub struct CallRecords(Arc<Shared>);

struct Shared {
    records: RwLock<Option<SyncSender<Arc<RequestRecord>>>>,
    state: Arc<State>,
    /// Closed when the thread has ended.
    over: Mutex<Receiver<()>>,
}

#[derive(Default)]
struct State {
    /// Where lines go from the next one on.
    next: Mutex<Option<Box<dyn Storage>>>,
    written: AtomicU64,
    dropped: AtomicU64,
    failing: AtomicBool,
}

/// How it goes with the records. See [`CallRecords::status`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct CallRecordStatus {
    /// How many were written.
    pub written: u64,
    /// How many were lost: the disk was too slow, or failed.
    pub dropped: u64,
    /// Whether the last one could not be written.
    pub failing: bool,
}

impl CallRecords {
    /// Writes to a [`RotatingFile`]. Fails if that cannot be opened, or no thread be started.
    pub fn open(settings: CallRecordSettings) -> io::Result<Self> {
        let backlog = settings.backlog;
        Self::start(RotatingFile::open(settings)?, backlog)
    }

    /// Writes to another file from the next record on, or to the same one within other limits. Fails, and changes nothing, if it cannot be
    /// opened. Of the settings, the backlog stays what it was.
    pub fn reopen(&self, settings: CallRecordSettings) -> io::Result<()> {
        let mut file = RotatingFile::open(settings)?;
        // Opened anew with its first line: until then, the one before may still put the same file aside.
        file.close();
        *self.0.state.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(file));
        Ok(())
    }

    /// Writes to a storage of your own. So many records may wait for it.
    pub fn start(storage: impl Storage, backlog: usize) -> io::Result<Self> {
        let (records, waiting) = sync_channel(backlog);
        let (running, over) = sync_channel(0);
        let state = Arc::<State>::default();
        let told = state.clone();
        let write = move || {
            writer::write_all(Box::new(storage), &waiting, &told);
            drop(running);
        };
        // What goes wrong is told where the one who starts it logs.
        #[cfg(feature = "tracing")]
        let write = {
            let log = tracing::dispatcher::get_default(Clone::clone);
            move || tracing::dispatcher::with_default(&log, write)
        };
        thread::Builder::new().name("call-records".into()).spawn(write)?;
        Ok(Self(Arc::new(Shared { records: RwLock::new(Some(records)), state, over: Mutex::new(over) })))
    }

    /// How it goes.
    pub fn status(&self) -> CallRecordStatus {
        let State { written, dropped, failing, .. } = &*self.0.state;
        CallRecordStatus {
            written: written.load(Ordering::Relaxed),
            dropped: dropped.load(Ordering::Relaxed),
            failing: failing.load(Ordering::Relaxed),
        }
    }

    /// Tells metrics how many were written and lost. For [`Metrics::pull`](crate::Metrics::pull).
    pub fn pull(&self, pulled: &mut Pulled) {
        let CallRecordStatus { written, dropped, .. } = self.status();
        pulled.call_records(written, dropped);
    }

    /// Takes no more records, and waits until those that it has are written, but not longer than this. Says whether they are.
    ///
    /// Blocks: for the end of a process, or a thread that may.
    pub fn close(&self, limit: Duration) -> bool {
        self.0.records.write().unwrap_or_else(PoisonError::into_inner).take();
        let over = self.0.over.lock().unwrap_or_else(PoisonError::into_inner);
        over.recv_timeout(limit) == Err(RecvTimeoutError::Disconnected)
    }
}

impl Sink for CallRecords {
    fn ended(&self, record: &Arc<RequestRecord>) {
        let records = self.0.records.read().unwrap_or_else(PoisonError::into_inner);
        if records.as_ref().is_none_or(|records| records.try_send(record.clone()).is_err()) {
            self.0.state.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for CallRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallRecords").field("status", &self.status()).finish_non_exhaustive()
    }
}
