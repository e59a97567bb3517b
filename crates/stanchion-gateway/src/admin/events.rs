//! What happens, as Server-Sent Events: the status as it changes for the page, or every request for `tail`.
//!
//! Nobody waits for a subscriber. Of the status only the newest is kept; of events a bounded number, and one who is too slow for them is
//! told how many it lost.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame};
use serde::Serialize;
use stanchion::{
    core::{AdmissionPhase, AttemptPhase, CircuitPhase, Event, RetryPhase},
    telemetry::live::{LiveEvent, LiveTold, Subscription},
};
use tokio::{
    sync::{OwnedSemaphorePermit, broadcast, watch},
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};

use super::{Shared, board::Action};

/// How often the status is told when nothing happens.
const EVERY: Duration = Duration::from_secs(1);
/// How soon it may be told again when something does.
const AT_MOST_EVERY: Duration = Duration::from_millis(200);
/// How many steps of the charts an update has: the one that grows, and the one before it.
const NEWEST_STEPS: usize = 2;
/// So many updates may pass one by before it gets everything anew: those steps would be missing.
const MAY_MISS: u64 = 8;
/// How many events are put into one piece of the body.
const BATCH: usize = 64;

/// What a subscriber wants to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// The status, and the events that are worth an operator's eye.
    Status,
    /// Every request, with all that becomes of it.
    Requests,
}

/// The newest status, with the number of its update.
#[derive(Debug, Clone, Default)]
pub(super) struct Update {
    pub(super) number: u64,
    message: Bytes,
}

/// What a hand did.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ActionEvent {
    pub(super) at_ms: u64,
    pub(super) action: Action,
    pub(super) candidate: String,
}

/// Tells the status as long as anybody listens: every second, and sooner when something happens.
pub(super) async fn publish(shared: Arc<Shared>) {
    let mut actions = shared.actions.subscribe();
    loop {
        while shared.updates.receiver_count() == 0 {
            shared.came.notified().await;
        }
        let mut events = shared.live.subscribe();
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut last, mut due) = (Instant::now(), None);
        while shared.updates.receiver_count() > 0 {
            let is_news = tokio::select! {
                _ = ticks.tick() => false,
                () = at(due) => false,
                told = events.next() => match told {
                    Some(LiveTold::Event(event)) => is_news(&event),
                    // Whatever they were, things are different now.
                    Some(LiveTold::Lost(_)) => true,
                    None => return,
                },
                _ = actions.recv() => true,
            };
            if is_news {
                due.get_or_insert(last + AT_MOST_EVERY);
            } else if due.is_none_or(|due| due <= Instant::now()) {
                let message = message("update", &shared.status(NEWEST_STEPS));
                shared.updates.send_modify(|update| *update = Update { number: update.number + 1, message });
                (last, due) = (Instant::now(), None);
                ticks.reset();
            }
        }
    }
}

async fn at(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Whether the status of a candidate may be another after it.
fn is_news(event: &LiveEvent) -> bool {
    matches!(
        event,
        LiveEvent::Event { event: Event::ProviderCircuit(_) | Event::ModelFallback(_) | Event::ProviderStall(_), .. }
    ) || matches!(event, LiveEvent::Event { event: Event::ProviderAttempt(attempt), .. } if attempt.phase == AttemptPhase::Failed)
}

/// Whether an event is worth a line of the page: what went wrong, what was done about it, and what came of that.
fn is_worth_a_line(event: &LiveEvent) -> bool {
    let LiveEvent::Event { event, .. } = event else { return false };
    match event {
        Event::ProviderAttempt(attempt) => attempt.phase == AttemptPhase::Failed,
        Event::ProviderRetry(retry) => !matches!(retry.phase, RetryPhase::Attempt | RetryPhase::Waiting),
        Event::ProviderCircuit(circuit) => circuit.phase != CircuitPhase::Waiting,
        Event::ProviderAdmission(admission) => admission.phase != AdmissionPhase::Admitted,
        Event::Usage(_) => false,
        _ => true,
    }
}

fn message(name: &str, data: &str) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("what is told can be written as JSON")
}

/// One subscriber. Its place is free again when it is dropped.
pub(super) struct Feed {
    shared: Arc<Shared>,
    view: View,
    /// Only what happens to requests of this model.
    model: Option<String>,
    events: Subscription,
    actions: broadcast::Receiver<ActionEvent>,
    updates: watch::Receiver<Update>,
    ended: watch::Receiver<bool>,
    /// The number of the last update that was sent.
    sent: u64,
    begun: bool,
    over: bool,
    waiting: VecDeque<Bytes>,
    _place: OwnedSemaphorePermit,
}

