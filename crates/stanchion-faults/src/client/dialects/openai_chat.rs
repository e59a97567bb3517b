//! OpenAI Chat Completions.

use serde_json::{Value, json};

use super::super::Reply;
use super::{items, text, told};

pub(super) fn event(reply: &mut Reply, object: &Value) {
    if let Some(error) = told(object, "error") {
        reply.error = Some(error.clone());
        return;
    }
    if let Some(usage) = told(object, "usage") {
        reply.usage = Some(usage.clone());
    }
    for choice in items(object, "choices") {
        if let Some(delta) = told(choice, "delta") {
            reply.add_text(text(delta, "content"));
            reply.add_reasoning(text(delta, "reasoning_content"));
            reply.add_reasoning(text(delta, "reasoning"));
            for call in items(delta, "tool_calls") {
                tool_call(reply, call, 0);
            }
        }
        finish(reply, choice);
    }
}

pub(super) fn document(reply: &mut Reply, object: &Value) {
    let Some(choice) = items(object, "choices").next() else { return };
    if let Some(message) = told(choice, "message") {
        reply.add_text(text(message, "content"));
        reply.add_reasoning(text(message, "reasoning_content").or(text(message, "reasoning")));
        for (place, call) in items(message, "tool_calls").enumerate() {
            tool_call(reply, call, place as u64);
        }
    }
    finish(reply, choice);
    reply.done = true;
    reply.usage = told(object, "usage").cloned();
}

/// A call, or a piece of one; `place` is its number where it tells none.
fn tool_call(reply: &mut Reply, call: &Value, place: u64) {
    let index = call.get("index").and_then(Value::as_u64).unwrap_or(place);
    let arguments = call.get("function").and_then(|function| text(function, "arguments"));
    reply.add_tool_args(index, arguments.unwrap_or_default());
}

fn finish(reply: &mut Reply, choice: &Value) {
    let Some(reason) = text(choice, "finish_reason") else { return };
    reply.finish = Some(reason.to_owned());
    if reason == "error" {
        reply.note_fault(told(choice, "error").cloned().unwrap_or_else(|| json!({ "finish_reason": "error" })));
    }
}
