use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use stanchion::core::{Dialect, FailureKind, Phase};
use stanchion_faults::scenario::{Before, End, Script, Step};
use stanchion_tests::{
    provider::{Over, Provider},
    replies::{WithHeader, anthropic, ending, finish, millis, ok, responses, role, secs, stream, text, tool},
    stack::Stack,
};

fn anthropic_stack(provider: &Provider) -> Stack {
    Stack::new(Dialect::AnthropicMessages, provider)
}

/// A message that begins and then only pings, every 15 s, for ten minutes.
fn pings() -> Script {
    ending(End::Hang, [anthropic::start(), anthropic::ping().after(secs(15)).times(40)])
}

/// When the exchange of a request was over, counted from the request, and whether the script had ended.
fn over(provider: &Provider, index: usize) -> (Duration, bool) {
    let seen = &provider.seen()[index];
    let Over { at, played } = seen.over.expect("an exchange that is over");
    (at - seen.at, played)
}

#[tokio::test(start_paused = true)]
async fn pings_are_no_output_and_the_exchange_ends_before_the_next_begins() {
    let provider = Provider::with([("a", vec![pings()]), ("b", vec![anthropic::ok()])]);
    let outcome = anthropic_stack(&provider).limits(300, 300, 0).ask(&provider).await;

    assert_eq!((outcome.status(), outcome.took), (Some(200), secs(300)));
    assert_eq!(outcome.bytes(), anthropic::ok().body_bytes());
    assert_eq!(provider.order(), ["a", "b"]);
    assert_eq!(over(&provider, 0), (secs(300), false));
    assert!(provider.seen()[0].over.unwrap().at <= provider.seen()[1].at);
    assert!(outcome.events.contains(&"P.failed#1(first_output_timeout)".to_owned()), "{:?}", outcome.events);
}

