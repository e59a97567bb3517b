use std::time::Duration;

use http::Request;
use stanchion_core::{CommitPolicy, Context, RequestClass};
use tower_layer::Layer;

use super::Commit;

/// How much output a [`CommitPolicy::Window`] holds back: until the first of its limits is reached. `None` is no limit.
///
/// A window without any limit holds a reply back until it is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitWindow {
    /// So many events that show progress, counted from the first output. Default 20.
    pub events: Option<u64>,
    /// So many bytes, the preamble included. Default 16 KiB.
    pub bytes: Option<usize>,
    /// So long after the first output. Default 2 s.
    pub time: Option<Duration>,
}

impl Default for CommitWindow {
    fn default() -> Self {
        Self { events: Some(20), bytes: Some(16 * 1024), time: Some(Duration::from_secs(2)) }
    }
}

/// Makes [`Commit`] services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitLayer {
    pub(super) policy: CommitPolicy,
    pub(super) by_class: [Option<CommitPolicy>; 3],
    pub(super) window: CommitWindow,
    pub(super) max_hold: usize,
    pub(super) error_body_time: Duration,
}

impl CommitLayer {
    /// A layer with the default settings.
    pub fn new() -> Self {
        Self {
            policy: CommitPolicy::FirstOutput,
            by_class: [None; 3],
            window: CommitWindow::default(),
            max_hold: 4 * 1024 * 1024,
            error_body_time: Duration::from_secs(5),
        }
    }

    /// When a reply leaves. Default: with its first output. A [`CommitPolicy`] in the request's extensions goes before it.
    #[must_use]
    pub fn policy(mut self, policy: CommitPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// When the replies of one class leave, where that differs.
    #[must_use]
    pub fn policy_for(mut self, class: RequestClass, policy: CommitPolicy) -> Self {
        self.by_class[class as usize] = Some(policy);
        self
    }

    /// How much output [`CommitPolicy::Window`] holds back.
    #[must_use]
    pub fn window(mut self, window: CommitWindow) -> Self {
        self.window = window;
        self
    }

    /// The most that is held back of one reply, in bytes, whatever the policy. Default 4 MiB. A larger one leaves, with an event.
    ///
    /// The event or document that is not whole yet is held by [`Observe`](crate::Observe) within, by its own bounds.
    #[must_use]
    pub fn max_hold(mut self, bytes: usize) -> Self {
        self.max_hold = bytes;
        self
    }

    /// The longest time that is spent on reading the body of an error reply. Default 5 s; then the failure is judged by what has come.
    #[must_use]
    pub fn error_body_time(mut self, time: Duration) -> Self {
        self.error_body_time = time;
        self
    }
}

impl CommitLayer {
    pub(super) fn policy_of<B>(&self, request: &Request<B>) -> CommitPolicy {
        let class = || Context::of(request).and_then(|context| self.by_class[context.class() as usize]);
        request.extensions().get().copied().or_else(class).unwrap_or(self.policy)
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
