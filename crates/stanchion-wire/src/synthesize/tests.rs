use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn text(dialect: Dialect, document: &Value) -> String {
    String::from_utf8(stream(dialect, document.to_string().as_bytes()).unwrap().to_vec()).unwrap()
}

/// The data of each frame.
fn frames(stream: &str) -> Vec<Value> {
    let data = stream.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

/// The texts under `pointer` of all frames, joined.
fn joined(frames: &[Value], pointer: &str) -> String {
    frames.iter().filter_map(|frame| frame.pointer(pointer)?.as_str()).collect()
}

fn types(frames: &[Value]) -> Vec<&str> {
    frames.iter().map(|frame| frame["type"].as_str().unwrap()).collect()
}

#[test]
fn a_chat_completion_becomes_chunks() {
    let stream = text(
        Dialect::OpenAiChat,
        &json!({
            "id": "c1", "object": "chat.completion", "created": 1, "model": "m",
            "choices": [
                {"index": 0, "finish_reason": "tool_calls", "native_finish_reason": "tool_use",
                 "logprobs": {"content": []},
                 "message": {
                    "role": "assistant", "content": "Hello", "reasoning_content": "think", "refusal": null,
                    "annotations": [],
                    "tool_calls": [
                        {"id": "call_1", "type": "function", "function": {"name": "ls", "arguments": "{\"p\": 1}"}},
                        {"id": "call_2", "type": "function", "function": {"name": "cat", "arguments": "{}"}},
                    ],
                }},
                {"index": 1, "finish_reason": "stop",
                 "message": {"role": "assistant", "content": null, "refusal": "no"}},
            ],
            "usage": {"prompt_tokens": 3, "completion_tokens": 4},
        }),
    );
    assert!(stream.ends_with("}\n\ndata: [DONE]\n\n"));
    let frames = frames(&stream);
    let deltas: Vec<_> = frames.iter().map(|frame| frame["choices"][0]["delta"].clone()).collect();
    let call = |index: u64, id: &str, name: &str, arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]})
    };
    assert_eq!(
        deltas,
        [
            json!({"role": "assistant", "content": ""}),
            json!({"reasoning_content": "think"}),
            json!({"content": "Hello"}),
            call(0, "call_1", "ls", "{\"p\": 1}"),
            call(1, "call_2", "cat", "{}"),
            json!({}),
            json!({"role": "assistant", "content": ""}),
            json!({"refusal": "no"}),
            json!({}),
        ]
    );
    let reasons: Vec<_> = frames.iter().map(|frame| frame["choices"][0]["finish_reason"].as_str()).collect();
    assert_eq!(reasons[5], Some("tool_calls"));
    assert_eq!(reasons[8], Some("stop"));
    assert_eq!(reasons.iter().flatten().count(), 2);
    assert_eq!(frames[5]["choices"][0]["native_finish_reason"], "tool_use");
    assert_eq!(frames[2]["choices"][0]["logprobs"], json!({"content": []}));
    assert_eq!(frames[8]["usage"]["completion_tokens"], 4);
    assert!(frames.iter().all(|frame| frame["id"] == "c1" && frame["object"] == "chat.completion.chunk"));
    assert!(frames[..8].iter().all(|frame| frame.get("usage").is_none()));
}

#[test]
fn a_short_chat_completion_is_enough() {
    // What a relay may send: no ids, no reason.
    let stream = text(Dialect::OpenAiChat, &json!({"choices": [{"message": {"role": "assistant", "content": "ok"}}]}));
    let frames = frames(&stream);
    assert_eq!(joined(&frames, "/choices/0/delta/content"), "ok");
    assert_eq!(frames[2]["choices"][0]["finish_reason"], "stop");
    assert_eq!(frames[2]["choices"][0]["index"], 0);
    assert_eq!(frames.len(), 3);
}

