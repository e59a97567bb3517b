use std::sync::Arc;

use http::Request;
use stanchion_core::{Call, Context, Event, ProviderStall, Selected, StallPhase};

use super::watch::{Stage, Stall};

/// What is known of the attempt from its request.
#[derive(Debug, Clone)]
pub(super) struct About {
    context: Option<Context>,
    candidate: Option<Arc<str>>,
    pub(super) streams: bool,
    /// About how long the prompt is; 0 if nobody knows.
    pub(super) tokens: usize,
}

impl About {
    pub(super) fn of<B>(request: &Request<B>) -> Self {
        let extensions = request.extensions();
        let call = extensions.get::<Call>();
        Self {
            context: Context::of(request).cloned(),
            candidate: extensions.get::<Selected>().map(|selected| selected.candidate.name().clone()),
            streams: call.is_none_or(|call| call.stream),
            tokens: call.map_or(0, Call::estimated_tokens),
        }
    }

    pub(super) fn tell(&self, phase: StallPhase, stall: Stall, stage: Stage) {
        Context::emit(self.context.as_ref(), || {
            Event::ProviderStall(ProviderStall {
                phase,
                candidate: self.candidate.clone(),
                stall_count: stall.count,
                duration: stall.duration,
                warning_after: stall.warning_after,
                timeout: stall.timeout,
                output_started: stage != Stage::BeforeOutput,
            })
        });
    }
}