#[tokio::test(start_paused = true)]
async fn where_nobody_else_can_be_asked_silence_is_an_error_after_one_limit() {
    for (script, phase) in [
        (pings(), Phase::BeforeOutput),
        (ending(End::Hang, [anthropic::start()]), Phase::BeforeOutput),
        (
            ending(End::Hang, [anthropic::start(), anthropic::block(0, &json!({ "type": "text", "text": "" }))]),
            Phase::BeforeOutput,
        ),
        (Script { before: Some(Before::Hang), ..Script::default() }, Phase::Head),
    ] {
        let provider = Provider::new([script, anthropic::ok()]);
        let outcome = anthropic_stack(&provider).limits(60, 300, 0).ask_inner(&provider).await;
        let failure = outcome.failure.expect("a failure");
        assert_eq!((failure.kind(), failure.phase()), (FailureKind::FirstOutputTimeout, phase));
        assert_eq!((failure.limit(), failure.attempts()), (Some(secs(60)), 1));
        assert_eq!((outcome.took, provider.attempts(), provider.in_flight()), (secs(60), 1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_limit_for_the_first_output_a_dead_socket_ends_at_the_idle_limit() {
    let provider = Provider::new([ending(End::Hang, [anthropic::start()])]);
    let outcome = anthropic_stack(&provider).limits(0, 60, 0).ask_inner(&provider).await;
    assert_eq!((outcome.kind(), outcome.took), (Some(FailureKind::IdleTimeout), secs(60)));
}

#[tokio::test(start_paused = true)]
async fn a_stall_after_output_is_an_error_that_keeps_what_was_shown() {
    let block = anthropic::block(0, &json!({ "type": "text", "text": "" }));
    let shown = [anthropic::start(), block, anthropic::text(0, "Half")];
    for tail in [vec![], vec![anthropic::ping().after(secs(15)).times(40)]] {
        let provider = Provider::new([ending(End::Hang, shown.iter().cloned().chain(tail)), anthropic::ok()]);
        let outcome = anthropic_stack(&provider).limits(120, 90, 0).ask_inner(&provider).await;
        let failure = outcome.failure.as_ref().expect("a failure");
        assert_eq!((failure.kind(), failure.phase()), (FailureKind::IdleTimeout, Phase::AfterOutput));
        assert!(outcome.bytes().starts_with(&stream(shown.iter().cloned()).body_bytes()));
        assert_eq!((outcome.took, provider.attempts(), provider.in_flight()), (secs(90), 1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_healthy_stream_with_long_pauses_is_not_killed() {
    let block = |index| anthropic::block(index, &json!({ "type": "text", "text": "" }));
    let [finish, end] = anthropic::end();
    let script = stream([
        anthropic::start(),
        block(0),
        anthropic::text(0, "o"),
        anthropic::ping().after(secs(15)).times(6),
        anthropic::text(0, "k"),
        anthropic::stop(0),
        finish,
        end,
    ]);
    let provider = Provider::new([script.clone()]);
    let outcome = anthropic_stack(&provider).limits(60, 120, 0).ask_inner(&provider).await;
    assert_eq!((outcome.kind(), outcome.bytes()), (None, Bytes::from(script.body_bytes())));
    assert_eq!((outcome.took, provider.attempts()), (secs(90), 1));
}

#[tokio::test(start_paused = true)]
async fn a_quarter_of_an_hour_of_tool_arguments_is_progress() {
    let arguments = tool("A").after(secs(45)).times(20);
    let script = stream([role(), tool(""), arguments, finish("tool_calls"), Step::sse("[DONE]")]);
    let provider = Provider::new([script.clone()]);
    let outcome = Stack::chat(&provider).limits(60, 60, 0).ask_inner(&provider).await;
    assert_eq!((outcome.kind(), outcome.bytes()), (None, Bytes::from(script.body_bytes())));
    assert_eq!((outcome.took, provider.attempts()), (secs(900), 1));
}

#[tokio::test(start_paused = true)]
async fn a_total_limit_ends_what_makes_progress_for_ever() {
    let provider = Provider::new([stream([role(), text("x").after(secs(1)).times(10_000)]), ok()]);
    let outcome = Stack::chat(&provider).limits(60, 60, 600).ask_inner(&provider).await;
    let failure = outcome.failure.as_ref().expect("a failure");
    assert_eq!((failure.kind(), failure.phase()), (FailureKind::TotalTimeout, Phase::AfterOutput));
    assert_eq!((outcome.took, provider.attempts(), provider.in_flight()), (secs(600), 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_dead_request_is_let_go_before_the_next_candidate_is_asked() {
    let dead = Script { delay: Some(secs(3600)), ..ok() };
    let provider = Provider::with([("a", vec![dead]), ("b", vec![ok()])]);
    let outcome = Stack::chat(&provider).limits(60, 60, 0).ask(&provider).await;
    assert_eq!((outcome.status(), outcome.bytes()), (Some(200), Bytes::from(ok().body_bytes())));
    assert_eq!((outcome.took, provider.order()), (secs(60), vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(over(&provider, 0), (secs(60), false));
}

#[tokio::test(start_paused = true)]
async fn no_hidden_limit_is_shorter_than_the_one_that_is_set() {
    for (first_output, delay) in [(600, 240), (1500, 1200), (0, 7200)] {
        let provider = Provider::new([Script { delay: Some(secs(delay)), ..ok() }]);
        let outcome = Stack::chat(&provider).limits(first_output, 0, 0).ask(&provider).await;
        assert_eq!((outcome.status(), outcome.took), (Some(200), secs(delay)));
        assert_eq!((outcome.bytes(), provider.attempts()), (Bytes::from(ok().body_bytes()), 1));
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_too_long_in_all_is_made_again() {
    let slow = Script { delay: Some(secs(20)), ..ok() };
    let provider = Provider::new([slow, ok()]);
    let outcome = Stack::chat(&provider).limits(0, 0, 10).ask(&provider).await;
    assert_eq!((outcome.status(), outcome.took, provider.attempts()), (Some(200), millis(10_500), 2));
    assert_eq!(over(&provider, 0), (secs(10), false));
}

#[tokio::test(start_paused = true)]
async fn a_burst_within_the_limit_is_no_fault() {
    let whole = Bytes::from(stream([role(), text("a"), text("b"), finish("stop"), Step::sse("[DONE]")]).body_bytes());
    let provider = Provider::new([stream([Step::raw(whole.clone()).after(secs(40))])]);
    let outcome = Stack::chat(&provider).limits(120, 120, 0).ask(&provider).await;
    assert_eq!((outcome.status(), outcome.bytes()), (Some(200), whole));
    assert_eq!((outcome.took, provider.attempts()), (secs(40), 1));
}

#[tokio::test(start_paused = true)]
async fn every_frame_leaves_the_moment_it_comes_and_nobody_is_told_to_hold_it_back() {
    let steps = [role(), text("a").after(secs(1)), text("b").after(millis(7)), finish("stop").after(secs(1))];
    let script = stream(steps.clone().into_iter().chain([Step::sse("[DONE]").after(millis(1))]));
    let provider = Provider::new([script.with("content-length", "9999")]);
    let outcome = Stack::chat(&provider).ask(&provider).await;

    let times: Vec<_> = outcome.pieces.iter().map(|(at, _)| at.as_millis()).collect();
    // The role is no output: it waits for the first.
    assert_eq!(times, [1000, 1000, 1007, 2007, 2008]);
    assert_eq!(outcome.pieces[0].1, steps[0].bytes());
    assert_eq!(outcome.header("content-type"), Some("text/event-stream"));
    assert_eq!(outcome.header("cache-control"), Some("no-cache, no-transform"));
    assert_eq!(outcome.header("x-accel-buffering"), Some("no"));
    assert_eq!((outcome.header("content-length"), outcome.header("content-encoding")), (None, None));
}

#[tokio::test(start_paused = true)]
async fn silence_before_the_first_output_is_bounded_by_its_own_limit_alone() {
    let [created, in_progress] = responses::start();
    let text = responses::text("ok").after(secs(170));
    let provider = Provider::new([stream([created, in_progress, text, responses::completed()])]);
    let stack = Stack::new(Dialect::OpenAiResponses, &provider).limits(300, 60, 0);
    let outcome = stack.ask(&provider).await;
    assert_eq!((outcome.status(), outcome.took, provider.attempts()), (Some(200), secs(170), 1));
    assert_eq!(
        outcome.bytes(),
        provider_bytes(&stream(responses::start()), &[responses::text("ok"), responses::completed()])
    );
}

fn provider_bytes(first: &Script, rest: &[Step]) -> Bytes {
    let rest = rest.iter().flat_map(Step::bytes);
    first.body_bytes().into_iter().chain(rest).collect()
}

#[tokio::test(start_paused = true)]
async fn minutes_of_thoughts_are_output() {
    let thought = anthropic::delta(0, &json!({ "type": "thinking_delta", "thinking": "hm " }));
    let [finish, end] = anthropic::end();
    let script = stream([
        anthropic::start(),
        anthropic::block(0, &json!({ "type": "thinking", "thinking": "" })),
        thought.after(secs(50)).times(10),
        anthropic::stop(0),
        anthropic::block(1, &json!({ "type": "text", "text": "" })),
        anthropic::text(1, "ok"),
        anthropic::stop(1),
        finish,
        end,
    ]);
    let provider = Provider::new([script.clone()]);
    let outcome = anthropic_stack(&provider).limits(60, 60, 0).ask_inner(&provider).await;
    assert_eq!((outcome.kind(), outcome.bytes()), (None, Bytes::from(script.body_bytes())));
    assert_eq!((outcome.took, provider.attempts()), (secs(500), 1));
}

#[tokio::test(start_paused = true)]
async fn the_borders_of_blocks_are_progress() {
    let [finish, end] = anthropic::end();
    let script = stream([
        anthropic::start(),
        anthropic::block(0, &json!({ "type": "tool_use", "id": "t1", "name": "ls", "input": {} })),
        anthropic::delta(0, &json!({ "type": "input_json_delta", "partial_json": "{}" })),
        anthropic::stop(0).after(secs(100)),
        anthropic::block(1, &json!({ "type": "text", "text": "" })).after(secs(100)),
        anthropic::text(1, "ok"),
        anthropic::stop(1),
        finish,
        end,
    ]);
    let provider = Provider::new([script.clone()]);
    let outcome = anthropic_stack(&provider).limits(120, 120, 0).ask_inner(&provider).await;
    assert_eq!((outcome.kind(), outcome.bytes()), (None, Bytes::from(script.body_bytes())));
    assert_eq!((outcome.took, provider.attempts()), (secs(200), 1));
}

#[tokio::test(start_paused = true)]
async fn silence_after_the_finish_is_an_end_once_the_grace_is_over() {
    let steps = [role(), text("ok"), finish("stop")];
    let provider = Provider::new([ending(End::Hang, steps.clone())]);
    let outcome = Stack::chat(&provider).ask_inner(&provider).await;
    assert_eq!((outcome.kind(), outcome.bytes()), (None, Bytes::from(stream(steps).body_bytes())));
    assert_eq!((outcome.took, provider.in_flight()), (secs(2), 0));
    let record = outcome.record().expect("a record");
    assert_eq!((record.ending(), record.usage().is_empty()), (Some(stanchion::core::Ending::Complete), true));
}
