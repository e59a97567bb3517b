use proptest::{collection::vec, prelude::*};
use serde_json::{Map, Value, json};

use super::*;

fn read_text(dialect: Dialect, body: &str) -> Fingerprint {
    Fingerprint::read(dialect, body.as_bytes(), FingerprintBounds::default()).expect("it is read")
}

fn read(dialect: Dialect, body: &Value) -> Fingerprint {
    read_text(dialect, &body.to_string())
}

const DIALECTS: [Dialect; 4] =
    [Dialect::OpenAiChat, Dialect::OpenAiResponses, Dialect::AnthropicMessages, Dialect::GeminiGenerateContent];

#[test]
fn each_dialect_has_its_places() {
    let chat = json!({
        "model": "m",
        "messages": [
            {"role": "system", "content": "abc"},
            {"role": "developer", "content": [{"type": "text", "text": "\u{1f980}"}]},
            {"role": "user", "content": "Hello."},
            {"role": "system", "content": "not a leading one"},
        ],
        "tools": [{"type": "function", "function": {"name": "a"}}, {"type": "custom", "custom": {"name": "b"}}],
        "functions": [{"name": "c"}],
    });
    let responses = json!({
        "model": "m",
        "instructions": "abc",
        "input": [
            {"role": "developer", "content": [{"type": "input_text", "text": "\u{1f980}"}]},
            {"role": "user", "content": "Hello."},
            {"type": "function_call_output", "output": "1"},
        ],
        "tools": [{"type": "function", "name": "a"}, {"type": "web_search"}, {"type": "mcp", "server_label": "s"}],
    });
    let anthropic = json!({
        "model": "m",
        "system": [{"type": "text", "text": "abc"}, {"type": "text", "text": "\u{1f980}"}],
        "messages": [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": []}],
        "tools": [{"name": "a"}, {"name": "b"}, {"type": "mcp_toolset", "mcp_server_name": "s"}],
    });
    let gemini = json!({
        "systemInstruction": {"parts": [{"text": "abc"}, {"text": "\u{1f980}"}]},
        "contents": [{"parts": [{"text": "Hello."}]}, {"role": "model", "parts": []}],
        "tools": [{"functionDeclarations": [{"name": "a"}, {"name": "b"}]}, {"googleSearch": {}}],
    });
    for (dialect, body) in DIALECTS.into_iter().zip([chat, responses, anthropic, gemini]) {
        let found = read(dialect, &body);
        assert_eq!((found.system_chars(), found.message_count(), found.tool_count()), (5, 2, 3), "{dialect}");
        assert!(found.first_user.is_some(), "{dialect}");
        assert_eq!(found.model.is_some(), dialect != Dialect::GeminiGenerateContent);
        let identities: std::collections::HashSet<_> = found.tools.iter().map(|tool| tool.identity).collect();
        assert_eq!(identities.len(), 3, "{dialect}");
    }
    let text = read(Dialect::OpenAiResponses, &json!({"input": "Hello."}));
    assert!(text.message_count() == 1 && text.first_user.is_some());
}

#[test]
fn what_cannot_be_read_has_no_fingerprint() {
    let none = |dialect, body: &[u8]| assert!(Fingerprint::read(dialect, body, FingerprintBounds::default()).is_none());
    for dialect in DIALECTS {
        for body in [&b""[..], b"[]", b"{", b"{}x", b"null", b"{\"a\":\"\xff\"}", b"{\"messages\":[{]}"] {
            none(dialect, body);
        }
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(200_000), "]".repeat(200_000));
        none(dialect, deep.as_bytes());
        assert_eq!(read(dialect, &json!({})).message_count(), 0);
    }
    none(Dialect::OpenAiEmbeddings, b"{}");
    none(Dialect::Ollama, b"{}");
}

