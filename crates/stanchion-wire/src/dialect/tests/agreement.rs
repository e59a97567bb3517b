//! The scan and the parse agree on every frame, plain or strange.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Text that looks like what a scan searches for.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "[a-z世😀 ]{0,12}",
        prop::sample::select(vec![
            "\"error\":{\"message\":\"x\"}",
            "\"finish_reason\":\"stop\"",
            "\\\"usage\\\":{}",
            "{\"delta\":{\"content\":\"x\"}}",
            "\"",
            "\\",
            "}]}",
            "\u{0}\u{1f}",
            "finish_reason",
        ])
        .prop_map(str::to_owned),
    ]
}

fn maybe<T: std::fmt::Debug + Clone>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop::option::weighted(0.3, value)
}

/// Members in the order given: serde_json keeps a map sorted, and order is what a scan depends on.
fn object(members: Vec<(String, Value)>) -> String {
    let members: Vec<String> =
        members.into_iter().map(|(key, value)| format!("{}:{value}", Value::from(key))).collect();
    format!("{{{}}}", members.join(","))
}

fn extra() -> impl Strategy<Value = (String, Value)> {
    (
        prop::sample::select(vec![
            "obfuscation",
            "logprobs",
            "native_finish_reason",
            "content_filter_results",
            "service_tier",
            "index",
            "usage",
            "error",
            "finish_reason",
        ]),
        prop_oneof![
            Just(Value::Null),
            text().prop_map(Value::from),
            (0..3u64).prop_map(Value::from),
            Just(json!({"content": "x", "finish_reason": "stop"})),
            Just(json!([])),
            Just(json!({"prompt_tokens": 3})),
        ],
    )
        .prop_map(|(key, value)| (key.to_owned(), value))
}

fn delta() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop_oneof![
            text().prop_map(|text| ("content".to_owned(), Value::from(text))),
            text().prop_map(|text| ("reasoning_content".to_owned(), Value::from(text))),
            text().prop_map(|text| ("refusal".to_owned(), Value::from(text))),
            Just(("role".to_owned(), json!("assistant"))),
            Just(("content".to_owned(), Value::Null)),
            text().prop_map(|text| ("tool_calls".to_owned(), json!([{"index": 0, "function": {"arguments": text}}]))),
            text().prop_map(|text| (
                "tool_calls".to_owned(),
                json!([{"index": 1, "id": "c", "function": {"name": text}}])
            )),
        ],
        0..4,
    )
    .prop_map(|members| {
        let mut seen = std::collections::HashSet::new();
        object(members.into_iter().filter(|(key, _)| seen.insert(key.clone())).collect())
    })
}

fn chat_frame() -> impl Strategy<Value = String> {
    (
        delta(),
        maybe(0..3u64),
        prop_oneof![Just("null".to_owned()), Just("\"stop\"".to_owned()), Just("\"length\"".to_owned())],
        prop::collection::vec(extra(), 0..3),
        maybe(extra()),
        any::<bool>(),
    )
        .prop_map(|(delta, index, finish, extras, in_choice, spaced)| {
            let mut choice = Vec::new();
            if let Some(index) = index {
                choice.push(format!("\"index\":{index}"));
            }
            choice.push(format!("\"delta\":{delta}"));
            choice.push(format!("\"finish_reason\":{finish}"));
            if let Some((key, value)) = in_choice.filter(|(key, _)| key != "finish_reason" && key != "index") {
                choice.push(format!("\"{key}\":{value}"));
            }
            let mut top = vec!["\"id\":\"c1\"".to_owned(), format!("\"choices\":[{{{}}}]", choice.join(","))];
            let mut seen = std::collections::HashSet::new();
            top.extend(
                extras
                    .into_iter()
                    .filter(|(key, _)| seen.insert(key.clone()))
                    .map(|(key, value)| format!("\"{key}\":{value}")),
            );
            if spaced { format!("{{ {} }}", top.join(" , ")) } else { format!("{{{}}}", top.join(",")) }
        })
}

