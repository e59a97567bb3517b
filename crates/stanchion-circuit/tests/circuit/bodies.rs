//! When a reply is a success, and what its body may still come to.

use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt;
use stanchion_circuit::{CircuitBody, CircuitPolicy, CircuitPolicyBuilder, CircuitState, LateFailure, SuccessOn};
use stanchion_core::{Ending, Failure, FailureKind, FinishReason, Phase, StreamRecord, StreamRecorder};
use stanchion_testkit::{Events, ScriptedBody, Step, request_in};
use tower::{Layer, ServiceExt, service_fn};

use super::{Req, layer, ms, overloaded, pass, touchy};

type Body = CircuitBody<ScriptedBody>;

/// One circuit, a probe of which is due.
struct Stage {
    layer: stanchion_circuit::CircuitLayer,
    events: Events,
}

impl Stage {
    async fn new(policy: CircuitPolicyBuilder) -> Self {
        let stage = Self { layer: layer(policy), events: Events::new() };
        let failed = stage.call(Err(overloaded())).await;
        assert!(failed.is_err_and(|failure| failure.circuit().is_some()));
        pass(10_000).await;
        stage
    }

    async fn call(&self, reply: Result<Response<ScriptedBody>, Failure>) -> Result<Response<Body>, Failure> {
        let reply = std::sync::Mutex::new(Some(reply));
        let provider = service_fn(|_: Req| std::future::ready(reply.lock().unwrap().take().expect("one call")));
        self.layer.layer(provider).oneshot(request_in(self.events.context())).await
    }

    async fn body(&self, body: ScriptedBody) -> Body {
        self.call(Ok(Response::new(body))).await.unwrap().into_body()
    }

    /// The same with a record, which the test writes.
    async fn recorded(&self, body: ScriptedBody) -> (Body, StreamRecorder) {
        let (record, recorder) = StreamRecord::new();
        let mut response = Response::new(body);
        response.extensions_mut().insert(record);
        (self.call(Ok(response)).await.unwrap().into_body(), recorder)
    }

    fn state(&self) -> CircuitState {
        self.layer.registry().status()[0].state
    }

    fn counts(&self) -> (u32, u32) {
        let status = &self.layer.registry().status()[0];
        (status.failure_count, status.sample_count)
    }
}

async fn data(body: &mut Body) -> Bytes {
    body.frame().await.unwrap().unwrap().into_data().unwrap()
}

#[tokio::test(start_paused = true)]
async fn without_a_record_the_first_bytes_are_the_success() {
    let stage = Stage::new(touchy()).await;
    let mut body = stage.body(ScriptedBody::frames(["", "a", "b"]).hides_end()).await;
    assert_eq!(stage.state(), CircuitState::HalfOpen);
    data(&mut body).await;
    assert_eq!(stage.state(), CircuitState::HalfOpen);
    data(&mut body).await;
    assert_eq!(stage.state(), CircuitState::Closed);
    assert_eq!(stage.events.lines(), ["C.opened~10000(1/1)", "C.probe", "C.closed"]);
}

