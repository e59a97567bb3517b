use stanchion_core::FailureKind;

/// Every kind of failure, for tests that go through the whole table.
pub const FAILURE_KINDS: [FailureKind; 35] = [
    FailureKind::Connect,
    FailureKind::Unprocessed,
    FailureKind::Transport,
    FailureKind::Truncated,
    FailureKind::EmptyReply,
    FailureKind::NotModelReply,
    FailureKind::MalformedReply,
    FailureKind::FirstOutputTimeout,
    FailureKind::IdleTimeout,
    FailureKind::TotalTimeout,
    FailureKind::RateLimited,
    FailureKind::QuotaExhausted,
    FailureKind::Overloaded,
    FailureKind::ServerError,
    FailureKind::GatewayTimeout,
    FailureKind::RequestTimeout,
    FailureKind::Conflict,
    FailureKind::TooEarly,
    FailureKind::Authentication,
    FailureKind::PermissionDenied,
    FailureKind::NotFound,
    FailureKind::ContextOverflow,
    FailureKind::ContentPolicy,
    FailureKind::InvalidRequest,
    FailureKind::NotSupported,
    FailureKind::RequestTooLarge,
    FailureKind::EventTooLarge,
    FailureKind::CircuitOpen,
    FailureKind::QueueFull,
    FailureKind::QueueTimeout,
    FailureKind::QueueClosed,
    FailureKind::RecoveryBudget,
    FailureKind::Cancelled,
    FailureKind::Misconfigured,
    FailureKind::Unknown,
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::FAILURE_KINDS;

    #[test]
    fn no_kind_is_missing() {
        let source = include_str!("../../stanchion-core/src/failure.rs");
        let variants = source.split("pub enum FailureKind {").nth(1).unwrap().split('}').next().unwrap();
        let names: HashSet<_> = variants.lines().map(str::trim).filter_map(|line| line.strip_suffix(',')).collect();
        let listed: HashSet<_> = FAILURE_KINDS.map(|kind| format!("{kind:?}")).into();
        assert_eq!(names, listed.iter().map(String::as_str).collect());
    }
}
