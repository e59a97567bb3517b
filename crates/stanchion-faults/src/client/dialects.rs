//! What the events and documents of each wire say.

mod anthropic;
mod gemini;
mod ollama;
mod openai_chat;
mod openai_responses;

use serde_json::{Value, json};

use super::{ReceivedEvent, Reply};
use crate::scenario::Dialect;

/// A key's value, unless it says nothing: null, false, zero and empty values are as good as none.
fn told<'a>(object: &'a Value, key: &str) -> Option<&'a Value> {
    object.get(key).filter(|value| match value {
        Value::Null => false,
        Value::Bool(yes) => *yes,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
    })
}

/// A key's text, unless it is empty.
fn text<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    told(object, key).and_then(Value::as_str)
}

/// The items of a key's list.
fn items<'a>(object: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    object.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn is_done_marker(event: &ReceivedEvent) -> bool {
    event.data.trim() == "[DONE]"
}

/// Reads one event of a stream.
pub(super) fn read_event(reply: &mut Reply, dialect: Dialect, event: &ReceivedEvent) {
    match dialect {
        Dialect::OpenAiChat if is_done_marker(event) => {
            reply.done = true;
            return;
        }
        // This wire has an end marker of its own; its libraries stop reading at the other one, too.
        Dialect::OpenAiResponses if is_done_marker(event) => return,
        _ => {}
    }
    let Ok(object) = serde_json::from_str::<Value>(&event.data) else {
        return reply.note_bad_json(&event.data);
    };
    let name = text(&object, "type").or(event.name.as_deref()).unwrap_or_default();
    match dialect {
        Dialect::OpenAiChat => openai_chat::event(reply, &object),
        Dialect::OpenAiResponses => openai_responses::event(reply, name, &object),
        Dialect::Anthropic => anthropic::event(reply, name, &object),
        Dialect::Gemini => gemini::document(reply, &object),
        Dialect::Ollama => ollama::document(reply, &object),
    }
}

/// Reads a body that is one document.
pub(super) fn read_whole(reply: &mut Reply, dialect: Dialect) {
    let object: Value = serde_json::from_slice(&reply.raw).unwrap_or_default();
    if reply.status.is_some_and(|status| status >= 400) {
        reply.error = match object {
            Value::Null => Some(json!({ "body": String::from_utf8_lossy(&reply.raw[..reply.raw.len().min(120)]) })),
            Value::Object(mut map) if map.contains_key("error") => map.remove("error").filter(|error| !error.is_null()),
            other => Some(other),
        };
        return;
    }
    if let Some(error) = told(&object, "error") {
        reply.error = Some(error.clone());
        return;
    }
    match dialect {
        Dialect::OpenAiChat => openai_chat::document(reply, &object),
        Dialect::OpenAiResponses => openai_responses::document(reply, &object),
        Dialect::Anthropic => anthropic::document(reply, &object),
        Dialect::Gemini => gemini::document(reply, &object),
        Dialect::Ollama => ollama::document(reply, &object),
    }
}

#[cfg(test)]
mod tests;
