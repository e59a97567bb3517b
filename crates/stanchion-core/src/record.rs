use std::{
    fmt,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
};

use serde::Serialize;
use tokio::time::Instant;

use crate::{Failure, FailureKind, FinishReason, Framing, Usage};

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Ending {
    /// By its dialect's own end marker.
    Complete,
    /// By a clean end of the body without the marker.
    Truncated,
    /// By an in-band error or a broken transport.
    Failed,
    /// It was dropped before it ended.
    Cancelled,
}

impl Ending {
    /// The name used in records and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Truncated => "truncated",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What has passed of a streamed reply so far.
///
/// One small cell, shared through the response's extensions. Many read it; only the holder of the [`StreamRecorder`] writes it.
#[derive(Clone)]
pub struct StreamRecord(Arc<Cell>);

/// The writing side of a [`StreamRecord`]. There is one, and it is not `Clone`.
pub struct StreamRecorder(Arc<Cell>);

#[derive(Default)]
struct Cell {
    flags: AtomicU8,
    ending: AtomicU8,
    frames: AtomicU64,
    progress: AtomicU64,
    progress_at_output: AtomicU64,
    text_bytes: AtomicU64,
    begun_at: OnceLock<Instant>,
    output_at: OnceLock<Instant>,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    framing: Option<Framing>,
    finish: Option<FinishReason>,
    usage: Usage,
    error: Option<Failure>,
}

const OUTPUT: u8 = 1;
const FINISHED: u8 = 1 << 1;
const TERMINAL: u8 = 1 << 2;
const ERROR: u8 = 1 << 3;

impl StreamRecord {
    /// A new record and the one handle that writes it.
    #[must_use]
    pub fn new() -> (Self, StreamRecorder) {
        let cell = Arc::<Cell>::default();
        (Self(cell.clone()), StreamRecorder(cell))
    }

    /// Whether both are of the same reply.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn flag(&self, flag: u8) -> bool {
        self.0.flags.load(Ordering::Acquire) & flag != 0
    }

    /// Whether real output has passed: text, reasoning, a tool call, media.
    pub fn output_started(&self) -> bool {
        self.flag(OUTPUT)
    }

    /// Whether the model has finished: nothing but usage and the end marker may follow.
    pub fn finished(&self) -> bool {
        self.flag(FINISHED)
    }

    /// Whether the dialect's end marker has passed.
    pub fn terminal(&self) -> bool {
        self.flag(TERMINAL)
    }

    /// Whether nothing but usage can follow: the model has finished, the end marker has passed, or an error was told in band.
    pub fn is_over(&self) -> bool {
        self.flag(FINISHED | TERMINAL | ERROR)
    }

    /// How many frames have passed.
    pub fn frames(&self) -> u64 {
        self.0.frames.load(Ordering::Relaxed)
    }

    /// How many frames have passed that prove that the provider works on the answer. Pings, comments and meta frames do not.
    pub fn progress(&self) -> u64 {
        self.0.progress.load(Ordering::Relaxed)
    }

    /// How many frames of progress had passed with the first output, that one included.
    pub fn progress_at_output(&self) -> u64 {
        self.0.progress_at_output.load(Ordering::Acquire)
    }

    /// About how many bytes of text have passed that the model wrote, reasoning and the arguments of tools included. For
    /// an estimate of tokens: what frames hold that report the tokens of the output themselves does not count.
    pub fn text_bytes(&self) -> u64 {
        self.0.text_bytes.load(Ordering::Relaxed)
    }

