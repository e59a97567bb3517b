//! The golden traces that involve circuits, as far as this layer tells them: a caller outside of it plays the part of
//! retry and waits where the trace waits. `C` is told by the circuit, `W` by whoever waits.

use std::{collections::VecDeque, sync::Arc};

use http::Response;
use http_body_util::Empty;
use stanchion_circuit::{CircuitLayer, CircuitPolicy, CircuitState};
use stanchion_core::{
    Candidate, CircuitPhase, CircuitTurn, Context, Failure, FailureKind, RecoveryBudget, StreamRecord, WaitsForCircuit,
};
use stanchion_testkit::{Events, candidate};
use tokio::time::Instant;
use tower::{Layer, ServiceExt, service_fn};

use super::{Req, failure, layer, ms, overloaded, pass, request_for, status};

struct Stage {
    layer: CircuitLayer,
    candidate: Arc<Candidate>,
    events: Events,
    context: Context,
}

impl Stage {
    fn new() -> Self {
        let events = Events::new();
        let context = events.context();
        Self { layer: layer(CircuitPolicy::builder()), candidate: Arc::new(candidate("primary")), events, context }
    }

    /// Opens the circuit for another's request.
    async fn open(&self) {
        let quiet = Self {
            layer: self.layer.clone(),
            candidate: self.candidate.clone(),
            events: Events::new(),
            context: Context::default(),
        };
        for _ in 0..4 {
            quiet.attempt(Err(overloaded()), None).await.unwrap_err();
        }
    }

    /// One attempt at the candidate, with the answer that it gets if it gets that far.
    async fn attempt(&self, reply: Result<(), Failure>, turn: Option<CircuitTurn>) -> Result<(), Failure> {
        self.attempt_after(0, reply, turn).await
    }

    async fn attempt_after(
        &self,
        wait: u64,
        reply: Result<(), Failure>,
        turn: Option<CircuitTurn>,
    ) -> Result<(), Failure> {
        let mut request = request_for(&self.candidate, self.context.clone());
        if let Some(turn) = turn {
            request.extensions_mut().insert(turn);
        }
        if self.context.recovery().is_some() {
            request.extensions_mut().insert(WaitsForCircuit);
        }
        let reply = std::sync::Mutex::new(VecDeque::from([reply]));
        let provider = service_fn(|_: Req| {
            let reply = reply.lock().unwrap().pop_front().expect("one call");
            async move {
                tokio::time::sleep(ms(wait)).await;
                reply.map(|()| {
                    let (record, mut recorder) = StreamRecord::new();
                    recorder.output();
                    let mut response = Response::new(Empty::<bytes::Bytes>::new());
                    response.extensions_mut().insert(record);
                    response
                })
            }
        });
        self.layer.preflight().layer(self.layer.layer(provider)).oneshot(request).await.map(drop)
    }

    /// Waits for a turn, as one who recovers does, and tells so.
    async fn waits(&self, failure: &Failure) -> CircuitTurn {
        let open = failure.circuit().expect("it tells where to wait");
        let now = Instant::now();
        Context::emit(Some(&self.context), || open.event(CircuitPhase::Waiting, Some(&self.context), now));
        open.gate.clone().turn().await
    }

    fn bounded(mut self) -> Self {
        self.context = self.events.context_builder().recovery(RecoveryBudget::new(ms(600_000))).build();
        self
    }
}

#[tokio::test(start_paused = true)]
async fn trace_5_the_fourth_failure_opens_and_the_next_attempt_is_turned_away() {
    let stage = Stage::new();
    for _ in 0..3 {
        assert!(stage.attempt(Err(overloaded()), None).await.unwrap_err().circuit().is_none());
    }
    assert!(stage.attempt(Err(overloaded()), None).await.unwrap_err().circuit().is_some());
    assert_eq!(stage.attempt(Ok(()), None).await.unwrap_err().kind(), FailureKind::CircuitOpen);
    assert_eq!(stage.events.lines(), ["C.opened~10000(4/4)", "C.rejected~10000"]);
}

#[tokio::test(start_paused = true)]
async fn trace_6_one_who_recovers_waits_for_the_circuit_that_it_opened() {
    let stage = Stage::new().bounded();
    let mut failed = None;
    for _ in 0..4 {
        failed = stage.attempt(Err(overloaded()), None).await.err();
    }
    let turn = stage.waits(&failed.unwrap()).await;
    stage.attempt(Ok(()), Some(turn)).await.unwrap();
    let lines = ["0 C.opened~10000(4/4)", "0 C.waiting~10000", "10000 C.probe", "10000 C.closed"];
    assert_eq!(stage.events.timed_lines(), lines);
}

#[tokio::test(start_paused = true)]
async fn trace_7_a_probe_that_fails_is_waited_for_again() {
    let stage = Stage::new().bounded();
    let mut failed = None;
    for _ in 0..4 {
        failed = stage.attempt(Err(overloaded()), None).await.err();
    }
    let turn = stage.waits(&failed.unwrap()).await;
    let failed = stage.attempt(Err(overloaded()), Some(turn)).await.unwrap_err();
    let turn = stage.waits(&failed).await;
    stage.attempt(Ok(()), Some(turn)).await.unwrap();
    let lines = [
        "0 C.opened~10000(4/4)",
        "0 C.waiting~10000",
        "10000 C.probe",
        "10000 C.reopened~10000(server_error/503)",
        "10000 C.waiting~10000",
        "20000 C.probe",
        "20000 C.closed",
    ];
    assert_eq!(stage.events.timed_lines(), lines);
}

