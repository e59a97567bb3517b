//! One circuit as it is shared: the machine under a lock, and what can be told without it.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use stanchion_core::CircuitPhase;
use tokio::time::Instant;

use crate::{
    machine::{Check, Due, Key, Machine, Outcome, Phase, Settled, View, nanos},
    policy::Trip,
    queue::Queue,
    sync::{AtomicU64, Mutex, Ordering, lock},
};

/// What the lowest bits of the word say. Above them is the generation.
const CLOSED: u64 = 0;
const NOT_CLOSED: u64 = 1;
const DETACHED: u64 = 2;
const PHASE: u64 = 3;

/// The circuit of one failure domain.
pub(crate) struct Entry {
    name: Arc<str>,
    epoch: Instant,
    /// Generation and phase: so that nobody takes the lock of a closed circuit to get in.
    word: AtomicU64,
    /// When it was last used, in milliseconds since the epoch.
    touched: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    machine: Machine,
    queue: Queue,
    /// Whether the registry counts it. If not, everyone is let in and nothing is learnt.
    attached: bool,
}

/// Whether one who waits may go.
#[derive(Debug)]
pub(crate) enum Wait {
    /// It may, with this turn.
    Over(u64),
    /// Not before then, unless it is woken.
    Until(Instant),
    /// Not before it is woken.
    ForOthers,
}

impl Entry {
    /// A circuit that is not attached yet.
    pub(crate) fn new(name: Arc<str>, trip: Trip, epoch: Instant) -> Self {
        let inner = Inner { machine: Machine::new(trip, epoch), queue: Queue::default(), attached: false };
        Self { name, epoch, word: AtomicU64::new(DETACHED), touched: AtomicU64::new(0), inner: Mutex::new(inner) }
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn is_attached(&self) -> bool {
        self.word.load(Ordering::Acquire) & PHASE != DETACHED
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.word.load(Ordering::Acquire) & PHASE == CLOSED
    }

    /// When it was last used, in milliseconds since the epoch.
    pub(crate) fn touched(&self) -> u64 {
        self.touched.load(Ordering::Relaxed)
    }

    /// Notes that it is used, at so many milliseconds since the epoch.
    pub(crate) fn touch(&self, now: u64) {
        // Others read this line all the time: it is written only when there is news.
        if self.touched.load(Ordering::Relaxed) != now {
            self.touched.store(now, Ordering::Relaxed);
        }
    }

    /// Changes the machine, and tells the word and the first of the queue.
    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> (T, Option<Waker>)) -> T {
        let mut inner = lock(&self.inner);
        let (told, waker) = change(&mut inner);
        let phase = match inner.machine.phase() {
            _ if !inner.attached => DETACHED,
            Phase::Closed => CLOSED,
            Phase::Open | Phase::HalfOpen => NOT_CLOSED,
        };
        let word = inner.machine.generation() << 2 | phase;
        if self.word.load(Ordering::Relaxed) != word {
            self.word.store(word, Ordering::Release);
        }
        drop(inner);
        // Never under the lock: a waker may run what it wakes, or drop it.
        if let Some(waker) = waker {
            waker.wake();
        }
        told
    }

    /// Starts to count, with nothing learnt yet.
    pub(crate) fn attach(&self, now: Instant) {
        self.change(|inner| {
            inner.machine.reset(now);
            inner.attached = true;
            ((), None)
        });
    }

    /// Stops to count, if it is closed. What is under way counts for nothing any more.
    pub(crate) fn detach(&self, now: Instant) -> bool {
        self.change(|inner| {
            if !inner.attached || inner.machine.phase() != Phase::Closed {
                return (false, None);
            }
            inner.machine.reset(now);
            inner.attached = false;
            (true, inner.queue.first())
        })
    }

    /// Whether a request would be let in, and if not, how the circuit stands.
    pub(crate) fn preflight(&self, now: Instant) -> Result<(), View> {
        if self.word.load(Ordering::Acquire) & PHASE != NOT_CLOSED {
            return Ok(());
        }
        let mut inner = lock(&self.inner);
        match inner.machine.preflight(now) {
            Ok(()) => Ok(()),
            Err(_) => Err(inner.machine.view(now)),
        }
    }

    /// Lets a request in, or turns it away. `None` where nothing counts.
    pub(crate) fn check(&self, now: Instant, lease: Duration) -> Option<Check> {
        let word = self.word.load(Ordering::Acquire);
        match word & PHASE {
            CLOSED => Some(Check::Allowed(Key::Regular { generation: word >> 2 })),
            DETACHED => None,
            _ => self.change(|inner| (inner.attached.then(|| inner.machine.check(now, lease)), None)),
        }
    }

