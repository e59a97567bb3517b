//! The names of what events are made of, for labels and logs: those that serialise.

use crate::{
    AdmissionPhase, AdmissionReason, AdmissionScope, CircuitPhase, ExhaustedBy, FrameFault, Phase, RetryReason,
};

macro_rules! named {
    ($($type:ident { $($variant:ident: $name:literal,)+ })+) => {
        $(impl $type {
            /// The name used in events and metrics.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        })+

        #[cfg(test)]
        mod tests {
            use super::*;

            #[test]
            fn names_agree_with_serde() {
                $($(assert_eq!(serde_json::to_value($type::$variant).unwrap(), $type::$variant.name());)+)+
            }
        }
    };
}

named! {
    AdmissionPhase { Queued: "queued", Admitted: "admitted", Rejected: "rejected", }
    AdmissionReason { Capacity: "capacity", QueueFull: "queue_full", WaitTimeout: "wait_timeout", Closed: "closed", }
    AdmissionScope { Global: "global", Domain: "domain", Owner: "owner", Class: "class", }
    CircuitPhase {
        Opened: "opened", Waiting: "waiting", Probe: "probe", Closed: "closed", Reopened: "reopened", Rejected: "rejected",
    }
    ExhaustedBy { AttemptLimit: "attempt_limit", RecoveryBudget: "recovery_budget", RetryBudget: "retry_budget", }
    FrameFault {
        MalformedDropped: "malformed_dropped", MalformedPassed: "malformed_passed", TooLarge: "too_large",
    }
    Phase { Connect: "connect", Head: "head", BeforeOutput: "before_output", AfterOutput: "after_output", }
    RetryReason {
        RateLimit: "rate_limit", ServerError: "server_error", Transport: "transport", StreamClosed: "stream_closed",
        Timeout: "timeout",
    }
}
