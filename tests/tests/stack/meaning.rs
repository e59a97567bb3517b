use bytes::Bytes;
use serde_json::json;
use stanchion::core::{CircuitOutcome, Dialect, Disposition, DispositionRules, Failure, FailureKind};
use stanchion_faults::scenario::{Script, Step};
use stanchion_tests::{
    provider::Provider,
    replies::{WithHeader, done, event, finish, json as reply, ok, responses, role, stream, text},
    stack::Stack,
};

fn circuit(failure: &Failure) -> CircuitOutcome {
    Disposition::of(failure, &DispositionRules::default()).circuit
}

/// Each of these fails before output: its kind, how often it is asked for with the default policy, and what it says of
/// the provider's health.
#[tokio::test(start_paused = true)]
async fn a_failure_before_output_has_the_meaning_of_its_own_words() {
    use CircuitOutcome::{Failure as Bad, Neutral};
    use FailureKind as K;
    let in_band = |error: serde_json::Value| stream([role(), Step::sse(json!({ "error": error }).to_string())]);
    let cases: Vec<(Script, FailureKind, usize, CircuitOutcome)> = vec![
        // A prompt that does not fit, in every disguise.
        (
            reply(500, r#"{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}"#),
            K::ContextOverflow,
            1,
            Neutral,
        ),
        (reply(400, r#"{"error":{"message":"x","code":"context_length_exceeded"}}"#), K::ContextOverflow, 1, Neutral),
        (
            in_band(
                json!({ "code": 400, "message": "This model's maximum context length is 10 tokens, however you requested 20 tokens" }),
            ),
            K::ContextOverflow,
            1,
            Neutral,
        ),
        (
            reply(429, r#"{"error":{"message":"prompt is too long: 9 tokens > 8 maximum"}}"#),
            K::ContextOverflow,
            1,
            Neutral,
        ),
        // An empty wallet.
        (
            reply(
                429,
                r#"{"error":{"message":"out of credit","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            ),
            K::QuotaExhausted,
            1,
            Neutral,
        ),
        (reply(429, r#"{"error":{"code":"credit_balance_exhausted","message":"x"}}"#), K::QuotaExhausted, 1, Neutral),
        (
            reply(429, r#"{"error":{"type":"exceeded_current_quota_error","message":"x"}}"#),
            K::QuotaExhausted,
            1,
            Neutral,
        ),
        (reply(429, r#"{"error":{"code":"1113","message":"x"}}"#), K::QuotaExhausted, 1, Neutral),
        (reply(402, "{}"), K::QuotaExhausted, 1, Neutral),
        (in_band(json!({ "code": "insufficient_quota", "message": "x" })), K::QuotaExhausted, 1, Neutral),
        // A rate, whatever it calls itself.
        (
            reply(
                429,
                r#"{"error":{"code":"429","message":"token quota for this tier used up, retry after 2 seconds"}}"#,
            )
            .with("retry-after", "2"),
            K::RateLimited,
            3,
            Bad,
        ),
        (reply(429, "{}"), K::RateLimited, 3, Bad),
        // Trouble of the provider's own.
        (reply(500, r#"{"error":{"message":"boom","type":"server_error"}}"#), K::ServerError, 3, Bad),
        (reply(529, r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#), K::Overloaded, 3, Bad),
        (in_band(json!({ "type": "overloaded_error", "message": "busy" })), K::Overloaded, 3, Bad),
        (in_band(json!({ "code": 502, "message": "gone" })), K::ServerError, 3, Bad),
        (reply(599, "odd"), K::ServerError, 3, Bad),
        (reply(502, "<html><body>Bad gateway</body></html>").with("content-type", "text/html"), K::ServerError, 3, Bad),
        (reply(524, "<html>").with("content-type", "text/html"), K::GatewayTimeout, 2, Bad),
        (reply(504, ""), K::GatewayTimeout, 2, Bad),
        // No reply of a model.
        (
            stream([Step::text("<!doctype html><title>Blocked</title>")])
                .with("content-type", "text/html;charset=UTF-8"),
            K::NotModelReply,
            2,
            Bad,
        ),
        (stream([Step::text("<html>")]), K::NotModelReply, 2, Bad),
        // Nothing in it.
        (stream([]), K::EmptyReply, 3, Bad),
        (stream([]).with("content-length", "0"), K::EmptyReply, 3, Bad),
        (stream([Step::text(": ping\n\n")]), K::EmptyReply, 3, Bad),
        (stream([done()]), K::EmptyReply, 3, Bad),
        (stream([role()]), K::Truncated, 3, Bad),
        (stream([role(), done()]), K::Truncated, 3, Bad),
        // The caller's own.
        (reply(400, r#"{"error":{"message":"bad","type":"invalid_request_error"}}"#), K::InvalidRequest, 1, Neutral),
        (
            reply(401, "\u{feff}{\"error\":{\"message\":\"no\",\"code\":\"invalid_api_key\"}}"),
            K::Authentication,
            1,
            Neutral,
        ),
        (reply(400, r#"{"error":{"code":"content_policy_violation","message":"no"}}"#), K::ContentPolicy, 1, Neutral),
        (
            stream([role(), Step::text("{\"error\":{\"code\":\"prohibited_content\",\"message\":\"no\"}}\n")]),
            K::ContentPolicy,
            1,
            Neutral,
        ),
        (
            reply(200, r#"{"code":"invalid_request_error","error":"Argument not supported: foo"}"#),
            K::InvalidRequest,
            1,
            Neutral,
        ),
    ];
    for (script, kind, attempts, health) in cases {
        let told = format!("{} {:?}", script.status, String::from_utf8_lossy(&script.body_bytes()));
        let provider = Provider::new([Script { repeat: true, ..script }]);
        let outcome = Stack::chat(&provider).ask_inner(&provider).await;
        let failure = outcome.failure.expect("a failure");
        assert_eq!((failure.kind(), provider.attempts()), (kind, attempts), "{told}");
        assert_eq!((circuit(&failure), failure.attempts() as usize), (health, attempts), "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn both_forms_of_a_responses_error_have_the_same_meaning() {
    let cases = [
        ("server_error", FailureKind::ServerError, 3),
        ("rate_limit_exceeded", FailureKind::RateLimited, 3),
        ("insufficient_quota", FailureKind::QuotaExhausted, 1),
        ("context_length_exceeded", FailureKind::ContextOverflow, 1),
    ];
    for (code, kind, attempts) in cases {
        let error = json!({ "type": code, "code": code, "message": "no" });
        let flat = event("error", &json!({ "code": code, "message": "no", "param": null, "sequence_number": 1 }));
        let nested = event("error", &json!({ "error": error, "sequence_number": 1 }));
        let failed = event("response.failed", &json!({ "response": { "status": "failed", "error": error } }));
        for form in [flat, nested, failed] {
            let script = stream(responses::start().into_iter().chain([form.clone()]));
            let provider = Provider::new([Script { repeat: true, ..script }]);
            let outcome = Stack::new(Dialect::OpenAiResponses, &provider).ask_inner(&provider).await;
            assert_eq!((outcome.kind(), provider.attempts()), (Some(kind), attempts), "{code} {form:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_after_output_wins_over_all_that_follows_it() {
    let half = || [role(), text("Half")];
    let error = r#"{"message":"engine died","code":500}"#;
    for fault in [
        format!(r#"{{"error":{error},"choices":[]}}"#),
        format!(r#"{{"error":{error},"choices":[{{"index":0,"delta":{{"content":""}},"finish_reason":"error"}}]}}"#),
        format!(r#"{{"error":{error}}}"#),
    ] {
        let frames =
            [Step::sse(fault), finish("stop"), Step::sse(r#"{"choices":[],"usage":{"prompt_tokens":1}}"#), done()];
        let script = stream(half().into_iter().chain(frames));
        let provider = Provider::new([script.clone(), ok()]);
        let outcome = Stack::chat(&provider).ask_inner(&provider).await;
        let record = outcome.record().expect("a record");
        assert_eq!(provider.attempts(), 1);
        assert_eq!(record.error(), Some(FailureKind::ServerError));
        assert_eq!(record.ending(), Some(stanchion::core::Ending::Failed));
        assert!(outcome.bytes().starts_with(&stream(half()).body_bytes()));
        assert!(outcome.body().contains("engine died"), "{}", outcome.body());
    }
}

#[tokio::test(start_paused = true)]
async fn a_fault_that_no_client_would_see_is_told_to_it() {
    for fault in [
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}"#,
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"network_error"}]}"#,
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"insufficient_system_resource"}]}"#,
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop","native_finish_reason":"error"}]}"#,
        r#"{"choices":[],"x_groq":{"error":"over capacity"}}"#,
    ] {
        let provider = Provider::new([stream([role(), text("Half"), Step::sse(fault), done()]), ok()]);
        let outcome = Stack::chat(&provider).ask(&provider).await;
        assert_eq!((outcome.status(), provider.attempts()), (Some(200), 1), "{fault}");
        let last = outcome.body().trim_end().lines().last().unwrap_or_default().to_owned();
        assert!(last.starts_with(r#"data: {"error":{"#), "{fault}: {last}");
        assert!(!outcome.body().contains("[DONE]"), "{fault}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_names_its_status_and_its_type_and_no_decoder() {
    let page = reply(502, "<html><body>Bad gateway</body></html>").with("content-type", "text/html; charset=utf-8");
    let provider = Provider::new([Script { repeat: true, ..page }]);
    let outcome = Stack::chat(&provider).ask(&provider).await;
    let error: serde_json::Value = serde_json::from_slice(&outcome.bytes()).expect("JSON");
    let message = error["error"]["message"].as_str().expect("a message");
    assert_eq!(outcome.status(), Some(502));
    assert!(message.contains("HTTP 502") && message.contains("text/html"), "{message}");
    for word in ["expected", "column", "<html", "Bad gateway"] {
        assert!(!message.contains(word), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn class_and_hint_stand_on_the_failure() {
    let script =
        reply(429, r#"{"error":{"message":"slow down","code":"rate_limit_exceeded"}}"#).with("retry-after", "90");
    let provider = Provider::new([script.with("x-request-id", "req_7")]);
    let failure = Stack::chat(&provider).ask_inner(&provider).await.failure.expect("a failure");
    let hint = failure.hint().expect("a hint");
    assert_eq!((failure.kind(), hint.delay().as_secs()), (FailureKind::RateLimited, 90));
    assert_eq!((failure.code(), failure.request_id()), (Some("rate_limit_exceeded"), Some("req_7")));
    assert_eq!(failure.candidate().map(|name| &**name), Some("a/m"));
}

#[tokio::test(start_paused = true)]
async fn answers_without_text_are_told_apart() {
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":50,"completion_tokens":1000,"completion_tokens_details":{"reasoning_tokens":1000}}}"#;
    for (finish_reason, noted) in
        [("stop", stanchion::core::FinishReason::Stop), ("length", stanchion::core::FinishReason::Length)]
    {
        let script = stream([role(), finish(finish_reason), Step::sse(usage), done()]);
        let provider = Provider::new([script.clone(), ok()]);
        let outcome = Stack::chat(&provider).ask_inner(&provider).await;
        assert_eq!((outcome.kind(), outcome.bytes()), (None, Bytes::from(script.body_bytes())));
        assert_eq!(provider.attempts(), 1);
        let (record, usage) = (outcome.record().expect("a record"), outcome.usage());
        assert_eq!((record.finish(), record.output_started()), (Some(noted), false));
        assert_eq!((usage.input, usage.output, usage.reasoning), (Some(50), Some(1000), Some(1000)));
    }
}

#[tokio::test(start_paused = true)]
async fn usage_after_the_finish_is_read_and_what_is_missing_is_not_zero() {
    let usage = Step::sse(r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3}}"#);
    let late = usage.after(std::time::Duration::from_millis(1900));
    let provider = Provider::new([stream([role(), text("ok"), finish("stop"), late, done()])]);
    let outcome = Stack::chat(&provider).ask_inner(&provider).await;
    assert_eq!((outcome.usage().input, outcome.usage().output), (Some(9), Some(3)));

    let provider = Provider::new([ok()]);
    let outcome = Stack::chat(&provider).ask_inner(&provider).await;
    assert_eq!((outcome.usage().input, outcome.usage().output), (None, None));
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_response_is_an_end_with_usage() {
    let end = responses::end("incomplete", &json!({ "input_tokens": 4, "output_tokens": 7 }));
    let [created, in_progress] = responses::start();
    let script = stream([created, in_progress, responses::text("ok"), end]);
    let provider = Provider::new([script.clone()]);
    let outcome = Stack::new(Dialect::OpenAiResponses, &provider).ask_inner(&provider).await;
    assert_eq!((outcome.kind(), outcome.bytes()), (None, Bytes::from(script.body_bytes())));
    assert_eq!((outcome.usage().input, outcome.usage().output), (Some(4), Some(7)));
    assert_eq!(
        outcome.record().and_then(stanchion::core::StreamRecord::ending),
        Some(stanchion::core::Ending::Complete)
    );
}

#[tokio::test(start_paused = true)]
async fn a_whole_answer_becomes_the_stream_that_was_asked_for() {
    let document = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
    let provider = Provider::new([reply(200, document)]);
    let outcome = Stack::chat(&provider).ask(&provider).await;
    assert_eq!((outcome.status(), provider.attempts()), (Some(200), 1));
    assert_eq!(outcome.header("content-type"), Some("text/event-stream"));
    let body = outcome.body();
    assert!(body.starts_with("data: {") && body.ends_with("data: [DONE]\n\n"), "{body}");
    assert!(body.contains(r#""content":"ok""#) && body.contains(r#""finish_reason":"stop""#), "{body}");
}
