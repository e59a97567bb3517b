use std::collections::VecDeque;

/// The outcomes of the last while, oldest first.
///
/// A sample is its time in nanoseconds, shifted by one, and whether it failed in the lowest bit: 2 KiB hold 256 of them.
#[derive(Debug, Default)]
pub(super) struct Window {
    samples: VecDeque<u64>,
    failures: u32,
}

impl Window {
    /// Adds a sample. At `max` samples the oldest goes.
    pub(super) fn push(&mut self, at: u64, failed: bool, max: u32) {
        while self.count() >= max {
            self.drop_oldest();
        }
        self.samples.push_back(at << 1 | u64::from(failed));
        self.failures += u32::from(failed);
    }

    /// Forgets what happened before `from`. What happened exactly then stays.
    pub(super) fn forget_before(&mut self, from: u64) {
        while self.samples.front().is_some_and(|sample| sample >> 1 < from) {
            self.drop_oldest();
        }
    }

    /// Forgets everything, and gives the memory back.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn count(&self) -> u32 {
        self.samples.len() as u32
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    fn drop_oldest(&mut self) {
        if let Some(sample) = self.samples.pop_front() {
            self.failures -= (sample & 1) as u32;
        }
    }
}
