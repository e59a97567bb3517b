//! Anthropic Messages.

use serde_json::Value;

use super::super::Reply;
use super::{items, text, told};

pub(super) fn event(reply: &mut Reply, name: &str, object: &Value) {
    match name {
        "error" => reply.error = Some(told(object, "error").unwrap_or(object).clone()),
        "content_block_delta" => {
            let Some(delta) = object.get("delta") else { return };
            reply.add_text(text(delta, "text"));
            reply.add_reasoning(text(delta, "thinking"));
            if let Some(arguments) = text(delta, "partial_json") {
                let index = object.get("index").and_then(Value::as_u64).unwrap_or(0);
                reply.add_tool_args(index, arguments);
            }
        }
        "message_delta" => {
            if let Some(reason) = object.get("delta").and_then(|delta| text(delta, "stop_reason")) {
                reply.finish = Some(reason.to_owned());
            }
            if let Some(usage) = told(object, "usage") {
                reply.usage = Some(usage.clone());
            }
        }
        "message_stop" => reply.done = true,
        _ => {}
    }
}

pub(super) fn document(reply: &mut Reply, object: &Value) {
    if !object.get("content").is_some_and(Value::is_array) {
        return;
    }
    for (index, block) in items(object, "content").enumerate() {
        reply.add_text(text(block, "text"));
        reply.add_reasoning(text(block, "thinking"));
        if let Some(input) = block.get("input") {
            reply.add_tool_args(index as u64, &input.to_string());
        }
    }
    reply.finish = text(object, "stop_reason").map(str::to_owned);
    reply.usage = told(object, "usage").cloned();
    reply.done = true;
}
