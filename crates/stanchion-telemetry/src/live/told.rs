use std::{fmt, sync::Arc, time::SystemTime};

use serde::Serialize;
use stanchion_core::{Event, RequestClass};
use tokio::sync::broadcast::{self, error::RecvError};

use crate::{InFlight, RequestBegan, RequestId, RequestRecord, record::time};

/// Something that happened to a request. Serialises with what it is in `kind`.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum LiveEvent {
    /// It came.
    Began(RequestBegan),
    /// An event of it.
    Event {
        /// The request.
        id: RequestId,
        /// When.
        #[serde(rename = "time", serialize_with = "time")]
        at: SystemTime,
        /// The configured name of its model.
        model: Arc<str>,
        /// Who waits.
        class: RequestClass,
        /// What happened.
        event: Event,
    },
    /// It is over.
    Ended(Arc<RequestRecord>),
}

impl LiveEvent {
    pub(super) fn of(request: &InFlight, at: SystemTime, event: &Event) -> Self {
        let RequestBegan { id, model, class, .. } = request.began();
        Self::Event { id: *id, at, model: model.clone(), class: *class, event: event.clone() }
    }

    /// The request that it happened to.
    pub fn id(&self) -> RequestId {
        match self {
            Self::Began(began) => began.id,
            Self::Event { id, .. } => *id,
            Self::Ended(record) => record.began.id,
        }
    }
}

/// What a [`Subscription`] has to tell.
#[derive(Debug, Clone)]
pub enum LiveTold {
    /// Something happened.
    Event(Arc<LiveEvent>),
    /// So many events are lost: the subscriber was too slow for them.
    Lost(u64),
}

/// Tells what happens. See [`Live::subscribe`](super::Live::subscribe).
///
/// A subscriber that is too slow loses the oldest events, and is told how many; nobody waits for it.
pub struct Subscription(broadcast::Receiver<Arc<LiveEvent>>);

impl Subscription {
    pub(super) fn new(events: broadcast::Receiver<Arc<LiveEvent>>) -> Self {
        Self(events)
    }

    /// What comes next; `None` once nothing can come any more. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<LiveTold> {
        match self.0.recv().await {
            Ok(event) => Some(LiveTold::Event(event)),
            Err(RecvError::Lagged(lost)) => Some(LiveTold::Lost(lost)),
            Err(RecvError::Closed) => None,
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("waiting", &self.0.len()).finish()
    }
}
