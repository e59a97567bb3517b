use super::*;

fn end(dialect: Dialect, frames: &[&str], stray: &str) -> Option<FailureKind> {
    let mut reader = StreamReader::new(dialect);
    for data in frames {
        if let Some(fault) = reader.read_data(None, data.as_bytes()).fault {
            return Some(fault.failure.kind());
        }
    }
    match reader.end(stray.as_bytes()) {
        StreamEnd::Complete => None,
        StreamEnd::Failed(failure) => Some(failure.kind()),
    }
}

const ROLE: &str = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#;
const TEXT: &str = r#"{"choices":[{"index":0,"delta":{"content":"a"}}]}"#;
const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const SECOND: &str = r#"{"choices":[{"index":1,"delta":{"content":"b"}}]}"#;

#[test]
fn a_stream_is_complete_by_its_dialects_own_rule() {
    let truncated = Some(FailureKind::Truncated);
    let empty = Some(FailureKind::EmptyReply);
    for (dialect, frames, stray, expected) in [
        (Chat, &[ROLE, TEXT, STOP, "[DONE]"][..], "", None),
        (Chat, &[ROLE, TEXT, STOP], "", None),
        (Chat, &[ROLE, STOP, "[DONE]"], "", None),
        (Chat, &[ROLE, TEXT], "", truncated),
        (Chat, &[ROLE, TEXT, "[DONE]"], "", truncated),
        (Chat, &[TEXT, SECOND, STOP], "", truncated),
        (Chat, &[ROLE], "", truncated),
        (Chat, &[], "", empty),
        (Chat, &["[DONE]"], "", empty),
        (Chat, &[" [DONE] "], "", empty),
        (
            Chat,
            &[],
            "{\"error\":{\"code\":\"insufficient_quota\",\"message\":\"x\"}}\n",
            Some(FailureKind::QuotaExhausted),
        ),
        (
            Chat,
            &[ROLE],
            "error: {\"code\":500,\"message\":\"boom\",\"type\":\"server_error\"}\n",
            Some(FailureKind::ServerError),
        ),
        (Chat, &[ROLE], "garbage\n", truncated),
        (
            Responses,
            &[
                r#"{"type":"response.created","response":{"error":null}}"#,
                r#"{"type":"response.output_text.delta","delta":"x"}"#,
                r#"{"type":"response.completed","response":{"output":[]}}"#,
            ],
            "",
            None,
        ),
        (Responses, &[r#"{"type":"response.incomplete","response":{"output":[]}}"#], "", None),
        (
            Responses,
            &[
                r#"{"type":"response.created","response":{"error":null}}"#,
                r#"{"type":"response.output_text.delta","delta":"x"}"#,
            ],
            "",
            truncated,
        ),
        (
            Responses,
            &[
                r#"{"type":"response.created","response":{"error":null}}"#,
                r#"{"type":"response.output_text.delta","delta":"x"}"#,
                "[DONE]",
            ],
            "",
            truncated,
        ),
        (
            Anthropic,
            &[
                r#"{"type":"message_start","message":{}}"#,
                r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
                r#"{"type":"message_stop"}"#,
            ],
            "",
            None,
        ),
        (
            Anthropic,
            &[
                r#"{"type":"message_start","message":{}}"#,
                r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
            ],
            "",
            None,
        ),
        (Anthropic, &[r#"{"type":"message_start","message":{}}"#, r#"{"type":"ping"}"#], "", truncated),
        (Anthropic, &[r#"{"type":"ping"}"#], "", empty),
        (Gemini, &[r#"{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}]}"#], "", None),
        (Gemini, &[r#"{"candidates":[{"content":{"parts":[{"text":"Hi"}]}}]}"#], "", truncated),
        (Gemini, &[r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#], "", None),
        (
            Ollama,
            &[r#"{"message":{"content":"Hi"},"done":false}"#, r#"{"message":{"content":""},"done":true}"#],
            "",
            None,
        ),
        (Ollama, &[r#"{"message":{"content":"Hi"},"done":false}"#], "", truncated),
    ] {
        assert_eq!(end(dialect, frames, stray), expected, "{dialect} {frames:?} {stray:?}");
    }
}

#[test]
fn after_an_error_that_the_client_saw_nothing_is_added() {
    let mut reader = StreamReader::new(Chat);
    reader.read_data(None, TEXT.as_bytes());
    assert!(
        reader
            .read_data(None, br#"{"error":{"message":"engine died","code":500}}"#)
            .fault
            .is_some_and(|fault| fault.told)
    );
    assert_eq!(reader.read_data(None, b"[DONE]").class, C::Terminal);
    assert!(matches!(reader.end(b""), StreamEnd::Complete));
}

#[test]
fn finish_reasons_are_normalised() {
    for (dialect, data, expected) in [
        (Chat, r#"{"choices":[{"delta":{},"finish_reason":"length"}]}"#, FinishReason::Length),
        (Chat, r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#, FinishReason::ToolCalls),
        (Chat, r#"{"choices":[{"delta":{},"finish_reason":"content_filter"}]}"#, FinishReason::ContentFilter),
        (Chat, r#"{"choices":[{"delta":{},"finish_reason":"brand_new"}]}"#, FinishReason::Other),
        (Anthropic, r#"{"type":"message_delta","delta":{"stop_reason":"pause_turn"}}"#, FinishReason::Pause),
        (Anthropic, r#"{"type":"message_delta","delta":{"stop_reason":"refusal"}}"#, FinishReason::ContentFilter),
        (
            Responses,
            r#"{"type":"response.incomplete","response":{"incomplete_details":{"reason":"content_filter"}}}"#,
            FinishReason::ContentFilter,
        ),
        (
            Responses,
            r#"{"type":"response.completed","response":{"output":[{"type":"function_call"}]}}"#,
            FinishReason::ToolCalls,
        ),
        (Gemini, r#"{"candidates":[{"finishReason":"MAX_TOKENS"}]}"#, FinishReason::Length),
        (Gemini, r#"{"candidates":[{"finishReason":"SAFETY"}]}"#, FinishReason::ContentFilter),
        (Ollama, r#"{"done":true,"done_reason":"length"}"#, FinishReason::Length),
    ] {
        assert_eq!(read(dialect, "", data).finish, Some(expected), "{data}");
    }
}
