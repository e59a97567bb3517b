use super::*;
use FailureKind::{ContextOverflow, InvalidRequest, RateLimited, RequestTooLarge};

/// The words of each provider, as its users quote them.
const TEXTS: &[&str] = &[
    "prompt is too long: 213462 tokens > 200000 maximum",
    "Prompt too long; exceeded max context length by 100918 tokens",
    "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length",
    "Input is too long for requested model.",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens",
    "Please reduce the length of the messages or completion.",
    "This endpoint's maximum context length is 8192 tokens. However, you requested about 9000 tokens",
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
    "Requested token count exceeds the model's maximum context length of 131072 tokens",
    "Input length (265330) exceeds model\u{2019}s maximum context length (262144).",
    "Input length 131393 exceeds the maximum allowed input length of 131,040 tokens.",
    "The input (516368 tokens) is longer than the model's context length (262144 tokens).",
    "prompt token count of 140000 exceeds the limit of 128000",
    "the request exceeds the available context size, try increasing it",
    "Context size has been exceeded.",
    "tokens to keep from the initial prompt is greater than the context length",
    "invalid params, context window exceeds limit (2013)",
    "Your request exceeded model token limit: 262144 (requested: 300000)",
    "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    "The prompt has 40,000 tokens, but the configured context size is 32,768 tokens",
    "prompt tokens (330095) exceed model maximum (278528)",
    "Range of input length should be [1, 129024]",
    "prompt exceeds max length",
    "context_length_exceeded",
    "model_context_window_exceeded",
    "litellm.ContextWindowExceededError: litellm.BadRequestError: the prompt is larger than it may be",
];

#[test]
fn the_words_of_every_provider_are_known_under_every_status() {
    for text in TEXTS {
        for code in [200, 400, 413, 422, 429, 500, 502, 503] {
            assert_eq!(classify(status(code), &[], text, None), ContextOverflow, "{code} {text}");
            assert_eq!(
                classify(status(code), &["server_error"], &text.to_uppercase(), None),
                ContextOverflow,
                "{text}"
            );
        }
    }
}

#[test]
fn codes_come_before_words_and_status() {
    let codes = ["context_length_exceeded", "exceed_context_size_error", "model_context_window_exceeded", "1261"];
    for code in codes {
        for number in [200, 400, 429, 500] {
            assert_eq!(classify(status(number), &[code], "overloaded, try again", None), ContextOverflow, "{code}");
        }
    }
}

#[test]
fn too_many_tokens_is_an_overflow_only_where_no_rate_can_be_meant() {
    for text in ["Too many tokens in the request", "token limit exceeded"] {
        for code in [400, 413, 422] {
            assert_eq!(classify(status(code), &[], text, None), ContextOverflow, "{code} {text}");
        }
        for code in [200, 429, 500, 503] {
            assert_ne!(classify(status(code), &[], text, None), ContextOverflow, "{code} {text}");
        }
    }
}

#[test]
fn a_rate_is_no_overflow_whatever_it_says_of_tokens() {
    let rates = [
        (429, "ThrottlingException", "Too many tokens, please wait before trying again."),
        (400, "ThrottlingException", "Too many tokens, please wait before trying again."),
        (
            429,
            "rate_limit_error",
            "This request would exceed the rate limit: reduce the prompt length, prompt is too long",
        ),
        (429, "", "Request too large on tokens per min (TPM): Limit 30000, Requested 40000. prompt is too long"),
        (429, "", "Rate limit exceeded, please retry after 30 seconds. exceeds the limit of 40000 tokens"),
        (429, "", "Too many requests. Please slow down. too many tokens"),
        (429, "rate_limit_exceeded", "Too many tokens; maximum context length of the minute"),
    ];
    for (code, word, text) in rates {
        assert_eq!(classify(status(code), &[word], text, None), RateLimited, "{text}");
    }
    let others = [
        (503, "Service unavailable: Too many tokens in flight", FailureKind::Overloaded),
        (400, "Throttling error: Too many tokens, please wait before trying again.", InvalidRequest),
        (200, "Throttling error: Too many tokens, please wait before trying again.", RateLimited),
        (500, "model runner crashed unexpectedly", FailureKind::ServerError),
    ];
    for (code, text, kind) in others {
        assert_eq!(classify(status(code), &[], text, None), kind, "{text}");
    }
}

