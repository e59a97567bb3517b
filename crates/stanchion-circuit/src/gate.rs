use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use stanchion_core::{CircuitGate, CircuitTurn};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::entry::{Entry, Wait};

/// Where one that was turned away waits.
pub(crate) struct Gate {
    entry: Arc<Entry>,
    /// The place that it held when its turn came to nothing. It need not go to the end for that.
    place: Option<u64>,
}

impl Gate {
    /// Where to wait for `entry`, after `turn` came to nothing.
    pub(crate) fn new(entry: Arc<Entry>, turn: Option<&CircuitTurn>) -> Self {
        let place = turn
            .and_then(CircuitTurn::guard::<TurnGuard>)
            .filter(|guard| Arc::ptr_eq(&guard.entry, &entry))
            .map(|guard| guard.place);
        Self { entry, place }
    }
}

impl CircuitGate for Gate {
    fn turn(self: Arc<Self>) -> Pin<Box<dyn Future<Output = CircuitTurn> + Send>> {
        let place = self.entry.join(self.place);
        Box::pin(TurnFuture { place: Place { entry: self.entry.clone(), place: Some(place) }, sleep: None })
    }
}

/// A place in the queue, which is given up when it is dropped. `None` once a turn has come of it.
struct Place {
    entry: Arc<Entry>,
    place: Option<u64>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.entry.leave(place);
        }
    }
}

/// A turn, which is passed on when it is dropped.
struct TurnGuard {
    entry: Arc<Entry>,
    place: u64,
    turn: u64,
}

impl Drop for TurnGuard {
    fn drop(&mut self) {
        self.entry.end_turn(self.turn);
    }
}

pin_project! {
    struct TurnFuture {
        place: Place,
        // Armed by the first of the queue alone.
        #[pin]
        sleep: Option<Sleep>,
    }
}

impl Future for TurnFuture {
    type Output = CircuitTurn;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CircuitTurn> {
        let mut this = self.project();
        let place = this.place.place.expect("polled after its end");
        loop {
            let entry = &this.place.entry;
            match entry.poll_turn(place, Instant::now(), cx) {
                Wait::Over(turn) => {
                    let guard = TurnGuard { entry: entry.clone(), place, turn };
                    this.place.place = None;
                    return Poll::Ready(CircuitTurn::new(guard));
                }
                Wait::ForOthers => {
                    this.sleep.set(None);
                    return Poll::Pending;
                }
                Wait::Until(at) => {
                    match this.sleep.as_mut().as_pin_mut() {
                        Some(sleep) if sleep.deadline() == at => {}
                        Some(sleep) => sleep.reset(at),
                        None => this.sleep.set(Some(sleep_until(at))),
                    }
                    let sleep = this.sleep.as_mut().as_pin_mut().expect("just armed");
                    ready!(sleep.poll(cx));
                }
            }
        }
    }
}
