//! Google Gemini `generateContent` and `streamGenerateContent`.

use stanchion_core::{Dialect, FinishReason};

use super::{FrameClass, Reading, State, finish_fault, is_filled, usage};
use crate::json::Value;

pub(super) fn parse(state: &mut State, chunk: &Value<'_>) -> Reading {
    let mut reading = Reading::of(FrameClass::Meta);
    reading.usage = chunk.get("usageMetadata").and_then(usage::gemini);
    if chunk.get("promptFeedback").and_then(|feedback| feedback.get("blockReason")).is_some_and(is_filled) {
        reading.raise(FrameClass::Terminal);
        reading.finish = state.finish(0, FinishReason::ContentFilter);
        return reading;
    }
    let candidates = chunk.get("candidates").and_then(Value::as_array);
    for candidate in candidates.into_iter().flatten() {
        let index = candidate.get("index").and_then(Value::as_u64).unwrap_or(0);
        state.open(index);
        let parts = candidate.get("content").and_then(|content| content.get("parts")).and_then(Value::as_array);
        if parts.into_iter().flatten().any(is_output) {
            reading.raise(FrameClass::Output);
        }
        let Some(reason) = candidate
            .get("finishReason")
            .and_then(Value::as_str)
            .filter(|reason| !reason.is_empty() && *reason != "FINISH_REASON_UNSPECIFIED")
        else {
            continue;
        };
        if let Some(failure) = finish_fault(Dialect::GeminiGenerateContent, reason) {
            return Reading { output: reading.output, usage: reading.usage, ..Reading::fault(failure, false) };
        }
        reading.raise(FrameClass::Finish);
        if let Some(reason) = state.finish(index, finish_reason(reason)) {
            reading.finish = Some(reason);
        }
    }
    if candidates.is_none()
        && reading.usage.is_none()
        && chunk.get("responseId").is_none()
        && chunk.get("modelVersion").is_none()
    {
        reading.raise(FrameClass::Unknown);
    }
    // Every chunk repeats the usage so far: by itself it is no sign of work.
    if reading.usage.is_some() && reading.class == FrameClass::Meta && candidates.is_none_or(Vec::is_empty) {
        reading.raise(FrameClass::Usage);
    }
    reading
}

/// A part with something in it. A thought's signature alone is none.
pub(super) fn is_output(part: &Value<'_>) -> bool {
    let Some(members) = part.as_object() else { return false };
    members.iter().any(|(key, value)| !matches!(key, "thought" | "thoughtSignature") && is_filled(value))
}

pub(super) fn finish_reason(reason: &str) -> FinishReason {
    match reason {
        "STOP" => FinishReason::Stop,
        "MAX_TOKENS" => FinishReason::Length,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => FinishReason::ContentFilter,
        _ => FinishReason::Other,
    }
}
