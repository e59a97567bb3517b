use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context as Wakes, Poll, ready},
};

use pin_project_lite::pin_project;
use stanchion_core::{Candidate, RequestClass};

use crate::{
    AdmissionError,
    gate::{Gate, Passage, Place},
    permit::Permit,
    wait::{Ended, Told, Wait},
};

/// The queue as the requests of one candidate see it, for whoever makes exchanges without a tower service.
///
/// See [`AdmissionLayer::handle`](crate::AdmissionLayer::handle). It tells no events.
#[derive(Clone)]
pub struct AdmissionHandle {
    gate: Arc<Gate>,
    place: Place,
    candidate: Arc<Candidate>,
}

/// The right to make one exchange. Given back when it is dropped.
#[must_use]
pub struct AdmissionPermit(Permit);

pin_project! {
    /// Waits for a permit. Dropping it leaves the queue. See [`AdmissionHandle::admit`].
    #[must_use]
    pub struct AdmissionTicket {
        #[pin]
        state: State,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State {
        Waiting { #[pin] wait: Wait },
        Done { result: Option<Result<Permit, AdmissionError>> },
    }
}

impl AdmissionHandle {
    pub(crate) fn new(gate: Arc<Gate>, candidate: &Arc<Candidate>) -> Self {
        let place = gate.place(candidate);
        Self { gate, place, candidate: candidate.clone() }
    }

    /// Asks for a permit: has one at once, waits for one, or is turned away. The place in the queue is that of this call.
    ///
    /// `owner` is whose capacity is used, `None` for the layer's one anonymous owner; `bytes` is what the request keeps in
    /// memory while it waits.
    pub fn admit(&self, owner: Option<&str>, class: RequestClass, bytes: u64) -> AdmissionTicket {
        let max_wait = self.gate.policy(&self.place).max_wait;
        let told = || Told { context: None, candidate: Some(self.candidate.clone()), class, max_wait };
        let state = match self.gate.ask(self.place.clone(), owner, class, || bytes, told) {
            Passage::Runs(permit) => State::Done { result: Some(Ok(permit)) },
            Passage::Waits(wait) => State::Waiting { wait },
            Passage::Ends(_, ended) => State::Done { result: Some(Err(refused(ended))) },
        };
        AdmissionTicket { state }
    }
}

impl Future for AdmissionTicket {
    type Output = Result<AdmissionPermit, AdmissionError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Wakes<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let result = match this.state.as_mut().project() {
            StateProjection::Waiting { wait } => {
                let result = ready!(wait.poll(cx)).map_err(refused);
                this.state.set(State::Done { result: None });
                result
            }
            StateProjection::Done { result } => result.take().expect("polled after its end"),
        };
        Poll::Ready(result.map(AdmissionPermit))
    }
}

fn refused(ended: Ended) -> AdmissionError {
    match ended {
        Ended::Refused(error) => error,
        Ended::Budget => unreachable!("there is no budget without a context"),
    }
}

impl fmt::Debug for AdmissionHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionHandle").field("candidate", self.candidate.name()).finish_non_exhaustive()
    }
}

impl fmt::Debug for AdmissionPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionPermit").field("adapts", &self.0.adapts()).finish_non_exhaustive()
    }
}

impl fmt::Debug for AdmissionTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waits = matches!(self.state, State::Waiting { .. });
        f.debug_struct("AdmissionTicket").field("waits", &waits).finish_non_exhaustive()
    }
}
