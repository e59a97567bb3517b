use serde_json::json;

use super::super::{ReceivedEvent, Reply};
use super::{read_event, read_whole};
use crate::scenario::Dialect;

/// Feeds events; each is its data, perhaps after a name and a space.
fn stream(dialect: Dialect, events: &[&str]) -> Reply {
    let mut reply = Reply { status: Some(200), ..Reply::default() };
    for event in events {
        let (name, data) = match event.split_once(" {") {
            Some((name, rest)) if !name.starts_with(['{', '[']) => (Some(name.to_owned()), format!("{{{rest}")),
            _ => (None, (*event).to_owned()),
        };
        read_event(&mut reply, dialect, &ReceivedEvent { name, data });
    }
    reply
}

fn whole(dialect: Dialect, status: u16, body: &str) -> Reply {
    let mut reply = Reply { status: Some(status), raw: body.as_bytes().to_vec(), ..Reply::default() };
    read_whole(&mut reply, dialect);
    reply
}

/// Text, reasoning, the first call's arguments, finish and end marker; the error, where there is one.
fn saw(reply: &Reply) -> String {
    let arguments = reply.tool_args.get(&0).map_or("-", String::as_str);
    let finish = reply.finish.as_deref().unwrap_or("-");
    let seen = format!("{}|{}|{arguments}|{finish}|{}", reply.text, reply.reasoning, reply.done);
    reply.error.iter().fold(seen, |seen, error| format!("{seen}|{error}"))
}