fn anthropic_frame() -> impl Strategy<Value = String> {
    let delta = prop_oneof![
        text().prop_map(|text| json!({"type": "text_delta", "text": text})),
        text().prop_map(|text| json!({"type": "thinking_delta", "thinking": text})),
        text().prop_map(|text| json!({"type": "input_json_delta", "partial_json": text})),
        text().prop_map(|text| json!({"type": "signature_delta", "signature": text})),
        Just(json!({"type": "citations_delta", "citation": {}})),
    ];
    (
        delta,
        prop::sample::select(vec!["content_block_delta", "content_block_stop", "message_delta", "ping"]),
        0..3u64,
        maybe(extra()),
    )
        .prop_map(|(delta, kind, index, more)| {
            // serde_json sorts the members of the delta, so "type" is written first by hand, as the provider does.
            let members = delta.as_object().unwrap();
            let mut inner = vec![("type".to_owned(), members["type"].clone())];
            inner.extend(
                members.iter().filter(|(key, _)| *key != "type").map(|(key, value)| (key.clone(), value.clone())),
            );
            let mut top = vec![
                format!("\"type\":\"{kind}\""),
                format!("\"index\":{index}"),
                format!("\"delta\":{}", object(inner)),
            ];
            if let Some((key, value)) = more.filter(|(key, _)| key != "index") {
                top.push(format!("\"{key}\":{value}"));
            }
            format!("{{{}}}", top.join(","))
        })
}

fn responses_frame() -> impl Strategy<Value = String> {
    (
        prop::sample::select(vec![
            "response.output_text.delta",
            "response.reasoning_text.delta",
            "response.function_call_arguments.delta",
            "response.output_text.done",
            "response.in_progress",
        ]),
        text(),
        maybe(extra()),
        any::<bool>(),
    )
        .prop_map(|(kind, text, more, type_last)| {
            let mut top = vec![
                format!("\"item_id\":\"i\""),
                "\"output_index\":0".to_owned(),
                format!("\"delta\":{}", Value::from(text)),
            ];
            if let Some((key, value)) = more {
                top.push(format!("\"{key}\":{value}"));
            }
            top.insert(if type_last { top.len() } else { 0 }, format!("\"type\":\"{kind}\""));
            format!("{{{}}}", top.join(","))
        })
}

/// All that a layer acts on.
type Meaning = (bool, bool, Option<FinishReason>, Option<Usage>, bool, Option<(FailureKind, bool)>);

fn meaning(reading: &Reading) -> Meaning {
    let fault = reading.fault.as_ref().map(|fault| (fault.failure.kind(), fault.told));
    (reading.output, reading.progress, reading.finish, reading.usage, reading.terminal, fault)
}

