use super::*;
use FailureKind as K;

#[test]
fn the_table_of_statuses() {
    let rows: &[(u16, K)] = &[
        (301, K::NotModelReply),
        (307, K::NotModelReply),
        (400, K::InvalidRequest),
        (401, K::Authentication),
        (402, K::QuotaExhausted),
        (403, K::PermissionDenied),
        (404, K::NotFound),
        (405, K::InvalidRequest),
        (408, K::RequestTimeout),
        (409, K::Conflict),
        (413, K::RequestTooLarge),
        (418, K::InvalidRequest),
        (421, K::Unprocessed),
        (422, K::InvalidRequest),
        (424, K::ServerError),
        (425, K::TooEarly),
        (429, K::RateLimited),
        (434, K::PermissionDenied),
        (498, K::Overloaded),
        (499, K::RequestTimeout),
        (500, K::ServerError),
        (501, K::NotSupported),
        (502, K::ServerError),
        (503, K::Overloaded),
        (504, K::GatewayTimeout),
        (520, K::ServerError),
        (521, K::ServerError),
        (522, K::ServerError),
        (523, K::ServerError),
        (524, K::GatewayTimeout),
        (525, K::ServerError),
        (526, K::ServerError),
        (529, K::Overloaded),
        (530, K::ServerError),
        (599, K::ServerError),
    ];
    for (code, kind) in rows {
        assert_eq!(classify(status(*code), &[], "", None), *kind, "{code}");
        assert_eq!(json(*code, "").kind(), *kind, "{code} without a body");
        assert_eq!(json(*code, "{}").kind(), *kind, "{code} with nothing in it");
    }
}

#[test]
fn the_table_of_codes() {
    let rows: &[(K, &[&str])] = &[
        (
            K::RateLimited,
            &[
                "rate_limit_exceeded",
                "rate_limit_error",
                "slow_down",
                "too_many_requests",
                "RESOURCE_EXHAUSTED",
                "rate_limit_reached_error",
                "1302",
                "1303",
                "1305",
                "Throttling",
                "Throttling.RateQuota",
                "Throttling.BurstRate",
                "ThrottlingException",
                "tokens",
                "requests",
                "rate_limited",
            ],
        ),
        (
            K::Overloaded,
            &[
                "overloaded_error",
                "server_is_overloaded",
                "engine_overloaded_error",
                "service_unavailable_error",
                "UNAVAILABLE",
                "capacity_exceeded",
                "provider_overloaded",
                "1312",
                "serviceUnavailableException",
                "unavailable_error",
                "ModelNotReadyException",
            ],
        ),
        (
            K::ContentPolicy,
            &[
                "content_filter",
                "content_policy_violation",
                "ResponsibleAIPolicyViolation",
                "DataInspectionFailed",
                "1301",
                "prohibited_content",
                "invalid_prompt",
                "bio_policy",
            ],
        ),
        (
            K::Authentication,
            &[
                "invalid_api_key",
                "authentication_error",
                "UNAUTHENTICATED",
                "API_KEY_INVALID",
                "InvalidApiKey",
                "1000",
                "1004",
                "UnrecognizedClientException",
                "ExpiredTokenException",
                "incorrect_api_key_error",
            ],
        ),
        (
            K::PermissionDenied,
            &["permission_error", "PERMISSION_DENIED", "AccessDeniedException", "Model.AccessDenied"],
        ),
        (
            K::NotFound,
            &[
                "model_not_found",
                "not_found_error",
                "NOT_FOUND",
                "DeploymentNotFound",
                "1211",
                "unknown_model",
                "ResourceNotFoundException",
            ],
        ),
    ];
    for (kind, codes) in rows {
        for code in *codes {
            for number in [200, 400, 429, 500] {
                assert_eq!(classify(status(number), &[code], "no", None), *kind, "{number} {code}");
                assert_eq!(classify(status(number), &["x", code], "no", None), *kind, "{number} {code} as a type");
            }
            let amazon = format!("com.amazon.coral.service#{code}:http://internal.amazon.com/");
            assert_eq!(classify(status(400), &[&amazon], "no", None), *kind, "{amazon}");
        }
    }
}

