use std::borrow::Cow;

use bytes::Bytes;
use stanchion_core::{Candidate, Dialect};

use super::members::{Member, Members, decode, is_like};

/// Writes what a candidate sets of its own into a request's body: temperature, output limit, service tier.
///
/// Every other byte stays as it is. A value that stands in the body is replaced; one that does not is put behind the
/// last member of its object, which is made where there is none. Where the candidate sets nothing, or the body is no
/// JSON object, the result shares the body's memory.
///
/// No spelling that a server might take for the same gets around it: a member that stands twice is replaced twice, each
/// of two names for one setting is, and so is one that differs in case alone, which servers written in Go read.
///
/// | setting | OpenAI chat | Responses | Anthropic | Gemini | Ollama |
/// |---|---|---|---|---|---|
/// | temperature | `temperature` | `temperature` | `temperature` | `generationConfig.temperature` | `options.temperature` |
/// | output limit | `max_completion_tokens`, or `max_tokens` where that stands there; both, where both do | `max_output_tokens` | `max_tokens` | `generationConfig.maxOutputTokens` | `options.num_predict` |
/// | tier | `service_tier` | `service_tier` | `service_tier` | | |
///
/// Gemini's names are also known as `generation_config` and `max_output_tokens`. Embeddings have none of these.
#[must_use]
pub fn with_overrides(dialect: Dialect, body: &Bytes, candidate: &Candidate) -> Bytes {
    let mut edited = Cow::Borrowed(&body[..]);
    let mut set = |path: Path, value: String| {
        if let Some(changed) = set(&edited, path, &value) {
            edited = Cow::Owned(changed);
        }
    };
    if let Some(temperature) = candidate.temperature()
        && let Some(path) = temperature_path(dialect)
    {
        set(path, serde_json::Value::from(temperature).to_string());
    }
    if let Some(limit) = candidate.max_output_tokens()
        && let Some(path) = limit_path(dialect)
    {
        set(path, limit.to_string());
    }
    if let Some(tier) = candidate.tier()
        && let Some(path) = tier_path(dialect)
    {
        set(path, serde_json::Value::from(tier).to_string());
    }
    match edited {
        Cow::Borrowed(_) => body.clone(),
        Cow::Owned(edited) => edited.into(),
    }
}

