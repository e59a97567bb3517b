//! Ollama chat: a stream's lines and a whole answer have the same form.

use serde_json::{Map, Value};

use super::super::Reply;
use super::{items, text, told};

pub(super) fn document(reply: &mut Reply, object: &Value) {
    if let Some(error) = told(object, "error") {
        reply.error = Some(error.clone());
        return;
    }
    if let Some(message) = object.get("message") {
        reply.add_text(text(message, "content"));
        reply.add_reasoning(text(message, "thinking"));
        for call in items(message, "tool_calls") {
            let number = reply.tool_args.len() as u64;
            let arguments = call.get("function").and_then(|function| function.get("arguments"));
            reply.add_tool_args(number, &arguments.map(Value::to_string).unwrap_or_default());
        }
    }
    if told(object, "done").is_some() {
        reply.done = true;
        reply.finish = text(object, "done_reason").map(str::to_owned);
        let counts = ["prompt_eval_count", "eval_count"];
        let usage: Map<_, _> =
            counts.iter().filter_map(|&key| Some((key.to_owned(), object.get(key)?.clone()))).collect();
        reply.usage = (!usage.is_empty()).then_some(Value::Object(usage));
    }
}