impl Feed {
    pub(super) fn new(shared: Arc<Shared>, view: View, model: Option<String>, place: OwnedSemaphorePermit) -> Self {
        // Subscribed before the first status is made: what happens in between is told twice rather than not at all.
        let feed = Self {
            events: shared.live.subscribe(),
            actions: shared.actions.subscribe(),
            updates: shared.updates.subscribe(),
            ended: shared.ended.subscribe(),
            shared,
            view,
            model,
            sent: 0,
            begun: false,
            over: false,
            waiting: VecDeque::new(),
            _place: place,
        };
        feed.shared.came.notify_one();
        feed
    }

    /// The next message; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        if !self.begun {
            self.begun = true;
            self.sent = self.updates.borrow().number;
            return Some(self.snapshot());
        }
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Some(message);
            }
            if self.over {
                return None;
            }
            tokio::select! {
                () = over(&mut self.ended) => {
                    self.over = true;
                    return Some(message("end", "{}"));
                }
                changed = self.updates.changed() => {
                    changed.ok()?;
                    return Some(self.update());
                }
                told = self.events.next() => {
                    let told = told?;
                    self.tell(told);
                    // What is there already goes out in one piece.
                    for _ in 0..BATCH {
                        let next = self.events.next();
                        let Poll::Ready(Some(told)) = poll_once(next).await else { break };
                        self.tell(told);
                    }
                    if !self.waiting.is_empty() {
                        return Some(self.waiting.drain(..).flatten().collect::<Vec<u8>>().into());
                    }
                }
                Ok(action) = self.actions.recv() => return Some(message("action", &json(&action))),
            }
        }
    }

    fn snapshot(&self) -> Bytes {
        match self.view {
            View::Status => message("snapshot", &self.shared.status(usize::MAX)),
            View::Requests => message("hello", &json(&self.shared.gateway())),
        }
    }

    /// The newest status; everything anew where too many were missed. For one who wants requests, a sign of life.
    fn update(&mut self) -> Bytes {
        let Update { number, message } = self.updates.borrow_and_update().clone();
        let missed = number.saturating_sub(self.sent + 1);
        self.sent = number;
        match self.view {
            View::Status if missed > MAY_MISS => self.snapshot(),
            View::Status => message,
            View::Requests => Bytes::from_static(b":\n\n"),
        }
    }

    fn tell(&mut self, told: LiveTold) {
        let event = match told {
            LiveTold::Lost(count) => {
                self.waiting.push_back(message("lost", &json(&serde_json::json!({ "count": count }))));
                return;
            }
            LiveTold::Event(event) => event,
        };
        let wanted = match self.view {
            View::Status => is_worth_a_line(&event),
            View::Requests => true,
        };
        let model = match &*event {
            LiveEvent::Began(began) => &began.model,
            LiveEvent::Event { model, .. } => model,
            LiveEvent::Ended(record) => &record.began.model,
            _ => return,
        };
        if wanted && self.model.as_ref().is_none_or(|wanted| **wanted == **model) {
            self.waiting.push_back(message("event", &json(&*event)));
        }
    }
}

pub(super) async fn over(ended: &mut watch::Receiver<bool>) {
    // The listener that will say it is there as long as this is.
    let _ = ended.wait_for(|ended| *ended).await;
}

/// Polls a future once, and drops it.
async fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

type Next = Pin<Box<dyn Future<Output = (Box<Feed>, Option<Bytes>)> + Send>>;

/// A feed as the body of a response: it says the next thing when the last one is out.
pub(super) struct FeedBody(Option<Next>);

impl FeedBody {
    pub(super) fn new(feed: Feed) -> Self {
        Self(Some(next(Box::new(feed))))
    }
}

fn next(mut feed: Box<Feed>) -> Next {
    Box::pin(async move {
        let message = feed.next().await;
        (feed, message)
    })
}

impl Body for FeedBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Some(waiting) = &mut self.0 else { return Poll::Ready(None) };
        let (feed, message) = ready!(waiting.as_mut().poll(cx));
        self.0 = message.is_some().then(|| next(feed));
        Poll::Ready(message.map(|message| Ok(Frame::data(message))))
    }
}
