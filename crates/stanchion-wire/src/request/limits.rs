use bytes::Bytes;

use super::members::Members;

/// What clients call the most tokens that a reply may have.
pub(super) const OUTPUT_LIMITS: [&str; 3] = ["max_tokens", "max_completion_tokens", "max_output_tokens"];

/// Takes the output limits out of a request's body: `max_tokens`, `max_completion_tokens` and `max_output_tokens`, where
/// they stand at the top level.
///
/// Every other member stays as it is, byte for byte and in order. Where there is nothing to take out, the result shares
/// the body's memory.
#[must_use]
pub fn without_output_limits(body: &Bytes) -> Bytes {
    let members: Vec<_> = Members::of(body).collect();
    let is_limit = |key| OUTPUT_LIMITS.iter().any(|limit| key == *limit);
    let stays: Vec<_> = members
        .iter()
        .filter(|member| !super::members::decode(&body[member.key.clone()]).is_some_and(is_limit))
        .collect();
    let (Some(first), Some(last)) = (members.first(), members.last()) else { return body.clone() };
    if stays.len() == members.len() {
        return body.clone();
    }
    let mut kept = Vec::with_capacity(body.len());
    kept.extend_from_slice(&body[..first.key.start]);
    for (index, member) in stays.iter().enumerate() {
        if index > 0 {
            kept.extend_from_slice(b", ");
        }
        kept.extend_from_slice(&body[member.key.start..member.value.end]);
    }
    kept.extend_from_slice(&body[last.value.end..]);
    kept.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value};

    use super::*;

    fn without(body: &str) -> String {
        String::from_utf8(without_output_limits(&Bytes::copy_from_slice(body.as_bytes())).to_vec()).unwrap()
    }

    #[test]
    fn the_limits_go_and_everything_else_stays_as_it_was_written() {
        for (body, expected) in [
            (r#"{"max_tokens":5}"#, "{}"),
            (r#"{"max_tokens":5,"model":"m"}"#, r#"{"model":"m"}"#),
            (r#"{"model":"m","max_tokens":5}"#, r#"{"model":"m"}"#),
            (r#"{ "a": 1.50e+1 , "max_completion_tokens" : 5 , "b":[ 1,2 ] }"#, r#"{ "a": 1.50e+1, "b":[ 1,2 ] }"#),
            (
                r#"{"max_tokens":1,"x":"max_tokens","max_output_tokens":null,"y":{"max_tokens":2},"max_completion_tokens":3}"#,
                r#"{"x":"max_tokens", "y":{"max_tokens":2}}"#,
            ),
            (r#"{"max\u005ftokens":1,"model":"m"}"#, r#"{"model":"m"}"#),
        ] {
            assert_eq!(without(body), expected);
        }
    }

    #[test]
    fn where_there_is_nothing_to_take_out_nothing_is_copied() {
        for body in [r#"{"model":"m"}"#, "{}", "[]", "", "{", r#"{"max_tokens"#, r#"{"max_tokens_x":1}"#, "null"] {
            let body = Bytes::copy_from_slice(body.as_bytes());
            let same = without_output_limits(&body);
            assert_eq!((same.as_ptr(), same.len()), (body.as_ptr(), body.len()), "{body:?}");
        }
    }

    proptest! {
        #[test]
        fn it_is_the_object_without_those_keys(
            keys in prop::collection::vec(prop::sample::select(&["a", "max_tokens", "b", "max_output_tokens", "max_completion_tokens"][..]), 0..6),
        ) {
            let object: Map<String, Value> =
                keys.iter().enumerate().map(|(index, key)| ((*key).to_owned(), Value::from(index))).collect();
            let text = serde_json::to_string(&object).unwrap();
            let found: Map<String, Value> = serde_json::from_str(&without(&text)).unwrap();
            let expected: Map<String, Value> =
                object.into_iter().filter(|(key, _)| !OUTPUT_LIMITS.contains(&key.as_str())).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
