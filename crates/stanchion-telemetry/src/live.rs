//! What is in flight now, and how it went lately.

mod chart;
mod told;

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use serde::Serialize;
use stanchion_core::{AttemptPhase, Ending, Event};
use tokio::{sync::broadcast, time::Instant};

use self::chart::Charts;
pub use self::{
    chart::{Chart, ChartSecond, Curve, Curves},
    told::{LiveEvent, LiveTold, Subscription},
};
use crate::{InFlight, RequestBegan, RequestId, RequestPhase, RequestRecord, Sink, Standing, record};

/// How much a [`Live`] keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveLimits {
    /// How many requests are listed. Default 4,096; further ones are counted.
    pub requests: usize,
    /// How many events a subscriber may be behind before it loses the oldest. Default 1,024. They are kept once, for all
    /// subscribers.
    pub backlog: usize,
    /// How many candidates, and how many models, have a chart of their own. Default 64 each, at about 40 KiB; further ones share
    /// one, named [`other`](RequestBegan::OTHER).
    pub charts: usize,
}

impl Default for LiveLimits {
    fn default() -> Self {
        Self { requests: 4096, backlog: 1024, charts: 64 }
    }
}

/// A [`Sink`] that knows which requests are in flight and how it went in the last five minutes, and tells subscribers what happens.
///
/// For a status page and for `tail`. What it keeps is bounded by its [limits](LiveLimits). A clone is the same one.
#[derive(Clone)]
pub struct Live(Arc<Shared>);

struct Shared {
    limits: LiveLimits,
    clock: Clock,
    in_flight: AtomicU64,
    requests: Mutex<HashMap<RequestId, Arc<InFlight>>>,
    charts: Mutex<Charts>,
    events: broadcast::Sender<Arc<LiveEvent>>,
}

/// Seconds of tokio's clock, and what the wall clock showed when they began to count.
#[derive(Debug, Clone, Copy)]
struct Clock {
    began: Instant,
    began_at: SystemTime,
}

impl Clock {
    fn second(self) -> u64 {
        self.began.elapsed().as_secs()
    }

    /// The wall clock at a second, in seconds of the epoch.
    fn unix(self, second: u64) -> u64 {
        let began = self.began_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        began.as_secs() + second
    }

    fn now(self) -> SystemTime {
        self.began_at.checked_add(self.began.elapsed()).unwrap_or(self.began_at)
    }
}

impl Live {
    /// Nothing is in flight, and nobody listens.
    pub fn new(limits: LiveLimits) -> Self {
        Self(Arc::new(Shared {
            limits,
            clock: Clock { began: Instant::now(), began_at: SystemTime::now() },
            in_flight: AtomicU64::new(0),
            requests: Mutex::default(),
            charts: Mutex::new(Charts::new(limits.charts)),
            events: broadcast::channel(limits.backlog.max(1)).0,
        }))
    }

    /// What happens from now on.
    pub fn subscribe(&self) -> Subscription {
        Subscription::new(self.0.events.subscribe())
    }

    /// How many subscribers there are.
    pub fn subscribers(&self) -> usize {
        self.0.events.receiver_count()
    }

    /// How many requests are in flight.
    pub fn in_flight(&self) -> u64 {
        self.0.in_flight.load(Ordering::Relaxed)
    }

    /// Everything, as it stands now. Requests come in the order of their age, the oldest first.
    pub fn snapshot(&self) -> LiveSnapshot {
        let LiveListing { at, in_flight, requests } = self.listing();
        let mut phases = RequestPhase::ALL.map(|phase| PhaseCount { phase, requests: 0 });
        for request in &requests {
            if let Some(count) = phases.iter_mut().find(|count| count.phase == request.standing.phase) {
                count.requests += 1;
            }
        }
        let clock = self.0.clock;
        let (candidates, models) = self.charts().show(clock.second(), |second| clock.unix(second));
        LiveSnapshot {
            at,
            in_flight,
            unlisted: in_flight.saturating_sub(requests.len() as u64),
            phases: phases.to_vec(),
            requests,
            candidates,
            models,
        }
    }

    /// How many requests are in flight and which, without charts. Requests come in the order of their age, the oldest first.
    pub fn listing(&self) -> LiveListing {
        let listed: Vec<_> = self.requests().values().cloned().collect();
        let mut requests: Vec<_> = listed.iter().map(|request| LiveRequest::of(request)).collect();
        requests.sort_by(|a, b| b.age.cmp(&a.age).then(a.began.id.cmp(&b.began.id)));
        LiveListing { at: self.0.clock.now(), in_flight: self.in_flight(), requests }
    }

