use std::ops::Range;

use bytes::Bytes;

use super::members::{Member, Members};

/// Asks for usage in a body of OpenAI chat completions that wants a stream and does not ask for it: the same body with
/// `stream_options.include_usage` set to true.
///
/// `None` where there is nothing to do: the client asks for usage itself, wants no stream, or has written what only the
/// provider can judge (another type than the interface knows, a member that stands twice). Everything else stays as it
/// is, byte for byte and in order.
#[must_use]
pub fn with_usage(body: &Bytes) -> Option<Bytes> {
    let stream = only(body, 0..body.len(), "stream").ok()??;
    if &body[stream.value] != b"true" {
        return None;
    }
    let Some(options) = only(body, 0..body.len(), "stream_options").ok()? else {
        return insert(body, 0..body.len(), br#""stream_options":{"include_usage":true}"#);
    };
    let options = options.value;
    if &body[options.clone()] == b"null" {
        return Some(replace(body, options, br#"{"include_usage":true}"#));
    }
    match only(body, options.clone(), "include_usage").ok()? {
        None => insert(body, options, br#""include_usage":true"#),
        Some(member) => match &body[member.value.clone()] {
            b"false" | b"null" => Some(replace(body, member.value, b"true")),
            _ => None,
        },
    }
}

/// A member stands twice: which one counts is for the provider to say.
struct Twice;

/// The member of this name of the object that stands at `object`, if there is one.
fn only(body: &[u8], object: Range<usize>, key: &str) -> Result<Option<Member>, Twice> {
    let start = object.start;
    let text = &body[object];
    let mut found = Members::of(text).filter(|member| member.is_called(text, key));
    let Some(Member { key, value }) = found.next() else { return Ok(None) };
    if found.next().is_some() {
        return Err(Twice);
    }
    let moved = |range: Range<usize>| start + range.start..start + range.end;
    Ok(Some(Member { key: moved(key), value: moved(value) }))
}

/// Adds a member behind the last of the object that stands at `object`; `None` if it is no object.
fn insert(body: &[u8], object: Range<usize>, member: &[u8]) -> Option<Bytes> {
    let text = &body[object.clone()];
    let (at, comma) = match Members::of(text).last() {
        Some(last) => (last.value.end, true),
        None => {
            let open = text.iter().position(|byte| !byte.is_ascii_whitespace()).filter(|at| text[*at] == b'{')?;
            (open + 1, false)
        }
    };
    let at = object.start + at;
    let mut added = Vec::with_capacity(member.len() + 1);
    if comma {
        added.push(b',');
    }
    added.extend_from_slice(member);
    Some(replace(body, at..at, &added))
}

fn replace(body: &[u8], range: Range<usize>, with: &[u8]) -> Bytes {
    [&body[..range.start], with, &body[range.end..]].concat().into()
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use serde_json::{Value, json};

    use super::*;

    fn rewritten(body: &str) -> Option<String> {
        with_usage(&Bytes::copy_from_slice(body.as_bytes())).map(|body| String::from_utf8(body.to_vec()).unwrap())
    }

    #[test]
    fn usage_is_asked_for_and_every_other_byte_stays() {
        for (body, expected) in [
            (r#"{"stream":true}"#, r#"{"stream":true,"stream_options":{"include_usage":true}}"#),
            (
                " { \"stream\" : true , \"n\":1.50e+1 }\n",
                " { \"stream\" : true , \"n\":1.50e+1,\"stream_options\":{\"include_usage\":true} }\n",
            ),
            (r#"{"stream_options":null,"stream":true}"#, r#"{"stream_options":{"include_usage":true},"stream":true}"#),
            (r#"{"stream":true,"stream_options":{}}"#, r#"{"stream":true,"stream_options":{"include_usage":true}}"#),
            (
                r#"{"stream":true,"stream_options": { } }"#,
                r#"{"stream":true,"stream_options": {"include_usage":true } }"#,
            ),
            (
                r#"{"stream_options":{"include_obfuscation": false },"stream":true}"#,
                r#"{"stream_options":{"include_obfuscation": false,"include_usage":true },"stream":true}"#,
            ),
            (
                r#"{"stream":true,"stream_options":{"include_usage":false,"x":1}}"#,
                r#"{"stream":true,"stream_options":{"include_usage":true,"x":1}}"#,
            ),
            (
                r#"{"str\u0065am":true,"messages":[{"stream_options":{"include_usage":true}}]}"#,
                r#"{"str\u0065am":true,"messages":[{"stream_options":{"include_usage":true}}],"stream_options":{"include_usage":true}}"#,
            ),
        ] {
            assert_eq!(rewritten(body).as_deref(), Some(expected));
            // Once it is asked for, nothing is left to do.
            assert_eq!(rewritten(expected), None);
        }
    }

    #[test]
    fn what_the_client_or_only_the_provider_can_judge_is_left_alone() {
        for body in [
            r#"{"stream":true,"stream_options":{"include_usage":true}}"#,
            r#"{"stream":true,"stream_options":{"include_us\u0061ge":true}}"#,
            r#"{"stream":true,"stream_options":{"include_usage":1}}"#,
            r#"{"stream":true,"stream_options":{"include_usage":false,"include_usage":true}}"#,
            r#"{"stream":true,"stream_options":{},"stream_options":{"include_usage":true}}"#,
            r#"{"stream":true,"stream_options":"include_usage"}"#,
            r#"{"stream":true,"stream_options":[]}"#,
            r#"{"stream":false}"#,
            r#"{"stream":1}"#,
            r#"{"stream":true,"stream":false}"#,
            r#"{"messages":[{"stream":true}]}"#,
            "{}",
            "[]",
            "",
            "{",
            "null",
            r#"{"stream":tru"#,
        ] {
            assert_eq!(rewritten(body), None, "{body}");
        }
    }

    /// A member in any legal spelling, as text and as what it means.
    fn member() -> impl Strategy<Value = String> {
        let key = prop::sample::select(vec!["a", "messages", "Stream", "stream_option", "include_usage", "é\"\\"]);
        let value = prop::sample::select(vec![
            "null",
            "-0.50E+2",
            r#""\u006d{[\"}]""#,
            r#"{"stream":true,"stream_options":{"include_usage":true}}"#,
            r#"[ {"b":[]} , "]" ]"#,
            "true",
        ]);
        ("[ \t\r\n]{0,2}", key, "[ \t\r\n]{0,2}", value)
            .prop_map(|(space, key, other, value)| format!("{space}{}{other}:{space}{value}{other}", Value::from(key)))
    }

    proptest! {
        #[test]
        fn rewriting_changes_nothing_else(
            before in vec(member(), 0..4),
            after in vec(member(), 0..4),
            within in vec(member(), 0..3),
            options in 0..3_u8,
            space in "[ \t\r\n]{0,2}",
        ) {
            let within: Vec<_> = within.into_iter().filter(|member| !member.contains("\"include_usage\"") ).collect();
            let mut members = before;
            members.push(format!("{space}\"stream\"{space}:{space}true{space}"));
            match options {
                0 => {}
                1 => members.push(format!("{space}\"stream_options\":{space}null")),
                _ => members.push(format!("\"stream_options\"{space}:{{{}{space}}}", within.join(","))),
            }
            members.extend(after);
            let body = format!("{space}{{{}}}{space}", members.join(","));
            let changed = rewritten(&body).expect("usage was not asked for");

            // As text: what was there is there, in order, around one piece that is new.
            let same = body.bytes().zip(changed.bytes()).take_while(|(old, new)| old == new).count();
            let rest = body.bytes().rev().zip(changed.bytes().rev()).take_while(|(old, new)| old == new).count();
            let removed = body.len().saturating_sub(same + rest);
            prop_assert!(removed <= "null".len(), "{body} {changed}");
            let most = r#","stream_options":{"include_usage":true}"#.len();
            prop_assert!(changed.len() - body.len() <= most);

            // As an object: only this has changed.
            let mut expected: Value = serde_json::from_str(&body).unwrap();
            let found: Value = serde_json::from_str(&changed).unwrap();
            match &mut expected["stream_options"] {
                Value::Object(options) => {
                    options.insert("include_usage".into(), Value::Bool(true));
                }
                other => *other = json!({"include_usage": true}),
            }
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn no_body_makes_it_panic(body in "[{}\\[\\]\",:a-z\\\\ ]{0,60}", bytes in vec(any::<u8>(), 0..60)) {
            let _ = with_usage(&Bytes::from(body));
            let _ = with_usage(&Bytes::from(bytes));
        }
    }
}