#[test]
fn spelling_does_not_matter() {
    let plain = r#"{"model":"m","temperature":1,"system":"é\n","tools":[{"name":"a","input_schema":{"max":100,"min":-0.5,"zero":0}}]}"#;
    let odd = "{ \"tools\" : [ {\"input_schema\":{\"zero\":-0.0e3,\"min\":-5e-1,\"max\":1.0E+2},\"n\\u0061me\":\"a\"} ],\n\
               \"temperature\": 1.00, \"system\":\"\\u00e9\\u000a\", \"model\":\"m\" }";
    assert!(read_text(Dialect::AnthropicMessages, plain) == read_text(Dialect::AnthropicMessages, odd));
    // Half of a surrogate pair is kept apart from any text.
    let half = |text: &str| read_text(Dialect::AnthropicMessages, &format!(r#"{{"system":"{text}"}}"#));
    assert!(half(r"\ud83d") != half(r"\ud83e") && half(r"\ud83d") != half(r"\\ud83d"));
}

#[test]
fn breakpoints_move_on_and_change_nothing() {
    let body = |marked: Value, plain: Value| {
        json!({
            "system": [{"type": "text", "text": "abc"}],
            "messages": [{"role": "user", "content": marked}, {"role": "user", "content": plain}],
        })
    };
    let marked = json!([{"type": "text", "text": "Hello.", "cache_control": {"type": "ephemeral"}}]);
    let first = read(Dialect::AnthropicMessages, &body(marked.clone(), "Hello.".into()));
    let second = read(Dialect::AnthropicMessages, &body("Hello.".into(), marked));
    assert!(first.messages == second.messages && first.system == second.system && first.policy == second.policy);
    assert!(first != second);
    // A text and one block of it are the same.
    assert!(first.system == read(Dialect::AnthropicMessages, &json!({"system": "abc"})).system);
    // Within the results of tools, search results and documents.
    let nested = |mark: Value| {
        let mut text = json!({"type": "text", "text": "abc"});
        if !mark.is_null() {
            text["cache_control"] = mark;
        }
        read(
            Dialect::AnthropicMessages,
            &json!({"messages": [{"role": "user", "content": [
                {"type": "tool_result", "content": [{"type": "search_result", "content": [text.clone()]}]},
                {"type": "document", "source": {"type": "content", "content": [text]}},
            ]}]}),
        )
    };
    let (plain, marked) = (nested(Value::Null), nested(json!({"ttl": "1h"})));
    assert!(plain.messages == marked.messages && marked.lifetime() == CacheLifetime::Long);
    assert_eq!((plain.breakpoint_count(), marked.breakpoint_count()), (0, 2));
    // What a tool is given may be called the same, and is no breakpoint.
    let call = |input: Value| json!({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "input": {"cache_control": input}}]}]});
    let (first, second) = (call(1.into()), call(2.into()));
    let (first, second) = (read(Dialect::AnthropicMessages, &first), read(Dialect::AnthropicMessages, &second));
    assert!(first.messages != second.messages && first.breakpoint_count() == 0);
}

#[test]
fn lifetimes_are_read() {
    let marked = |ttl: &[Option<&str>]| {
        let blocks: Vec<_> = ttl
            .iter()
            .map(|ttl| match ttl {
                Some(ttl) => json!({"text": "a", "cache_control": {"ttl": ttl}}),
                None => json!({"text": "a", "cache_control": {}}),
            })
            .collect();
        read(Dialect::AnthropicMessages, &json!({"system": blocks})).lifetime()
    };
    assert_eq!(marked(&[]), CacheLifetime::Short);
    assert_eq!(marked(&[Some("1h"), Some("1h")]), CacheLifetime::Long);
    assert_eq!(marked(&[Some("1h"), None]), CacheLifetime::Short);
    let day = read(Dialect::OpenAiChat, &json!({"prompt_cache_retention": "24h"}));
    assert_eq!((day.lifetime(), day.lifetime().duration().as_secs()), (CacheLifetime::Day, 86_400));
    let whole = read(Dialect::AnthropicMessages, &json!({"cache_control": {"ttl": "1h"}}));
    assert_eq!((whole.lifetime(), whole.breakpoint_count()), (CacheLifetime::Long, 1));
}

#[test]
fn what_no_cache_looks_at_changes_nothing() {
    let plain = read(Dialect::OpenAiChat, &json!({"messages": []}));
    let noise = json!({
        "messages": [],
        "stream": true,
        "stream_options": {"include_usage": true},
        "metadata": {"a": "b"},
        "labels": {"a": "b"},
        "safety_identifier": "u1",
        "store": true,
        "background": false,
        "include": ["logprobs"],
        "seed": 7,
        "stop": ["x"],
        "stop_sequences": ["x"],
        "n": 1,
        "prediction": {"type": "content", "content": "x"},
        "logprobs": true,
        "top_logprobs": 3,
    });
    assert!(plain == read(Dialect::OpenAiChat, &noise));
    let gemini = |config: Value| read(Dialect::GeminiGenerateContent, &json!({"generationConfig": config}));
    let noise = json!({"seed": 7, "stopSequences": ["x"], "candidateCount": 1, "responseLogprobs": true, "logprobs": 2, "temperature": 1});
    assert!(gemini(json!({"temperature": 1})) == gemini(noise));
    assert!(gemini(json!({"temperature": 1})) != gemini(json!({"temperature": 2})));
    // By this OpenAI finds its caches.
    assert!(plain != read(Dialect::OpenAiChat, &json!({"messages": [], "user": "u1"})));
    assert!(plain != read(Dialect::OpenAiChat, &json!({"messages": [], "reasoning_effort": "low"})));
}

