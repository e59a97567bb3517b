//! How much a model wrote: for an estimate of tokens where a provider does not come to count them.

use crate::json::Value;

/// About how many bytes of text a frame or document holds that the model wrote, reasoning and the arguments of tools
/// included. Ids, names of roles, signatures and media are none.
pub(super) fn bytes(value: &Value<'_>) -> usize {
    match value {
        Value::Array(items) => items.iter().map(bytes).sum(),
        Value::Object(members) => members.iter().map(|(key, value)| member(key, value)).sum(),
        _ => 0,
    }
}

fn member(key: &str, value: &Value<'_>) -> usize {
    match (key, value) {
        (
            "content" | "text" | "reasoning_content" | "reasoning" | "thinking" | "refusal" | "partial_json"
            | "arguments" | "input" | "name" | "delta" | "response" | "transcript" | "code",
            Value::String(text),
        ) => text.len(),
        // Arguments that came as an object were written as text.
        ("args" | "input" | "arguments", Value::Object(_)) => written(value),
        // Of what is repeated or explained, nothing was written for it.
        ("logprobs" | "usage" | "error" | "tools" | "instructions", _) => 0,
        _ => bytes(value),
    }
}

/// How many bytes a value takes as text without blanks.
fn written(value: &Value<'_>) -> usize {
    let text = |text: &str| serde_json::to_string(text).map_or(0, |text| text.len());
    match value {
        Value::Null | Value::Bool(true) => 4,
        Value::Bool(false) => 5,
        Value::Number(number) => number.length(),
        Value::String(string) => text(string),
        // A comma behind each but the last.
        Value::Array(items) => items.iter().map(|item| written(item) + 1).sum::<usize>().max(1) + 1,
        Value::Object(members) => {
            members.iter().map(|(key, value)| text(key) + written(value) + 2).sum::<usize>().max(1) + 1
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_count_as_they_are_written() {
        for arguments in [
            json!({"a": [true, false, null, "\"é\n"], "b": [], "c": {}, "d": {"e": 1}}),
            json!({"a": [1e308, 1.0, -0.0, 1e-7, 0.1, u64::MAX, i64::MIN]}),
        ] {
            let text = json!({"args": arguments}).to_string();
            assert_eq!(bytes(&Value::parse(&text).unwrap()), arguments.to_string().len(), "{text}");
        }
    }

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
            let text = value.to_string();
            assert_eq!(bytes(&Value::parse(&text).unwrap()), expected, "{text}");
        }
    }
}