fn agrees(dialect: Dialect, data: &str) -> Result<(), TestCaseError> {
    for event in [None, Some(&b"error"[..])] {
        let (mut scanning, mut parsing) = (StreamReader::new(dialect), StreamReader::new(dialect));
        let Some(text_bytes) = scanning.scan(event, data.as_bytes()) else { continue };
        let parsed = parsing.parse(event, data.as_bytes());
        prop_assert_eq!(meaning(&Reading::of(C::Output)), meaning(&parsed), "{:?} {}", event, data);
        // The scan counts escapes as they are written, and stops at the first text.
        let written = data.matches('\\').count();
        prop_assert!(text_bytes > 0 && text_bytes <= parsed.text_bytes + 5 * written, "{:?} {}", parsed, data);
        if dialect == Chat {
            prop_assert_eq!(scanning.state.opened, parsing.state.opened, "{}", data);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn on_chat_chunks(data in chat_frame()) {
        agrees(Chat, &data)?;
        // What was opened and finished is the same as well.
        let (mut scanning, mut parsing) = (StreamReader::new(Chat), StreamReader::new(Chat));
        scanning.read_data(None, data.as_bytes());
        let reading = parsing.parse(None, data.as_bytes());
        parsing.remember(&reading);
        prop_assert_eq!(scanning.finished(), parsing.finished());
    }

    /// Chunks that are the same around another text, whole and broken.
    #[test]
    fn on_chat_chunks_that_repeat_each_other(
        around in prop::sample::select(vec![
            r#"{"id":"c1","choices":[{"index":1,"delta":{"content":"@"},"finish_reason":null}],"usage":null}"#,
            r#"{"id":"c1","choices":[{"index":0,"delta":{"role":"assistant","content":"@"},"finish_reason":null}],"usage":null,"obfuscation":"~"}"#,
            r#"{"id":"c1","choices":[{"index":0,"delta":{"content":"@"}}],"obfuscation":"~","usage":{"prompt_tokens":1}}"#,
            r#"{"choices":[{"index":0,"delta":{"reasoning":"@","content":"~"},"finish_reason":null}]}"#,
            r#"{"choices":[{"delta":{"content":"@"},"obfuscation":"~","finish_reason":null}]}"#,
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"@"}}]},"finish_reason":null}]}"#,
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"~","function":{"name":"","arguments":"@"}}]}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"~","arguments":"@"}}]}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"@","name":"~","name":"x"}}]}}]}"#,
        ]),
        texts in prop::collection::vec((text(), text(), any::<bool>()), 2..6),
    ) {
        let mut scanning = StreamReader::new(Chat);
        for (text, more, escaped) in texts {
            let written = |text: String| if escaped { Value::from(text).to_string().trim_matches('"').to_owned() } else { text };
            let data = around.replace('@', &written(text)).replace('~', &written(more));
            let scanned = scanning.scan(None, data.as_bytes());
            // Whatever a scan alone knows is known after others, too, and as the same.
            let alone = StreamReader::new(Chat).scan(None, data.as_bytes());
            prop_assert!(alone.is_none() || alone == scanned, "{:?} {:?} {}", alone, scanned, data);
            // What only a comparison knows is what a parser says.
            if alone.is_none() && scanned.is_some() && serde_json::from_str::<Value>(&data).is_ok() {
                let mut parsing = StreamReader::new(Chat);
                let parsed = parsing.parse(None, data.as_bytes());
                prop_assert_eq!(meaning(&Reading::of(C::Output)), meaning(&parsed), "{}", data);
                prop_assert_eq!(scanning.state.opened, parsing.state.opened, "{}", data);
            }
        }
    }

    #[test]
    fn on_anthropic_events(data in anthropic_frame()) {
        agrees(Anthropic, &data)?;
    }

    #[test]
    fn on_responses_events(data in responses_frame()) {
        agrees(Responses, &data)?;
    }

    #[test]
    fn on_ollama_lines(text in text(), key in prop::sample::select(vec!["content", "thinking", "images", "role"]), done in any::<bool>(), more in maybe(extra())) {
        let mut top = vec!["\"model\":\"m\"".to_owned(), format!("\"message\":{{\"role\":\"assistant\",\"{key}\":{}}}", Value::from(text)), format!("\"done\":{done}")];
        top.extend(more.map(|(key, value)| format!("\"{key}\":{value}")));
        agrees(Ollama, &format!("{{{}}}", top.join(",")))?;
    }

    #[test]
    fn on_any_text(data in "[{}\\[\\]\",:a-z\\\\ ]{0,80}") {
        for dialect in [Chat, Anthropic, Responses, Gemini, Ollama] {
            agrees(dialect, &data)?;
            let _ = StreamReader::new(dialect).read_data(None, data.as_bytes());
        }
    }
}

