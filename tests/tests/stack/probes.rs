use std::time::Duration;

use stanchion::{
    circuit::{CircuitPolicy, CircuitRegistry},
    core::{Candidate, Dialect, RequestClass},
    probe::{Health, HealthCode, Probe},
};
use stanchion_faults::scenario::{Before, End, Script, Step};
use stanchion_tests::{
    provider::Provider,
    replies::{done, ending, finish, json, ok, refusal, role, secs, stream, text},
    stack::{Stack, candidate},
};

async fn ask(stack: &Stack, provider: &Provider) -> Health {
    let first = stack.candidates().remove(0);
    Probe::new().ask(stack.service(provider.clone()).into_inner(), first.into()).await
}

#[tokio::test(start_paused = true)]
async fn the_question_is_short_and_cold_whatever_the_candidate_sets() {
    for (dialect, short, cold) in [
        (Dialect::OpenAiChat, r#""max_tokens":8"#, r#""temperature":0"#),
        (Dialect::AnthropicMessages, r#""max_tokens":8"#, r#""temperature":0"#),
        (Dialect::GeminiGenerateContent, r#""maxOutputTokens":8"#, r#""temperature":0"#),
        (Dialect::Ollama, r#""num_predict":8"#, r#""temperature":0"#),
    ] {
        let own = |candidate: Candidate| candidate.with_temperature(1.5).with_max_output_tokens(4_000);
        let plain = candidate(dialect, "a", "http://a.test");
        for candidate in [plain.clone(), own(plain)] {
            let provider = Provider::new([json(503, "{}")]);
            ask(&Stack::of(dialect, [candidate]), &provider).await;
            let seen = provider.seen();
            let body = String::from_utf8(seen[0].body.to_vec()).expect("text");
            assert!(body.contains(short) && body.contains(cold), "{dialect}: {body}");
            assert!(!body.contains("1.5") && !body.contains("4000"), "{dialect}: {body}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_is_told_by_codes_and_makes_one_attempt() {
    let secret =
        |status: u16, code: &str| json(status, &format!(r#"{{"error":{{"message":"canary-words","code":"{code}"}}}}"#));
    for (script, code) in [
        (ok(), HealthCode::Ok),
        (secret(401, "invalid_api_key"), HealthCode::Authentication),
        (secret(403, "no"), HealthCode::Permission),
        (refusal(429, "retry-after", "1"), HealthCode::RateLimit),
        (secret(429, "insufficient_quota"), HealthCode::RateLimit),
        (secret(404, "model_not_found"), HealthCode::ModelUnavailable),
        (secret(400, "context_length_exceeded"), HealthCode::ContextLimit),
        (secret(503, "down"), HealthCode::Capacity),
        (secret(500, "down"), HealthCode::Runtime),
        (Script { before: Some(Before::Reset), ..Script::default() }, HealthCode::Network),
        (stream([Step::text("<html>canary-words")]), HealthCode::Runtime),
        (stream([]), HealthCode::Runtime),
        (ending(End::Truncate, [role(), text("canary-words")]), HealthCode::Network),
    ] {
        let provider = Provider::with([("a", vec![script]), ("b", vec![ok()])]);
        let health = ask(&Stack::chat(&provider), &provider).await;
        assert_eq!((health.code, health.ok), (code, code == HealthCode::Ok));
        assert_eq!(provider.order(), ["a"], "{code:?}: no retry, and nobody else");
        let told = format!("{health:?} {}", serde_json::to_string(&health).expect("plain"));
        assert!(!told.contains("canary") && !told.contains("a.test"), "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_that_thinks_first_is_asked_in_its_own_words() {
    let refuses = || json(400, r#"{"error":{"message":"Unsupported parameter","code":"unsupported_parameter"}}"#);
    for (second, code) in [(ok(), HealthCode::Ok), (refuses(), HealthCode::UnsupportedInput)] {
        let provider = Provider::new([refuses(), second]);
        let own = candidate(Dialect::OpenAiChat, "a", "http://a.test").with_max_output_tokens(4_000);
        let health = ask(&Stack::of(Dialect::OpenAiChat, [own]), &provider).await;
        assert_eq!((health.code, provider.attempts()), (code, 2));
        let body = String::from_utf8(provider.seen()[1].body.to_vec()).expect("text");
        assert!(body.contains(r#""max_completion_tokens":8"#), "{body}");
        assert!(!body.contains("max_tokens") && !body.contains("temperature") && !body.contains("4000"), "{body}");
    }
    // The candidate's own temperature is that of its requests.
    let provider = Provider::new([refuses(), refuses()]);
    let own = candidate(Dialect::OpenAiChat, "a", "http://a.test").with_temperature(1.5);
    assert_eq!(ask(&Stack::of(Dialect::OpenAiChat, [own]), &provider).await.code, HealthCode::UnsupportedInput);
    assert!(String::from_utf8_lossy(&provider.seen()[1].body).contains(r#""temperature": 1.5"#));
    // Other dialects have no other words.
    let provider =
        Provider::new([json(400, r#"{"type":"error","error":{"type":"invalid_request_error","message":"no"}}"#)]);
    let own = candidate(Dialect::AnthropicMessages, "a", "http://a.test");
    assert_eq!(ask(&Stack::of(Dialect::AnthropicMessages, [own]), &provider).await.code, HealthCode::UnsupportedInput);
    assert_eq!(provider.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_probe_whose_turn_does_not_come_says_nothing_of_the_provider() {
    let provider = Provider::new([ok()]);
    let stack = Stack::chat(&provider).concurrency(1);
    let place = stack.queue().handle(&stack.candidates().remove(0).into());
    let taken = place.admit(Some("thief"), RequestClass::Foreground, 0).await;
    let health = ask(&stack, &provider).await;
    assert_eq!((health.code, health.latency, provider.attempts()), (HealthCode::Capacity, Probe::LIMIT, 0));
    // Once it has been let in, a silence is the provider's.
    let provider = Provider::new([Script { before: Some(Before::Hang), ..Script::default() }]);
    let leaves = async {
        tokio::time::sleep(secs(5)).await;
        drop(taken);
    };
    let (health, ()) = tokio::join!(ask(&stack, &provider), leaves);
    assert_eq!((health.code, health.latency), (HealthCode::Timeout, Probe::LIMIT));
}

#[tokio::test(start_paused = true)]
async fn a_silence_is_a_timeout_and_leaves_nothing_behind() {
    for script in [
        Script { before: Some(Before::Hang), ..Script::default() },
        ending(End::Hang, [role()]),
        ending(End::Hang, [role(), text("a")]),
    ] {
        let provider = Provider::new([script]);
        let health = ask(&Stack::chat(&provider), &provider).await;
        assert_eq!((health.code, health.latency), (HealthCode::Timeout, Probe::LIMIT));
        assert_eq!(provider.in_flight(), 0);
    }
    // Any sign of a model is an answer.
    let provider = Provider::new([stream([role(), finish("length"), done()])]);
    assert!(ask(&Stack::chat(&provider), &provider).await.ok);
}

#[tokio::test(start_paused = true)]
async fn a_probe_heeds_the_circuit_and_waits_its_turn_as_housekeeping() {
    let registry = CircuitRegistry::new();
    let policy = CircuitPolicy::builder().consecutive(1).build().unwrap();
    let provider = Provider::new([json(503, "{}"), ok()]);
    let stack = Stack::chat(&provider).circuit(policy).registry(&registry);
    // A probe's failure counts like any other's, and the next finds the circuit open.
    assert_eq!(ask(&stack, &provider).await.code, HealthCode::Capacity);
    assert_eq!((ask(&stack, &provider).await.code, provider.attempts()), (HealthCode::Capacity, 1));
    tokio::time::sleep(secs(10)).await;
    assert!(ask(&stack, &provider).await.ok);

    let provider = Provider::new([ok()]);
    let stack = Stack::chat(&provider).concurrency(1);
    let place = stack.queue().handle(&stack.candidates().remove(0).into());
    let taken = place.admit(Some("thief"), RequestClass::Foreground, 0).await;
    let leaves = async {
        tokio::time::sleep(secs(5)).await;
        let queue = stack.queue().scheduler().status();
        drop(taken);
        (queue.queued, queue.in_flight)
    };
    let (health, queue) = tokio::join!(ask(&stack, &provider), leaves);
    assert_eq!((queue, health.ok, health.latency), ((1, 1), true, Duration::from_secs(5)));
}