    /// Lets a request in that was turned away.
    pub(crate) fn spare(&self) -> Key {
        lock(&self.inner).machine.spare()
    }

    /// Learns what became of a request. Once for each key.
    pub(crate) fn settle(&self, key: Key, outcome: Outcome, now: Instant) -> Settled {
        if let (Key::Regular { generation }, Outcome::Success) = (key, outcome) {
            return self.succeed(generation, now);
        }
        let settled = self.change(|inner| {
            let settled = inner.machine.settle(key, outcome, now);
            if settled.change.as_ref().is_some_and(|change| change.0 == CircuitPhase::Closed) {
                inner.queue.release();
            }
            let waker = if settled.wakes { inner.queue.first() } else { None };
            (settled, waker)
        });
        if settled.counted && outcome != Outcome::Abandoned {
            self.touch(since(self.epoch, now));
        }
        settled
    }

    /// What most requests come to: one more sample, and no news.
    fn succeed(&self, generation: u64, now: Instant) -> Settled {
        let now = nanos(now.saturating_duration_since(self.epoch));
        let counted = lock(&self.inner).machine.succeed(generation, now);
        if counted {
            self.touch(now / 1_000_000);
        }
        let late = counted.then_some(Key::Regular { generation });
        Settled { counted, change: None, wakes: false, late }
    }

    /// A request was given up.
    pub(crate) fn abandon(&self, key: Key) {
        self.settle(key, Outcome::Abandoned, self.epoch);
    }

    /// How badly it fails, for the comparison with others of its model; `None` if it is closed.
    pub(crate) fn standing(&self) -> Option<(bool, u32)> {
        if self.word.load(Ordering::Acquire) & PHASE != NOT_CLOSED {
            return None;
        }
        let inner = lock(&self.inner);
        let machine = &inner.machine;
        (machine.phase() != Phase::Closed).then(|| (machine.is_held_by_hand(), machine.consecutive()))
    }

    pub(crate) fn view(&self, now: Instant) -> (View, usize) {
        let mut inner = lock(&self.inner);
        (inner.machine.view(now), inner.queue.len())
    }

    /// Opens until a hand closes it. `None` where nothing counts.
    pub(crate) fn force_open(&self, now: Instant) -> Option<View> {
        self.change(|inner| {
            let view = inner.attached.then(|| inner.machine.force_open(now));
            (view, inner.queue.first())
        })
    }

    /// Closes it, unless it is closed.
    pub(crate) fn force_close(&self, now: Instant) -> Option<View> {
        self.change(|inner| {
            let view = inner.attached.then(|| inner.machine.force_close(now)).flatten();
            inner.queue.release();
            (view, inner.queue.first())
        })
    }

    /// Forgets what it has learnt. Tells how it stands then, if that closed it.
    pub(crate) fn reset(&self, now: Instant) -> Option<View> {
        self.change(|inner| {
            let was_open = inner.machine.phase() != Phase::Closed;
            inner.machine.reset(now);
            inner.queue.release();
            let view = was_open.then(|| inner.machine.view(now));
            (view, inner.queue.first())
        })
    }

    /// Joins those who wait.
    pub(crate) fn join(&self, place: Option<u64>) -> u64 {
        lock(&self.inner).queue.join(place)
    }

    /// Whether one who waits may go now.
    pub(crate) fn poll_turn(&self, place: u64, now: Instant, cx: &Context<'_>) -> Wait {
        let mut inner = lock(&self.inner);
        if !inner.queue.is_next(place) {
            inner.queue.wait(place, cx.waker());
            return Wait::ForOthers;
        }
        let due = if inner.attached { inner.machine.due(now) } else { Due::Now };
        match due {
            Due::Now => Wait::Over(inner.queue.take(place)),
            Due::At(at) => {
                inner.queue.wait(place, cx.waker());
                Wait::Until(at)
            }
            Due::Never => {
                inner.queue.wait(place, cx.waker());
                Wait::ForOthers
            }
        }
    }

    /// Gives up a place.
    pub(crate) fn leave(&self, place: u64) {
        let waker = lock(&self.inner).queue.leave(place);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Ends a turn.
    pub(crate) fn end_turn(&self, turn: u64) {
        let waker = lock(&self.inner).queue.end(turn);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Milliseconds from `epoch` to `at`.
pub(crate) fn since(epoch: Instant, at: Instant) -> u64 {
    let since = at.saturating_duration_since(epoch);
    since.as_secs().saturating_mul(1000).saturating_add(since.subsec_millis().into())
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("candidate", &self.name).finish_non_exhaustive()
    }
}