/// The keys on the way to a value. Each has one or more names; the first is written where none of them stands there.
type Path = &'static [&'static [&'static str]];

const GENERATION_CONFIG: &[&str] = &["generationConfig", "generation_config"];

fn temperature_path(dialect: Dialect) -> Option<Path> {
    Some(match dialect {
        Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::AnthropicMessages => &[&["temperature"]],
        Dialect::GeminiGenerateContent => &[GENERATION_CONFIG, &["temperature"]],
        Dialect::Ollama => &[&["options"], &["temperature"]],
        _ => return None,
    })
}

fn limit_path(dialect: Dialect) -> Option<Path> {
    Some(match dialect {
        // The older name, for servers that know no other.
        Dialect::OpenAiChat => &[&["max_completion_tokens", "max_tokens"]],
        Dialect::OpenAiResponses => &[&["max_output_tokens"]],
        Dialect::AnthropicMessages => &[&["max_tokens"]],
        Dialect::GeminiGenerateContent => &[GENERATION_CONFIG, &["maxOutputTokens", "max_output_tokens"]],
        Dialect::Ollama => &[&["options"], &["num_predict"]],
        _ => return None,
    })
}

fn tier_path(dialect: Dialect) -> Option<Path> {
    match dialect {
        Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::AnthropicMessages => Some(&[&["service_tier"]]),
        _ => None,
    }
}

/// Sets one value, at a path of keys, wherever it stands. `None` where nothing changes: it is there already, the body
/// is no object, or what the path leads through is none.
fn set(object: &[u8], path: Path, value: &str) -> Option<Vec<u8>> {
    let (names, deeper) = path.split_first()?;
    let members: Vec<Member> = Members::of(object).collect();
    let mut edited = Vec::new();
    let mut copied = 0;
    let mut stands = false;
    for member in &members {
        let Some(key) = decode(&object[member.key.clone()]) else { continue };
        if !names.iter().any(|name| is_like(&key, name)) {
            continue;
        }
        stands |= names.contains(&&*key);
        let old = &object[member.value.clone()];
        // A null holds nothing, and an object takes its place.
        let new = match deeper {
            [] => Some(value.as_bytes().to_vec()),
            _ if old == b"null" => set(b"{}", deeper, value),
            _ => set(old, deeper, value),
        };
        if let Some(new) = new.filter(|new| *new != old) {
            edited.extend_from_slice(&object[copied..member.value.start]);
            edited.extend_from_slice(&new);
            copied = member.value.end;
        }
    }
    if stands {
        let changed = copied > 0;
        edited.extend_from_slice(&object[copied..]);
        return changed.then_some(edited);
    }
    let inner = deeper.iter().rev().fold(value.to_owned(), |inner, names| format!("{{\"{}\":{inner}}}", names[0]));
    let (at, comma) = place(object, members.last())?;
    edited.extend_from_slice(&object[copied..at]);
    edited.extend_from_slice(format!("{comma}\"{}\": {inner}", names[0]).as_bytes());
    edited.extend_from_slice(&object[at..]);
    Some(edited)
}

/// Where another member goes, and what stands before it there: behind the last one, or into an object without any.
fn place(object: &[u8], last: Option<&Member>) -> Option<(usize, &'static str)> {
    if let Some(last) = last {
        return Some((last.value.end, ", "));
    }
    let open = object.iter().position(|byte| !byte.is_ascii_whitespace())?;
    let rest = object.get(open + 1..)?.trim_ascii_start();
    (object[open] == b'{' && rest.first() == Some(&b'}')).then_some((open + 1, ""))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use stanchion_core::Family;

    use super::*;

    fn candidate() -> Candidate {
        Candidate::new("p", Family::OpenAi, "https://provider.example/v1")
    }

    fn overridden(dialect: Dialect, candidate: &Candidate, body: &str) -> String {
        let body = with_overrides(dialect, &Bytes::copy_from_slice(body.as_bytes()), candidate);
        String::from_utf8(body.to_vec()).unwrap()
    }

    #[test]
    fn each_dialect_has_its_own_places() {
        let all = candidate().with_temperature(0.5).with_max_output_tokens(64).with_tier("flex");
        for (dialect, body, expected) in [
            (
                Dialect::OpenAiChat,
                r#"{"model": "m", "temperature":1.0 ,"messages":[]}"#,
                r#"{"model": "m", "temperature":0.5 ,"messages":[], "max_completion_tokens": 64, "service_tier": "flex"}"#,
            ),
            (
                Dialect::OpenAiChat,
                r#"{"max_tokens":5,"service_tier":"auto"}"#,
                r#"{"max_tokens":64,"service_tier":"flex", "temperature": 0.5}"#,
            ),
            (
                Dialect::OpenAiResponses,
                "{}",
                r#"{"temperature": 0.5, "max_output_tokens": 64, "service_tier": "flex"}"#,
            ),
            (
                Dialect::AnthropicMessages,
                r#" { "max_tokens" : 9 } "#,
                r#" { "max_tokens" : 64, "temperature": 0.5, "service_tier": "flex" } "#,
            ),
            (
                Dialect::GeminiGenerateContent,
                r#"{"generationConfig":{"maxOutputTokens":1,"topK":2},"contents":[]}"#,
                r#"{"generationConfig":{"maxOutputTokens":64,"topK":2, "temperature": 0.5},"contents":[]}"#,
            ),
            (
                Dialect::GeminiGenerateContent,
                r#"{"contents":[]}"#,
                r#"{"contents":[], "generationConfig": {"temperature":0.5, "maxOutputTokens": 64}}"#,
            ),
            (
                Dialect::GeminiGenerateContent,
                r#"{"generation_config":{"max_output_tokens":1,"topK":2}}"#,
                r#"{"generation_config":{"max_output_tokens":64,"topK":2, "temperature": 0.5}}"#,
            ),
            (Dialect::Ollama, r#"{"options":null}"#, r#"{"options":{"temperature": 0.5, "num_predict": 64}}"#),
            (Dialect::OpenAiEmbeddings, r#"{"input":"x"}"#, r#"{"input":"x"}"#),
        ] {
            assert_eq!(overridden(dialect, &all, body), expected, "{dialect}");
        }
    }

    #[test]
    fn no_spelling_gets_around_it() {
        let own = candidate().with_max_output_tokens(50);
        for (dialect, body, expected) in [
            (Dialect::OpenAiChat, r#"{"max_tokens":5,"max_tokens":99999}"#, r#"{"max_tokens":50,"max_tokens":50}"#),
            (
                Dialect::OpenAiChat,
                r#"{"max_tokens":50,"n":1,"max_completion_tokens":99999}"#,
                r#"{"max_tokens":50,"n":1,"max_completion_tokens":50}"#,
            ),
            (
                Dialect::OpenAiChat,
                r#"{"max\u005ftokens":99999,"Max_Tokens":99999}"#,
                r#"{"max\u005ftokens":50,"Max_Tokens":50}"#,
            ),
            // One that not every server takes for the same is none that is there.
            (Dialect::AnthropicMessages, r#"{"MAX_TOKENſ":99999}"#, r#"{"MAX_TOKENſ":50, "max_tokens": 50}"#),
            (
                Dialect::GeminiGenerateContent,
                r#"{"generation_config":{"max_output_tokens":9},"generationConfig":{"max_output_tokens":7,"maxOutputTokens":8}}"#,
                r#"{"generation_config":{"max_output_tokens":50},"generationConfig":{"max_output_tokens":50,"maxOutputTokens":50}}"#,
            ),
            (
                Dialect::GeminiGenerateContent,
                r#"{"generationConfig":{"topK":1},"generation_config":null}"#,
                r#"{"generationConfig":{"topK":1, "maxOutputTokens": 50},"generation_config":{"maxOutputTokens": 50}}"#,
            ),
            (
                Dialect::Ollama,
                r#"{"options":{"num_predict":5},"Options":{"num_predict":-1},"options":[1]}"#,
                r#"{"options":{"num_predict":50},"Options":{"num_predict":50},"options":[1]}"#,
            ),
        ] {
            assert_eq!(overridden(dialect, &own, body), expected, "{dialect}");
        }
        let cheap = candidate().with_tier("flex").with_temperature(0.0);
        assert_eq!(
            overridden(
                Dialect::OpenAiResponses,
                &cheap,
                r#"{"service_tier":"priority","temperature":2,"service_tier":"priority","temperature":2}"#
            ),
            r#"{"service_tier":"flex","temperature":0.0,"service_tier":"flex","temperature":0.0}"#
        );
    }

    #[test]
    fn what_need_not_change_is_not_copied() {
        let cold = candidate().with_temperature(0.5);
        for (candidate, body) in [
            (&candidate(), r#"{"temperature":1}"#),
            (&cold, r#"{"temperature":0.5}"#),
            (&cold, "[]"),
            (&cold, ""),
            (&cold, "{"),
            (&cold, r#""text""#),
        ] {
            let body = Bytes::copy_from_slice(body.as_bytes());
            let same = with_overrides(Dialect::OpenAiChat, &body, candidate);
            assert_eq!((same.as_ptr(), same.len()), (body.as_ptr(), body.len()), "{body:?}");
        }
        // What stands where an object belongs is left to the provider to refuse.
        assert_eq!(overridden(Dialect::Ollama, &cold, r#"{"options":[1]}"#), r#"{"options":[1]}"#);
    }

    /// Objects with members that stand twice, and with two names for the same.
    fn members(names: &'static [&'static str]) -> impl Strategy<Value = Vec<(&'static str, u32)>> {
        prop::collection::vec((prop::sample::select(names), 100_000_u32..), 0..7)
    }

    fn object(members: &[(&str, String)]) -> String {
        let members: Vec<_> = members.iter().map(|(key, value)| format!("{key:?}:{value}")).collect();
        format!("{{{}}}", members.join(","))
    }

    fn read(text: &str) -> Vec<(String, Value)> {
        let decoded = |range| decode(&text.as_bytes()[range]).unwrap().into_owned();
        let value = |range| serde_json::from_slice(&text.as_bytes()[range]).unwrap();
        Members::of(text.as_bytes()).map(|member| (decoded(member.key), value(member.value))).collect()
    }

    proptest! {
        #[test]
        fn it_is_the_same_object_but_for_what_is_set(
            members in members(&["a", "temperature", "b", "max_tokens", "max_completion_tokens", "options"]),
            steps in 0_u32..128,
            limit in 1_u32..100_000,
        ) {
            let temperature = f64::from(steps) / 64.0;
            let own = candidate().with_temperature(temperature).with_max_output_tokens(limit);
            let texts: Vec<_> = members.iter().map(|(key, value)| (*key, value.to_string())).collect();
            let found = read(&overridden(Dialect::OpenAiChat, &own, &object(&texts)));
            let mut expected: Vec<(String, Value)> = members
                .iter()
                .map(|(key, value)| {
                    let value = match *key {
                        "temperature" => json!(temperature),
                        "max_tokens" | "max_completion_tokens" => json!(limit),
                        _ => json!(value),
                    };
                    ((*key).to_owned(), value)
                })
                .collect();
            let stands = |wanted: &[&str]| members.iter().any(|(key, _)| wanted.contains(key));
            if !stands(&["temperature"]) {
                expected.push(("temperature".to_owned(), json!(temperature)));
            }
            if !stands(&["max_tokens", "max_completion_tokens"]) {
                expected.push(("max_completion_tokens".to_owned(), json!(limit)));
            }
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn geminis_limit_is_set_in_each_of_its_spellings(
            configs in prop::collection::vec((
                prop::sample::select(&["generationConfig", "generation_config"][..]),
                members(&["topK", "maxOutputTokens", "max_output_tokens"]),
            ), 0..3),
            limit in 1_u32..100_000,
        ) {
            let config = |members: &[(&str, u32)]| {
                object(&members.iter().map(|(key, value)| (*key, value.to_string())).collect::<Vec<_>>())
            };
            let texts: Vec<_> = configs.iter().map(|(key, members)| (*key, config(members))).collect();
            let own = candidate().with_max_output_tokens(limit);
            let text = overridden(Dialect::GeminiGenerateContent, &own, &object(&texts));
            let mut count = 0;
            for member in Members::of(text.as_bytes()) {
                count += 1;
                let members = read(&text[member.value]);
                let limits: Vec<_> = members.iter().filter(|(key, _)| key != "topK").collect();
                prop_assert!(!limits.is_empty() && limits.iter().all(|(_, value)| *value == json!(limit)), "{}", text);
            }
            prop_assert_eq!(count, configs.len().max(1));
        }
    }
}
