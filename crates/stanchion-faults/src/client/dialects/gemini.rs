//! Gemini generateContent: a stream's events and a whole answer have the same form.

use serde_json::Value;

use super::super::Reply;
use super::{items, text, told};

pub(super) fn document(reply: &mut Reply, object: &Value) {
    // Some errors come as a list of one.
    let object = object.get(0).unwrap_or(object);
    if let Some(error) = told(object, "error") {
        reply.error = Some(error.clone());
        return;
    }
    if let Some(usage) = told(object, "usageMetadata") {
        reply.usage = Some(usage.clone());
    }
    for candidate in items(object, "candidates") {
        for part in candidate.get("content").into_iter().flat_map(|content| items(content, "parts")) {
            if told(part, "thought").is_some() {
                reply.add_reasoning(text(part, "text"));
            } else {
                reply.add_text(text(part, "text"));
            }
            if let Some(call) = told(part, "functionCall") {
                let number = reply.tool_args.len() as u64;
                let arguments = call.get("args").map(Value::to_string);
                reply.add_tool_args(number, &arguments.unwrap_or_default());
            }
        }
        finish(reply, text(candidate, "finishReason"));
    }
    // A prompt that was turned away has no candidates.
    finish(reply, object.get("promptFeedback").and_then(|feedback| text(feedback, "blockReason")));
}

fn finish(reply: &mut Reply, reason: Option<&str>) {
    if let Some(reason) = reason {
        reply.finish = Some(reason.to_owned());
        reply.done = true;
    }
}