#[test]
fn the_number_of_breakpoints_is_bounded() {
    let blocks: Vec<_> = (0..100).map(|_| json!({"text": "a", "cache_control": {}})).collect();
    assert_eq!(read(Dialect::AnthropicMessages, &json!({"system": blocks})).breakpoint_count(), 32);
}

/// Some begin with the same eight bytes or more.
fn key() -> impl Strategy<Value = String> {
    prop_oneof!["[a-dé]{1,3}", "max_length[ab]{0,2}"]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1_000_000_i32..1_000_000).prop_map(|number| Value::from(f64::from(number) / 64.0)),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((key(), inner), 0..4).prop_map(|members| Value::from(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// A request in which everything stands where its dialect wants it.
fn request(dialect: Dialect) -> impl Strategy<Value = Value> {
    let tools = vec((key(), value()), 0..4);
    let messages = vec(value(), 0..4);
    (value(), tools, messages, vec((key(), value()), 0..3), any::<String>()).prop_map(
        move |(system, tools, messages, policy, model)| {
            let tool = |(name, schema): (String, Value)| match dialect {
                Dialect::OpenAiChat => json!({"type": "function", "function": {"name": name, "parameters": schema}}),
                _ => json!({"name": name, "schema": schema}),
            };
            let tools: Vec<_> = tools.into_iter().map(tool).collect();
            let turns = messages.into_iter().enumerate().map(|(index, content)| {
                let role = if index.is_multiple_of(2) { "user" } else { "assistant" };
                json!({"role": role, "content": content, "parts": [content]})
            });
            let mut turns: Vec<_> = turns.collect();
            let mut body: Map<String, Value> = policy.into_iter().collect();
            body.insert("model".into(), model.as_str().into());
            match dialect {
                Dialect::OpenAiChat => {
                    turns.insert(0, json!({"role": "system", "content": system}));
                    body.insert("messages".into(), turns.into());
                }
                Dialect::OpenAiResponses => {
                    body.insert("instructions".into(), system);
                    body.insert("input".into(), turns.into());
                }
                Dialect::AnthropicMessages => {
                    body.insert("system".into(), system);
                    body.insert("messages".into(), turns.into());
                }
                _ => {
                    body.insert("systemInstruction".into(), system);
                    body.insert("contents".into(), turns.into());
                }
            }
            let tools = match dialect {
                Dialect::GeminiGenerateContent => {
                    json!([{"functionDeclarations": tools, "googleSearch": {}, "codeExecution": model.len()}])
                }
                _ => tools.into(),
            };
            body.insert("tools".into(), tools);
            body.into()
        },
    )
}

fn any_request() -> impl Strategy<Value = (Dialect, Value)> {
    prop::sample::select(&DIALECTS[..]).prop_flat_map(|dialect| (Just(dialect), request(dialect)))
}

/// A small generator of choices, so that one number says how everything is written.
struct Choices(u64);

impl Choices {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }
}

/// Writes a value in one of its many spellings.
fn write(value: &Value, choices: &mut Choices, out: &mut String) {
    let blank = |choices: &mut Choices| ["", " ", "\n", "\t", " \r\n "][choices.next(5)];
    out.push_str(blank(choices));
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            for index in (1..members.len()).rev() {
                members.swap(index, choices.next(index + 1));
            }
            out.push('{');
            for (index, (key, value)) in members.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(&Value::from(key.as_str()), choices, out);
                out.push(':');
                write(value, choices, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(item, choices, out);
            }
            out.push(']');
        }
        Value::Number(number) => {
            let text = number.to_string();
            let plain = !text.contains(['.', 'e']);
            match choices.next(4) {
                0 if plain => out.extend([&text, ".0"]),
                1 if plain => out.extend([&text, "0e-1"]),
                2 if !text.contains('e') => out.extend([&text, "E+0"]),
                _ => out.push_str(&text),
            }
        }
        Value::String(text) if choices.next(2) == 0 => {
            out.push('"');
            for unit in text.encode_utf16() {
                std::fmt::Write::write_fmt(out, format_args!("\\u{unit:04x}")).unwrap();
            }
            out.push('"');
        }
        other => out.push_str(&other.to_string()),
    }
    out.push_str(blank(choices));
}

