//! What a skim understands of a whole reply is what the parser says of it.

use proptest::prelude::*;

use super::{
    super::{document::parse, skim::skim},
    *,
};

const DIALECTS: [Dialect; 6] = [Chat, Responses, Anthropic, Gemini, Ollama, Dialect::OpenAiEmbeddings];

const PLAIN: [(Dialect, &str); 5] = [
    (
        Chat,
        r#"{"id":"c1","object":"chat.completion","created":1700000000123456789,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Say \"hi\"\n\u00e9\ud83e\udd80 世","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":3,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":2}},"service_tier":"default"}"#,
    ),
    (
        Chat,
        "{ \"choices\" : [ { \"finish_reason\" : \"tool_calls\", \"message\" : { \"tool_calls\" : [ { \"function\" : { \"arguments\" : \"{\\\"a\\\":1.5e-3}\" } } ] } } ,\n{\"finish_reason\":\"length\"} ], \"error\":null, \"x\":[-0.5,1e10,true,false,{},[]], \"usage\" : { \"prompt_tokens\" : 1 , \"completion_tokens\" : 2, \"prompt_cache_hit_tokens\":1, \"prompt_tokens_details\":{\"cached_tokens\":1} } }",
    ),
    (Chat, r#"{"choices":[{"finish_reason":"eos"}],"usage":{"input_tokens":null,"output_tokens":0,"total_tokens":0}}"#),
    (
        Anthropic,
        r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":2,"cache_creation":{"ephemeral_5m_input_tokens":1,"ephemeral_1h_input_tokens":4},"output_tokens":12,"service_tier":"standard"}}"#,
    ),
    (
        Anthropic,
        r#"{"content":[],"stop_reason":"pause_turn","usage":{"input_tokens":1,"output_tokens":2,"cache_creation":null,"output_tokens_details":{"thinking_tokens":1}}}"#,
    ),
];

/// Says whether it was skimmed.
fn agrees(document: &[u8]) -> Result<[bool; DIALECTS.len()], TestCaseError> {
    let mut skimmed = [false; DIALECTS.len()];
    let text = document.trim_ascii();
    for (skimmed, dialect) in skimmed.iter_mut().zip(DIALECTS) {
        let Some(reading) = skim(dialect, text) else { continue };
        *skimmed = true;
        let parsed = parse(dialect, text);
        prop_assert_eq!(
            format!("{reading:?}"),
            format!("{parsed:?}"),
            "{} {}",
            dialect,
            String::from_utf8_lossy(document)
        );
    }
    Ok(skimmed)
}

/// An object of these members, in this order, one perhaps twice.
fn object(names: &'static [&'static str], value: BoxedStrategy<String>) -> BoxedStrategy<String> {
    let name = prop_oneof![40 => prop::sample::select(names), 1 => prop::sample::select(&ODD_NAMES[..])];
    prop::collection::vec((name, value), 0..4)
        .prop_map(|members| {
            let members: Vec<_> = members.into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
            format!("{{{}}}", members.join(","))
        })
        .boxed()
}

const ODD_NAMES: [&str; 12] = [
    "x",
    "",
    "error",
    "type",
    "object",
    "code",
    r"us\u0061ge",
    r"\u0075sage",
    "$serde_json::private::Number",
    r"\u0024serde_json::private::Number",
    "世",
    "logprobs",
];

const ODD_VALUES: [&str; 39] = [
    "null",
    "true",
    "false",
    "0",
    "7",
    "-1",
    "-0",
    "007",
    "1.5",
    "3.0",
    "1.",
    ".5",
    "1e3",
    "2E-2",
    "1e999",
    "1e99",
    "999999999999999999",
    "9999999999999999999",
    "18446744073709551615",
    "18446744073709551616",
    "123456789012345678901234567890.5",
    "\"\"",
    "\"stop\"",
    "\"st\\u006fp\"",
    "\"error\"",
    "\"\\ud83e\\udd80\"",
    "\"\\uD83E\\uDD80x\\uDBFF\\udfff\"",
    "\"\\ud83e\\ud83e\\udd80\"",
    "\"\\ud83ex\\udd80\"",
    "\"\\udd80\"",
    "\"\\ud800\"",
    "\"\\x\"",
    "\"a\tb\"",
    "\"\\u12\"",
    "[]",
    "{}",
    "[1,]",
    "nul",
    r#"{"a":[{"b":"c\\\"d"},null]}"#,
];

