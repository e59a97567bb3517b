//! Ollama's native `/api/chat` and `/api/generate`.

use stanchion_core::FinishReason;

use super::{FrameClass, Reading, State, is_filled, scan::Cursor, usage};
use crate::json::Value;

/// Knows a line that is not the last, has text, and has nothing but plain members: how many bytes of text.
pub(super) fn scan(line: &[u8]) -> Option<usize> {
    let mut cursor = Cursor::new(line, 0);
    let mut output = 0;
    cursor.eat(b"{")?;
    loop {
        match cursor.key()? {
            b"model" | b"created_at" => {
                cursor.string()?;
            }
            b"response" | b"thinking" => output += cursor.string()?.0.len(),
            b"done" => cursor.eat(b"false")?,
            b"message" => {
                cursor.eat(b"{")?;
                loop {
                    let key = cursor.key()?;
                    let length = cursor.string()?.0.len();
                    match key {
                        b"role" => {}
                        b"content" | b"thinking" => output += length,
                        _ => return None,
                    }
                    if cursor.eat(b",").is_none() {
                        break;
                    }
                }
                cursor.eat(b"}")?;
            }
            _ => return None,
        }
        if cursor.eat(b",").is_none() {
            break;
        }
    }
    cursor.eat(b"}")?;
    (output > 0 && cursor.at() == line.len()).then_some(output)
}

pub(super) fn parse(state: &mut State, line: &Value<'_>) -> Reading {
    let mut reading = Reading::of(FrameClass::Meta);
    if has_output(line) {
        reading.raise(FrameClass::Output);
    }
    if line.get("done").is_none() && line.get("message").is_none() && line.get("response").is_none() {
        reading.raise(FrameClass::Unknown);
    }
    if line.get("done").and_then(Value::as_bool) == Some(true) {
        reading.raise(FrameClass::Terminal);
        reading.usage = usage::ollama(line);
        reading.finish = state.finish(0, done_reason(line));
    }
    reading
}

pub(super) fn has_output(line: &Value<'_>) -> bool {
    let message = line.get("message").and_then(Value::as_object);
    message.is_some_and(|members| members.iter().any(|(key, value)| key != "role" && is_filled(value)))
        || ["response", "thinking"].iter().any(|key| line.get(key).is_some_and(is_filled))
}

pub(super) fn done_reason(line: &Value<'_>) -> FinishReason {
    match line.get("done_reason").and_then(Value::as_str) {
        Some("length") => FinishReason::Length,
        Some("stop") | None => FinishReason::Stop,
        Some(_) => FinishReason::Other,
    }
}
