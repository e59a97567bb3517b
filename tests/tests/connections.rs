//! All layers over real connections: what HTTP/2 knows of a stream's fate, and keep-alives that have died.

use std::time::Duration;

use http_body_util::BodyExt;
use stanchion::{
    core::{CircuitOutcome, Dialect, Disposition, DispositionRules, FailureKind, Phase},
    upstream::Transport,
};
use stanchion_faults::{
    http2::{Attempt, Ending, Http2Upstream, LastStream, Reason},
    scenario::{Scenario, Step},
    upstream::Upstream,
};
use stanchion_testkit::Events;
use stanchion_tests::{
    replies::{done, finish, ok, role, text},
    stack::{Outcome, Stack, candidate},
};
use tokio::time::{sleep, timeout};
use tower::ServiceExt;

/// Longer than anything here takes on a busy machine.
const SOON: Duration = Duration::from_secs(20);

fn whole() -> Attempt {
    Attempt::streaming(ok().body)
}

fn half() -> [Step; 2] {
    [role(), text("Half")]
}

fn goaway(last_stream: LastStream, reason: Reason) -> Ending {
    Ending::Goaway { last_stream, reason }
}

fn http2() -> Transport {
    Transport::builder().http2_prior_knowledge(true).build()
}

fn stack(base: &str) -> Stack {
    Stack::of(Dialect::OpenAiChat, [candidate(Dialect::OpenAiChat, "a", base)])
}

async fn provider(attempts: impl IntoIterator<Item = Attempt>) -> Http2Upstream {
    Http2Upstream::start(attempts.into_iter().collect()).await.expect("a provider")
}

/// Asks over a transport; what a client of the edge sees.
async fn ask(stack: &Stack, transport: &Transport) -> Outcome {
    let events = Events::new();
    let asking = Outcome::of(stack.service(transport.clone()), stack.request(events.context()), &events);
    timeout(SOON, asking).await.expect("an end")
}

/// The same, inside the edge.
async fn ask_inner(stack: &Stack, transport: &Transport) -> Outcome {
    let events = Events::new();
    let service = stack.service(transport.clone()).into_inner();
    let asking = Outcome::of(service, stack.request(events.context()), &events);
    timeout(SOON, asking).await.expect("an end")
}

fn scheduled(outcome: &Outcome) -> Vec<&str> {
    outcome.events.iter().map(String::as_str).filter(|event| event.starts_with("R.scheduled")).collect()
}

fn body_of(steps: impl IntoIterator<Item = Step>) -> Vec<u8> {
    steps.into_iter().flat_map(|step| step.bytes().to_vec()).collect()
}

#[tokio::test]
async fn a_stream_that_breaks_after_output_is_told_as_broken_and_not_replayed() {
    for end in [
        Ending::Reset(Reason::INTERNAL_ERROR),
        Ending::Reset(Reason::CANCEL),
        Ending::Reset(Reason::REFUSED_STREAM),
        Ending::Reset(Reason::ENHANCE_YOUR_CALM),
        goaway(LastStream::Cut, Reason::NO_ERROR),
        goaway(LastStream::Cut, Reason::ENHANCE_YOUR_CALM),
        goaway(LastStream::Before, Reason::ENHANCE_YOUR_CALM),
    ] {
        let upstream = provider([Attempt::streaming(half()).ending(end), whole()]).await;
        let outcome = ask_inner(&stack(&upstream.base_url()), &http2()).await;
        let failure = outcome.failure.as_ref().expect("a failure");
        assert_eq!((failure.kind(), failure.phase()), (FailureKind::Transport, Phase::AfterOutput), "{end:?}");
        assert_eq!((outcome.bytes().to_vec(), upstream.requests().len()), (body_of(half()), 1), "{end:?}");
    }
}