fn odd() -> BoxedStrategy<String> {
    prop::sample::select(&ODD_VALUES[..]).prop_map(str::to_owned).boxed()
}

fn mostly(usual: impl Strategy<Value = String> + 'static) -> BoxedStrategy<String> {
    prop_oneof![60 => usual, 1 => odd()].boxed()
}

fn count() -> BoxedStrategy<String> {
    mostly(prop_oneof![8 => (0..2_u64).prop_map(|count| count.to_string()), 1 => Just("null".to_owned())])
}

fn used() -> BoxedStrategy<String> {
    const DETAILS: &[&str] = &[
        "cached_tokens",
        "cache_write_tokens",
        "cache_creation_input_tokens",
        "reasoning_tokens",
        "thinking_tokens",
        "ephemeral_5m_input_tokens",
        "ephemeral_1h_input_tokens",
    ];
    const COUNTS: &[&str] = &[
        "prompt_tokens",
        "input_tokens",
        "completion_tokens",
        "output_tokens",
        "total_tokens",
        "cached_tokens",
        "prompt_cache_hit_tokens",
        "num_cached_tokens",
        "cache_read_input_tokens",
        "cache_creation_input_tokens",
    ];
    const PARTS: &[&str] = &[
        "prompt_tokens_details",
        "input_tokens_details",
        "prompt_token_details",
        "completion_tokens_details",
        "output_tokens_details",
        "cache_creation",
    ];
    let counts = object(COUNTS, count());
    let parts = object(PARTS, mostly(object(DETAILS, count())));
    mostly((counts, parts, 0..9_u64).prop_map(|(counts, parts, output)| {
        let counts = counts.strip_suffix('}').unwrap();
        let comma = |text: &str| if text == "{" || text == "}" { "" } else { "," };
        format!(r#"{counts}{}"output_tokens":{output}{}{}"#, comma(counts), comma(&parts[1..]), &parts[1..])
    }))
}

fn document() -> BoxedStrategy<String> {
    let reason = mostly(
        prop::sample::select(vec!["stop", "length", "tool_use", "content_filter", "error", "世", "null"])
            .prop_map(|reason| format!("\"{reason}\"")),
    );
    let choice =
        (object(&["message", "index", "text", "delta"], odd()), reason.clone()).prop_map(|(choice, reason)| {
            format!(r#"{{"finish_reason":{reason}{}{}"#, if choice == "{}" { "" } else { "," }, &choice[1..])
        });
    let choices =
        mostly(prop::collection::vec(mostly(choice), 0..3).prop_map(|choices| format!("[{}]", choices.join(","))));
    let extra = prop::option::weighted(
        0.3,
        (prop::sample::select(&ODD_NAMES[..]), odd()).prop_map(|(name, value)| format!("\"{name}\":{value}")),
    );
    let kind = prop::option::of(prop::sample::select(vec![
        r#""object":"chat.completion""#,
        r#""object":"error""#,
        r#""type":"message""#,
        r#""type":"error""#,
    ]));
    (choices, reason, used(), prop::option::weighted(0.1, used()), extra, kind, any::<bool>(), any::<u64>())
        .prop_map(|(choices, reason, used, again, extra, kind, ours, seed)| {
            let mut members = Vec::from_iter(extra);
            members.push(if ours { format!("\"choices\":{choices}") } else { format!("\"stop_reason\":{reason}") });
            members.push(format!("\"usage\":{used}"));
            members.extend(again.map(|used| format!("\"usage\":{used}")));
            members.extend(kind.map(str::to_owned));
            let turn = (seed % members.len() as u64) as usize;
            members.rotate_left(turn);
            format!("{{{}}}", members.join(","))
        })
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn on_documents_of_all_kinds(document in document()) {
        agrees(document.as_bytes())?;
    }

    #[test]
    fn on_documents_that_are_damaged(
        document in prop_oneof![document(), prop::sample::select(&PLAIN[..]).prop_map(|(_, document)| document.to_owned())],
        at in any::<prop::sample::Index>(),
        length in 0..3_usize,
        put in prop_oneof![
            Just(Vec::new()),
            prop::sample::select(vec!["\"", "\\", "{", "}", "[", "]", ",", ":", " ", "\u{c}", "0", "null", "\u{1}", "e", "-"]).prop_map(|text| text.as_bytes().to_vec()),
            prop::collection::vec(any::<u8>(), 1..3),
        ],
        cut in prop::bool::weighted(0.1),
    ) {
        let mut bytes = document.into_bytes();
        let at = at.index(bytes.len());
        let to = if cut { bytes.len() } else { (at + length).min(bytes.len()) };
        bytes.splice(at..to, put);
        agrees(&bytes)?;
    }
}

#[test]
fn enough_of_the_documents_of_all_kinds_are_skimmed() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut skimmed = [0; DIALECTS.len()];
    for _ in 0..2000 {
        let document = document().new_tree(&mut runner).unwrap().current();
        for (count, one) in skimmed.iter_mut().zip(agrees(document.as_bytes()).unwrap()) {
            *count += usize::from(one);
        }
    }
    let [chat, _, anthropic, ..] = skimmed;
    assert!(chat > 100 && anthropic > 100, "{skimmed:?} of 2000");
}

#[test]
fn a_text_ends_at_its_first_mark_wherever_that_is() {
    let before = br#"{"usage":{"output_tokens":1},"stop_reason":"x","content":""#;
    for around in [0x20, 0x21, 0x23, 0x5b, 0x5d, 0x7f, 0x80, 0xff] {
        for (mark, is_text) in
            [(&b""[..], true), (b"\\n", true), (b"\\\"", true), (b"\\x", false), (b"\x1f", false), (b"\0", false)]
        {
            for (at, rest) in (0..20).flat_map(|at| (0..10).map(move |rest| (at, rest))) {
                let document = [&before[..], &vec![around; at], mark, &vec![around; rest], b"\"}"].concat();
                let skimmed = agrees(&document).unwrap()[2];
                assert_eq!(skimmed, is_text, "{}", String::from_utf8_lossy(&document));
            }
        }
    }
}

#[test]
fn plain_documents_are_skimmed() {
    for (dialect, document) in PLAIN {
        let skimmed = agrees(document.as_bytes()).unwrap();
        assert!(skimmed[DIALECTS.iter().position(|one| *one == dialect).unwrap()], "{document}");
        for at in 0..document.len() {
            assert!(skim(dialect, &document.as_bytes()[..at]).is_none(), "{document} up to {at}");
        }
    }
}

#[test]
fn what_is_odd_is_parsed() {
    let used = r#""usage":{"completion_tokens":1}"#;
    let deep =
        format!(r#"{{"choices":[{{"finish_reason":"stop"}}],{used},"x":{}{}}}"#, "[".repeat(200), "]".repeat(200));
    for document in [
        &*deep,
        r#"{"choices":[{"finish_reason":"stop"}]}"#,
        r#"{"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}"#,
        r#"{"choices":[{"finish_reason":"stop"}],"usage":{"completion_tokens":1.0}}"#,
        r#"{"choices":[{"finish_reason":"stop"}],"usage":{"completion_tokens":1,"completion_tokens":2}}"#,
        r#"{"choices":[{"finish_reason":"stop"}],"usage":{"completion_tokens":1},"usage":null}"#,
        r#"{"choices":[{"finish_reason":"stop"}],"usage":{"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":1},"prompt_tokens_details":null}}"#,
        r#"{"choices":[{"finish_reason":"error"}],"usage":{"completion_tokens":1}}"#,
        r#"{"choices":[{"finish_reason":"stop"}],"usage":{"completion_tokens":1},"error":{"message":"x"}}"#,
        r#"{"choices":[{"finish_reason":"stop"}],"usage":{"completion_tokens":1},"err\u006fr":{"message":"x"}}"#,
        r#"{"choices":[{"finish_reason":"stop"}],"usage":{"completion_tokens":1},"code":1}"#,
        r#"{"choices":[{"finish_reason":"stop"}],"usage":{"completion_tokens":1},"x":1e999}"#,
        r#"{"choices":[{"finish_reason":"stop"}],"usage":{"completion_tokens":1}} {}"#,
        r#"{"choices":[],"usage":{"completion_tokens":1}}"#,
        r#"[{"choices":[{"finish_reason":"stop"}],"usage":{"completion_tokens":1}}]"#,
    ] {
        assert!(skim(Chat, document.as_bytes()).is_none(), "{document}");
        agrees(document.as_bytes()).unwrap();
    }
}

#[test]
fn broken_utf8_in_a_text_changes_nothing() {
    let mut document = br#"{"choices":[{"message":{"content":""#.to_vec();
    document.extend_from_slice(b"\xff\xe4\"},\"finish_reason\":\"stop\"}],\"usage\":{\"completion_tokens\":1}}");
    assert!(agrees(&document).unwrap()[0]);
}
