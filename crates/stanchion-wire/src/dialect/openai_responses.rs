//! OpenAI Responses.

use stanchion_core::{Failure, FailureKind, FinishReason, Phase};

use super::{FrameClass, Reading, State, is_filled, scan::Cursor, usage};
use crate::json::Value;

/// Knows a delta event with something in it, by its type at the front: how many bytes of text.
pub(super) fn scan(data: &[u8]) -> Option<usize> {
    if data.last() != Some(&b'}') {
        return None;
    }
    let mut cursor = Cursor::new(data, 0);
    cursor.eat(b"{")?;
    if cursor.key()? != b"type" {
        return None;
    }
    let (kind, escapes) = cursor.string()?;
    if escapes || !kind.starts_with(b"response.") || !kind.ends_with(b".delta") {
        return None;
    }
    // Plain members up to the delta: ids are strings, indexes are numbers.
    loop {
        cursor.eat(b",")?;
        if cursor.key()? == b"delta" {
            return Some(cursor.string()?.0.len()).filter(|length| *length > 0);
        }
        if cursor.string().is_none() {
            while matches!(data.get(cursor.at()), Some(b' ' | b'0'..=b'9')) {
                cursor = Cursor::new(data, cursor.at() + 1);
            }
        }
    }
}

pub(super) fn parse(state: &mut State, event: Option<&str>, value: &Value<'_>) -> Reading {
    let Some(kind) = value.get("type").and_then(Value::as_str).or(event) else {
        return Reading::of(FrameClass::Unknown);
    };
    match kind {
        "keepalive" => Reading::of(FrameClass::Ping),
        "response.created" | "response.queued" | "response.in_progress" => Reading::of(FrameClass::Meta),
        "response.completed" | "response.incomplete" | "response.cancelled" => {
            end(state, kind, value.get("response").unwrap_or(&Value::Null))
        }
        "response.image_generation_call.partial_image" => Reading::of(FrameClass::Output),
        "response.output_item.added" => {
            let item = value.get("item").unwrap_or(&Value::Null);
            let named = item.get("name").is_some_and(is_filled);
            let plain = matches!(item.get("type").and_then(Value::as_str), Some("message" | "reasoning"));
            Reading::of(if named || (!plain && item.get("type").and_then(Value::as_str) == Some("custom_tool_call")) {
                FrameClass::Output
            } else {
                FrameClass::Structure
            })
        }
        kind if last_word(kind) == "delta" => Reading::of(if value.get("delta").is_some_and(is_filled) {
            FrameClass::Output
        } else {
            FrameClass::Structure
        }),
        kind if kind.starts_with("response.")
            && matches!(
                last_word(kind),
                "added" | "done" | "in_progress" | "searching" | "generating" | "interpreting" | "completed"
            ) =>
        {
            Reading::of(FrameClass::Structure)
        }
        _ => Reading::of(FrameClass::Unknown),
    }
}

fn last_word(kind: &str) -> &str {
    kind.rsplit('.').next().unwrap_or(kind)
}

/// The whole response at the end of its stream.
fn end(state: &mut State, kind: &str, response: &Value<'_>) -> Reading {
    let counts = response.get("usage").and_then(usage::openai);
    let has_output =
        state.output || response.get("output").and_then(Value::as_array).is_some_and(|items| !items.is_empty());
    if kind == "response.completed" && !has_output {
        // A success that holds nothing; seen as the mask of a fault upstream.
        let failure = Failure::new(FailureKind::EmptyReply).with_phase(Phase::BeforeOutput);
        return Reading { usage: counts, ..Reading::fault(failure, false) };
    }
    let reason = finish_reason(kind, response);
    let mut reading = Reading { usage: counts, finish: state.finish(0, reason), ..Reading::of(FrameClass::Terminal) };
    if has_output && !state.output {
        reading.raise(FrameClass::Output);
    }
    reading
}

pub(super) fn finish_reason(kind: &str, response: &Value<'_>) -> FinishReason {
    if kind.ends_with("incomplete") {
        return match response
            .get("incomplete_details")
            .and_then(|details| details.get("reason"))
            .and_then(Value::as_str)
        {
            Some("max_output_tokens" | "max_tokens") => FinishReason::Length,
            Some("content_filter") => FinishReason::ContentFilter,
            _ => FinishReason::Other,
        };
    }
    if kind.ends_with("cancelled") {
        return FinishReason::Other;
    }
    let calls_tool = response.get("output").and_then(Value::as_array).is_some_and(|items| {
        items
            .iter()
            .any(|item| matches!(item.get("type").and_then(Value::as_str), Some("function_call" | "custom_tool_call")))
    });
    if calls_tool { FinishReason::ToolCalls } else { FinishReason::Stop }
}
