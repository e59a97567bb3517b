//! How much a model wrote: for an estimate of tokens where a provider does not come to count them.

use serde_json::Value;

/// About how many bytes of text a frame or document holds that the model wrote, reasoning and the arguments of tools
/// included. Ids, names of roles, signatures and media are none.
pub(super) fn bytes(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(bytes).sum(),
        Value::Object(members) => members.iter().map(|(key, value)| member(key, value)).sum(),
        _ => 0,
    }
}

fn member(key: &str, value: &Value) -> usize {
    match (key, value) {
        (
            "content" | "text" | "reasoning_content" | "reasoning" | "thinking" | "refusal" | "partial_json"
            | "arguments" | "input" | "name" | "delta" | "response" | "transcript" | "code",
            Value::String(text),
        ) => text.len(),
        // Arguments that came as an object were written as text.
        ("args" | "input" | "arguments", Value::Object(_)) => value.to_string().len(),
        // Of what is repeated or explained, nothing was written for it.
        ("logprobs" | "usage" | "error" | "tools" | "instructions", _) => 0,
        _ => bytes(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_model_wrote_is_weighed_and_nothing_else() {
        for (value, expected) in [
            (
                json!({"id": "c1", "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hello"}}]}),
                5,
            ),
            (
                json!({"choices": [{"delta": {"tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "ab", "arguments": "{}"}}]}}]}),
                4,
            ),
            (
                json!({"choices": [{"delta": {"reasoning_content": "ab", "content": "c"}, "logprobs": {"content": "x"}}]}),
                3,
            ),
            (json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}), 2),
            (json!({"type": "response.output_text.delta", "item_id": "i", "delta": "Hi!"}), 3),
            (
                json!({"candidates": [{"content": {"parts": [{"text": "Hi"}, {"inlineData": {"data": "QUJD"}}], "role": "model"}}]}),
                2,
            ),
            (json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": {"a": 1}}}]}}]}), 8),
            (json!({"model": "m", "message": {"role": "assistant", "content": "Hi", "thinking": "x"}}), 3),
            (json!("alone"), 0),
            (json!(null), 0),
        ] {
            assert_eq!(bytes(&value), expected, "{value}");
        }
    }
}
