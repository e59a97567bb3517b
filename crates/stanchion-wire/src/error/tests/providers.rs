use super::*;
use FailureKind as K;

#[test]
fn the_listed_errors_of_each_provider() {
    let rows = [
        // OpenAI.
        (
            429,
            r#"{"error":{"message":"Rate limit reached","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#,
            K::RateLimited,
        ),
        (
            400,
            r#"{"error":{"message":"m","type":"invalid_request_error","param":"messages",
                "code":"context_length_exceeded"}}"#,
            K::ContextOverflow,
        ),
        (
            401,
            r#"{"error":{"message":"m","type":"invalid_request_error","code":"invalid_api_key"}}"#,
            K::Authentication,
        ),
        (
            403,
            r#"{"error":{"message":"m","type":"invalid_request_error","code":"unsupported_country_region_territory"}}"#,
            K::PermissionDenied,
        ),
        (404, r#"{"error":{"message":"m","type":"invalid_request_error","code":"model_not_found"}}"#, K::NotFound),
        (
            400,
            r#"{"error":{"message":"m","type":"invalid_request_error","code":"content_policy_violation"}}"#,
            K::ContentPolicy,
        ),
        (
            503,
            r#"{"error":{"message":"m","type":"service_unavailable_error","code":"server_is_overloaded"}}"#,
            K::Overloaded,
        ),
        (500, r#"{"error":{"message":"boom","type":"server_error"}}"#, K::ServerError),
        (
            400,
            r#"{"error":{"message":"Unknown parameter: 'foo'.","type":"invalid_request_error",
                "code":"unknown_parameter"}}"#,
            K::InvalidRequest,
        ),
        // Anthropic.
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error",
                "message":"prompt is too long: 9 tokens > 8 maximum"}}"#,
            K::ContextOverflow,
        ),
        (401, r#"{"type":"error","error":{"type":"authentication_error","message":"m"}}"#, K::Authentication),
        (402, r#"{"type":"error","error":{"type":"billing_error","message":"m"}}"#, K::QuotaExhausted),
        (403, r#"{"type":"error","error":{"type":"permission_error","message":"m"}}"#, K::PermissionDenied),
        (404, r#"{"type":"error","error":{"type":"not_found_error","message":"m"}}"#, K::NotFound),
        (409, r#"{"type":"error","error":{"type":"conflict_error","message":"m"}}"#, K::Conflict),
        (413, r#"{"type":"error","error":{"type":"request_too_large","message":"m"}}"#, K::RequestTooLarge),
        (429, r#"{"type":"error","error":{"type":"rate_limit_error","message":"m"}}"#, K::RateLimited),
        (500, r#"{"type":"error","error":{"type":"api_error","message":"m"}}"#, K::ServerError),
        (504, r#"{"type":"error","error":{"type":"timeout_error","message":"m"}}"#, K::GatewayTimeout),
        (529, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, K::Overloaded),
        // Gemini.
        (
            400,
            r#"{"error":{"code":400,"message":
            "The input token count (9) exceeds the maximum number of tokens allowed (8).",
            "status":"INVALID_ARGUMENT"}}"#,
            K::ContextOverflow,
        ),
        (
            400,
            r#"[{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT",
                "details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}]"#,
            K::Authentication,
        ),
        (400, r#"{"error":{"code":400,"message":"m","status":"FAILED_PRECONDITION"}}"#, K::InvalidRequest),
        (403, r#"{"error":{"code":403,"message":"m","status":"PERMISSION_DENIED"}}"#, K::PermissionDenied),
        (404, r#"{"error":{"code":404,"message":"m","status":"NOT_FOUND"}}"#, K::NotFound),
        (499, r#"{"error":{"code":499,"message":"m","status":"CANCELLED"}}"#, K::RequestTimeout),
        (500, r#"{"error":{"code":500,"message":"m","status":"INTERNAL"}}"#, K::ServerError),
        (503, r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#, K::Overloaded),
        (504, r#"{"error":{"code":504,"message":"m","status":"DEADLINE_EXCEEDED"}}"#, K::GatewayTimeout),
        // Azure.
        (
            400,
            r#"{"error":{"message":"m","code":"content_filter","status":400,
                "innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#,
            K::ContentPolicy,
        ),
        (401, r#"{"error":{"code":"401","message":"m"}}"#, K::Authentication),
        (404, r#"{"error":{"code":"DeploymentNotFound","message":"m"}}"#, K::NotFound),
        (408, r#"{"error":{"code":"Timeout","message":"m"}}"#, K::RequestTimeout),
        (429, r#"{"error":{"code":"too_many_requests","message":"Too many requests. quota"}}"#, K::RateLimited),
        (500, r#"{"error":{"code":"InternalServerError","message":"m"}}"#, K::ServerError),
        // OpenRouter.
        (
            403,
            r#"{"error":{"code":403,"message":"m","metadata":{"reasons":["hate"],"flagged_input":"x"}}}"#,
            K::ContentPolicy,
        ),
        (
            502,
            r#"{"error":{"code":502,"message":"Provider returned error","metadata":{"raw":"overloaded"}}}"#,
            K::Overloaded,
        ),
        (503, r#"{"error":{"code":503,"message":"m","metadata":{"error_type":"provider_overloaded"}}}"#, K::Overloaded),
        // Groq, Mistral, DeepSeek.
        (424, r#"{"error":{"message":"m","type":"failed_dependency"}}"#, K::ServerError),
        (498, r#"{"error":{"message":"m","type":"capacity_exceeded"}}"#, K::Overloaded),
        (
            400,
            r#"{"error":{"message":"m","type":"invalid_request_error","code":"tool_use_failed",
                "failed_generation":"x"}}"#,
            K::InvalidRequest,
        ),
        (
            429,
            r#"{"object":"error","message":"Service tier capacity exceeded for this model.",
                "type":"service_tier_capacity_exceeded","param":null,"code":"3505"}"#,
            K::Overloaded,
        ),
        (401, r#"{"message":"Unauthorized","request_id":"r"}"#, K::Authentication),
        (402, r#"{"error":{"message":"Insufficient Balance","type":"unknown_error"}}"#, K::QuotaExhausted),
        // Moonshot.
        (400, r#"{"error":{"type":"content_filter","message":"m"}}"#, K::ContentPolicy),
        (401, r#"{"error":{"type":"incorrect_api_key_error","message":"m"}}"#, K::Authentication),
        (429, r#"{"error":{"type":"engine_overloaded_error","message":"m"}}"#, K::Overloaded),
        (
            429,
            r#"{"error":{"type":"rate_limit_reached_error","message":"please try again after 1 seconds"}}"#,
            K::RateLimited,
        ),
        (
            403,
            r#"{"error":{"type":"permission_denied_error","message":"You've reached your monthly usage limit"}}"#,
            K::QuotaExhausted,
        ),
        // Z.AI.
        (429, r#"{"error":{"code":"1312","message":"m"}}"#, K::Overloaded),
        (429, r#"{"error":{"code":"1308","message":"m","next_flush_time":"2027-09-25 19:32:20"}}"#, K::QuotaExhausted),
        (400, r#"{"error":{"code":"1301","message":"m"}}"#, K::ContentPolicy),
        // DashScope.
        (400, r#"{"code":"DataInspectionFailed","message":"m","request_id":"r"}"#, K::ContentPolicy),
        (403, r#"{"code":"Model.AccessDenied","message":"m"}"#, K::PermissionDenied),
        (404, r#"{"code":"ModelNotFound","message":"m"}"#, K::NotFound),
        (503, r#"{"code":"ModelUnavailable","message":"m"}"#, K::Overloaded),
        // vLLM, llama.cpp, Ollama.
        (
            400,
            r#"{"object":"error","message":"This model's maximum context length is 8 tokens","type":"BadRequestError",
                "code":400}"#,
            K::ContextOverflow,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"m","type":"exceed_context_size_error","n_prompt_tokens":9,"n_ctx":8}}"#,
            K::ContextOverflow,
        ),
        (501, r#"{"error":{"code":501,"message":"m","type":"not_supported_error"}}"#, K::NotSupported),
        (503, r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#, K::Overloaded),
        (404, r#"{"error":"model 'm' not found, try pulling it first"}"#, K::NotFound),
        (499, r#"{"error":"request canceled"}"#, K::RequestTimeout),
        (503, r#"{"error":"server busy, please try again. maximum pending requests exceeded"}"#, K::Overloaded),
        // A 500 that hides the real status in its body.
        (500, r#"{"error":{"message":"m","code":400}}"#, K::InvalidRequest),
        (500, r#"{"error":{"message":"m","code":"401"}}"#, K::Authentication),
        (503, r#"{"error":{"message":"m","code":400}}"#, K::Overloaded),
    ];
    for (code, body, kind) in rows {
        assert_eq!(json(code, body).kind(), kind, "{code} {body}");
    }
}

#[test]
fn bedrock_names_its_error_in_a_header() {
    let rows = [
        (403, "AccessDeniedException", K::PermissionDenied),
        (403, "ExpiredTokenException", K::Authentication),
        (404, "ResourceNotFoundException", K::NotFound),
        (408, "ModelTimeoutException", K::RequestTimeout),
        (424, "ModelErrorException", K::ServerError),
        (429, "ModelNotReadyException", K::Overloaded),
        (429, "ThrottlingException", K::RateLimited),
        (400, "ServiceQuotaExceededException", K::QuotaExhausted),
        (400, "ValidationException", K::InvalidRequest),
        (500, "InternalServerException", K::ServerError),
        (503, "ServiceUnavailableException", K::Overloaded),
    ];
    for (code, name, kind) in rows {
        let header = format!("{name}:http://internal.amazon.com/coral/com.amazon.bedrock/");
        for body in [r#"{"message":"no"}"#, ""] {
            let reply = reply(code, &[("x-amzn-errortype", &header), ("x-amzn-requestid", "a1")], body.as_bytes());
            let failure = classify_reply(Dialect::AnthropicMessages, reply, now());
            assert_eq!(failure.kind(), kind, "{name}");
            assert_eq!((failure.code(), failure.request_id()), (Some(name), Some("a1")));
        }
    }
    let wrong = json(424, r#"{"message":"no","originalStatusCode":400,"originalMessage":"bad"}"#);
    assert_eq!(wrong.kind(), K::InvalidRequest);
    assert_eq!(json(424, r#"{"message":"no","originalStatusCode":503}"#).kind(), K::ServerError);
}