#[tokio::test(start_paused = true)]
async fn trace_12_and_13_an_open_circuit_turns_away_or_is_waited_for() {
    let stage = Stage::new();
    stage.open().await;
    assert_eq!(stage.attempt(Ok(()), None).await.unwrap_err().kind(), FailureKind::CircuitOpen);
    assert_eq!(stage.events.lines(), ["C.rejected~10000"]);

    let stage = Stage::new().bounded();
    stage.open().await;
    let refused = stage.attempt(Ok(()), None).await.unwrap_err();
    let turn = stage.waits(&refused).await;
    stage.attempt(Ok(()), Some(turn)).await.unwrap();
    assert_eq!(stage.events.timed_lines(), ["0 C.waiting~10000", "10000 C.probe", "10000 C.closed"]);
}

#[tokio::test(start_paused = true)]
async fn trace_14_of_two_who_wait_one_probes_and_the_other_is_woken_by_its_end() {
    let stage = Stage::new().bounded();
    stage.open().await;
    let second =
        Stage { events: Events::new(), layer: stage.layer.clone(), candidate: stage.candidate.clone(), ..Stage::new() }
            .rebounded();
    let recover = |stage: Stage| async move {
        let mut refused = stage.attempt(Ok(()), None).await.unwrap_err();
        loop {
            let turn = stage.waits(&refused).await;
            match stage.attempt_after(120, Ok(()), Some(turn)).await {
                Ok(()) => return stage.events.timed_lines(),
                Err(failure) => refused = failure,
            }
        }
    };
    let (first, second) = tokio::join!(recover(stage), recover(second));
    assert_eq!(first, ["0 C.waiting~10000", "10000 C.probe", "10120 C.closed"]);
    // No flood of events while the probe of the other is under way.
    assert_eq!(second, ["0 C.waiting~10000"]);
}

impl Stage {
    /// Bounded, with a new collection of events.
    fn rebounded(mut self) -> Self {
        self.events = Events::new();
        self.bounded()
    }
}

#[tokio::test(start_paused = true)]
async fn trace_15_an_answer_that_blames_the_request_closes() {
    let stage = Stage::new();
    stage.open().await;
    pass(10_000).await;
    let refused = stage.attempt(Err(status(FailureKind::InvalidRequest, 400)), None).await.unwrap_err();
    assert!(refused.circuit().is_none());
    assert_eq!(stage.events.lines(), ["C.probe", "C.closed"]);
    let status = &stage.layer.registry().status()[0];
    assert_eq!((status.state, status.sample_count), (CircuitState::Closed, 0));
}

#[tokio::test(start_paused = true)]
async fn trace_16_a_stream_that_ends_too_early_opens_again() {
    let stage = Stage::new();
    stage.open().await;
    pass(10_000).await;
    let failed = stage.attempt(Err(status(FailureKind::Truncated, 200)), None).await.unwrap_err();
    assert!(failed.circuit().is_some());
    stage.attempt(Ok(()), None).await.unwrap_err();
    assert_eq!(stage.events.lines(), ["C.probe", "C.reopened~10000(stream_closed/200)", "C.rejected~10000"]);
}

#[tokio::test(start_paused = true)]
async fn trace_17_a_probe_that_runs_out_of_time_is_made_again() {
    // With headers and without: a total deadline has learnt nothing.
    for timed_out in [failure(FailureKind::TotalTimeout), status(FailureKind::TotalTimeout, 200)] {
        let stage = Stage::new();
        stage.open().await;
        pass(10_000).await;
        stage.attempt(Err(timed_out), None).await.unwrap_err();
        stage.attempt(Ok(()), None).await.unwrap();
        assert_eq!(stage.events.lines(), ["C.probe", "C.probe", "C.closed"]);
    }
}

#[tokio::test(start_paused = true)]
async fn trace_26_the_last_candidate_is_waited_for_from_where_its_circuit_stands() {
    let stage = Stage::new().bounded();
    stage.open().await;
    pass(1_500).await;
    let refused = stage.attempt(Ok(()), None).await.unwrap_err();
    let turn = stage.waits(&refused).await;
    stage.attempt(Ok(()), Some(turn)).await.unwrap();
    assert_eq!(stage.events.timed_lines(), ["1500 C.waiting~8500", "10000 C.probe", "10000 C.closed"]);
}

#[tokio::test(start_paused = true)]
async fn storms_of_stalls_aborts_and_mistakes_open_nothing() {
    let stage = Stage::new();
    for _ in 0..50 {
        for kind in [FailureKind::IdleTimeout, FailureKind::FirstOutputTimeout, FailureKind::Cancelled] {
            stage.attempt(Err(status(kind, 200)), None).await.unwrap_err();
        }
        stage.attempt(Err(status(FailureKind::InvalidRequest, 400)), None).await.unwrap_err();
    }
    stage.attempt(Ok(()), None).await.unwrap();
    assert!(stage.events.lines().is_empty());
}
