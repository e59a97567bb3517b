use std::{fmt, future::Future, pin::pin, sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::gateway::End;

/// How long those who were ended may take to read what they are told.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Where a process stands between its start and its end. Clones are the same.
#[derive(Clone)]
pub struct Lifecycle(Arc<Inner>);

struct Inner {
    phase: watch::Sender<Phase>,
    end: End,
}

/// The phases, in their order. None comes twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Nobody is served yet.
    Starting,
    /// Clients are served.
    Ready,
    /// Nobody new is served; what runs goes on.
    Draining,
    /// What still runs is told that it ends.
    Ending,
    /// Nothing is served any more.
    Over,
}

/// How serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every reply was whole.
    Whole,
    /// So many requests outlived the drain time, and were ended in band.
    Cut(u64),
    /// At once, since it was asked for a second time.
    AtOnce,
}

impl Lifecycle {
    /// The life of a process whose requests `end` ends.
    pub fn new(end: End) -> Self {
        Self(Arc::new(Inner { phase: watch::Sender::new(Phase::Starting), end }))
    }

    /// Where it stands.
    pub fn phase(&self) -> Phase {
        *self.0.phase.borrow()
    }

    /// Whether new clients are welcome.
    pub fn is_ready(&self) -> bool {
        self.phase() == Phase::Ready
    }

    /// How many requests run.
    pub fn running(&self) -> u64 {
        self.0.end.running()
    }

    /// Waits until a phase has begun.
    pub async fn reached(&self, phase: Phase) {
        // The sender lives as long as this does.
        let _ = self.0.phase.subscribe().wait_for(|now| *now >= phase).await;
    }

    /// Goes on to a phase; never back.
    fn advance(&self, phase: Phase) {
        let news = self.0.phase.send_if_modified(|now| {
            let is_later = *now < phase;
            *now = (*now).max(phase);
            is_later
        });
        if news && phase >= Phase::Ending {
            self.0.end.trigger();
        }
    }

    /// Lets `serving` go on until `end`, then for as long as `drain` says at that time, and a little longer for those who had to be
    /// ended. `at_once` cuts everything short. What `serving` has left is dropped with it.
    pub async fn run(
        &self,
        serving: impl Future<Output = ()>,
        end: impl Future<Output = ()>,
        at_once: impl Future<Output = ()>,
        drain: impl FnOnce() -> Duration,
    ) -> Ended {
        let (mut serving, mut at_once) = (pin!(serving), pin!(at_once));
        self.advance(Phase::Ready);
        let ended = async {
            tokio::select! {
                () = &mut serving => return Ended::Whole,
                () = &mut at_once => return Ended::AtOnce,
                () = end => {}
            }
            self.advance(Phase::Draining);
            let drain = drain();
            tracing::info!(running = self.running(), ?drain, "told to end: no new connections; what runs may end");
            tokio::select! {
                biased;
                () = &mut serving => return Ended::Whole,
                () = &mut at_once => return Ended::AtOnce,
                () = tokio::time::sleep(drain) => {}
            }
            let cut = self.running();
            tracing::warn!(running = cut, "the drain time is over: what still runs is told that it ends");
            self.advance(Phase::Ending);
            tokio::select! {
                biased;
                () = &mut serving => Ended::Cut(cut),
                () = &mut at_once => Ended::AtOnce,
                () = tokio::time::sleep(LAST_WORDS) => Ended::Cut(cut),
            }
        }
        .await;
        self.advance(Phase::Over);
        ended
    }
}

impl fmt::Debug for Lifecycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lifecycle").field("phase", &self.phase()).field("running", &self.running()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::{Instant, sleep};

    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// How it ends and when, for work that takes so long from the end on, or for ever.
    async fn run(work: Option<u64>, at_once: Option<u64>) -> (Ended, u64) {
        let lifecycle = Lifecycle::new(End::default());
        assert_eq!((lifecycle.phase(), lifecycle.is_ready()), (Phase::Starting, false));
        let life = lifecycle.clone();
        let serving = async move {
            life.reached(Phase::Draining).await;
            assert!(!life.is_ready());
            match work {
                Some(work) => sleep(seconds(work)).await,
                None => pending().await,
            }
        };
        let at_once = async {
            match at_once {
                Some(at) => sleep(seconds(at)).await,
                None => pending().await,
            }
        };
        let began = Instant::now();
        let ended = lifecycle.run(serving, sleep(seconds(10)), at_once, || seconds(30)).await;
        assert_eq!(lifecycle.phase(), Phase::Over);
        (ended, began.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn what_ends_in_time_is_whole_and_what_does_not_is_cut() {
        assert_eq!(run(Some(0), None).await, (Ended::Whole, 10));
        assert_eq!(run(Some(29), None).await, (Ended::Whole, 39));
        assert_eq!(run(Some(31), None).await, (Ended::Cut(0), 41), "what is told of the end may end in its own way");
        assert_eq!(run(None, None).await, (Ended::Cut(0), 42));
        assert_eq!(run(None, Some(15)).await, (Ended::AtOnce, 15));
        assert_eq!(run(None, Some(41)).await, (Ended::AtOnce, 41));
    }

    #[tokio::test(start_paused = true)]
    async fn phases_never_go_back() {
        let lifecycle = Lifecycle::new(End::default());
        lifecycle.advance(Phase::Draining);
        lifecycle.advance(Phase::Ready);
        assert_eq!(lifecycle.phase(), Phase::Draining);
    }
}