    fn told<T>(&self, read: impl FnOnce(&Told) -> T) -> T {
        read(&self.0.told.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// When the body's first byte came.
    pub fn begun_at(&self) -> Option<Instant> {
        self.0.begun_at.get().copied()
    }

    /// When the first real output passed.
    pub fn output_at(&self) -> Option<Instant> {
        self.0.output_at.get().copied()
    }

    /// How the body is divided; `None` until its first byte has come.
    pub fn framing(&self) -> Option<Framing> {
        self.told(|told| told.framing)
    }

    /// Why the model stopped.
    pub fn finish(&self) -> Option<FinishReason> {
        self.told(|told| told.finish)
    }

    /// The usage reported so far; empty if none was.
    pub fn usage(&self) -> Usage {
        self.told(|told| told.usage)
    }

    /// The kind of in-band error that was passed on to the client after output, if there was one.
    pub fn error(&self) -> Option<FailureKind> {
        if self.flag(ERROR) { self.told(|told| told.error.as_ref().map(Failure::kind)) } else { None }
    }

    /// That error as a failure, for a layer that still holds all output back.
    pub fn failure(&self) -> Option<Failure> {
        if self.flag(ERROR) { self.told(|told| told.error.as_ref().map(Failure::outline)) } else { None }
    }

    /// How the stream ended; `None` while it has not.
    pub fn ending(&self) -> Option<Ending> {
        match self.0.ending.load(Ordering::Acquire) {
            1 => Some(Ending::Complete),
            2 => Some(Ending::Truncated),
            3 => Some(Ending::Failed),
            4 => Some(Ending::Cancelled),
            _ => None,
        }
    }
}

impl StreamRecorder {
    /// Counts frames: `frames` in all, `progress` of them progress.
    pub fn count(&mut self, frames: u64, progress: u64) {
        // One writer: a load and a store need no read-modify-write.
        self.0.frames.store(self.0.frames.load(Ordering::Relaxed) + frames, Ordering::Relaxed);
        if progress > 0 {
            self.0.progress.store(self.0.progress.load(Ordering::Relaxed) + progress, Ordering::Relaxed);
        }
    }

    /// Counts so many bytes of text that the model wrote.
    pub fn text(&mut self, bytes: usize) {
        if bytes > 0 {
            self.0.text_bytes.store(self.0.text_bytes.load(Ordering::Relaxed) + bytes as u64, Ordering::Relaxed);
        }
    }

    fn raise(&mut self, flag: u8) {
        let flags = self.0.flags.load(Ordering::Relaxed);
        if flags & flag == 0 {
            self.0.flags.store(flags | flag, Ordering::Release);
        }
    }

    fn tell(&mut self, change: impl FnOnce(&mut Told)) {
        change(&mut self.0.told.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The first byte has shown how the body is divided.
    pub fn framing(&mut self, framing: Framing) {
        self.0.begun_at.get_or_init(Instant::now);
        self.tell(|told| told.framing = Some(framing));
    }

    /// Real output has passed.
    pub fn output(&mut self) {
        if self.0.flags.load(Ordering::Relaxed) & OUTPUT == 0 {
            self.0.progress_at_output.store(self.0.progress.load(Ordering::Relaxed), Ordering::Release);
            self.0.output_at.get_or_init(Instant::now);
        }
        self.raise(OUTPUT);
    }

    /// The model has finished.
    pub fn finish(&mut self, reason: FinishReason) {
        self.tell(|told| told.finish = Some(reason));
        self.raise(FINISHED);
    }

    /// The model goes on after all: another choice has begun.
    pub fn resume(&mut self) {
        let flags = self.0.flags.load(Ordering::Relaxed);
        if flags & FINISHED != 0 {
            self.0.flags.store(flags & !FINISHED, Ordering::Release);
        }
    }

    /// The dialect's end marker has passed.
    pub fn terminal(&mut self) {
        self.raise(TERMINAL);
    }

    /// The provider reported usage; reports are cumulative.
    pub fn usage(&mut self, usage: &Usage) {
        self.tell(|told| told.usage.merge(usage));
    }

    /// An in-band error was passed on to the client.
    pub fn error(&mut self, failure: Failure) {
        self.tell(|told| told.error = Some(failure));
        self.raise(ERROR);
    }

    /// The stream ended. Only the first call counts; returns whether this was it.
    pub fn end(&mut self, ending: Ending) -> bool {
        let code = match ending {
            Ending::Complete => 1,
            Ending::Truncated => 2,
            Ending::Failed => 3,
            Ending::Cancelled => 4,
        };
        self.0.ending.compare_exchange(0, code, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// A reading handle.
    pub fn record(&self) -> StreamRecord {
        StreamRecord(self.0.clone())
    }
}

impl fmt::Debug for StreamRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamRecord")
            .field("frames", &self.frames())
            .field("progress", &self.progress())
            .field("output_started", &self.output_started())
            .field("ending", &self.ending())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for StreamRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.record().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_is_told_once() {
        let (record, mut recorder) = StreamRecord::new();
        assert_eq!(record.ending(), None);
        assert!(recorder.end(Ending::Truncated));
        assert!(!recorder.end(Ending::Cancelled));
        assert_eq!(record.ending(), Some(Ending::Truncated));
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_known_when_the_first_byte_and_the_first_output_came() {
        let (record, mut recorder) = StreamRecord::new();
        assert_eq!((record.begun_at(), record.output_at()), (None, None));
        let began = Instant::now();
        let second = || tokio::time::advance(std::time::Duration::from_secs(1));
        for _ in 0..2 {
            second().await;
            recorder.framing(Framing::Sse);
            second().await;
            recorder.output();
        }
        let after = |at: Option<Instant>| at.map(|at| (at - began).as_secs());
        assert_eq!((after(record.begun_at()), after(record.output_at())), (Some(1), Some(2)));
    }

    #[test]
    fn a_finish_an_end_marker_and_an_error_are_ends_and_output_is_none() {
        let over = |tell: fn(&mut StreamRecorder)| {
            let (record, mut recorder) = StreamRecord::new();
            recorder.output();
            assert!(!record.is_over());
            tell(&mut recorder);
            record.is_over()
        };
        assert!(over(|recorder| recorder.finish(FinishReason::Stop)));
        assert!(over(StreamRecorder::terminal));
        assert!(over(|recorder| recorder.error(Failure::new(FailureKind::Overloaded))));
        assert!(!over(|recorder| recorder.count(1, 1)));
        assert!(!over(|recorder| {
            recorder.finish(FinishReason::Stop);
            recorder.resume();
        }));
    }

    #[test]
    fn readers_see_what_the_writer_tells() {
        let (record, mut recorder) = StreamRecord::new();
        recorder.count(3, 1);
        recorder.text(5);
        recorder.text(2);
        recorder.output();
        recorder.usage(&Usage { output: Some(1), ..Usage::default() });
        recorder.usage(&Usage { output: Some(4), ..Usage::default() });
        recorder.finish(FinishReason::Length);
        assert_eq!((record.frames(), record.progress(), record.text_bytes()), (3, 1, 7));
        assert!(record.output_started() && record.finished() && !record.terminal());
        assert_eq!(record.finish(), Some(FinishReason::Length));
        assert_eq!(record.usage().output, Some(4));
        assert_eq!(record.error(), None);
    }
}