fn leaves(value: &mut Value) -> Vec<&mut Value> {
    let whole = |value: &Value| {
        value.as_array().is_none_or(Vec::is_empty) && value.as_object().is_none_or(serde_json::Map::is_empty)
    };
    if whole(value) {
        return vec![value];
    }
    match value {
        Value::Array(items) => items.iter_mut().flat_map(leaves).collect(),
        Value::Object(members) => members.values_mut().flat_map(leaves).collect(),
        _ => unreachable!("a leaf"),
    }
}

fn change(leaf: &mut Value, number: usize) {
    let changed = match &*leaf {
        Value::String(text) => format!("{text}{number}").into(),
        Value::Number(found) if found.is_i64() => found.as_i64().unwrap().wrapping_add(1).into(),
        Value::Bool(value) => (!value).into(),
        other => json!([[other], number]),
    };
    *leaf = changed;
}

/// The canonical form as it is found with so much of the value open.
fn canonical(value: &Value, open: json::Open) -> Digest {
    let text = Value::from(vec![value.clone()]).to_string();
    let mut canonical = digest::Canonical::default();
    canonical.value(&json::Parser::new(text.as_bytes()).unwrap().value(open).unwrap());
    canonical.finish()
}

#[test]
fn no_two_values_have_the_same_form() {
    let texts = [
        "[]",
        "[[]]",
        "[[],[]]",
        "[[[]]]",
        "{}",
        "[{}]",
        "[[],{}]",
        "[{},[]]",
        "[{\"a\":[]}]",
        "[{},\"a\",[]]",
        "{\"a\":{},\"b\":1}",
        "{\"a\":{\"b\":1}}",
        "{\"a\":[1],\"b\":2}",
        "{\"a\":[1,\"b\",2]}",
        "{\"a\":\"b\"}",
        "[\"a\",\"b\"]",
        "[1,[2],3]",
        "[1,[2,3]]",
        "[[1,2],3]",
        "[1,2,3]",
        "[12,3]",
        "[1,23]",
        "null",
        "false",
        "true",
        "[null]",
        "0",
        "\"0\"",
        "1",
        "10",
        "-1",
        "0.1",
        "\"\"",
        "\"s\"",
        "\"\\ud83d\"",
        "\"\\\\ud83d\"",
        "[\"ab\",\"c\"]",
        "[\"a\",\"bc\"]",
    ];
    let forms: std::collections::HashMap<_, _> = texts
        .iter()
        .map(|text| {
            let mut canonical = digest::Canonical::default();
            canonical.value(&json::Parser::new(text.as_bytes()).unwrap().value(json::Open::Nothing).unwrap());
            (canonical.finish(), text)
        })
        .collect();
    assert_eq!(forms.len(), texts.len(), "{:?}", forms.values());
}

proptest! {
    #[test]
    fn a_tree_has_the_form_of_what_is_written_at_once(value in value()) {
        let written = canonical(&value, json::Open::Nothing);
        for open in [json::Open::One, json::Open::Tool, json::Open::Message] {
            prop_assert_eq!(canonical(&value, open), written, "{:?} {}", open, value);
        }
    }

    #[test]
    fn the_spelling_of_a_request_never_matters((dialect, body) in any_request(), seed in any::<u64>()) {
        let (mut first, mut second) = (String::new(), String::new());
        write(&body, &mut Choices(seed), &mut first);
        write(&body, &mut Choices(seed.wrapping_add(1)), &mut second);
        prop_assert!(read_text(dialect, &first) == read_text(dialect, &second), "{}\n{}", first, second);
        prop_assert!(read_text(dialect, &first) == read(dialect, &body), "{}", first);
    }

    #[test]
    fn a_change_of_any_leaf_always_does((dialect, body) in any_request(), which in any::<prop::sample::Index>()) {
        let mut changed = body.clone();
        let mut found = leaves(&mut changed);
        let index = which.index(found.len());
        change(found[index], index);
        prop_assert!(read(dialect, &body) != read(dialect, &changed), "{body}\n{changed}");
    }

    #[test]
    fn nothing_panics(bytes in vec(any::<u8>(), 0..64), text in r#"[\[\]{}:,"\\messagtol 0-9eE.+-]{0,48}"#) {
        for dialect in DIALECTS {
            let _ = Fingerprint::read(dialect, &bytes, FingerprintBounds::default());
            let _ = Fingerprint::read(dialect, text.as_bytes(), FingerprintBounds::default());
            let _ = Fingerprint::read(dialect, format!("{{{text}}}").as_bytes(), FingerprintBounds::default());
        }
    }
}
