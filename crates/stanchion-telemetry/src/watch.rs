//! The one who sees a request to its end.

use std::sync::Arc;

use http::StatusCode;
use stanchion_core::{Failure, Selected, StreamRecord};

use crate::{InFlight, record::End};

/// Tells how a request ends: as it is told, or at the latest when it is dropped.
pub(crate) struct Watch {
    /// None once it has ended.
    request: Option<Arc<InFlight>>,
    record: Option<StreamRecord>,
    /// Whether first chunk and first output have been told.
    begun: bool,
}

impl Watch {
    pub(crate) fn new(request: Arc<InFlight>) -> Self {
        Self { request: Some(request), record: None, begun: false }
    }

    /// There is a reply.
    pub(crate) fn replied(
        mut self,
        status: StatusCode,
        selected: Option<&Selected>,
        record: Option<StreamRecord>,
    ) -> Self {
        if let Some(request) = &self.request {
            request.replied(status, selected);
            self.begun = request.passed(record.as_ref(), false);
        }
        self.record = record;
        self
    }

    /// So many bytes of the reply pass.
    pub(crate) fn pass(&mut self, bytes: usize) {
        let Some(request) = &self.request else { return };
        request.count(bytes);
        if !self.begun {
            self.begun = request.passed(self.record.as_ref(), true);
        }
    }

    /// Whether nothing that counts can follow: the dialect's own end has passed.
    pub(crate) fn is_over(&self) -> bool {
        self.record.as_ref().is_some_and(StreamRecord::terminal)
    }

    /// The body has ended.
    pub(crate) fn over(mut self) {
        if let Some(request) = self.request.take() {
            request.end(End::Over(self.record.as_ref()));
        }
    }

    /// There is no reply, or it broke off.
    pub(crate) fn failed(mut self, failure: &Failure) {
        if let Some(request) = self.request.take() {
            request.end(End::Failed(failure));
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            request.end(End::Dropped(self.record.as_ref()));
        }
    }
}
