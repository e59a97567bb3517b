//! The whole status as one JSON object: what `/status` answers, and what the page is made of.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::SystemTime,
};

use serde::Serialize;
use stanchion::{
    admission::AdmissionStatus,
    core::RequestClass,
    credentials::PoolStatus,
    telemetry::{
        Live, RequestPhase, Wait,
        live::{Curve, Curves, LiveRequest},
    },
};

use super::board::{Board, Load, ModelView};
use crate::current::Current;

/// How many requests are listed: those that are stalled first, then the oldest. All are counted.
const LISTED: usize = 64;
/// How much of what is wrong with a configuration is listed.
const COMPLAINTS: usize = 8;

/// What there is to show.
#[derive(Debug, Serialize)]
pub(super) struct Status {
    gateway: GatewayView,
    models: Vec<ModelView>,
    admission: AdmissionView,
    credentials: Vec<PoolStatus>,
    requests: RequestsView,
    charts: ChartsView,
}

/// The process.
#[derive(Debug, Clone, Serialize)]
pub(super) struct GatewayView {
    pub(super) version: &'static str,
    /// Another one after each start.
    pub(super) instance: Arc<str>,
    pub(super) started_at_ms: u64,
    pub(super) now_ms: u64,
    /// `ready`, or `draining` once it is to end.
    pub(super) state: &'static str,
    /// Which configuration is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) config: Option<ConfigView>,
}

/// The configuration that is served, and the one that is not.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ConfigView {
    /// 1 for the one that the process began with.
    generation: u64,
    hash: String,
    since_ms: u64,
    /// What is wrong with the one that was tried last; absent if it is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<RefusedView>,
}

#[derive(Debug, Clone, Serialize)]
struct RefusedView {
    at_ms: u64,
    /// How much is wrong.
    total: usize,
    /// The first of it, as the log tells it.
    complaints: Vec<String>,
}

impl ConfigView {
    pub(super) fn of(current: &Current) -> Self {
        let served = current.get();
        let origin = &served.origin;
        let file = origin.file.as_ref().map_or_else(|| "the environment".to_owned(), |file| file.display().to_string());
        let refused = current.refusal().map(|refusal| RefusedView {
            at_ms: epoch_milliseconds(refusal.at),
            total: refusal.complaints.len(),
            complaints: refusal.complaints.iter().take(COMPLAINTS).map(|complaint| complaint.told_of(&file)).collect(),
        });
        Self {
            generation: origin.generation,
            hash: origin.hash.clone(),
            since_ms: epoch_milliseconds(origin.since),
            refused,
        }
    }
}

#[derive(Debug, Serialize)]
struct AdmissionView {
    in_flight: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u32>,
    queued: u32,
    max_pending: u32,
    closed: bool,
    classes: [ClassView; 3],
}

#[derive(Debug, Serialize)]
struct ClassView {
    class: RequestClass,
    in_flight: u64,
    queued: u64,
    /// For how long the one has waited that waits longest; absent if none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_wait_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
struct RequestsView {
    /// How many are in flight.
    total: u64,
    phases: BTreeMap<&'static str, u64>,
    rows: Vec<RequestView>,
}

#[derive(Debug, Serialize)]
struct RequestView {
    id: String,
    age_ms: u64,
    phase: RequestPhase,
    /// What it waits for, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<Wait>,
    model: Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    candidate: Option<Arc<str>>,
    class: RequestClass,
    attempt: u32,
}

#[derive(Debug, Serialize)]
struct ChartsView {
    /// The present second, in seconds of the epoch.
    now: u64,
    /// By `all`, `model:NAME` and `candidate:NAME`.
    scopes: BTreeMap<String, Curve>,
}

impl Status {
    /// How everything stands, with so many of the newest steps of the charts.
    pub(super) fn of(board: &Board, live: &Live, gateway: GatewayView, steps: usize) -> Self {
        let listing = live.listing();
        let requests = &listing.requests;
        Self {
            gateway,
            models: board.models(&loads(requests)),
            admission: AdmissionView::of(&board.scheduler.status(), requests),
            credentials: board.credentials.status(),
            requests: RequestsView::of(listing.in_flight, requests),
            charts: ChartsView::of(live.curves(steps)),
        }
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a status can be written as JSON")
    }
}

fn loads(requests: &[LiveRequest]) -> HashMap<(&str, &str), Load> {
    let mut loads: HashMap<_, Load> = HashMap::new();
    for request in requests {
        let Some(candidate) = &request.standing.candidate else { continue };
        let load = loads.entry((&*request.began.model, &**candidate)).or_default();
        match request.standing.phase {
            RequestPhase::Queued => load.queued += 1,
            RequestPhase::Waiting => {}
            _ => load.in_flight += 1,
        }
    }
    loads
}

impl AdmissionView {
    fn of(status: &AdmissionStatus, requests: &[LiveRequest]) -> Self {
        // Counted by what is in flight, since the queue knows nothing of requests that no limit holds.
        let classes = [RequestClass::Foreground, RequestClass::Background, RequestClass::Internal].map(|class| {
            let mut view = ClassView { class, in_flight: 0, queued: 0, oldest_wait_ms: None };
            for request in requests.iter().filter(|request| request.began.class == class) {
                if request.standing.phase == RequestPhase::Queued {
                    view.queued += 1;
                    view.oldest_wait_ms = view.oldest_wait_ms.max(Some(milliseconds(request.standing.phase_age)));
                } else {
                    view.in_flight += 1;
                }
            }
            view
        });
        Self {
            in_flight: status.in_flight,
            limit: status.limit,
            queued: status.queued,
            max_pending: status.max_pending,
            closed: status.closed,
            classes,
        }
    }
}

impl RequestsView {
    fn of(total: u64, requests: &[LiveRequest]) -> Self {
        let mut phases: BTreeMap<_, _> = RequestPhase::ALL.iter().map(|phase| (phase.as_str(), 0)).collect();
        for request in requests {
            *phases.entry(request.standing.phase.as_str()).or_default() += 1;
        }
        let (stalled, others): (Vec<_>, Vec<_>) =
            requests.iter().partition(|request| request.standing.phase == RequestPhase::Stalled);
        let rows = stalled.into_iter().chain(others).take(LISTED).map(RequestView::of).collect();
        Self { total, phases, rows }
    }
}

impl RequestView {
    fn of(request: &LiveRequest) -> Self {
        Self {
            id: request.began.id.to_string(),
            age_ms: milliseconds(request.age),
            phase: request.standing.phase,
            wait: request.standing.wait,
            model: request.began.model.clone(),
            candidate: request.standing.candidate.clone(),
            class: request.began.class,
            attempt: request.standing.attempt,
        }
    }
}

impl ChartsView {
    fn of(curves: Curves) -> Self {
        let Curves { now, all, candidates, models } = curves;
        let named = |kind: &'static str| move |curve: Curve| (format!("{kind}:{}", curve.name), curve);
        let scopes = [("all".to_owned(), all)].into_iter();
        let scopes = scopes.chain(models.into_iter().map(named("model")));
        Self { now, scopes: scopes.chain(candidates.into_iter().map(named("candidate"))).collect() }
    }
}

fn milliseconds(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The wall clock, in milliseconds of the epoch.
pub(super) fn epoch_milliseconds(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, milliseconds)
}
