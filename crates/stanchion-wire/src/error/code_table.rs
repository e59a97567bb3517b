//! The codes of the providers. Source: wire §1.8, from their documentation, their servers' and client libraries'
//! source, and public reports where there is neither.

use stanchion_core::FailureKind;

/// Codes that decide, whatever the status. The order of the rows is the order of precedence.
///
/// The last words of a row, where they stand apart, are [`FailureKind::code`]s: the provider may be a gateway of our
/// own.
pub(super) const DECISIVE: &[(FailureKind, &[&str])] = &[
    (
        FailureKind::ContextOverflow,
        &[
            "context_length_exceeded",
            "exceed_context_size_error",
            "model_context_window_exceeded",
            "context_window_exceeded",
            "ContextWindowExceededError",
            "prompt_too_long",
            "1261", // Z.AI
        ],
    ),
    (
        FailureKind::QuotaExhausted,
        &[
            "insufficient_quota",
            "credit_balance_exhausted",
            "billing_hard_limit_reached",
            "billing_error",
            "billing_not_active",
            "usage_limit_reached",
            "usage_not_included",
            "enforced_spend_limit_reached",
            "contract_spend_limit_reached",
            "linked_organization_spend_limit_reached",
            "linked_organization_billing_unavailable",
            "exceeded_current_quota_error", // Kimi
            "payment_required",
            "insufficient_balance",
            "insufficient_credits",
            "insufficient_funds",
            "insufficient_user_quota",
            "GoUsageLimitError",
            "FreeUsageLimitError",
            "Arrearage", // DashScope
            "AllocationQuota.FreeTierOnly",
            "ServiceQuotaExceededException", // Bedrock
            "BILLING_DISABLED",              // Google
            "1113",                          // Z.AI: balance
            "1304",                          // Z.AI: calls of a day
            "1308",                          // Z.AI: usage cap
            "1309",                          // Z.AI: plan expired
            "1310",                          // Z.AI: usage cap
            "1313",                          // Z.AI: fair use
        ],
    ),
    (
        FailureKind::ContentPolicy,
        &[
            "content_filter",
            "content_policy_violation",
            "ResponsibleAIPolicyViolation", // Azure
            "DataInspectionFailed",         // DashScope
            "data_inspection_failed",
            "prohibited_content",
            "PROHIBITED_CONTENT",
            "invalid_prompt",
            "bio_policy",
            "misalignment_policy_violation",
            "image_content_policy_violation",
            "1301", // Z.AI
        ],
    ),
    (
        FailureKind::Authentication,
        &[
            "invalid_api_key",
            "authentication_error",
            "AuthenticationError",
            "UNAUTHENTICATED",
            "API_KEY_INVALID",
            "InvalidApiKey",
            "incorrect_api_key_error",
            "invalid_authentication_error",
            "token_expired",
            "UnrecognizedClientException",
            "ExpiredTokenException",
            "InvalidSignatureException",
            "MissingAuthenticationTokenException",
            "1000", // Z.AI, to 1004
            "1001",
            "1002",
            "1003",
            "1004",
        ],
    ),
    (
        FailureKind::PermissionDenied,
        &[
            "permission_error",
            "permission_denied",
            "permission_denied_error",
            "AccessDeniedException",
            "AccessDenied",
            "Model.AccessDenied",
            "account_deactivated",
            "unsupported_country_region_territory",
            "1112", // Z.AI: account locked
            "1121", // Z.AI: account locked
        ],
    ),
    (
        FailureKind::NotFound,
        &[
            "model_not_found",
            "not_found_error",
            "NOT_FOUND",
            "NotFoundError",
            "DeploymentNotFound", // Azure
            "ModelNotFound",      // DashScope
            "resource_not_found_error",
            "ResourceNotFoundException",
            "unknown_model",
            "unknown_url",
            "1211", // Z.AI
        ],
    ),
    (
        FailureKind::Overloaded,
        &[
            "overloaded_error",
            "server_is_overloaded",
            "engine_overloaded_error", // Kimi
            "model_overloaded",
            "provider_overloaded", // OpenRouter
            "service_unavailable_error",
            "ServiceUnavailableError",
            "ServiceUnavailableException",
            "ServiceUnavailable",
            "UNAVAILABLE",
            "unavailable_error", // llama.cpp
            "ModelUnavailable",  // DashScope
            "ModelNotReadyException",
            "capacity_exceeded",
            "service_tier_capacity_exceeded",
            "1312", // Z.AI
            "overloaded",
            "circuit_open",
            "queue_timeout",
            "queue_closed",
            "candidate_drained",
            "shutting_down",
        ],
    ),
    (
        FailureKind::RateLimited,
        &[
            "rate_limit_exceeded",
            "rate_limit_error",
            "RateLimitError",
            "RateLimitReached",         // Azure
            "rate_limit_reached_error", // Kimi
            "rate_limited",             // Mistral
            "ramp_limit_exceeded",      // Anthropic
            "slow_down",
            "too_many_requests",
            "TooManyRequestsException",
            "ThrottlingException",
            "requests", // OpenAI and Groq, as a type
            "tokens",
            "RESOURCE_EXHAUSTED",
            "openrouter_in_flight_budget",
            "1302", // Z.AI: concurrency
            "1303", // Z.AI: frequency
            "1305", // Z.AI: traffic
            "queue_full",
        ],
    ),
];

/// Codes that say little more than a status would. They speak where there is no better status: in band, and under the
/// 500 of a wrapper.
pub(super) const GENERAL: &[(FailureKind, &[&str])] = &[
    (
        FailureKind::GatewayTimeout,
        &[
            "timeout_error",
            "DEADLINE_EXCEEDED",
            "vector_store_timeout",
            "gateway_timeout",
            "first_output_timeout",
            "idle_timeout",
            "total_timeout",
            "recovery_budget_exceeded",
        ],
    ),
    (FailureKind::RequestTimeout, &["ModelTimeoutException", "Timeout", "request_timeout", "CANCELLED"]),
    (FailureKind::Conflict, &["conflict_error", "ConflictException", "ABORTED", "conflict"]),
    (FailureKind::TooEarly, &["too_early"]),
    (
        FailureKind::RequestTooLarge,
        &["request_too_large", "payload_too_large", "request_body_too_large_after_decoding"],
    ),
    (FailureKind::NotSupported, &["not_supported_error", "UNIMPLEMENTED", "not_supported"]),
    (
        FailureKind::InvalidRequest,
        &[
            "invalid_request_error",
            "invalid_request",
            "INVALID_ARGUMENT",
            "FAILED_PRECONDITION",
            "OUT_OF_RANGE",
            "ValidationException",
            "InvalidParameter",
            "BadRequestError",
            "bad_request",
            "bad_request_error",
            "UnprocessableEntityError",
            "unknown_parameter",
            "string_above_max_length",
            "data_residency_mismatch",
            "empty_image_file",
            "failed_to_download_image",
            "image_file_not_found",
            "image_file_too_large",
            "image_parse_error",
            "image_too_large",
            "image_too_small",
        ],
    ),
    (
        FailureKind::ServerError,
        &[
            "server_error",
            "internal_error",
            "internal_server_error",
            "InternalServerError",
            "InternalServerException",
            "InternalError",
            "INTERNAL",
            "UNKNOWN",
            "DATA_LOSS",
            "api_error",
            "upstream_error",
            "ModelErrorException",
            "ModelStreamErrorException",
            "1234", // Z.AI: network
        ],
    ),
];

/// Codes that the account's share decides: see [`super::classify()`].
pub(super) const SHARE: &[&str] = &["quota_exceeded", "QuotaExceeded", "quotaExceeded"];
