use std::{
    pin::Pin,
    task::{Context, Poll},
};

use tokio::time::{Instant, Sleep, sleep_until};

/// The instant at which a budget ends, and what wakes for it.
///
/// The timer is boxed: hardly any request needs one, and all of them would carry it.
#[derive(Debug)]
pub(super) struct Alarm {
    at: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Alarm {
    pub(super) const fn new(at: Instant) -> Self {
        Self { at, timer: None }
    }

    /// Compares instants: a timer, which counts whole milliseconds, would be late.
    pub(super) fn is_due(&self) -> bool {
        self.at <= Instant::now()
    }

    /// Wakes whoever polls at the instant, or within the millisecond after it.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.timer.get_or_insert_with(|| Box::pin(sleep_until(self.at))).as_mut().poll(cx)
    }
}
