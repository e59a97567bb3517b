use super::*;
use FailureKind::{InvalidRequest, QuotaExhausted, RateLimited};

const SECONDS: Option<Duration> = Some(Duration::from_secs(20));
const HOURS: Option<Duration> = Some(Duration::from_secs(10 * 3_600));

#[test]
fn codes_of_an_empty_account_are_terminal_under_every_status() {
    let codes = [
        "insufficient_quota",
        "credit_balance_exhausted",
        "billing_hard_limit_reached",
        "billing_error",
        "billing_not_active",
        "usage_limit_reached",
        "usage_not_included",
        "enforced_spend_limit_reached",
        "exceeded_current_quota_error",
        "payment_required",
        "1113",
        "1304",
        "1308",
        "1309",
        "1310",
        "Arrearage",
        "AllocationQuota.FreeTierOnly",
        "ServiceQuotaExceededException",
    ];
    for code in codes {
        for number in [200, 400, 403, 429, 500, 503] {
            assert_eq!(classify(status(number), &[code], "rate limit", SECONDS), QuotaExhausted, "{code}");
        }
    }
}

#[test]
fn words_of_an_empty_account_are_terminal_under_every_status() {
    let texts = [
        "You exceeded your current quota, please check your plan and billing details.",
        "Your credit balance is too low to access the Anthropic API.",
        "Insufficient Balance",
        "This request requires more credits, or fewer max_tokens.",
        "You have reached your specified API usage limits. You will regain access on 2026-12-01",
        "You have reached your monthly usage limit",
        "out of credit",
        "Monthly usage limit reached",
        "insufficient_quota",
    ];
    for text in texts {
        for number in [200, 400, 402, 403, 429, 500] {
            assert_eq!(classify(status(number), &[], text, None), QuotaExhausted, "{number} {text}");
        }
    }
}

#[test]
fn the_word_quota_alone_decides_nothing() {
    let rates: &[(u16, &[&str], &str, Option<Duration>)] = &[
        (429, &[], "Quota exceeded.", SECONDS),
        (429, &["429"], "token quota for this tier used up, retry after 2 seconds", None),
        (429, &["429"], "Quota exceeded, retry after 2 seconds", None),
        (
            429,
            &["429"],
            "Requests have exceeded call rate limit of your current OpenAI S0 pricing tier. Quota exceeded.",
            None,
        ),
        (429, &["RateLimitReached"], "Quota exceeded. Please increase your quota.", None),
        (429, &["too_many_requests"], "Your requests have exceeded the quota", None),
        (429, &["quota_exceeded"], "no", SECONDS),
        (429, &["Throttling.AllocationQuota"], "Allocated quota exceeded, please increase your quota limit.", None),
        (429, &["Throttling.RateQuota"], "Requests rate limit exceeded, quota exceeded", None),
        // An address says nothing about the account.
        (429, &["rate_limit_exceeded"], "Rate limit reached. See https://platform.example/account/billing", None),
        (429, &[], "Slow down. See https://platform.example/billing", None),
    ];
    for (number, codes, text, wait) in rates {
        assert_eq!(classify(status(*number), codes, text, *wait), RateLimited, "{text}");
    }
    assert_eq!(classify(status(429), &[], "Quota exceeded.", None), QuotaExhausted);
    assert_eq!(classify(status(429), &[], "Quota exceeded.", HOURS), QuotaExhausted);
    assert_eq!(classify(status(429), &["quota_exceeded"], "no", None), QuotaExhausted);
    assert_eq!(classify(status(403), &[], "please enable billing", None), QuotaExhausted);
    assert_eq!(classify(status(400), &[], "Invalid value: 'billing department: quota exceeded'", None), InvalidRequest);
    assert_eq!(classify(status(503), &[], "the billing service is unavailable", None), FailureKind::Overloaded);
}

const QUOTA: &str = "You exceeded your current quota, please check your plan and billing details.";

fn google(quota: &str, details: &str, words: &str) -> String {
    format!(
        r#"{{"error":{{"code":429,"message":"{QUOTA} {words}",
        "status":"RESOURCE_EXHAUSTED","details":[{{"@type":"type.googleapis.com/google.rpc.QuotaFailure",
        "violations":[{{"quotaId":"{quota}"}}]}}{details}]}}}}"#
    )
}

