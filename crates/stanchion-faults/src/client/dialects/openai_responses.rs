//! OpenAI Responses.

use serde_json::Value;

use super::super::Reply;
use super::{items, text, told};

pub(super) fn event(reply: &mut Reply, name: &str, object: &Value) {
    match name {
        "response.output_text.delta" => reply.add_text(text(object, "delta")),
        "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
            reply.add_reasoning(text(object, "delta"));
        }
        "response.function_call_arguments.delta" => {
            let name = object.get("output_index").or_else(|| object.get("item_id")).map(Value::to_string);
            let number = reply.call_number(name.unwrap_or_default());
            reply.add_tool_args(number, text(object, "delta").unwrap_or_default());
        }
        "response.completed" | "response.incomplete" => {
            let fallback = name.trim_start_matches("response.");
            let response = object.get("response").unwrap_or(&Value::Null);
            end(reply, response, fallback);
        }
        "response.failed" => {
            let response = told(object, "response").unwrap_or(object);
            reply.error = Some(told(response, "error").unwrap_or(response).clone());
        }
        "error" => reply.error = Some(told(object, "error").unwrap_or(object).clone()),
        // A relay's own error, without a type.
        _ => reply.error = told(object, "error").cloned().or(reply.error.take()),
    }
}

pub(super) fn document(reply: &mut Reply, object: &Value) {
    for item in items(object, "output") {
        match text(item, "type") {
            Some("message") => items(item, "content").for_each(|part| reply.add_text(text(part, "text"))),
            Some("reasoning") => {
                let parts = items(item, "summary").chain(items(item, "content"));
                parts.for_each(|part| reply.add_reasoning(text(part, "text")));
            }
            Some("function_call") => {
                let number = reply.tool_args.len() as u64;
                reply.add_tool_args(number, text(item, "arguments").unwrap_or_default());
            }
            _ => {}
        }
    }
    if let Some(status @ ("completed" | "incomplete")) = text(object, "status") {
        end(reply, object, status);
    }
}

fn end(reply: &mut Reply, response: &Value, status: &str) {
    reply.done = true;
    reply.finish = Some(text(response, "status").unwrap_or(status).to_owned());
    reply.usage = told(response, "usage").cloned();
}
