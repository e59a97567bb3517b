//! Anthropic Messages.

use stanchion_core::{Dialect, FinishReason};

use super::{FrameClass, Reading, State, around::Around, finish_fault, is_filled, scan::Cursor, usage};
use crate::json::Value;

/// Knows a content delta with something in it: how many bytes of text. Remembers what is around it.
pub(super) fn scan(event: Option<&[u8]>, data: &[u8], around: &mut Around) -> Option<usize> {
    if event.is_some_and(|name| name != b"content_block_delta") || data.last() != Some(&b'}') {
        return None;
    }
    let mut cursor = Cursor::new(data, 0);
    cursor.eat(b"{")?;
    member(&mut cursor, b"type", b"content_block_delta")?;
    cursor.eat(b",")?;
    if cursor.key()? == b"index" {
        while matches!(data.get(cursor.at()), Some(b' ' | b'0'..=b'9')) {
            cursor = Cursor::new(data, cursor.at() + 1);
        }
        cursor.eat(b",")?;
        if cursor.key()? != b"delta" {
            return None;
        }
    } else {
        return None;
    }
    cursor.eat(b"{")?;
    if cursor.key()? != b"type" {
        return None;
    }
    let text = match cursor.string()?.0 {
        b"text_delta" => &b"text"[..],
        b"thinking_delta" => b"thinking",
        b"input_json_delta" => b"partial_json",
        _ => return None,
    };
    cursor.eat(b",")?;
    if cursor.key()? != text {
        return None;
    }
    let length = cursor.string()?.0.len();
    let end = cursor.at() - 1;
    cursor.eat(b"}")?;
    cursor.eat(b"}")?;
    if length == 0 || cursor.at() != data.len() {
        return None;
    }
    around.remember(data, 0, (end - length, end));
    Some(length)
}

fn member(cursor: &mut Cursor<'_>, key: &[u8], value: &[u8]) -> Option<()> {
    (cursor.key()? == key && cursor.string()?.0 == value).then_some(())
}

pub(super) fn parse(state: &mut State, event: Option<&str>, value: &Value<'_>) -> Reading {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let Some(kind) = text("type").or(event) else { return Reading::of(FrameClass::Unknown) };
    match kind {
        "ping" => Reading::of(FrameClass::Ping),
        "message_start" => {
            state.open(0);
            let message = value.get("message").unwrap_or(&Value::Null);
            let class =
                if message.get("content").is_some_and(is_filled) { FrameClass::Output } else { FrameClass::Meta };
            let counts = message.get("usage").and_then(usage::anthropic);
            state.usage = counts.unwrap_or_default();
            Reading { usage: counts, ..Reading::of(class) }
        }
        "content_block_start" => {
            let block = value.get("content_block").unwrap_or(&Value::Null);
            Reading::of(if block_starts_with_output(block) { FrameClass::Output } else { FrameClass::Structure })
        }
        "content_block_delta" => {
            let delta = value.get("delta").unwrap_or(&Value::Null);
            let filled = |key: &str| delta.get(key).is_some_and(is_filled);
            let output = match delta.get("type").and_then(Value::as_str) {
                Some("text_delta") => filled("text"),
                Some("thinking_delta") => filled("thinking"),
                Some("input_json_delta") => filled("partial_json"),
                Some("signature_delta") => false,
                _ => true,
            };
            Reading::of(if output { FrameClass::Output } else { FrameClass::Structure })
        }
        "content_block_stop" => Reading::of(FrameClass::Structure),
        "message_delta" => {
            let counts = value.get("usage").and_then(usage::anthropic);
            let counts = counts.map(|counts| usage::later(&state.usage, counts));
            state.usage.merge(&counts.unwrap_or_default());
            let reason = value.get("delta").and_then(|delta| delta.get("stop_reason")).and_then(Value::as_str);
            let Some(reason) = reason else {
                return Reading {
                    usage: counts,
                    ..Reading::of(if counts.is_some() { FrameClass::Usage } else { FrameClass::Meta })
                };
            };
            if let Some(failure) = finish_fault(Dialect::AnthropicMessages, reason) {
                return Reading { usage: counts, ..Reading::fault(failure, false) };
            }
            Reading { usage: counts, finish: state.finish(0, stop_reason(reason)), ..Reading::of(FrameClass::Finish) }
        }
        "message_stop" => Reading::of(FrameClass::Terminal),
        _ => Reading::of(FrameClass::Unknown),
    }
}

/// A tool's name, redacted thinking and server-side results are output in the very start of their block.
pub(super) fn block_starts_with_output(block: &Value<'_>) -> bool {
    let filled = |key: &str| block.get(key).is_some_and(is_filled);
    match block.get("type").and_then(Value::as_str) {
        Some("text") => filled("text"),
        Some("thinking") => filled("thinking"),
        _ => true,
    }
}

pub(super) fn stop_reason(reason: &str) -> FinishReason {
    match reason {
        "end_turn" | "stop_sequence" => FinishReason::Stop,
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "tool_use" => FinishReason::ToolCalls,
        "refusal" => FinishReason::ContentFilter,
        "pause_turn" | "compaction" => FinishReason::Pause,
        _ => FinishReason::Other,
    }
}
