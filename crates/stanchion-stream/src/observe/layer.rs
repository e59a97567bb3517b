use stanchion_wire::frame::FrameDecoder;
use tower_layer::Layer;

use super::Observe;

/// What becomes of a frame that claims to be JSON and is cut short: it begins with a bracket and does not end with its match.
///
/// Such a frame breaks every client library. Whatever is chosen, an event tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Malformed {
    /// It is passed on.
    Pass,
    /// It is left out, and the rest of the stream goes on.
    #[default]
    Drop,
    /// It fails the stream.
    Fail,
}

/// Makes [`Observe`] services.
#[derive(Debug, Clone, Copy)]
pub struct ObserveLayer {
    pub(super) settings: Settings,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) max_event: usize,
    pub(super) max_document: usize,
    pub(super) malformed: Malformed,
}

impl ObserveLayer {
    /// A layer with the default settings.
    pub const fn new() -> Self {
        Self {
            settings: Settings {
                max_event: FrameDecoder::DEFAULT_MAX_EVENT,
                max_document: 8 * 1024 * 1024,
                malformed: Malformed::Drop,
            },
        }
    }

    /// The largest single event, in bytes. Default 16 MiB; image output comes as events of several megabytes.
    ///
    /// A larger event fails the stream with [`EventTooLarge`](stanchion_core::FailureKind::EventTooLarge), which is not retried and not held
    /// against the provider.
    #[must_use]
    pub const fn max_event(mut self, bytes: usize) -> Self {
        self.settings.max_event = bytes;
        self
    }

    /// The largest reply in one document that is held until complete, in bytes. Default 8 MiB. The rest of a larger one streams through.
    #[must_use]
    pub const fn max_document(mut self, bytes: usize) -> Self {
        self.settings.max_document = bytes;
        self
    }

    /// What becomes of frames that are cut short. Default: they are dropped.
    #[must_use]
    pub const fn malformed(mut self, malformed: Malformed) -> Self {
        self.settings.malformed = malformed;
        self
    }
}

impl Default for ObserveLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for ObserveLayer {
    type Service = Observe<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Observe::new(inner, *self)
    }
}