#[test]
fn general_codes_speak_only_where_the_status_says_nothing() {
    let rows = [
        ("invalid_request_error", K::InvalidRequest),
        ("INVALID_ARGUMENT", K::InvalidRequest),
        ("BadRequestError", K::InvalidRequest),
        ("validationException", K::InvalidRequest),
        ("invalid_image_url", K::InvalidRequest),
        ("timeout_error", K::GatewayTimeout),
        ("DEADLINE_EXCEEDED", K::GatewayTimeout),
        ("modelTimeoutException", K::RequestTimeout),
        ("not_supported_error", K::NotSupported),
        ("request_too_large", K::RequestTooLarge),
        ("conflict_error", K::Conflict),
        ("server_error", K::ServerError),
        ("api_error", K::ServerError),
        ("INTERNAL", K::ServerError),
        ("internalServerException", K::ServerError),
        ("modelStreamErrorException", K::ServerError),
    ];
    for (code, kind) in rows {
        assert_eq!(classify(StatusCode::OK, &[code], "", None), kind, "{code}");
        for (number, other) in
            [(401, K::Authentication), (404, K::NotFound), (429, K::RateLimited), (503, K::Overloaded)]
        {
            assert_eq!(classify(status(number), &[code], "", None), other, "{code}");
        }
    }
    // A gateway's 500 around a wrong request.
    assert_eq!(classify(status(500), &["invalid_request_error"], "", None), K::InvalidRequest);
    assert_eq!(classify(status(502), &["invalid_request_error"], "", None), K::ServerError);
}

#[test]
fn an_outage_in_the_words_of_a_400_is_the_prompts() {
    let echo = "Invalid value: 'the server is overloaded, service unavailable, rate limit, timed out, HTTP 503'";
    for code in [400, 404, 422] {
        let kind = classify(status(code), &["invalid_request_error"], echo, None);
        assert!(matches!(kind, K::InvalidRequest | K::NotFound), "{code} {kind:?}");
    }
    for code in [200, 429, 500, 502] {
        assert_eq!(classify(status(code), &[], "The model is overloaded", None), K::Overloaded, "{code}");
    }
    assert_eq!(classify(status(504), &[], "service unavailable", None), K::GatewayTimeout);
}

#[test]
fn words_stand_in_for_a_status_in_band_alone() {
    let rows = [
        ("rate limit reached", K::RateLimited),
        ("too many requests", K::RateLimited),
        ("server busy, please try again. maximum pending requests exceeded", K::Overloaded),
        ("upstream timed out", K::GatewayTimeout),
        ("Incorrect API key provided", K::Authentication),
        ("model 'm' not found, try pulling it first", K::NotFound),
        ("503 upstream", K::Overloaded),
        ("Error: 429 slow", K::RateLimited),
        ("Error code: 400 - {}", K::InvalidRequest),
        ("upstream answered with status code: 401", K::Authentication),
        ("upstream answered HTTP 404", K::NotFound),
        ("5031 tokens", K::ServerError),
        ("503x", K::ServerError),
        ("see http://host/ 400 times", K::ServerError),
        ("an error was encountered while running the model", K::ServerError),
        ("", K::ServerError),
    ];
    for (text, kind) in rows {
        assert_eq!(classify(StatusCode::OK, &[], text, None), kind, "{text}");
    }
}

#[test]
fn reasons_to_finish_that_are_faults() {
    use super::super::finish_fault;
    let chat = [
        ("error", Some(K::ServerError)),
        ("network_error", Some(K::ServerError)),
        ("abort", Some(K::ServerError)),
        ("insufficient_system_resource", Some(K::Overloaded)),
        ("malformed_model_output", Some(K::MalformedReply)),
        ("stop", None),
        ("length", None),
        ("tool_calls", None),
        ("content_filter", None),
        ("sensitive", None),
        ("model_context_window_exceeded", None),
        ("OTHER", None),
    ];
    for (reason, kind) in chat {
        assert_eq!(finish_fault(Dialect::OpenAiChat, reason), kind, "{reason}");
    }
    let gemini = Dialect::GeminiGenerateContent;
    assert_eq!(finish_fault(gemini, "MALFORMED_FUNCTION_CALL"), Some(K::MalformedReply));
    assert_eq!(finish_fault(gemini, "OTHER"), Some(K::ServerError));
    for reason in ["STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "PROHIBITED_CONTENT"] {
        assert_eq!(finish_fault(gemini, reason), None, "{reason}");
    }
}