#[tokio::test(start_paused = true)]
async fn with_a_record_the_first_output_is() {
    let stage = Stage::new(touchy()).await;
    let (mut body, mut recorder) = stage.recorded(ScriptedBody::frames(["ping", "text", "more"])).await;
    data(&mut body).await;
    assert_eq!(stage.state(), CircuitState::HalfOpen);
    recorder.output();
    data(&mut body).await;
    assert_eq!(stage.state(), CircuitState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_ends_well_without_output_is_an_answer() {
    for (body, frames) in [
        (ScriptedBody::new([]), 0),
        (ScriptedBody::frames(["ping"]), 1),
        (ScriptedBody::frames(["ping"]).hides_end(), 2),
    ] {
        let stage = Stage::new(touchy()).await;
        let (mut body, _recorder) = stage.recorded(body).await;
        for _ in 0..frames {
            body.frame().await;
        }
        assert_eq!(stage.state(), CircuitState::Closed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_fails_before_output_is_judged_by_the_table() {
    for (kind, state, opens) in [
        (FailureKind::Transport, CircuitState::Open, true),
        (FailureKind::Truncated, CircuitState::Open, true),
        (FailureKind::IdleTimeout, CircuitState::HalfOpen, false),
        (FailureKind::TotalTimeout, CircuitState::HalfOpen, false),
        (FailureKind::EventTooLarge, CircuitState::HalfOpen, false),
    ] {
        let stage = Stage::new(touchy()).await;
        let script = ScriptedBody::new([Step::Data("ping".into()), Step::Error(kind)]);
        let (mut body, _recorder) = stage.recorded(script).await;
        data(&mut body).await;
        let failure = body.frame().await.unwrap().unwrap_err();
        assert_eq!((failure.kind(), failure.phase()), (kind, Phase::AfterOutput), "it is handed on as it came");
        assert_eq!((stage.state(), failure.circuit().is_some()), (state, opens), "{kind:?}");
        assert!(body.frame().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_body_teaches_nothing_before_output() {
    for frames in 0..2 {
        let stage = Stage::new(touchy()).await;
        let (mut body, _recorder) = stage.recorded(ScriptedBody::frames(["ping", "text"])).await;
        for _ in 0..frames {
            data(&mut body).await;
        }
        assert_eq!(stage.state(), CircuitState::HalfOpen);
        drop(body);
        // The next is the probe at once.
        drop(stage.body(ScriptedBody::frames(["a"])).await);
        assert_eq!(stage.events.lines()[1..], ["C.probe", "C.probe"]);
    }
}

/// Makes the circuit a closed one, without a sample.
async fn closed(policy: CircuitPolicyBuilder) -> Stage {
    let stage = Stage::new(policy).await;
    stage.layer.registry().reset("primary/gpt-x");
    stage
}

#[tokio::test(start_paused = true)]
async fn a_failure_after_output_changes_nothing() {
    let stage = closed(touchy()).await;
    for _ in 0..5 {
        let script = ScriptedBody::frames(["text"]).then(Step::Error(FailureKind::Transport));
        let (mut body, mut recorder) = stage.recorded(script).await;
        recorder.output();
        data(&mut body).await;
        let failure = body.frame().await.unwrap().unwrap_err();
        assert!(failure.circuit().is_none());
    }
    assert_eq!((stage.state(), stage.counts()), (CircuitState::Closed, (0, 5)));
}

#[tokio::test(start_paused = true)]
async fn a_failure_after_output_may_count() {
    let stage = closed(touchy().late_failure(LateFailure::Count)).await;
    // What the table leaves alone is left alone here, too.
    for kind in [FailureKind::IdleTimeout, FailureKind::Cancelled] {
        let (mut body, mut recorder) = stage.recorded(ScriptedBody::frames(["text"]).then(Step::Error(kind))).await;
        recorder.output();
        data(&mut body).await;
        body.frame().await.unwrap().unwrap_err();
    }
    assert_eq!(stage.counts(), (0, 2));
    let script = ScriptedBody::frames(["text"]).then(Step::Error(FailureKind::Transport));
    let (mut body, mut recorder) = stage.recorded(script).await;
    recorder.output();
    data(&mut body).await;
    assert_eq!(stage.counts(), (0, 3));
    let failure = body.frame().await.unwrap().unwrap_err();
    assert_eq!((failure.phase(), failure.circuit().is_some()), (Phase::AfterOutput, true));
    assert_eq!((stage.state(), stage.counts()), (CircuitState::Open, (1, 4)));

    // A probe closes the circuit with its output, and may open it again with its end.
    pass(10_000).await;
    let script = ScriptedBody::frames(["text"]).then(Step::Error(FailureKind::Transport));
    let mut body = stage.body(script).await;
    data(&mut body).await;
    assert_eq!(stage.state(), CircuitState::Closed);
    body.frame().await.unwrap().unwrap_err();
    assert_eq!(stage.state(), CircuitState::Open);
}

#[tokio::test(start_paused = true)]
async fn an_error_in_the_stream_after_output_is_a_late_failure() {
    let stage = closed(touchy().late_failure(LateFailure::Count)).await;
    let (mut body, mut recorder) = stage.recorded(ScriptedBody::frames(["text", "error", "rest"])).await;
    recorder.output();
    data(&mut body).await;
    recorder.error(overloaded());
    data(&mut body).await;
    assert_eq!((stage.state(), stage.counts()), (CircuitState::Open, (1, 2)));
    data(&mut body).await;
    assert_eq!(stage.counts(), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn replies_that_break_off_degrade_a_candidate_of_a_chain() {
    let stage = Stage { layer: layer(CircuitPolicy::chain()), events: Events::new() };
    let broken = || ScriptedBody::frames(["text"]).then(Step::Error(FailureKind::MalformedReply));
    // A whole reply between them: no three in a row.
    for body in [broken(), broken(), ScriptedBody::frames(["text"]), broken(), broken()] {
        let mut body = stage.body(body).await;
        while body.frame().await.is_some_and(|frame| frame.is_ok()) {}
        assert_eq!(stage.state(), CircuitState::Closed);
    }
    let mut body = stage.body(broken()).await;
    data(&mut body).await;
    let failure = body.frame().await.unwrap().unwrap_err();
    assert_eq!((failure.phase(), stage.state()), (Phase::AfterOutput, CircuitState::Open));
}

#[tokio::test(start_paused = true)]
async fn the_end_may_be_the_success() {
    let stage = Stage::new(touchy().success_on(SuccessOn::End)).await;
    let (mut body, mut recorder) = stage.recorded(ScriptedBody::frames(["text", "end"])).await;
    recorder.output();
    data(&mut body).await;
    assert_eq!(stage.state(), CircuitState::HalfOpen);
    data(&mut body).await;
    assert_eq!(stage.state(), CircuitState::Closed);
    // One that breaks off is no success, and no failure either as long as late failures do not count.
    let script = ScriptedBody::frames(["text"]).then(Step::Error(FailureKind::Transport));
    let mut body = stage.body(script).await;
    data(&mut body).await;
    body.frame().await.unwrap().unwrap_err();
    assert_eq!((stage.state(), stage.counts()), (CircuitState::Closed, (0, 0)));
}

#[tokio::test(start_paused = true)]
async fn where_the_end_is_the_success_a_late_failure_may_be_the_failure() {
    let policy = touchy().success_on(SuccessOn::End).late_failure(LateFailure::Count);
    let stage = Stage::new(policy).await;
    let script = ScriptedBody::frames(["text"]).then(Step::Error(FailureKind::Transport));
    let mut body = stage.body(script).await;
    data(&mut body).await;
    body.frame().await.unwrap().unwrap_err();
    assert_eq!(stage.state(), CircuitState::Open);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_after_the_finish_has_its_answer() {
    let stage = Stage::new(touchy().success_on(SuccessOn::End)).await;
    let (mut body, mut recorder) = stage.recorded(ScriptedBody::frames(["text", "usage"]).hides_end()).await;
    recorder.output();
    data(&mut body).await;
    recorder.finish(FinishReason::Stop);
    drop(body);
    assert_eq!(stage.state(), CircuitState::Closed);
    // One that leaves in the middle has none.
    let (mut body, mut recorder) = stage.recorded(ScriptedBody::frames(["text", "usage"])).await;
    recorder.output();
    data(&mut body).await;
    drop(body);
    recorder.end(Ending::Cancelled);
    assert_eq!(stage.counts(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn slowness_is_measured_to_the_first_output() {
    let policy = || CircuitPolicy::builder().window(ms(0)).consecutive(1).slow_call(ms(1_000));
    for (success_on, wait_before, wait_after, state) in [
        (SuccessOn::FirstOutput, 1_001, 0, CircuitState::Open),
        (SuccessOn::FirstOutput, 1_000, 5_000, CircuitState::Closed),
        (SuccessOn::End, 1_001, 0, CircuitState::Open),
        (SuccessOn::End, 1_000, 5_000, CircuitState::Closed),
    ] {
        let stage = Stage::new(policy().success_on(success_on)).await;
        let script =
            [Step::Delay(ms(wait_before)), Step::Data("a".into()), Step::Delay(ms(wait_after)), Step::Data("b".into())];
        let mut body = stage.body(ScriptedBody::new(script)).await;
        data(&mut body).await;
        data(&mut body).await;
        assert_eq!(stage.state(), state, "{success_on:?} {wait_before}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_reply_that_nobody_read_is_no_success() {
    let stage = Stage::new(touchy()).await;
    let mut response = Response::new(ScriptedBody::frames(["overloaded"]));
    *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
    let mut body = stage.call(Ok(response)).await.unwrap().into_body();
    data(&mut body).await;
    assert_eq!(stage.state(), CircuitState::HalfOpen);
    assert_eq!(stage.events.lines(), ["C.opened~10000(1/1)", "C.probe"]);
}
