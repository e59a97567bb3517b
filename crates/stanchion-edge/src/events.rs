//! Control events on their way to the client.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use stanchion_core::{Event, Observer};
use stanchion_wire::render;

/// How many events wait for the client at most.
const MAX_WAITING: usize = 256;

/// The observer's side: what happens to a request, until the client takes it.
#[derive(Default)]
pub(crate) struct EventQueue(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    events: VecDeque<Event>,
    waker: Option<Waker>,
    closed: bool,
}

/// The client's side. There is one; once it is dropped, nothing is kept any more.
pub(crate) struct Listener(Arc<EventQueue>);

impl EventQueue {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for EventQueue {
    fn observe(&self, event: &Event) {
        let waker = {
            let mut queue = self.lock();
            if queue.closed {
                return;
            }
            if queue.events.len() == MAX_WAITING {
                queue.events.pop_front();
            }
            queue.events.push_back(event.clone());
            queue.waker.take()
        };
        // Not under the lock: a waker is somebody else's code.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Listener {
    /// A queue and its one listener.
    pub(crate) fn new() -> (Arc<EventQueue>, Self) {
        let queue = Arc::<EventQueue>::default();
        (queue.clone(), Self(queue))
    }

    /// What waits, as Server-Sent Events; `None` if nothing does.
    pub(crate) fn take(&self) -> Option<Bytes> {
        let events = {
            let mut queue = self.0.lock();
            queue.waker = None;
            if queue.events.is_empty() {
                return None;
            }
            std::mem::take(&mut queue.events)
        };
        Some(events.iter().map(render::control_event).collect::<String>().into())
    }

    /// What waits, or a wake-up once something does.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Bytes> {
        let mut queue = self.0.lock();
        if queue.events.is_empty() {
            match &mut queue.waker {
                Some(waker) => waker.clone_from(cx.waker()),
                none => *none = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        }
        drop(queue);
        self.take().map_or(Poll::Pending, Poll::Ready)
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().events.is_empty()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.closed = true;
        let left = (std::mem::take(&mut queue.events), queue.waker.take());
        // Not under the lock either.
        drop(queue);
        drop(left);
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use stanchion_core::{FrameEvent, FrameFault};
    use tokio_test::{assert_pending, assert_ready, task};

    use super::*;

    fn event(bytes: u64) -> Event {
        Event::StreamFrame(FrameEvent { fault: FrameFault::TooLarge, bytes })
    }

    #[test]
    fn when_too_many_wait_the_oldest_go() {
        let (queue, listener) = Listener::new();
        for number in 0..=MAX_WAITING as u64 {
            queue.observe(&event(number));
        }
        let told = listener.take().unwrap();
        let told = std::str::from_utf8(&told).unwrap();
        assert_eq!(told.matches("event: stanchion.stream_frame\n").count(), MAX_WAITING);
        assert!(!told.contains("\"bytes\":0}") && told.contains("\"bytes\":256}"));
        assert!(listener.take().is_none() && listener.is_empty());
    }

    #[test]
    fn an_event_wakes_whoever_waits_for_it_once() {
        let (queue, listener) = Listener::new();
        let mut first = task::spawn(());
        let mut second = task::spawn(());
        first.enter(|cx, _| assert_pending!(listener.poll(cx)));
        second.enter(|cx, _| assert_pending!(listener.poll(cx)));
        queue.observe(&event(1));
        assert!(!first.is_woken() && second.is_woken(), "the last one who asked");
        queue.observe(&event(2));
        let told = second.enter(|cx, _| assert_ready!(listener.poll(cx)));
        assert_eq!(std::str::from_utf8(&told).unwrap().matches("\n\n").count(), 2);
        second.enter(|cx, _| assert_pending!(listener.poll(cx)));
    }

    #[test]
    fn nothing_is_kept_for_a_client_that_is_gone() {
        let (queue, listener) = Listener::new();
        queue.observe(&event(1));
        drop(listener);
        queue.observe(&event(2));
        assert!(queue.lock().events.is_empty());
    }
}