#[test]
fn plain_deltas_are_known_by_a_scan() {
    for (dialect, data) in [
        (
            Chat,
            r#"{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"Hi"},"logprobs":null,"finish_reason":null}],"usage":null}"#,
        ),
        (
            Chat,
            r#"{"id": "c1", "choices": [{"index": 0, "delta": {"content": "\u4f60 \"quoted\""}, "finish_reason": null}]}"#,
        ),
        (
            Chat,
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":null,"reasoning_content":"hm"},"finish_reason":null}],"obfuscation":"Zk"}"#,
        ),
        (
            Chat,
            r#"{"id":"c1","choices":[{"index":2,"delta":{"tool_calls":[{"index":3,"id":"c","type":"function","function":{"name":null,"arguments":"{\"p\":"}}]},"finish_reason":null}],"usage":null}"#,
        ),
        (
            Ollama,
            r#"{"model":"m","created_at":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":"Hi"},"done":false}"#,
        ),
        (Ollama, r#"{"model":"m","response":"Hi","done":false}"#),
        (Anthropic, r#"{"type":"content_block_delta","index":12,"delta":{"type":"text_delta","text":"Hello"}}"#),
        (
            Anthropic,
            r#"{"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{\"a"}}"#,
        ),
        (
            Responses,
            r#"{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"Hi","sequence_number":9}"#,
        ),
    ] {
        assert!(StreamReader::new(dialect).scan(None, data.as_bytes()).is_some(), "{data}");
    }
}

#[test]
fn what_could_be_more_than_a_delta_is_parsed() {
    for data in [
        r#"{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"Hi"}},{"index":1,"delta":{"content":"Hi"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":""}}]}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0},{"index":1,"function":{"name":"ls"}}]}}]}"#,
        r#"{"choices":[{"index":1e0,"delta":{"content":"Hi"}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"Hi"}}],"usage":{"prompt_tokens":1}}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"Hi"}}],"error":{"message":"x"}}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"Hi"}}],"err\u006fr":{"message":"x"}}"#,
        r#"{"choices":[{"index":0,"delta":{"content":""}}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"Hi"}}],"x_groq":{"usage":{"prompt_tokens":1}}}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"Hi"}}]"#,
    ] {
        assert_eq!(StreamReader::new(Chat).scan(None, data.as_bytes()), None, "{data}");
    }
}

#[test]
fn what_is_the_same_around_another_text_is_known_again() {
    use super::super::{around::Around, openai_chat::scan};

    let padded = |text: &str, padding: &str| {
        format!(
            r#"{{"id":"c1","choices":[{{"index":2,"delta":{{"content":"{text}"}},"finish_reason":null}}],"obfuscation":"{padding}"}}"#
        )
    };
    let plain = |text: &str| {
        format!(r#"{{"id":"c1","choices":[{{"index":2,"delta":{{"content":"{text}"}},"finish_reason":null}}]}}"#)
    };
    let tool = |text: &str| {
        format!(
            r#"{{"id":"c1","choices":[{{"index":2,"delta":{{"tool_calls":[{{"index":1,"function":{{"arguments":"{text}"}}}}]}},"finish_reason":null}}]}}"#
        )
    };
    for [first, again, empty, other] in [
        [padded("one", "xyz"), padded(r#"t\"wo"#, ""), padded("", "xyz"), plain("one")],
        [plain("one"), plain(r"\n"), plain(""), padded("one", "xyz")],
        [tool("one"), tool(r#"{\"a"#), tool(""), tool("one").replace("\"index\":1", "\"index\":0")],
    ] {
        let mut around = Around::default();
        assert_eq!(around.recognise(first.as_bytes()), None);
        assert_eq!(scan(first.as_bytes(), &mut around), Some((2, 3)));
        assert_eq!(around.recognise(first.as_bytes()), Some((2, 3)));
        assert!(around.recognise(again.as_bytes()).is_some_and(|(choice, _)| choice == 2), "{again}");
        let finish = first.replace("null", "\"stop\"");
        for strange in [&empty, &other, &finish, &first[1..], &first[..first.len() - 1]] {
            assert_eq!(around.recognise(strange.as_bytes()), None, "{strange}");
        }
        assert!(!format!("{around:?}").contains("c1"));
    }
}