#[test]
fn a_response_becomes_events() {
    let document = json!({
        "id": "resp_1", "object": "response", "status": "completed", "error": null, "model": "m",
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "plan"}]},
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [
                {"type": "output_text", "text": "Hello", "annotations": [{"type": "url_citation"}]},
                {"type": "refusal", "refusal": "no"},
            ]},
            {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "ls", "arguments": "{\"p\": 1}"},
            {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        ],
        "usage": {"input_tokens": 3, "output_tokens": 4},
    });
    let stream = text(Dialect::OpenAiResponses, &document);
    let frames = frames(&stream);
    assert_eq!(
        types(&frames),
        [
            "response.created",
            "response.output_item.added",
            "response.reasoning_summary_part.added",
            "response.reasoning_summary_text.delta",
            "response.reasoning_summary_text.done",
            "response.reasoning_summary_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.content_part.added",
            "response.refusal.delta",
            "response.refusal.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.output_item.done",
            "response.completed",
        ]
    );
    for (index, frame) in frames.iter().enumerate() {
        assert_eq!(frame["sequence_number"], index);
    }
    for (line, frame) in stream.lines().filter_map(|line| line.strip_prefix("event: ")).zip(&frames) {
        assert_eq!(frame["type"], line);
    }
    assert_eq!(frames[0]["response"]["status"], "in_progress");
    assert_eq!(frames[0]["response"]["output"], json!([]));
    assert_eq!(frames[7]["item"]["content"], json!([]));
    assert_eq!(frames[8]["part"], json!({"type": "output_text", "text": "", "annotations": []}));
    assert_eq!((&frames[9]["item_id"], &frames[9]["output_index"]), (&json!("msg_1"), &json!(1)));
    assert_eq!((&frames[13]["content_index"], &frames[13]["delta"]), (&json!(1), &json!("no")));
    assert_eq!(frames[17]["item"]["arguments"], "");
    assert_eq!(frames[18]["delta"], "{\"p\": 1}");
    assert_eq!(frames[16]["item"], document["output"][1]);
    assert_eq!(frames[23]["response"], document);
}

#[test]
fn a_message_becomes_blocks() {
    let document = br#"{
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "redacted_thinking", "data": "xx"},
            {"type": "text", "text": "Hello", "citations": [{"type": "char_location"}]},
            {"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {"z": 1, "a": [1, 2]}}
        ],
        "stop_reason": "tool_use", "stop_sequence": null,
        "usage": {"input_tokens": 3, "output_tokens": 4}
    }"#;
    let stream = stream(Dialect::AnthropicMessages, document).unwrap();
    let stream = std::str::from_utf8(&stream).unwrap();
    let frames = frames(stream);
    let names: Vec<_> = stream.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(names, types(&frames));
    assert_eq!(frames[0]["message"]["content"], json!([]));
    assert_eq!(frames[0]["message"]["stop_reason"], Value::Null);
    assert_eq!(frames[1]["content_block"], json!({"type": "thinking", "thinking": "", "signature": ""}));
    assert_eq!(joined(&frames, "/delta/thinking"), "hm");
    assert_eq!(joined(&frames, "/delta/signature"), "sig");
    assert_eq!(frames[5]["content_block"], json!({"type": "redacted_thinking", "data": "xx"}));
    assert_eq!(joined(&frames, "/delta/text"), "Hello");
    assert_eq!(frames[9]["delta"], json!({"type": "citations_delta", "citation": {"type": "char_location"}}));
    // The order of the members is the model's own.
    assert_eq!(joined(&frames, "/delta/partial_json"), r#"{"z":1,"a":[1,2]}"#);
    assert_eq!(frames[11]["content_block"]["input"], json!({}));
    let end = &frames[frames.len() - 2];
    assert_eq!(end["delta"], json!({"stop_reason": "tool_use", "stop_sequence": null}));
    assert_eq!(end["usage"]["output_tokens"], 4);
    assert_eq!(names.last(), Some(&"message_stop"));
}

#[test]
fn gemini_and_ollama_are_the_document_itself() {
    let document = "\u{feff}{\n \"candidates\": [{\"content\": {\"parts\": [{\"text\": \"a \\\" b\u{2028}\"}]}}]\n}";
    assert_eq!(
        stream(Dialect::GeminiGenerateContent, document.as_bytes()).unwrap(),
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a \\\" b\\u2028\"}]}}]}\r\n\r\n"
    );
    let array = br#"[{"candidates":[]} , {"usageMetadata":{}}]"#;
    assert_eq!(
        stream(Dialect::GeminiGenerateContent, array).unwrap(),
        "data: {\"candidates\":[]}\r\n\r\ndata: {\"usageMetadata\":{}}\r\n\r\n"
    );
    let line = br#"{"response": "x y", "done": true}"#;
    assert_eq!(stream(Dialect::Ollama, line).unwrap(), "{\"response\":\"x y\",\"done\":true}\n");
}

