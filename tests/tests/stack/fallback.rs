use stanchion::{
    circuit::{CircuitPolicy, CircuitRegistry},
    core::{Dialect, DispositionRules, FailureKind, FallbackOn, Phase, RequestClass, Secret},
};
use stanchion_faults::scenario::{Before, End, Script};
use stanchion_tests::{
    provider::Provider,
    replies::{done, ending, finish, json, ok, role, secs, stream, text, tool},
    stack::{Stack, candidate},
};

fn pair(first: Script, second: Script) -> Provider {
    let repeat = |script| Script { repeat: true, ..script };
    Provider::with([("p", vec![repeat(first)]), ("s", vec![repeat(second)])])
}

#[tokio::test(start_paused = true)]
async fn after_output_no_other_candidate_continues() {
    for (end, kind) in [
        (End::Truncate, FailureKind::Transport),
        (End::Fin, FailureKind::Truncated),
        (End::Hang, FailureKind::IdleTimeout),
    ] {
        for shown in [text("Dear "), tool("{\"pa")] {
            let provider = pair(ending(end, [role(), shown.clone()]), ok());
            let outcome = Stack::chat(&provider).ask_inner(&provider).await;
            let failure = outcome.failure.as_ref().expect("a failure");
            assert_eq!((failure.kind(), failure.phase()), (kind, Phase::AfterOutput));
            assert_eq!(outcome.bytes(), stream([role(), shown]).body_bytes());
            assert_eq!(provider.order(), ["p"]);
            assert_eq!(failure.candidate().map(|name| &**name), Some("p/m"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn before_output_the_next_candidate_gets_the_same_request_but_for_the_model() {
    for first in [
        ending(End::Truncate, [role()]),
        ending(End::Fin, [role()]),
        ending(End::Hang, [role()]),
        json(503, "{}"),
        json(500, "{}"),
        json(429, "{}"),
        Script { before: Some(Before::Reset), ..Script::default() },
        Script { before: Some(Before::Hang), ..Script::default() },
    ] {
        let told = format!("{first:?}");
        let provider = pair(first, ok());
        let candidates = [
            candidate(Dialect::OpenAiChat, "p", "http://p.test"),
            candidate(Dialect::OpenAiChat, "s", "http://s.test").with_model("another/model"),
        ];
        let outcome = Stack::of(Dialect::OpenAiChat, candidates).max_retries(0).ask(&provider).await;
        assert_eq!((outcome.status(), outcome.bytes()), (Some(200), ok().body_bytes().into()), "{told}");
        assert_eq!(provider.order(), ["p", "s"], "{told}");
        assert_eq!(outcome.header("x-stanchion-candidate"), Some("s/another/model"));
        assert_eq!(outcome.header("x-stanchion-attempts"), Some("2"));
        assert!(outcome.events.contains(&"M.fallback p/m>s/another/model".to_owned()), "{:?}", outcome.events);

        let [first, second] = &provider.seen()[..] else { panic!("two requests") };
        let body = String::from_utf8(first.body.to_vec()).expect("text");
        assert!(body.contains(r#""model":"m""#), "{body}");
        assert_eq!(second.body, body.replace(r#""model":"m""#, r#""model":"another/model""#));
        assert_eq!((&first.headers, first.uri.path()), (&second.headers, second.uri.path()));
    }
}

#[tokio::test(start_paused = true)]
async fn the_answer_of_the_fallback_is_its_own() {
    let usage = stanchion_faults::scenario::Step::sse(
        r#"{"model":"theirs","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}"#,
    );
    let answer = stream([role(), text("ok"), finish("stop"), usage, done()]);
    let provider = pair(json(503, "{}"), answer.clone());
    let outcome = Stack::chat(&provider).ask_inner(&provider).await;
    assert_eq!(outcome.bytes(), answer.body_bytes());
    assert_eq!((outcome.usage().input, outcome.usage().output), (Some(7), Some(2)));
}

#[tokio::test(start_paused = true)]
async fn if_nobody_answers_the_most_telling_failure_does() {
    let silent = || Script { before: Some(Before::Hang), ..Script::default() };
    let page = || stream([stanchion_faults::scenario::Step::text("<html>")]);
    for (first, second, status, candidate) in [
        (json(429, "{}"), silent(), 429, "p/m"),
        (silent(), json(429, "{}"), 429, "s/m"),
        (json(503, "{}"), page(), 503, "p/m"),
        (json(429, "{}"), json(500, "{}"), 500, "s/m"),
        // The caller's own mistake ends the walk, and is the answer.
        (json(503, "{}"), json(400, r#"{"error":{"message":"prefill"}}"#), 400, "s/m"),
    ] {
        let provider = pair(first, second);
        let outcome = Stack::chat(&provider).max_retries(0).limits(3, 3, 6).ask(&provider).await;
        assert_eq!((outcome.status(), outcome.header("x-stanchion-candidate")), (Some(status), Some(candidate)));
        assert_eq!(provider.order(), ["p", "s"]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_terminal_passes_on_only_by_name() {
    let quota = r#"{"error":{"message":"out of credit","code":"insufficient_quota"}}"#;
    let overflow = r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#;
    let policy = r#"{"error":{"message":"refused","code":"content_policy_violation"}}"#;
    for (script, class, status) in [
        (json(429, quota), FallbackOn::Quota, 429),
        (json(400, overflow), FallbackOn::Overflow, 400),
        (json(500, overflow), FallbackOn::Overflow, 400),
        (json(400, policy), FallbackOn::Policy, 400),
        (json(401, "{}"), FallbackOn::Auth, 401),
        (json(404, "{}"), FallbackOn::NotFound, 404),
    ] {
        let provider = pair(script.clone(), ok());
        let outcome = Stack::chat(&provider).ask(&provider).await;
        assert_eq!((outcome.status(), provider.order()), (Some(status), vec!["p".to_owned()]), "{class}");

        let provider = pair(script, ok());
        let rules = DispositionRules::default().with_fallback_on(class);
        let outcome = Stack::chat(&provider).rules(rules).ask(&provider).await;
        assert_eq!(outcome.status(), Some(200), "{class}");
        assert_eq!((provider.order(), outcome.took), (vec!["p".to_owned(), "s".to_owned()], secs(0)), "{class}");
    }
}

/// The events without those of each attempt.
fn trace(outcome: &stanchion_tests::stack::Outcome) -> Vec<&str> {
    outcome.timed_events.iter().map(String::as_str).filter(|line| !line.contains(" P.")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_candidate_whose_circuit_is_open_is_left_for_the_next_with_or_without_a_person_waiting() {
    let registry = CircuitRegistry::new();
    let policy = CircuitPolicy::builder().consecutive(1).build().unwrap();
    let down = pair(json(503, "{}"), ok());
    Stack::chat(&down).circuit(policy.clone()).registry(&registry).max_retries(0).ask_inner(&down).await;
    for budget in [0, 600] {
        let provider = pair(ok(), ok());
        let stack = Stack::chat(&provider).circuit(policy.clone()).registry(&registry).recovery(budget);
        let outcome = stack.ask_inner(&provider).await;
        assert_eq!(trace(&outcome), ["0 C.rejected~10000", "0 M.fallback p/m>s/m"], "{budget}");
        assert_eq!((provider.order(), outcome.took), (vec!["s".to_owned()], secs(0)));
    }
}

#[tokio::test(start_paused = true)]
async fn who_has_queued_for_too_long_goes_on_to_the_next_and_leaves_the_queue() {
    let provider = pair(ok(), ok());
    let stack = Stack::chat(&provider).concurrency(1);
    let first = stack.candidates().remove(0);
    let place = stack.queue().handle(&first.into());
    let taken = place.admit(Some("thief"), RequestClass::Foreground, 0).await;
    let outcome = stack.ask_inner(&provider).await;
    let lines = trace(&outcome);
    assert_eq!(lines[0], "0 A.queued#1/1~0(domain)");
    assert_eq!(
        lines[lines.len() - 2..],
        ["180000 A.rejected~180000(wait_timeout/domain)", "180000 M.fallback p/m>s/m"],
        "{lines:?}"
    );
    assert_eq!((provider.order(), outcome.failure.is_none()), (vec!["s".to_owned()], true));
    drop(taken);
    let queue = stack.queue().scheduler().status();
    assert_eq!((queue.in_flight, queue.queued), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn each_candidate_has_its_own_key_and_queues_by_it() {
    let with_key = |key: &str| {
        let candidate = candidate(Dialect::OpenAiChat, "p", "http://p.test");
        candidate.with_credential(Secret::new(format!("sk-{key}")))
    };
    let provider = Provider::with([("p", vec![json(503, "{}"), ok()])]);
    let stack = Stack::of(Dialect::OpenAiChat, [with_key("one"), with_key("two")]).max_retries(0).concurrency(1);
    // The same provider and address, with another account.
    let outcome = stack.ask_inner(&provider).await;
    let keys: Vec<_> = provider.seen().iter().map(|seen| seen.headers["authorization"].clone()).collect();
    assert_eq!(keys, ["Bearer sk-one", "Bearer sk-two"]);
    assert!(outcome.failure.is_none());

    let provider = Provider::with([("p", vec![ok()])]);
    let taken = stack.queue().handle(&with_key("one").into());
    let taken = taken.admit(Some("thief"), RequestClass::Foreground, 0).await;
    let asking = stack.ask_inner(&provider);
    assert!(tokio::time::timeout(secs(1), asking).await.is_err(), "the first account's place is taken");
    let second = Stack::of(Dialect::OpenAiChat, [with_key("two")]);
    assert!(second.queued_with(&stack).ask_inner(&provider).await.failure.is_none(), "the second's is free");
    drop(taken);
}