#[tokio::test]
async fn the_client_of_a_stream_that_breaks_is_told_in_band() {
    let upstream = provider([Attempt::streaming(half()).ending(Ending::Reset(Reason::INTERNAL_ERROR)), whole()]).await;
    let outcome = ask(&stack(&upstream.base_url()), &http2()).await;
    let body = outcome.body();
    let error = body.strip_prefix(&*String::from_utf8_lossy(&body_of(half()))).expect("what was shown");
    assert_eq!((outcome.status(), outcome.kind()), (Some(200), None));
    assert!(error.starts_with(r#"data: {"error":{"#) && error.ends_with("}\n\n"), "{error}");
    // Not a word of what HTTP/2 calls it.
    assert!(!error.contains("INTERNAL_ERROR"), "{error}");
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_stream_that_breaks_before_output_is_replayed_and_counts_as_a_failure() {
    for first in [
        Attempt::headless(Ending::Reset(Reason::INTERNAL_ERROR)),
        Attempt::headless(Ending::Reset(Reason::CANCEL)),
        Attempt::streaming([role()]).ending(Ending::Reset(Reason::INTERNAL_ERROR)),
        Attempt::streaming([role()]).ending(goaway(LastStream::Cut, Reason::NO_ERROR)),
    ] {
        let told = format!("{first:?}");
        let upstream = provider([first.clone(), whole()]).await;
        let outcome = ask(&stack(&upstream.base_url()), &http2()).await;
        assert_eq!((outcome.status(), outcome.bytes()), (Some(200), ok().body_bytes().into()), "{told}");
        assert_eq!((scheduled(&outcome), upstream.requests().len()), (vec!["R.scheduled#1~500"], 2), "{told}");

        let upstream = provider([first, whole()]).await;
        let failure =
            ask_inner(&stack(&upstream.base_url()).max_retries(0), &http2()).await.failure.expect("a failure");
        let circuit = Disposition::of(&failure, &DispositionRules::default()).circuit;
        assert_eq!((failure.kind(), circuit), (FailureKind::Transport, CircuitOutcome::Failure), "{told}");
    }
}

#[tokio::test]
async fn what_was_not_looked_at_is_replayed_at_once_and_free_of_charge() {
    for first in [
        Attempt::refused(),
        Attempt::headless(goaway(LastStream::Before, Reason::NO_ERROR)),
        Attempt::headless(goaway(LastStream::Before, Reason::INTERNAL_ERROR)),
    ] {
        let told = format!("{first:?}");
        let upstream = provider([first.clone(), whole()]).await;
        let outcome = ask(&stack(&upstream.base_url()), &http2()).await;
        assert_eq!((outcome.status(), outcome.bytes()), (Some(200), ok().body_bytes().into()), "{told}");
        assert_eq!((scheduled(&outcome), upstream.requests().len()), (vec!["R.scheduled#1~0"], 2), "{told}");
        assert_eq!(upstream.requests()[0].body, upstream.requests()[1].body);

        // The one retry that is paid for is still there.
        let down = Attempt::json(http::StatusCode::SERVICE_UNAVAILABLE, "{}");
        let upstream = provider([first.clone(), down, whole()]).await;
        let outcome = ask(&stack(&upstream.base_url()).max_retries(1), &http2()).await;
        assert_eq!(outcome.status(), Some(200), "{told}");
        assert_eq!(scheduled(&outcome), ["R.scheduled#1~0", "R.scheduled#2~500"], "{told}");

        // And no failure is counted for the provider.
        let upstream = provider([first, whole()]).await;
        let failure =
            ask_inner(&stack(&upstream.base_url()).max_retries(0), &http2()).await.failure.expect("a failure");
        let circuit = Disposition::of(&failure, &DispositionRules::default()).circuit;
        assert_eq!((failure.kind(), circuit), (FailureKind::Unprocessed, CircuitOutcome::Neutral), "{told}");
    }
}

#[tokio::test]
async fn what_is_free_is_free_once() {
    let upstream = provider([Attempt::refused(), Attempt::refused(), whole()]).await;
    let outcome = ask(&stack(&upstream.base_url()), &http2()).await;
    assert_eq!((outcome.status(), upstream.requests().len()), (Some(200), 3));
    assert_eq!(scheduled(&outcome), ["R.scheduled#1~0", "R.scheduled#2~500"]);
}

#[tokio::test]
async fn after_a_goodbye_the_next_request_has_a_connection_of_its_own() {
    let goodbyes = [goaway(LastStream::Before, Reason::NO_ERROR), goaway(LastStream::Before, Reason::INTERNAL_ERROR)];
    for end in goodbyes {
        let upstream = provider([Attempt::headless(end), whole()]).await;
        let outcome = ask(&stack(&upstream.base_url()), &http2()).await;
        let connections: Vec<u64> = upstream.requests().iter().map(|request| request.connection).collect();
        assert_eq!((outcome.status(), connections), (Some(200), vec![1, 2]), "{end:?}");
    }
}

#[tokio::test]
async fn a_goodbye_behind_a_whole_answer_takes_nothing_from_it() {
    let last = whole().ending(goaway(LastStream::Finished, Reason::NO_ERROR));
    let upstream = provider([last, whole()]).await;
    let (stack, transport) = (stack(&upstream.base_url()), http2());
    for attempts in 1..=2 {
        let outcome = ask(&stack, &transport).await;
        assert_eq!((outcome.status(), outcome.bytes()), (Some(200), ok().body_bytes().into()));
        assert_eq!((scheduled(&outcome), upstream.requests().len()), (vec![], attempts));
    }
}

#[tokio::test]
async fn a_server_that_asks_for_calm_is_left_alone_for_a_second() {
    for end in [goaway(LastStream::Before, Reason::ENHANCE_YOUR_CALM), Ending::Reset(Reason::ENHANCE_YOUR_CALM)] {
        let upstream = provider([Attempt::headless(end), whole()]).await;
        let outcome = ask(&stack(&upstream.base_url()), &http2()).await;
        assert_eq!((outcome.status(), outcome.bytes()), (Some(200), ok().body_bytes().into()), "{end:?}");
        assert_eq!((scheduled(&outcome), upstream.requests().len()), (vec!["R.scheduled#1~1000"], 2), "{end:?}");
        let requests = upstream.requests();
        assert!(requests[1].at - requests[0].at >= Duration::from_secs(1), "{end:?}");
        if matches!(end, Ending::Goaway { .. }) {
            assert_eq!((requests[0].connection, requests[1].connection), (1, 2));
        }
    }
}

#[tokio::test]
async fn a_stream_that_is_reset_behind_its_finish_has_said_everything() {
    for end in [Reason::NO_ERROR, Reason::CANCEL, Reason::INTERNAL_ERROR] {
        let upstream = provider([whole().ending(Ending::Reset(end)), whole()]).await;
        let outcome = ask(&stack(&upstream.base_url()), &http2()).await;
        assert_eq!((outcome.status(), outcome.bytes()), (Some(200), ok().body_bytes().into()), "{end:?}");
        assert_eq!(upstream.requests().len(), 1, "{end:?}");
    }
    let finished = Attempt::streaming([role(), text("ok"), finish("stop")]);
    let upstream = provider([finished.ending(Ending::Reset(Reason::CANCEL)), whole()]).await;
    let outcome = ask(&stack(&upstream.base_url()), &http2()).await;
    assert_eq!(outcome.bytes().to_vec(), body_of([role(), text("ok"), finish("stop")]));
}

#[tokio::test]
async fn a_client_that_leaves_resets_its_stream_and_keeps_the_connection() {
    let endless = Attempt::streaming([role(), text("x"), text("y").after(Duration::from_secs(3600))]);
    let upstream = provider([endless, whole()]).await;
    let (stack, transport) = (stack(&upstream.base_url()), http2());
    let request = stack.request(Events::new().context());
    let response = stack.service(transport.clone()).oneshot(request).await.expect("a response");
    let mut body = response.into_body();
    assert!(body.frame().await.is_some_and(|frame| frame.is_ok()));
    drop(body);
    let told = async {
        loop {
            if let Some(abandoned) = upstream.requests()[0].abandoned {
                return abandoned;
            }
            sleep(Duration::from_millis(2)).await;
        }
    };
    let abandoned = timeout(SOON, told).await.expect("the provider learns of it");
    assert_eq!(abandoned.reason, Some(Reason::CANCEL));
    let outcome = ask(&stack, &transport).await;
    assert_eq!((outcome.status(), upstream.connections()), (Some(200), 1));
}

/// A provider over HTTP/1.1 with these scripts for candidate `a`, as a scenario file has them.
async fn keep_alive(scripts: &str) -> Upstream {
    let sse = |step: Step| match step.content {
        stanchion_faults::scenario::Content::Sse(data) => format!("{{ sse = '{data}' }}"),
        other => panic!("no event: {other:?}"),
    };
    let answer = format!("{{ body = [{}] }}", [role(), text("ok"), finish("stop"), done()].map(sse).join(", "));
    let text = format!("name = 'keep-alive'\nupstream.a = [{}]", scripts.replace("ANSWER", &answer));
    let scenario = Scenario::parse("k", &text).expect("a scenario");
    Upstream::start(&[scenario]).await.expect("a provider")
}

/// Whether each request came over a connection that an earlier one had used.
fn reused(upstream: &Upstream) -> Vec<bool> {
    upstream.requests("k", "a").iter().map(|request| request.reused).collect()
}

#[tokio::test]
async fn a_kept_connection_that_has_died_costs_no_attempt() {
    for death in ["{ before = 'reset' }", "{ before = 'close' }"] {
        let upstream = keep_alive(&format!("ANSWER, {death}, ANSWER")).await;
        let (stack, transport) = (stack(&upstream.base_url("k", "a")).max_retries(0), Transport::builder().build());
        for _ in 0..2 {
            let outcome = ask(&stack, &transport).await;
            assert_eq!((outcome.status(), outcome.bytes()), (Some(200), ok().body_bytes().into()), "{death}");
            assert_eq!(outcome.header("x-stanchion-attempts"), Some("1"), "{death}");
            assert!(!outcome.events.iter().any(|event| event.contains("failed")), "{:?}", outcome.events);
        }
        assert_eq!(reused(&upstream), [false, true, false], "{death}");
    }
}

#[tokio::test]
async fn a_second_death_is_a_failure_like_any_other() {
    let upstream = keep_alive("ANSWER, { before = 'reset' }, { before = 'reset' }, ANSWER").await;
    let (stack, transport) = (stack(&upstream.base_url("k", "a")), Transport::builder().build());
    assert_eq!(ask(&stack, &transport).await.status(), Some(200));
    let outcome = ask(&stack, &transport).await;
    assert_eq!((outcome.status(), outcome.header("x-stanchion-attempts")), (Some(200), Some("2")));
    assert_eq!((scheduled(&outcome), reused(&upstream).len()), (vec!["R.scheduled#1~500"], 4));
}

#[tokio::test]
async fn a_fresh_connection_that_dies_is_a_failure_like_any_other() {
    let upstream = keep_alive("{ before = 'reset' }, ANSWER").await;
    let (stack, transport) = (stack(&upstream.base_url("k", "a")), Transport::builder().build());
    let failure = ask_inner(&stack.clone().max_retries(0), &transport).await.failure.expect("a failure");
    assert_eq!((failure.kind(), failure.attempts()), (FailureKind::Transport, 1));
    assert_eq!(ask(&stack, &transport).await.status(), Some(200));
    assert_eq!(reused(&upstream), [false, false]);
}

#[tokio::test]
async fn a_kept_connection_that_dies_within_its_answer_was_not_stale() {
    let upstream = keep_alive("ANSWER, { body = [{ text = ': hm' }], end = 'reset' }, ANSWER").await;
    let (stack, transport) = (stack(&upstream.base_url("k", "a")), Transport::builder().build());
    assert_eq!(ask(&stack, &transport).await.status(), Some(200));
    let outcome = ask(&stack, &transport).await;
    assert_eq!((outcome.status(), outcome.header("x-stanchion-attempts")), (Some(200), Some("2")));
    assert_eq!((scheduled(&outcome), reused(&upstream)), (vec!["R.scheduled#1~500"], vec![false, true, false]));
}
