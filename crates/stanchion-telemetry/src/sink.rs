use std::{sync::Arc, time::Duration};

use stanchion_core::Event;

use crate::{InFlight, RequestRecord};

/// Is told what becomes of each logical request.
///
/// For each request it is told first that it [began](Self::began) and last, exactly once, that it [ended](Self::ended), however
/// that came about; everything else in between, in order. Called on the request's own path: it must return quickly and must not
/// block. What takes time belongs behind a bounded channel.
///
/// Every method does nothing by default.
pub trait Sink: Send + Sync {
    /// A request has come. Whoever keeps the handle may ask it at any time how the request stands.
    fn began(&self, request: &Arc<InFlight>) {
        let _ = request;
    }

    /// One event of the request. What it means for where the request stands is in the handle already.
    fn event(&self, request: &InFlight, event: &Event) {
        let _ = (request, event);
    }

    /// The first chunk of the reply has come from the provider that answers, so long after the request; told once, and not at all
    /// for a reply without a body.
    fn first_chunk(&self, request: &InFlight, after: Duration) {
        let _ = (request, after);
    }

    /// The first real output of the reply has come from the provider that answers, so long after the request; told once at most,
    /// and not before the reply leaves.
    fn first_output(&self, request: &InFlight, after: Duration) {
        let _ = (request, after);
    }

    /// The request is over.
    fn ended(&self, record: &Arc<RequestRecord>) {
        let _ = record;
    }
}