#[test]
fn a_request_that_only_mentions_tokens_is_just_wrong() {
    let texts = [
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens.",
        "max_tokens must be at least 1",
        "`max_tokens` must be greater than `thinking.budget_tokens`",
        "The image exceeds the limit of 5242880 bytes",
        "messages: at least one message is required",
    ];
    for text in texts {
        assert_eq!(classify(status(400), &["invalid_request_error"], text, None), InvalidRequest, "{text}");
    }
}

#[test]
fn a_request_too_large_is_not_an_overflow_unless_it_says_so() {
    let large = r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#;
    assert_eq!(json(413, large).kind(), RequestTooLarge);
    let groq = r#"{"error":{"message":
        "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 9000",
        "type":"tokens","code":"rate_limit_exceeded"}}"#;
    assert_eq!(json(413, groq).kind(), RequestTooLarge);
    assert_eq!(json(429, groq).kind(), RateLimited);
    assert_eq!(
        json(413, r#"{"error":{"message":"prompt is too long: 9 tokens > 8 maximum"}}"#).kind(),
        ContextOverflow
    );
    // Cerebras says both without a body: a guess would be wrong elsewhere.
    assert_eq!(json(400, "").kind(), InvalidRequest);
    assert_eq!(json(413, "").kind(), RequestTooLarge);
}

#[test]
fn a_string_above_its_length_is_an_overflow_if_it_is_the_prompt() {
    let body = |param: &str| {
        format!(
            r#"{{"error":{{"message":"string too long","type":"invalid_request_error","param":"{param}",
                "code":"string_above_max_length"}}}}"#
        )
    };
    assert_eq!(json(400, &body("messages[0].content")).kind(), ContextOverflow);
    assert_eq!(json(400, &body("user")).kind(), InvalidRequest);
}

#[test]
fn an_overflow_is_found_under_its_wrappings() {
    let wrapped = [
        // llama.cpp, while it generates.
        (500, r#"{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}"#),
        // LiteLLM.
        (
            503,
            r#"{"error":{"message":
            "litellm.ServiceUnavailableError: Requested token count exceeds the model's maximum context length of 8",
            "type":null,"code":"503"}}"#,
        ),
        // A relay that quotes its provider's body.
        (
            502,
            r#"{"error":{"message":"Provider returned error","code":502,"metadata":{"provider_name":"P",
                "raw":"{\"error\":{\"code\":\"context_length_exceeded\",\"message\":\"no\"}}"}}}"#,
        ),
        (
            500,
            r#"{"error":{"message":"{\"error\":{\"message\":\"no\",\"code\":\"context_length_exceeded\"}}",
                "type":"upstream_error"}}"#,
        ),
        // FastAPI around an error.
        (500, r#"{"detail":{"error":{"code":"context_length_exceeded","message":"no"}}}"#),
        // Plain text.
        (500, "upstream: prompt is too long: 9 tokens > 8 maximum"),
    ];
    for (code, body) in wrapped {
        assert_eq!(json(code, body).kind(), ContextOverflow, "{body}");
    }
    // Nothing but a code inside tells.
    for field in [r#""message""#, r#""metadata":{"raw""#] {
        let close = if field.contains('{') { "}" } else { "" };
        let body = format!(r#"{{"error":{{{field}:"{{\"error\":{{\"code\":\"1261\"}}}}"{close}}}}}"#);
        assert_eq!(json(500, &body).kind(), ContextOverflow, "{body}");
    }
    // SGLang: 200, and a frame with a numeric code.
    let sglang = r#"{"error":{"object":"error",
        "message":"The input (9 tokens) is longer than the model's context length (8 tokens).",
            "type":"BadRequestError","param":null,"code":400}}"#;
    assert_eq!(frame_kind(sglang), Some(ContextOverflow));
    // Bedrock.
    let bedrock = reply(
        400,
        &[("x-amzn-errortype", "ValidationException:http://internal.amazon.com/")],
        br#"{"message":"Input is too long for requested model."}"#,
    );
    assert_eq!(classify_reply(Dialect::AnthropicMessages, bedrock, now()).kind(), ContextOverflow);
}
