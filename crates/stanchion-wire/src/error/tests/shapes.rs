use super::*;
use FailureKind as K;

#[test]
fn every_shape_of_an_error_after_a_200_is_known() {
    let rows = [
        // Nested: OpenAI, vLLM, llama.cpp, DashScope's compatible mode.
        (
            r#"{"error":{"message":"m","type":"server_error","code":null,"param":null}}"#,
            K::ServerError,
            "server_error",
            "m",
        ),
        (
            r#"{"error":{"message":"m","type":"InternalServerError","param":null,"code":500}}"#,
            K::ServerError,
            "InternalServerError",
            "m",
        ),
        (
            r#"{"error":{"message":"m","type":"BadRequestError","param":null,"code":400}}"#,
            K::InvalidRequest,
            "BadRequestError",
            "m",
        ),
        (
            r#"{"error":{"message":"The server is overloaded","type":"server_error","code":503}}"#,
            K::Overloaded,
            "server_error",
            "The server is overloaded",
        ),
        (r#"{"error":{"message":"m","code":"429"}}"#, K::RateLimited, "429", "m"),
        // Anthropic.
        (
            r#"{"type":"error","error":{"type":"overloaded_error","message":"m"},"request_id":"req_1"}"#,
            K::Overloaded,
            "overloaded_error",
            "m",
        ),
        (r#"{"type":"error","error":{"type":"api_error","message":"m"}}"#, K::ServerError, "api_error", "m"),
        (r#"{"type":"error","error":{"type":"timeout_error","message":"m"}}"#, K::GatewayTimeout, "timeout_error", "m"),
        // Responses: flat, nested, failed.
        (
            r#"{"type":"error","code":"context_length_exceeded","message":"m","param":"input","sequence_number":1}"#,
            K::ContextOverflow,
            "context_length_exceeded",
            "m",
        ),
        (r#"{"type":"error","code":null,"message":"m","param":null,"sequence_number":1}"#, K::ServerError, "", "m"),
        (
            r#"{"type":"error","error":{"type":"insufficient_quota","code":"insufficient_quota","message":"m",
                "param":null},"sequence_number":2}"#,
            K::QuotaExhausted,
            "insufficient_quota",
            "m",
        ),
        (
            r#"{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"rate_limit_exceeded",
                "message":"m"}}}"#,
            K::RateLimited,
            "rate_limit_exceeded",
            "m",
        ),
        (r#"{"type":"response.failed","response":{"id":"r","status":"failed","error":null}}"#, K::ServerError, "", ""),
        (
            r#"{"id":"r","object":"response","status":"failed","error":{"code":"invalid_prompt","message":"m"},
                "output":[]}"#,
            K::ContentPolicy,
            "invalid_prompt",
            "m",
        ),
        // OpenRouter: beside a choice, and without any.
        (
            r#"{"id":"g","error":{"code":502,"message":"m","metadata":{"provider_name":"P"}},"choices":[{"index":0,
                "delta":{"content":""},"finish_reason":"error"}]}"#,
            K::ServerError,
            "502",
            "m",
        ),
        (r#"{"id":"g","error":{"code":429,"message":"m"},"choices":[]}"#, K::RateLimited, "429", "m"),
        (
            r#"{"error":{"code":503,"message":"m","metadata":{"error_type":"provider_overloaded"}}}"#,
            K::Overloaded,
            "provider_overloaded",
            "m",
        ),
        (
            r#"{"error":{"code":403,"message":"m","metadata":{"reasons":["x"],"flagged_input":"y"}}}"#,
            K::ContentPolicy,
            "content_filter",
            "m",
        ),
        // Google, alone and in an array.
        (r#"{"error":{"code":503,"status":"UNAVAILABLE","message":"m"}}"#, K::Overloaded, "UNAVAILABLE", "m"),
        (
            "[{\n  \"error\": {\"code\": 500, \"status\": \"INTERNAL\", \"message\": \"m\"}\n}]",
            K::ServerError,
            "INTERNAL",
            "m",
        ),
        (r#"{"error":{"code":"prohibited_content","message":"no"}}"#, K::ContentPolicy, "prohibited_content", "no"),
        // Text: Ollama, xAI.
        (
            r#"{"error":"an error was encountered while running the model"}"#,
            K::ServerError,
            "",
            "an error was encountered while running the model",
        ),
        (
            r#"{"code":"The service is currently unavailable","error":"The model is at capacity"}"#,
            K::Overloaded,
            "",
            "The model is at capacity",
        ),
        (r#"{"code":"unavailable","error":"m"}"#, K::Overloaded, "unavailable", "m"),
        // Flat: Mistral, old vLLM, DashScope, AWS.
        (
            r#"{"object":"error","message":"m","type":"invalid_request_error","param":null,"code":"1500"}"#,
            K::InvalidRequest,
            "invalid_request_error",
            "m",
        ),
        (
            r#"{"object":"error","message":"m","type":"rate_limited","param":null,"code":"1300"}"#,
            K::RateLimited,
            "rate_limited",
            "m",
        ),
        (
            r#"{"object":"error","message":"m","type":"BadRequestError","code":400}"#,
            K::InvalidRequest,
            "BadRequestError",
            "m",
        ),
        (
            r#"{"code":"Throttling.RateQuota","message":"m","request_id":"r"}"#,
            K::RateLimited,
            "Throttling.RateQuota",
            "m",
        ),
        (r#"{"__type":"com.amazon#ThrottlingException","message":"m"}"#, K::RateLimited, "ThrottlingException", "m"),
        (
            r#"{"message":"m","originalStatusCode":400,"__type":"modelStreamErrorException"}"#,
            K::ServerError,
            "modelStreamErrorException",
            "m",
        ),
        // Z.AI's numbers are strings.
        (r#"{"error":{"code":"1302","message":"m"}}"#, K::RateLimited, "1302", "m"),
        (r#"{"error":{"code":"1261","message":"m"}}"#, K::ContextOverflow, "1261", "m"),
        // A byte order mark, blank lines, two errors of which the last counts.
        (
            "\u{feff}\n{\"error\":{\"message\":\"m\",\"code\":\"invalid_api_key\"}}",
            K::Authentication,
            "invalid_api_key",
            "m",
        ),
        (r#"{"error":{"message":"a"},"error":{"message":"b","code":"slow_down"}}"#, K::RateLimited, "slow_down", "b"),
    ];
    for (data, kind, code, message) in rows {
        let failure = frame(data).unwrap_or_else(|| panic!("no error: {data}"));
        assert_eq!(failure.kind(), kind, "{data}");
        assert_eq!(failure.code().unwrap_or(""), code, "{data}");
        assert_eq!(failure.message().unwrap_or(""), message, "{data}");
        assert_eq!(failure.status(), Some(StatusCode::OK), "{data}");
    }
}
