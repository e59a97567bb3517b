use std::borrow::Cow;

use bytes::Bytes;
use stanchion_core::{Candidate, Dialect};

use super::members::{Member, Members, decode};

/// Writes what a candidate sets of its own into a request's body: temperature, output limit, service tier.
///
/// Every other byte stays as it is. A value that stands in the body is replaced; one that does not is put behind the
/// last member of its object, which is made where there is none. Where the candidate sets nothing, or the body is no
/// JSON object, the result shares the body's memory.
///
/// | setting | OpenAI chat | Responses | Anthropic | Gemini | Ollama |
/// |---|---|---|---|---|---|
/// | temperature | `temperature` | `temperature` | `temperature` | `generationConfig.temperature` | `options.temperature` |
/// | output limit | `max_completion_tokens`, or `max_tokens` where that stands there | `max_output_tokens` | `max_tokens` | `generationConfig.maxOutputTokens` | `options.num_predict` |
/// | tier | `service_tier` | `service_tier` | `service_tier` | | |
///
/// Embeddings have none of these.
#[must_use]
pub fn with_overrides(dialect: Dialect, body: &Bytes, candidate: &Candidate) -> Bytes {
    let mut edited = Cow::Borrowed(&body[..]);
    let mut set = |path: &[&str], value: String| {
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
        && let Some(path) = limit_path(dialect, body)
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

fn temperature_path(dialect: Dialect) -> Option<&'static [&'static str]> {
    Some(match dialect {
        Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::AnthropicMessages => &["temperature"],
        Dialect::GeminiGenerateContent => &["generationConfig", "temperature"],
        Dialect::Ollama => &["options", "temperature"],
        _ => return None,
    })
}

fn limit_path(dialect: Dialect, body: &[u8]) -> Option<&'static [&'static str]> {
    Some(match dialect {
        // The older name, for servers that know no other.
        Dialect::OpenAiChat if Members::of(body).any(|member| member.is_called(body, "max_tokens")) => &["max_tokens"],
        Dialect::OpenAiChat => &["max_completion_tokens"],
        Dialect::OpenAiResponses => &["max_output_tokens"],
        Dialect::AnthropicMessages => &["max_tokens"],
        Dialect::GeminiGenerateContent => &["generationConfig", "maxOutputTokens"],
        Dialect::Ollama => &["options", "num_predict"],
        _ => return None,
    })
}

fn tier_path(dialect: Dialect) -> Option<&'static [&'static str]> {
    match dialect {
        Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::AnthropicMessages => Some(&["service_tier"]),
        _ => None,
    }
}

/// Sets one value, at a path of keys. `None` where the body is no object, or what the path leads through is none.
fn set(object: &[u8], path: &[&str], value: &str) -> Option<Vec<u8>> {
    let (key, deeper) = path.split_first()?;
    let members: Vec<Member> = Members::of(object).collect();
    let Some(found) =
        members.iter().find(|member| decode(&object[member.key.clone()]).is_some_and(|name| name == *key))
    else {
        let value = deeper.iter().rev().fold(value.to_owned(), |inner, key| format!("{{\"{key}\":{inner}}}"));
        return insert(object, members.last(), key, &value);
    };
    let old = &object[found.value.clone()];
    // A null holds nothing, and an object takes its place.
    let new = match deeper {
        [] => value.as_bytes().to_vec(),
        _ if old == b"null" => set(b"{}", deeper, value)?,
        _ => set(old, deeper, value)?,
    };
    if new == old {
        return None;
    }
    Some([&object[..found.value.start], &new, &object[found.value.end..]].concat())
}

/// Puts a member behind the last one, or into an object without any.
fn insert(object: &[u8], last: Option<&Member>, key: &str, value: &str) -> Option<Vec<u8>> {
    let (at, comma) = match last {
        Some(last) => (last.value.end, ", "),
        None => {
            let open = object.iter().position(|byte| !byte.is_ascii_whitespace())?;
            let rest = object.get(open + 1..)?.trim_ascii_start();
            if object[open] != b'{' || rest.first() != Some(&b'}') {
                return None;
            }
            (open + 1, "")
        }
    };
    let member = format!("{comma}\"{key}\": {value}");
    Some([&object[..at], member.as_bytes(), &object[at..]].concat())
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
            (Dialect::Ollama, r#"{"options":null}"#, r#"{"options":{"temperature": 0.5, "num_predict": 64}}"#),
            (Dialect::OpenAiEmbeddings, r#"{"input":"x"}"#, r#"{"input":"x"}"#),
        ] {
            assert_eq!(overridden(dialect, &all, body), expected, "{dialect}");
        }
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

    proptest! {
        #[test]
        fn it_is_the_same_object_but_for_what_is_set(
            keys in prop::collection::hash_set(prop::sample::select(&["a", "temperature", "b", "max_tokens", "options"][..]), 0..5),
            steps in 0_u32..128,
            limit in 1_u32..100_000,
        ) {
            let temperature = f64::from(steps) / 64.0;
            let object: Value = keys.iter().map(|key| ((*key).to_owned(), json!({ "n": 1 }))).collect();
            let own = candidate().with_temperature(temperature).with_max_output_tokens(limit);
            let text = object.to_string();
            let mut expected = object;
            expected["temperature"] = json!(temperature);
            let name = if keys.contains("max_tokens") { "max_tokens" } else { "max_completion_tokens" };
            expected[name] = json!(limit);
            let found: Value = serde_json::from_str(&overridden(Dialect::OpenAiChat, &own, &text)).unwrap();
            prop_assert_eq!(found, expected);
        }
    }
}
