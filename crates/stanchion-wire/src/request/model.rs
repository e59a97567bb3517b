use bytes::Bytes;

use super::members::{Members, decode};

/// Puts another model name into a request's body.
///
/// Only the value of the top-level key `model` changes, wherever it stands, however often and however the key is escaped
/// or capitalised, since some servers do not care;
/// every other byte stays as it is. Where there is nothing to change (the same name, no such key, a value that is no
/// string, a body that is no JSON object), the result shares the body's memory.
#[must_use]
pub fn replace_model(body: &Bytes, model: &str) -> Bytes {
    let mut replaced = Vec::new();
    let mut copied = 0;
    for member in Members::of(body).filter(|member| member.is_like(body, "model")) {
        let value = member.value;
        if decode(&body[value.clone()]).is_none_or(|current| current == model) {
            continue;
        }
        replaced.reserve(body.len() - copied + model.len() + 2);
        replaced.extend_from_slice(&body[copied..value.start]);
        serde_json::to_writer(&mut replaced, model).expect("a string is JSON, and memory takes it");
        copied = value.end;
    }
    if copied == 0 {
        return body.clone();
    }
    replaced.extend_from_slice(&body[copied..]);
    replaced.into()
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};
    use serde_json::Value;

    use super::*;

    fn replaced(body: &str, model: &str) -> String {
        String::from_utf8(replace_model(&Bytes::copy_from_slice(body.as_bytes()), model).to_vec()).unwrap()
    }

    #[test]
    fn only_the_top_level_value_changes() {
        assert_eq!(replaced(r#"{"model":"a"}"#, "b"), r#"{"model":"b"}"#);
        assert_eq!(
            replaced(
                r#" { "x" : {"model":"a"} , "y":[{"model":"a"}],"z":"\"model\":\"a\"", "model" : "a" , "n":1.50e+1 } "#,
                "b"
            ),
            r#" { "x" : {"model":"a"} , "y":[{"model":"a"}],"z":"\"model\":\"a\"", "model" : "b" , "n":1.50e+1 } "#
        );
        assert_eq!(
            replaced(r#"{"a":{},"b":[],"c":null,"mod\u0065l":"a"}"#, "b"),
            r#"{"a":{},"b":[],"c":null,"mod\u0065l":"b"}"#
        );
        assert_eq!(replaced(r#"{"model":"a"}"#, "quote \" and \\ é"), r#"{"model":"quote \" and \\ é"}"#);
        // A server that takes the last of two gets no other model than one that takes the first.
        assert_eq!(
            replaced(r#"{"model":"b","model":"dear", "model" :null,"model":"a"}"#, "b"),
            r#"{"model":"b","model":"b", "model" :null,"model":"b"}"#
        );
        assert_eq!(replaced(r#"{"model":"a","Model":"a"}"#, "b"), r#"{"model":"b","Model":"b"}"#);
        assert_eq!(replaced(r#"{"xmodel":"a","model ":"a"}"#, "b"), r#"{"xmodel":"a","model ":"a"}"#);
    }

    #[test]
    fn what_need_not_change_is_not_copied() {
        for body in [
            r#"{"model":"a"}"#,
            r#"{"model":"\u0061"}"#,
            r#"{"messages":[{"model":"b"}]}"#,
            r#"{"model":null}"#,
            r#"{"model":{"model":"b"}}"#,
            "{}",
            "[]",
            "",
            "{",
            r#"{"model"#,
            r#"{"model\"#,
            r#"{"x":[["#,
            r#"{"x":]"#,
            r#"{"model":"a"#,
            r#"{"model":tru"#,
            "\u{0}",
        ] {
            let body = Bytes::copy_from_slice(body.as_bytes());
            let same = replace_model(&body, "a");
            assert_eq!((same.as_ptr(), same.len()), (body.as_ptr(), body.len()), "{body:?}");
        }
    }

    /// A JSON text in any legal spelling: odd spacing, escapes, number forms.
    fn json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just("true".to_owned()),
            Just("-0.50E+2".to_owned()),
            any::<i64>().prop_map(|n| n.to_string()),
            string(),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                vec((space(), inner.clone(), space()), 0..4).prop_map(|items| {
                    let items: Vec<_> = items.into_iter().map(|(a, v, b)| format!("{a}{v}{b}")).collect();
                    format!("[{}]", items.join(","))
                }),
                vec(member(inner), 0..4).prop_map(|members| format!("{{{}}}", members.join(","))),
            ]
        })
    }

    fn space() -> impl Strategy<Value = String> {
        "[ \t\r\n]{0,2}"
    }

    fn string() -> impl Strategy<Value = String> {
        prop_oneof![
            ".{0,8}".prop_map(|text| Value::from(text).to_string()),
            Just(r#""\u006dodel""#.to_owned()),
            Just(r#""model""#.to_owned()),
            Just(r#""\\\"{[}]\"\\""#.to_owned()),
            Just(r#""\ud83e\udd80""#.to_owned()),
        ]
    }

    fn member(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
        (space(), string(), space(), space(), value, space())
            .prop_map(|(a, k, b, c, v, d)| format!("{a}{k}{b}:{c}{v}{d}"))
    }

    fn is_model(member: &str) -> bool {
        let object: serde_json::Map<String, Value> = serde_json::from_str(&format!("{{{member}}}")).unwrap();
        object.contains_key("model")
    }

    proptest! {
        #[test]
        fn the_value_is_replaced_and_every_other_byte_kept(
            before in vec(member(json()), 0..4),
            after in vec(member(json()), 0..4),
            key in prop_oneof![Just(r#""model""#), Just(r#""m\u006fdel""#)],
            (a, b, c, d) in (space(), space(), space(), space()),
            old in string(),
            new in ".{0,12}",
        ) {
            let mut head = format!("{a}{{");
            for member in before.iter().filter(|member| !is_model(member)) {
                head.push_str(member);
                head.push(',');
            }
            head.extend([&b, key, &c, ":", &d]);
            let mut tail = a.clone();
            for member in after.iter().filter(|member| !is_model(member)) {
                tail.push(',');
                tail.push_str(member);
            }
            tail.push('}');
            tail.push_str(&b);

            let body = Bytes::from(format!("{head}{old}{tail}"));
            let result = replace_model(&body, &new);

            let mut expected: Value = serde_json::from_slice(&body).unwrap();
            expected["model"] = Value::from(new.as_str());
            prop_assert_eq!(serde_json::from_slice::<Value>(&result).unwrap(), expected);
            prop_assert!(result.starts_with(head.as_bytes()));
            prop_assert!(result.ends_with(tail.as_bytes()));
            let value = &result[head.len()..result.len() - tail.len()];
            prop_assert_eq!(serde_json::from_slice::<String>(value).unwrap(), new);
        }

        #[test]
        fn documents_without_a_model_are_shared(members in vec(member(json()), 0..6), nested in json()) {
            let members: Vec<_> = members.into_iter().filter(|member| !is_model(member)).collect();
            let wrapped = format!("[{nested}]");
            for document in [format!("{{{}}}", members.join(",")), wrapped] {
                let body = Bytes::from(document);
                prop_assert_eq!(replace_model(&body, "b").as_ptr(), body.as_ptr());
            }
        }

        #[test]
        fn nothing_panics(bytes in vec(any::<u8>(), 0..64), text in r#"[\[\]{}:,"\\model 0-9]{0,32}"#) {
            let _ = replace_model(&Bytes::from(bytes), "b");
            let _ = replace_model(&Bytes::from(text), "b");
        }
    }
}