#[test]
fn what_is_no_complete_reply_is_none() {
    let rows: &[(Dialect, &str)] = &[
        (Dialect::OpenAiChat, r#"{"error":{"message":"m"},"choices":[{"message":{"content":"x"}}]}"#),
        (Dialect::OpenAiChat, r#"{"choices":[]}"#),
        (Dialect::OpenAiChat, r#"{"choices":[{"text":"x"}]}"#),
        (Dialect::OpenAiChat, r#"{"object":"list","data":[]}"#),
        (Dialect::OpenAiChat, "<html>"),
        (Dialect::OpenAiChat, ""),
        (Dialect::OpenAiResponses, r#"{"object":"response","status":"failed","error":null,"output":[]}"#),
        (Dialect::OpenAiResponses, r#"{"object":"response","status":"queued","output":[]}"#),
        (Dialect::OpenAiResponses, r#"{"object":"response","status":"completed"}"#),
        (Dialect::OpenAiResponses, r#"{"object":"list","output":[]}"#),
        (Dialect::AnthropicMessages, r#"{"type":"error","error":{"type":"api_error"}}"#),
        (Dialect::AnthropicMessages, r#"{"type":"message","content":"x"}"#),
        (Dialect::GeminiGenerateContent, r#"{"models":[]}"#),
        (Dialect::GeminiGenerateContent, "[]"),
        (Dialect::GeminiGenerateContent, r#"[{"error":{"code":503}}]"#),
        (Dialect::Ollama, r#"{"message":{"content":"x"},"done":false}"#),
        (Dialect::Ollama, r#"{"error":"m","done":true,"response":""}"#),
        (Dialect::OpenAiEmbeddings, r#"{"object":"list","data":[]}"#),
    ];
    for (dialect, document) in rows {
        assert_eq!(stream(*dialect, document.as_bytes()), None, "{dialect} {document}");
    }
    let incomplete = json!({"object": "response", "status": "incomplete", "output": []});
    assert!(text(Dialect::OpenAiResponses, &incomplete).contains("event: response.incomplete"));
}

proptest! {
    #[test]
    fn every_text_arrives_whole(content in any::<String>(), input in any::<String>()) {
        let chat = json!({"choices": [{"message": {"content": content}, "finish_reason": "stop"}]});
        let chunks = frames(&text(Dialect::OpenAiChat, &chat));
        prop_assert_eq!(joined(&chunks, "/choices/0/delta/content"), content.clone());

        let message = json!({"type": "message", "stop_reason": "end_turn", "content": [
            {"type": "text", "text": content}, {"type": "tool_use", "id": "t", "name": "n", "input": {"v": input}},
        ]});
        let events = frames(&text(Dialect::AnthropicMessages, &message));
        prop_assert_eq!(joined(&events, "/delta/text"), content.clone());
        let told: Value = serde_json::from_str(&joined(&events, "/delta/partial_json")).unwrap();
        prop_assert_eq!(&told, &json!({"v": input}));

        let response = json!({"object": "response", "status": "completed", "output": [
            {"type": "message", "id": "m", "content": [{"type": "output_text", "text": content}]},
        ]});
        let events = frames(&text(Dialect::OpenAiResponses, &response));
        prop_assert_eq!(joined(&events, "/delta"), content.clone());
        prop_assert_eq!(&events.last().unwrap()["response"], &response);
    }

    #[test]
    fn no_document_makes_it_panic(document in prop::collection::vec(any::<u8>(), 0..100), choices in ".{0,40}") {
        for dialect in [Dialect::OpenAiChat, Dialect::OpenAiResponses, Dialect::AnthropicMessages, Dialect::Ollama] {
            let _ = stream(dialect, &document);
            let near = format!("{{\"choices\":[{choices}],\"content\":[{choices}],\"output\":[{choices}]}}");
            let _ = stream(dialect, near.as_bytes());
        }
    }
}
