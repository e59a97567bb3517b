use std::time::Duration;

use tower_layer::Layer;

use super::Commit;

/// Makes [`Commit`] services.
#[derive(Debug, Clone, Copy)]
pub struct CommitLayer {
    pub(super) max_hold: usize,
    pub(super) error_body_time: Duration,
}

impl CommitLayer {
    /// A layer with the default settings.
    pub const fn new() -> Self {
        Self { max_hold: 1024 * 1024, error_body_time: Duration::from_secs(5) }
    }

    /// The largest preamble that is held back, in bytes. Default 1 MiB. A larger one commits the reply, with an event.
    #[must_use]
    pub const fn max_hold(mut self, bytes: usize) -> Self {
        self.max_hold = bytes;
        self
    }

    /// The longest time that is spent on reading the body of an error reply. Default 5 s; then the failure is judged by what has come.
    #[must_use]
    pub const fn error_body_time(mut self, time: Duration) -> Self {
        self.error_body_time = time;
        self
    }
}

impl Default for CommitLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for CommitLayer {
    type Service = Commit<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Commit::new(inner, *self)
    }
}