#[test]
fn google_tells_a_minute_from_a_day() {
    const RETRY: &str = r#",{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.07s"}"#;
    let minute = json(429, &google("GenerateRequestsPerMinutePerProjectPerModel-FreeTier", RETRY, ""));
    assert_eq!(minute.kind(), RateLimited);
    assert_eq!(minute.hint().map(RetryHint::delay), Some(Duration::from_millis(34_070)));
    assert_eq!(minute.code(), Some("RESOURCE_EXHAUSTED"));

    let day = google("GenerateRequestsPerDayPerProjectPerModel-FreeTier", RETRY, "");
    assert_eq!(json(429, &day).kind(), QuotaExhausted);
    assert_eq!(json(429, &format!("[{day}]")).kind(), QuotaExhausted);
    assert_eq!(frame_kind(&day), Some(QuotaExhausted));
    assert_eq!(json(429, &google("", RETRY, "* Quota exceeded for metric: m, limit: 0")).kind(), QuotaExhausted);
    assert_eq!(json(429, &google("", RETRY, "* Quota exceeded for metric: m, limit: 05")).kind(), RateLimited);
    assert_eq!(json(429, &google("", "", "Please retry in 10h17m5.72s.")).kind(), QuotaExhausted);
    assert_eq!(json(429, &google("", "", "Please retry in 34.07s.")).kind(), RateLimited);
    assert_eq!(json(429, &google("", "", "")).kind(), QuotaExhausted);
    // Vertex without details, and through an interface that drops them.
    let vertex = r#"{"error":{"code":429,"message":"Resource exhausted. Please try again later.",
        "status":"RESOURCE_EXHAUSTED"}}"#;
    assert_eq!(json(429, vertex).kind(), RateLimited);
    let bare = r#"{"error":{"message":
        "You exceeded your current quota. * Quota exceeded for metric: m, limit: 15. Please retry in 34s."}}"#;
    assert_eq!(json(429, bare).kind(), RateLimited);
}

#[test]
fn an_empty_wallet_is_known_by_code_or_type() {
    let bodies = [
        (
            429,
            r#"{"error":{"message":"out of credit","type":"insufficient_quota","param":null,
                "code":"insufficient_quota"}}"#,
        ),
        (429, r#"{"error":{"message":"no","type":"insufficient_quota","code":"credit_balance_exhausted"}}"#),
        (429, r#"{"error":{"message":"no","type":"insufficient_quota","code":null}}"#),
        (429, r#"{"error":{"type":"exceeded_current_quota_error","message":"no"}}"#),
        (429, r#"{"error":{"code":"1113","message":"no"}}"#),
        (429, r#"{"error":{"code":1113,"message":"no"}}"#),
        (
            429,
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"no",
                "details":{"error_code":"enforced_spend_limit_reached"}}}"#,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error",
                "message":"Your credit balance is too low to access the Anthropic API."}}"#,
        ),
        (400, r#"{"code":"Arrearage","message":"Access denied","request_id":"r"}"#),
        (402, r#"{"error":{"code":402,"message":"Payment needed","metadata":{}}}"#),
        (402, ""),
        (500, r#"{"error":{"message":"relay: insufficient_quota","type":"upstream_error"}}"#),
    ];
    for (code, body) in bodies {
        assert_eq!(json(code, body).kind(), QuotaExhausted, "{body}");
    }
    let passing = r#"{"error":{"code":402,"message":"requires more credits",
        "metadata":{"limit_source":"openrouter_in_flight_budget"}}}"#;
    let passing = reply(402, &[("content-type", JSON), ("retry-after", "3")], passing.as_bytes());
    let failure = classify_reply(Dialect::OpenAiChat, passing, now());
    assert_eq!((failure.kind(), failure.hint().map(|hint| hint.delay().as_secs())), (RateLimited, Some(3)));
}

#[test]
fn azure_speaks_of_quota_and_means_a_rate() {
    let azure = br#"{"error":{"code":"429","message":"token quota for this tier used up, retry after 2 seconds"}}"#;
    let failure = classify_reply(
        Dialect::OpenAiChat,
        reply(429, &[("content-type", JSON), ("retry-after", "2"), ("apim-request-id", "a-1")], azure),
        now(),
    );
    assert_eq!(failure.kind(), RateLimited);
    assert_eq!(failure.hint().map(RetryHint::delay), Some(Duration::from_secs(2)));
    assert_eq!((failure.code(), failure.request_id()), (Some("429"), Some("a-1")));
}