    /// The last five minutes as curves, with so many of their newest [steps](Curve::STEP), at most 60.
    pub fn curves(&self, steps: usize) -> Curves {
        let clock = self.0.clock;
        self.charts().curves(clock.second(), clock.unix(0), steps)
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<RequestId, Arc<InFlight>>> {
        self.0.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn charts(&self) -> MutexGuard<'_, Charts> {
        self.0.charts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whoever listens. The event is not even built when nobody does.
    fn tell(&self, event: impl FnOnce(SystemTime) -> LiveEvent) {
        if self.0.events.receiver_count() > 0 {
            // Fails if the last one has just gone.
            let _ = self.0.events.send(Arc::new(event(self.0.clock.now())));
        }
    }
}

impl Default for Live {
    fn default() -> Self {
        Self::new(LiveLimits::default())
    }
}

impl Sink for Live {
    fn began(&self, request: &Arc<InFlight>) {
        self.0.in_flight.fetch_add(1, Ordering::Relaxed);
        let mut requests = self.requests();
        if requests.len() < self.0.limits.requests {
            requests.insert(request.id(), request.clone());
        }
        drop(requests);
        self.tell(|_| LiveEvent::Began(request.began().clone()));
    }

    fn event(&self, request: &InFlight, event: &Event) {
        match event {
            Event::ProviderAttempt(attempt) => {
                let second = self.0.clock.second();
                self.charts().candidate(&attempt.candidate, second, |slot| match attempt.phase {
                    AttemptPhase::Started => slot.requests += 1,
                    AttemptPhase::Failed => slot.errors += 1,
                    AttemptPhase::Committed => slot.first_output(attempt.elapsed),
                    _ => {}
                });
            }
            Event::Usage(usage) => {
                let second = self.0.clock.second();
                let mut charts = self.charts();
                charts.model(&request.began().model, second, |slot| slot.used(usage));
                if let Some(candidate) = &usage.candidate {
                    charts.candidate(candidate, second, |slot| slot.used(usage));
                }
            }
            _ => {}
        }
        self.tell(|at| LiveEvent::of(request, at, event));
    }

    fn first_output(&self, request: &InFlight, after: Duration) {
        let second = self.0.clock.second();
        self.charts().model(&request.began().model, second, |slot| slot.first_output(after));
    }

    fn ended(&self, record: &Arc<RequestRecord>) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.requests().remove(&record.began.id);
        let second = self.0.clock.second();
        self.charts().model(&record.began.model, second, |slot| {
            slot.requests += 1;
            slot.errors += u32::from(matches!(record.ending, Ending::Failed | Ending::Truncated));
        });
        self.tell(|_| LiveEvent::Ended(record.clone()));
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live")
            .field("in_flight", &self.in_flight())
            .field("subscribers", &self.subscribers())
            .finish_non_exhaustive()
    }
}

/// See [`Live::snapshot`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveSnapshot {
    /// The time.
    #[serde(rename = "time", serialize_with = "record::time")]
    pub at: SystemTime,
    /// How many requests are in flight.
    pub in_flight: u64,
    /// How many of them are not listed, since there are too many.
    pub unlisted: u64,
    /// How many of those that are listed are in each phase.
    pub phases: Vec<PhaseCount>,
    /// The requests, the oldest first.
    pub requests: Vec<LiveRequest>,
    /// How it went with each candidate: its requests are physical attempts.
    pub candidates: Vec<Chart>,
    /// How it went with each model: its requests are logical ones, counted when they end.
    pub models: Vec<Chart>,
}

/// See [`Live::listing`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveListing {
    /// The time.
    pub at: SystemTime,
    /// How many requests are in flight.
    pub in_flight: u64,
    /// The requests, the oldest first; not all, if there are more than [are listed](LiveLimits::requests).
    pub requests: Vec<LiveRequest>,
}

/// How many requests are in one phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PhaseCount {
    /// The phase.
    pub phase: RequestPhase,
    /// How many.
    pub requests: u64,
}

/// A request that is in flight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LiveRequest {
    /// What was known when it came.
    #[serde(flatten)]
    pub began: RequestBegan,
    /// How long it has been served.
    #[serde(rename = "age_ms", serialize_with = "record::milliseconds")]
    pub age: Duration,
    /// Where it stands.
    #[serde(flatten)]
    pub standing: Standing,
    /// How many bytes of the reply have passed.
    pub bytes: u64,
}

impl LiveRequest {
    fn of(request: &InFlight) -> Self {
        Self {
            began: request.began().clone(),
            age: request.age(),
            standing: request.standing(),
            bytes: request.bytes(),
        }
    }
}
