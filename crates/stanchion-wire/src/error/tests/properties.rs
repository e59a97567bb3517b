use proptest::{collection::vec, prelude::*};
use serde_json::Value;
use stanchion_core::{Disposition, DispositionRules, Retry};

use super::*;

/// JSON in the shapes of errors and of anything else, made of the words that the tables know.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "rate_limit_error",
        "insufficient_quota",
        "RESOURCE_EXHAUSTED",
        "429",
        "prompt is too long",
        "maximum prompt length is ",
        "limit: 0",
        "retry in 10h",
        "{\"error\":{\"code\":1}}",
        "status code: 503",
        "\u{2028}é🦀",
        "",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (400..600_u16).prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        word.prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "error",
        "code",
        "type",
        "message",
        "status",
        "details",
        "metadata",
        "raw",
        "response",
        "errors",
        "detail",
        "violations",
        "quotaId",
        "@type",
        "object",
        "param",
        "choices",
        "__type",
    ]);
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(key.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_body_makes_it_panic(code in 100..1000_u16, body in vec(any::<u8>(), 0..200)) {
        let failure = classify_reply(Dialect::OpenAiChat, reply(code, &[], &body), now());
        prop_assert_eq!(failure.status(), Some(status(code)));
        for event in [None, Some("error")] {
            let failure = in_band(Dialect::OpenAiChat, event, &body, None, now());
            prop_assert!(event.is_none() || failure.is_some());
        }
    }

    #[test]
    fn no_json_makes_it_panic(code in 100..1000_u16, body in any_json()) {
        let body = body.to_string();
        let failure = json(code, &body);
        prop_assert_eq!(failure.status(), Some(status(code)));
        let _ = frame(&body);
        let _ = in_band(Dialect::GeminiGenerateContent, Some("error"), body.as_bytes(), None, now());
    }

    #[test]
    fn no_text_makes_it_panic(code in 100..1000_u16, word in ".{0,40}", text in ".{0,200}", wait in any::<u32>()) {
        let wait = Some(Duration::from_secs(wait.into()));
        let _ = classify(status(code), &[&word], &text, wait);
    }

    #[test]
    fn a_spent_account_is_never_asked_again(code in 400..600_u16, text in ".{0,80}") {
        let body = serde_json::json!({"error": {"message": text, "code": "insufficient_quota"}}).to_string();
        let reply = reply(code, &[("x-should-retry", "true")], body.as_bytes());
        let failure = classify_reply(Dialect::OpenAiChat, reply, now());
        prop_assert_eq!(Disposition::of(&failure, &DispositionRules::default()).retry, Retry::Never);
    }

    #[test]
    fn no_word_makes_a_400_worth_asking_again(text in ".{0,40}") {
        let text = format!("Invalid value: '{text} overloaded timeout 503 rate limit too many requests server error'");
        let body = serde_json::json!({"error": {"message": text, "type": "invalid_request_error"}}).to_string();
        prop_assert_eq!(Disposition::of(&json(400, &body), &DispositionRules::default()).retry, Retry::Never);
    }
}