#[test]
fn streams_of_every_wire_are_read() {
    use Dialect::{Anthropic, Gemini, Ollama, OpenAiChat, OpenAiResponses};

    let table: &[(Dialect, &[&str], &str)] = &[
        (
            OpenAiChat,
            &[
                r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#,
                r#"{"choices":[{"delta":{"reasoning_content":"h"}},{"delta":{"reasoning":"m"}}]}"#,
                r#"{"choices":[{"delta":{"content":"He"}}],"error":null}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"ls","arguments":"{\"p"}}]}}]}"#,
                r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"}"}}]}}]}"#,
                r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
                r#"{"choices":[],"usage":{"total_tokens":3}}"#,
                " [DONE] ",
            ],
            r#"He|hm|{"p"}|stop|true"#,
        ),
        (OpenAiChat, &[r#"{"error":{"message":"x"}}"#, "[DONE]"], r#"||-|-|true|{"message":"x"}"#),
        (OpenAiChat, &[r#"{"choices":[{"finish_reason":"error"}]}"#], r#"||-|error|false|{"finish_reason":"error"}"#),
        (
            OpenAiChat,
            &[r#"{"choices":[{"finish_reason":"error","error":{"code":502}}]}"#],
            r#"||-|error|false|{"code":502}"#,
        ),
        (OpenAiChat, &["<html>"], r#"||-|-|false|{"bad_json":"<html>"}"#),
        (OpenAiChat, &[r#"{"error":{"code":1}}"#, "oops"], r#"||-|-|false|{"code":1}"#),
        (OpenAiChat, &["[1]", "7", r#"{"error":{},"choices":null}"#], "||-|-|false"),
        (
            OpenAiResponses,
            &[
                r#"response.created {"response":{"status":"in_progress","error":null}}"#,
                r#"{"type":"response.reasoning_summary_text.delta","delta":"h"}"#,
                r#"{"type":"response.reasoning_text.delta","delta":"m"}"#,
                r#"{"type":"response.output_text.delta","output_index":0,"delta":"He"}"#,
                r#"{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"p"}"#,
                r#"{"type":"response.function_call_arguments.delta","output_index":2,"delta":"\"}"}"#,
                r#"response.completed {"response":{"status":"completed","error":null,"usage":{"input_tokens":1}}}"#,
                "[DONE]",
            ],
            r#"He|hm|{"p"}|completed|true"#,
        ),
        (OpenAiResponses, &[r#"{"type":"response.incomplete","response":{}}"#], "||-|incomplete|true"),
        (OpenAiResponses, &["[DONE]"], "||-|-|false"),
        (
            OpenAiResponses,
            &[r#"{"type":"error","code":"overloaded","message":"x"}"#],
            r#"||-|-|false|{"code":"overloaded","message":"x","type":"error"}"#,
        ),
        (OpenAiResponses, &[r#"error {"error":{"code":"c"},"sequence_number":2}"#], r#"||-|-|false|{"code":"c"}"#),
        (
            OpenAiResponses,
            &[r#"{"type":"response.failed","response":{"error":{"code":"c"}}}"#],
            r#"||-|-|false|{"code":"c"}"#,
        ),
        (OpenAiResponses, &[r#"{"error":{"code":"c"}}"#], r#"||-|-|false|{"code":"c"}"#),
        (
            Anthropic,
            &[
                r#"message_start {"message":{"usage":{"input_tokens":9}}}"#,
                r#"{"type":"content_block_delta","index":0,"delta":{"thinking":"hm"}}"#,
                r#"content_block_delta {"index":1,"delta":{"text":"He"}}"#,
                r#"content_block_delta {"delta":{"partial_json":"{\"p"}}"#,
                r#"message_delta {"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}"#,
                "message_stop {}",
            ],
            r#"He|hm|{"p|end_turn|true"#,
        ),
        (
            Anthropic,
            &[r#"error {"type":"error","error":{"type":"overloaded_error"}}"#],
            r#"||-|-|false|{"type":"overloaded_error"}"#,
        ),
        (Anthropic, &["[DONE]"], r#"||-|-|false|{"bad_json":"[DONE]"}"#),
        (Anthropic, &["{"], r#"||-|-|false|{"bad_json":"{"}"#),
        (
            Gemini,
            &[
                r#"{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"He"}]}}]}"#,
                r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"ls","args":{"p":1}}}]},"finishReason":"STOP"}]}"#,
            ],
            r#"He|hm|{"p":1}|STOP|true"#,
        ),
        (Gemini, &[r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#], "||-|SAFETY|true"),
        (Gemini, &[r#"[{"error":{"code":503}}]"#], r#"||-|-|false|{"code":503}"#),
        (
            Ollama,
            &[
                r#"{"message":{"thinking":"hm","content":""},"done":false}"#,
                r#"{"message":{"content":"He"},"done":false}"#,
                r#"{"message":{"content":"","tool_calls":[{"function":{"name":"ls","arguments":{"p":1}}}]},"done":false}"#,
                r#"{"message":{"content":""},"done":true,"done_reason":"stop","eval_count":2}"#,
            ],
            r#"He|hm|{"p":1}|stop|true"#,
        ),
        (Ollama, &[r#"{"error":"out of memory"}"#], r#"||-|-|false|"out of memory""#),
    ];
    for (dialect, events, expected) in table {
        assert_eq!(saw(&stream(*dialect, events)), *expected, "{dialect} {events:?}");
    }
}

#[test]
fn the_last_usage_counts_and_the_first_output_is_timed() {
    let usage = |dialect, events| stream(dialect, events).usage;
    assert_eq!(usage(Dialect::OpenAiChat, &[r#"{"usage":{"a":1}}"#, r#"{"usage":null}"#]), Some(json!({ "a": 1 })));
    assert_eq!(usage(Dialect::Anthropic, &[r#"message_delta {"usage":{"a":1}}"#]), Some(json!({ "a": 1 })));
    assert_eq!(usage(Dialect::Gemini, &[r#"{"usageMetadata":{"a":1}}"#]), Some(json!({ "a": 1 })));
    assert_eq!(usage(Dialect::Ollama, &[r#"{"done":true,"eval_count":2}"#]), Some(json!({ "eval_count": 2 })));
    let first = |events| stream(Dialect::OpenAiChat, events).first_output_at.is_some();
    assert!(!first(&[r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#]));
    assert!(first(&[r#"{"choices":[{"delta":{"tool_calls":[{"index":1}]}}]}"#]));
}

#[test]
fn whole_documents_of_every_wire_are_read() {
    use Dialect::{Anthropic, Gemini, Ollama, OpenAiChat, OpenAiResponses};

    for (dialect, body, expected) in [
        (OpenAiChat, r#"{"choices":[{"message":{"content":"He"},"finish_reason":"stop"}]}"#, "He||-|stop|true"),
        (
            OpenAiChat,
            r#"{"choices":[{"message":{"content":null,"tool_calls":[{"function":{"arguments":"{}"}}]}}]}"#,
            "||{}|-|true",
        ),
        (OpenAiChat, r#"{"choices":[]}"#, "||-|-|false"),
        (OpenAiChat, "<html>", "||-|-|false"),
        (OpenAiChat, "[]", "||-|-|false"),
        (OpenAiChat, r#"{"error":{"code":1}}"#, r#"||-|-|false|{"code":1}"#),
        (
            OpenAiResponses,
            r#"{"status":"completed","error":null,"output":[{"type":"reasoning","summary":[{"text":"hm"}]},
                {"type":"message","content":[{"type":"output_text","text":"He"}]},
                {"type":"function_call","arguments":"{}"}]}"#,
            "He|hm|{}|completed|true",
        ),
        (OpenAiResponses, r#"{"status":"failed","error":{"code":"c"}}"#, r#"||-|-|false|{"code":"c"}"#),
        (
            Anthropic,
            r#"{"content":[{"type":"tool_use","input":{"p":1}},{"text":"He"},{"thinking":"hm"}],"stop_reason":"end_turn"}"#,
            r#"He|hm|{"p":1}|end_turn|true"#,
        ),
        (Anthropic, r#"{"type":"error","error":{"type":"t"}}"#, r#"||-|-|false|{"type":"t"}"#),
        (Gemini, r#"{"candidates":[{"content":{"parts":[{"text":"He"}]},"finishReason":"STOP"}]}"#, "He||-|STOP|true"),
        (Ollama, r#"{"message":{"content":"He"},"done":true,"done_reason":"stop"}"#, "He||-|stop|true"),
    ] {
        assert_eq!(saw(&whole(dialect, 200, body)), expected, "{dialect} {body}");
    }
}

#[test]
fn an_error_status_tells_what_its_body_tells() {
    for (body, error) in [
        (r#"{"error":{"message":"x"}}"#, Some(json!({ "message": "x" }))),
        (r#"{"error":"x"}"#, Some(json!("x"))),
        (r#"{"error":null}"#, None),
        (r#"{"detail":"x"}"#, Some(json!({ "detail": "x" }))),
        ("<html>", Some(json!({ "body": "<html>" }))),
        ("", Some(json!({ "body": "" }))),
    ] {
        assert_eq!(whole(Dialect::OpenAiChat, 500, body).error, error, "{body}");
    }
}
