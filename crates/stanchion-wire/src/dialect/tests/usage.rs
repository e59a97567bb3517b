use super::*;

#[test]
fn counts_are_normalised_over_the_dialects() {
    let usage = |input, cache_read, cache_write, output, reasoning| Usage {
        input,
        cache_read,
        cache_write,
        output,
        reasoning,
        ..Usage::default()
    };
    for (dialect, data, expected) in [
        (
            Chat,
            r#"{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":5,"total_tokens":105,"prompt_tokens_details":{"cached_tokens":64,"cache_write_tokens":6},"completion_tokens_details":{"reasoning_tokens":2}}}"#,
            usage(Some(30), Some(64), Some(6), Some(5), Some(2)),
        ),
        // Nothing told of the cache is nothing, not zero.
        (
            Chat,
            r#"{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":5}}"#,
            usage(Some(100), None, None, Some(5), None),
        ),
        (
            Chat,
            r#"{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":0}}}"#,
            usage(Some(100), Some(0), None, Some(5), None),
        ),
        // DeepSeek.
        (
            Chat,
            r#"{"choices":[],"usage":{"prompt_tokens":100,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36,"completion_tokens":5}}"#,
            usage(Some(36), Some(64), None, Some(5), None),
        ),
        // Moonshot: within the choice.
        (
            Chat,
            r#"{"choices":[{"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":100,"completion_tokens":5,"cached_tokens":64}}]}"#,
            usage(Some(36), Some(64), None, Some(5), None),
        ),
        // Groq: only in its own member.
        (
            Chat,
            r#"{"choices":[],"x_groq":{"id":"r","usage":{"prompt_tokens":9,"completion_tokens":1}}}"#,
            usage(Some(9), None, None, Some(1), None),
        ),
        // xAI: reasoning beside the completion, given away by the total; and more cached than sent.
        (
            Chat,
            r#"{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":22,"completion_tokens_details":{"reasoning_tokens":7}}}"#,
            usage(Some(10), None, None, Some(12), Some(7)),
        ),
        (
            Chat,
            r#"{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":64}}}"#,
            usage(Some(10), Some(64), None, Some(5), None),
        ),
        (
            Responses,
            r#"{"type":"response.completed","response":{"output":[{}],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":64},"output_tokens":9,"output_tokens_details":{"reasoning_tokens":4}}}}"#,
            usage(Some(36), Some(64), None, Some(9), Some(4)),
        ),
        (
            Gemini,
            r#"{"candidates":[],"usageMetadata":{"promptTokenCount":10,"cachedContentTokenCount":4,"candidatesTokenCount":1,"thoughtsTokenCount":3,"totalTokenCount":14}}"#,
            usage(Some(6), Some(4), None, Some(4), Some(3)),
        ),
        (Ollama, r#"{"done":true,"prompt_eval_count":3,"eval_count":2}"#, usage(Some(3), None, None, Some(2), None)),
    ] {
        assert_eq!(read(dialect, "", data).usage, Some(expected), "{data}");
    }
}

#[test]
fn anthropics_two_reports_make_one() {
    let mut total = Usage::default();
    let mut reader = StreamReader::new(Anthropic);
    for data in [
        r#"{"type":"message_start","message":{"usage":{"input_tokens":10,"cache_creation_input_tokens":100,"cache_read_input_tokens":900,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":100},"output_tokens":1}}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":42}}"#,
    ] {
        total.merge(&reader.read_data(None, data.as_bytes()).usage.unwrap());
    }
    let expected = Usage {
        input: Some(10),
        cache_read: Some(900),
        cache_write: Some(100),
        cache_write_5m: Some(0),
        cache_write_1h: Some(100),
        output: Some(42),
        reasoning: None,
    };
    assert_eq!(total, expected);
    assert_eq!(total.input_total(), Some(1010));
}

#[test]
fn an_empty_report_is_none() {
    for data in [r#"{"choices":[],"usage":null}"#, r#"{"choices":[],"usage":{}}"#] {
        assert_eq!(read(Chat, "", data).usage, None, "{data}");
    }
}
