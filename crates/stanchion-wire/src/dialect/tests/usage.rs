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
        // What was written is beside the prompt, what was read within it; and both within it.
        (
            Chat,
            r#"{"choices":[],"usage":{"prompt_tokens":1000,"prompt_tokens_details":{"cached_tokens":900,"cache_write_tokens":200}}}"#,
            usage(Some(100), Some(900), Some(200), None, None),
        ),
        (
            Chat,
            r#"{"choices":[],"usage":{"prompt_tokens":1000,"prompt_tokens_details":{"cached_tokens":900,"cache_write_tokens":100}}}"#,
            usage(Some(0), Some(900), Some(100), None, None),
        ),
        (
            Chat,
            r#"{"choices":[],"usage":{"prompt_tokens":1000,"prompt_tokens_details":{"cached_tokens":1001,"cache_write_tokens":200}}}"#,
            usage(Some(1000), Some(1001), Some(200), None, None),
        ),
        // Whatever a provider claims.
        (
            Chat,
            r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":18446744073709551615,"total_tokens":18446744073709551615,"completion_tokens_details":{"reasoning_tokens":5}}}"#,
            usage(Some(1), None, None, Some(u64::MAX), Some(5)),
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

/// What two reports of Anthropic's come to: fresh, read, written, output.
fn two_reports(start: &str, delta: &str) -> [Option<u64>; 4] {
    let mut total = Usage::default();
    let mut reader = StreamReader::new(Anthropic);
    for data in [
        format!(r#"{{"type":"message_start","message":{{"usage":{start}}}}}"#),
        format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn"}},"usage":{delta}}}"#),
    ] {
        total.merge(&reader.read_data(None, data.as_bytes()).usage.unwrap());
    }
    [total.input, total.cache_read, total.cache_write, total.output]
}

#[test]
fn a_zero_that_is_said_later_takes_nothing_back() {
    const START: &str =
        r#"{"input_tokens":10,"cache_read_input_tokens":900,"cache_creation_input_tokens":100,"output_tokens":1}"#;
    let whole = [Some(10), Some(900), Some(100), Some(42)];
    for delta in [
        r#"{"output_tokens":42}"#,
        r#"{"input_tokens":0,"output_tokens":42}"#,
        r#"{"input_tokens":0,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":42}"#,
        r#"{"input_tokens":10,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":42}"#,
        r#"{"input_tokens":10,"cache_read_input_tokens":900,"cache_creation_input_tokens":100,"output_tokens":42}"#,
    ] {
        assert_eq!(two_reports(START, delta), whole, "{delta}");
    }
    for (start, delta, expected) in [
        // More is more: tools of the provider's feed their results back.
        (START, r#"{"input_tokens":500,"output_tokens":42}"#, [Some(500), Some(900), Some(100), Some(42)]),
        (r#"{"input_tokens":10}"#, r#"{"input_tokens":0,"output_tokens":42}"#, [Some(10), None, None, Some(42)]),
        // A proxy that guesses first, and knows of the cache in the end.
        (
            r#"{"input_tokens":1200,"cache_read_input_tokens":0,"cache_creation_input_tokens":0}"#,
            r#"{"input_tokens":100,"cache_read_input_tokens":900,"output_tokens":42}"#,
            [Some(100), Some(900), Some(0), Some(42)],
        ),
        (
            r#"{"input_tokens":1200}"#,
            r#"{"input_tokens":100,"cache_read_input_tokens":900,"output_tokens":42}"#,
            [Some(100), Some(900), None, Some(42)],
        ),
        (
            r#"{"input_tokens":0,"output_tokens":0}"#,
            r#"{"input_tokens":100,"cache_read_input_tokens":0,"output_tokens":42}"#,
            [Some(100), Some(0), None, Some(42)],
        ),
    ] {
        assert_eq!(two_reports(start, delta), expected, "{start} {delta}");
    }
}

#[test]
fn only_a_chunk_that_has_nothing_else_is_there_for_its_usage_alone() {
    const PLAIN: &str = r#""id":"c","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp","service_tier":"default","provider":"p","obfuscation":"xx""#;
    const USAGE: &str = r#""usage":{"prompt_tokens":9}"#;
    for (more, only) in [
        (r#""choices":[]"#, true),
        (r#""choices":[],"citations":[],"moderation":null"#, true),
        (r#""choices":[],"x_groq":{"id":"r"}"#, true),
        (r#""choices":[],"citations":["https://a.example"]"#, false),
        (r#""choices":[],"search_results":[{"title":"a"}]"#, false),
        (r#""choices":[],"moderation":{"flagged":false}"#, false),
        (r#""choices":[{"index":0,"delta":{}}]"#, false),
        (r#""citations":["https://a.example"]"#, false),
        (r#""note":null"#, true),
    ] {
        let data = format!("{{{PLAIN},{USAGE},{more}}}");
        let reading = read(Chat, "", &data);
        assert_eq!((reading.only_usage, reading.usage.is_some()), (only, true), "{more}");
    }
}

#[test]
fn an_empty_report_is_none() {
    for data in [r#"{"choices":[],"usage":null}"#, r#"{"choices":[],"usage":{}}"#] {
        assert_eq!(read(Chat, "", data).usage, None, "{data}");
    }
}
