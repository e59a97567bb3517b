mod agreement;
mod documents;
mod endings;
mod known;
mod skim;
mod usage;

use super::*;

use Dialect::{
    AnthropicMessages as Anthropic, GeminiGenerateContent as Gemini, Ollama, OpenAiChat as Chat,
    OpenAiResponses as Responses,
};
use FrameClass as C;

fn read(dialect: Dialect, event: &str, data: &str) -> Reading {
    StreamReader::new(dialect).read_data((!event.is_empty()).then_some(event.as_bytes()), data.as_bytes())
}

#[test]
fn frames_are_what_the_dialects_say() {
    for (dialect, event, data, class) in [
        // OpenAI Chat Completions.
        (
            Chat,
            "",
            r#"{"id":"c1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null,"obfuscation":"Zk"}"#,
            C::Meta,
        ),
        (Chat, "", r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}"#, C::Meta),
        (Chat, "", r#"{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}"#, C::Output),
        (Chat, "", r#"{"choices":[{"index":0,"delta":{"refusal":"I can"}}]}"#, C::Output),
        (Chat, "", r#"{"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}"#, C::Output),
        (
            Chat,
            "",
            r#"{"choices":[{"delta":{"content":"","reasoning":"Hm","reasoning_details":[{"type":"reasoning.text","text":"Hm"}]}}]}"#,
            C::Output,
        ),
        (
            Chat,
            "",
            r#"{"choices":[{"delta":{"content":"","reasoning_details":[{"type":"reasoning.text","text":""}]}}]}"#,
            C::Meta,
        ),
        (
            Chat,
            "",
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"ls","arguments":""}}]}}]}"#,
            C::Output,
        ),
        (
            Chat,
            "",
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"p\":"}}]}}]}"#,
            C::Output,
        ),
        (Chat, "", r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":""}}]}}]}"#, C::Meta),
        (Chat, "", r#"{"choices":[{"delta":{"audio":{"id":"a","data":"UklG","transcript":"h"}}}]}"#, C::Output),
        (
            Chat,
            "",
            r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}}]}"#,
            C::Output,
        ),
        (Chat, "", r#"{"choices":[{"delta":{"executed_tools":[{"index":0,"name":"search"}]}}]}"#, C::Output),
        (Chat, "", r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#, C::Finish),
        (
            Chat,
            "",
            r#"{"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}"#,
            C::Output,
        ),
        (Chat, "", r#"{"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":5}}"#, C::Usage),
        (Chat, "", r#"{"choices":[],"prompt_filter_results":[{"prompt_index":0}]}"#, C::Meta),
        (Chat, "", r#"{"choices":[{"index":0,"delta":{}}],"prompt_progress":{"total":9,"processed":3}}"#, C::Meta),
        (Chat, "", r#"{"choices":[{"delta":{"content":""},"finish_reason":"null"}]}"#, C::Meta),
        (Chat, "", r#"{"surprise":true}"#, C::Unknown),
        (Chat, "", "not json", C::Unknown),
        (Chat, "", r#"{"error":{}}"#, C::Error),
        (Chat, "", r#"{"error":{"message":"boom","type":"server_error","code":503}}"#, C::Error),
        (Chat, "", r#"{"error":{"message":"gone"},"choices":[]}"#, C::Error),
        (
            Chat,
            "",
            r#"{"error":{"code":502,"message":"gone"},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}"#,
            C::Error,
        ),
        (Chat, "", r#"{"error":null,"choices":[{"delta":{"content":"x"}}]}"#, C::Output),
        (Chat, "", r#"{"choices":[{"delta":{},"finish_reason":"error"}]}"#, C::Error),
        (Chat, "", r#"{"choices":[{"delta":{},"finish_reason":"insufficient_system_resource"}]}"#, C::Error),
        (Chat, "", r#"{"choices":[{"delta":{},"finish_reason":"network_error"}]}"#, C::Error),
        (
            Chat,
            "",
            r#"{"choices":[{"delta":{},"finish_reason":"stop","native_finish_reason":"network_error"}]}"#,
            C::Error,
        ),
        (Chat, "", r#"{"choices":[],"x_groq":{"id":"r","error":"over capacity"}}"#, C::Error),
        // OpenAI Responses.
        (
            Responses,
            "response.created",
            r#"{"type":"response.created","sequence_number":0,"response":{"id":"r","status":"in_progress","error":null,"output":[]}}"#,
            C::Meta,
        ),
        (Responses, "", r#"{"type":"response.in_progress","response":{"error":null}}"#, C::Meta),
        (Responses, "", r#"{"type":"keepalive","sequence_number":3}"#, C::Ping),
        (
            Responses,
            "",
            r#"{"type":"response.output_item.added","item":{"type":"reasoning","id":"rs_1","summary":[]}}"#,
            C::Structure,
        ),
        (
            Responses,
            "",
            r#"{"type":"response.output_item.added","item":{"type":"function_call","id":"fc","call_id":"c","name":"ls","arguments":""}}"#,
            C::Output,
        ),
        (
            Responses,
            "",
            r#"{"type":"response.content_part.added","part":{"type":"output_text","text":""}}"#,
            C::Structure,
        ),
        (
            Responses,
            "",
            r#"{"type":"response.output_text.delta","item_id":"i","output_index":0,"delta":"Hi"}"#,
            C::Output,
        ),
        (
            Responses,
            "",
            r#"{"type":"response.output_text.delta","item_id":"i","output_index":0,"delta":""}"#,
            C::Structure,
        ),
        (Responses, "", r#"{"type":"response.function_call_arguments.delta","delta":"{\"p\""}"#, C::Output),
        (Responses, "response.output_text.delta", r#"{"delta":"Hi"}"#, C::Output),
        (Responses, "", r#"{"type":"response.web_search_call.searching"}"#, C::Structure),
        (
            Responses,
            "",
            r#"{"type":"response.image_generation_call.partial_image","partial_image_b64":"AAAA"}"#,
            C::Output,
        ),
        (Responses, "", r#"{"type":"response.output_item.done","item":{"type":"message"}}"#, C::Structure),
        (
            Responses,
            "",
            r#"{"type":"response.completed","response":{"status":"completed","error":null,"output":[]}}"#,
            C::Error,
        ),
        (
            Responses,
            "",
            r#"{"type":"response.completed","response":{"status":"completed","output":[{"type":"message"}]}}"#,
            C::Output,
        ),
        (
            Responses,
            "",
            r#"{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"},"output":[]}}"#,
            C::Terminal,
        ),
        (
            Responses,
            "",
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"x"}}}"#,
            C::Error,
        ),
        (
            Responses,
            "error",
            r#"{"type":"error","code":"context_length_exceeded","message":"too long","param":"input","sequence_number":1}"#,
            C::Error,
        ),
        (
            Responses,
            "",
            r#"{"type":"error","error":{"type":"x","code":"insufficient_quota","message":"no money"},"sequence_number":2}"#,
            C::Error,
        ),
        // Anthropic Messages.
        (
            Anthropic,
            "message_start",
            r#"{"type":"message_start","message":{"content":[],"usage":{"input_tokens":10,"output_tokens":1}}}"#,
            C::Meta,
        ),
        (Anthropic, "ping", r#"{"type":"ping"}"#, C::Ping),
        (
            Anthropic,
            "",
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
            C::Structure,
        ),
        (
            Anthropic,
            "",
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            C::Structure,
        ),
        (
            Anthropic,
            "",
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"ls","input":{}}}"#,
            C::Output,
        ),
        (
            Anthropic,
            "",
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"Eq"}}"#,
            C::Output,
        ),
        (
            Anthropic,
            "",
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm"}}"#,
            C::Output,
        ),
        (
            Anthropic,
            "",
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"Eq"}}"#,
            C::Structure,
        ),
        (
            Anthropic,
            "",
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}"#,
            C::Structure,
        ),
        (
            Anthropic,
            "content_block_delta",
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"p\":"}}"#,
            C::Output,
        ),
        (
            Anthropic,
            "content_block_delta",
            r#"{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}}"#,
            C::Output,
        ),
        (Anthropic, "", r#"{"type":"content_block_stop","index":0}"#, C::Structure),
        (
            Anthropic,
            "",
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}"#,
            C::Finish,
        ),
        (Anthropic, "", r#"{"type":"message_stop"}"#, C::Terminal),
        (
            Anthropic,
            "error",
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            C::Error,
        ),
        (Anthropic, "", "[DONE]", C::Control),
        // Gemini.
        (
            Gemini,
            "",
            r#"{"candidates":[{"content":{"role":"model","parts":[{"text":"","thoughtSignature":"Cg=="}]},"index":0}],"usageMetadata":{"promptTokenCount":1}}"#,
            C::Meta,
        ),
        (Gemini, "", r#"{"candidates":[{"content":{"parts":[{"text":"plan","thought":true}]}}]}"#, C::Output),
        (
            Gemini,
            "",
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"ls","args":{"p":"/"}}}]}}]}"#,
            C::Output,
        ),
        (Gemini, "", r#"{"candidates":[{"content":{"parts":[]},"finishReason":"STOP"}]}"#, C::Finish),
        (
            Gemini,
            "",
            r#"{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10}}"#,
            C::Output,
        ),
        (
            Gemini,
            "",
            r#"{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":1}}"#,
            C::Terminal,
        ),
        (Gemini, "", r#"{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}"#, C::Error),
        (Gemini, "", r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#, C::Error),
        (Gemini, "", r#"[{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}]"#, C::Error),
        // Ollama.
        (Ollama, "", r#"{"model":"m","message":{"role":"assistant","content":""},"done":false}"#, C::Meta),
        (Ollama, "", r#"{"message":{"role":"assistant","content":"","thinking":"Hm"},"done":false}"#, C::Output),
        (
            Ollama,
            "",
            r#"{"message":{"content":"","tool_calls":[{"function":{"name":"ls","arguments":{"p":"/"}}}]},"done":false}"#,
            C::Output,
        ),
        (Ollama, "", r#"{"response":"Hi","done":false}"#, C::Output),
        (Ollama, "", r#"{"message":{"content":""},"done":true,"done_reason":"stop","eval_count":2}"#, C::Terminal),
        (Ollama, "", r#"{"error":"an error was encountered while running the model"}"#, C::Error),
    ] {
        let reading = read(dialect, event, data);
        assert_eq!(reading.class, class, "{dialect} {event} {data}");
        assert_eq!(reading.output, matches!(class, C::Output | C::Unknown), "{dialect} {data}");
        assert_eq!(reading.fault.is_some(), class == C::Error, "{dialect} {data}");
    }
}

#[test]
fn faults_mean_what_their_codes_say() {
    for (dialect, event, data, kind, told) in [
        (
            Chat,
            "",
            r#"{"error":{"message":"The server is overloaded","type":"server_error","code":503}}"#,
            FailureKind::Overloaded,
            true,
        ),
        (
            Chat,
            "",
            r#"{"error":{"code":502,"message":"provider gone"},"choices":[{"delta":{"content":""},"finish_reason":"error"}]}"#,
            FailureKind::ServerError,
            true,
        ),
        (Chat, "", r#"{"choices":[{"delta":{},"finish_reason":"error"}]}"#, FailureKind::ServerError, false),
        (
            Responses,
            "error",
            r#"{"type":"error","code":"context_length_exceeded","message":"input does not fit","param":"input"}"#,
            FailureKind::ContextOverflow,
            true,
        ),
        (
            Responses,
            "",
            r#"{"type":"error","error":{"type":"insufficient_quota","code":"insufficient_quota","message":"x"}}"#,
            FailureKind::QuotaExhausted,
            true,
        ),
        (
            Responses,
            "",
            r#"{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"x"}}}"#,
            FailureKind::RateLimited,
            true,
        ),
        (
            Anthropic,
            "error",
            r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#,
            FailureKind::Overloaded,
            true,
        ),
        (Gemini, "", r#"{"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}"#, FailureKind::Overloaded, true),
        (
            Ollama,
            "",
            r#"{"error":"server busy, please try again. maximum pending requests exceeded"}"#,
            FailureKind::Overloaded,
            true,
        ),
    ] {
        let fault = read(dialect, event, data).fault.unwrap_or_else(|| panic!("no fault in {data}"));
        assert_eq!((fault.failure.kind(), fault.told), (kind, told), "{dialect} {data}");
    }
}

#[test]
fn a_finish_counts_once_every_open_choice_has_finished() {
    let mut reader = StreamReader::new(Chat);
    for data in
        [r#"{"choices":[{"index":0,"delta":{"content":"a"}}]}"#, r#"{"choices":[{"index":1,"delta":{"content":"b"}}]}"#]
    {
        assert!(reader.read_data(None, data.as_bytes()).output);
    }
    assert_eq!(reader.read_data(None, br#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#).finish, None);
    assert!(!reader.finished());
    let last = reader.read_data(None, br#"{"choices":[{"index":1,"delta":{},"finish_reason":"length"}]}"#);
    assert_eq!(last.finish, Some(FinishReason::Length));
    assert!(reader.finished());
}

#[test]
fn broken_utf8_is_read_around() {
    let mut data = br#"{"choices":[{"delta":{"content":""#.to_vec();
    data.extend_from_slice(b"\xff\xfe\"},\"finish_reason\":\"stop\"}]}");
    let reading = StreamReader::new(Chat).read_data(None, &data);
    assert!(reading.output);
    assert_eq!(reading.finish, Some(FinishReason::Stop));
}
