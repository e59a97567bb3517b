use proptest::prelude::*;
use stanchion_core::FailureKind as K;

use super::*;

#[test]
fn frames_are_in_the_dialects_own_form() {
    let failure = Failure::new(K::Overloaded).with_phase(Phase::AfterOutput).with_message("busy\n\"now\"\u{2028}");
    let frame = |dialect, framing| {
        let frame = in_band(dialect, framing, &failure, 7).unwrap();
        String::from_utf8(frame.to_vec()).unwrap()
    };
    let chat = frame(Dialect::OpenAiChat, Framing::Sse);
    assert!(chat.starts_with(r#"data: {"error":{"message":""#) && chat.ends_with("}}\n\n"), "{chat}");
    assert!(chat.contains(r#"busy\n\"now\"\u2028""#), "{chat}");
    let responses = frame(Dialect::OpenAiResponses, Framing::Sse);
    assert!(
        responses.starts_with("event: error\ndata: {\"type\":\"error\",\"code\":\"overloaded\",\"message\":"),
        "{responses}"
    );
    assert!(responses.contains(r#""param":null,"sequence_number":7,"error":{"#), "{responses}");
    let anthropic = frame(Dialect::AnthropicMessages, Framing::Sse);
    assert!(
        anthropic.starts_with("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\""),
        "{anthropic}"
    );
    let gemini = frame(Dialect::GeminiGenerateContent, Framing::Sse);
    assert!(
        gemini.starts_with(r#"data: {"error":{"code":503,"message":"#) && gemini.ends_with("}}\r\n\r\n"),
        "{gemini}"
    );
    let array = frame(Dialect::GeminiGenerateContent, Framing::JsonArray);
    assert!(array.starts_with(",\r\n{\"error\":{\"code\":503") && array.ends_with("}}]"), "{array}");
    let whole = format!("[{{\"candidates\":[]}}{array}");
    assert!(serde_json::from_str::<Vec<Value>>(&whole).is_ok());
    let ollama = frame(Dialect::Ollama, Framing::Ndjson);
    assert!(ollama.starts_with(r#"{"error":""#) && ollama.ends_with("\"}\n"), "{ollama}");
    assert_eq!(in_band(Dialect::OpenAiChat, Framing::Document, &failure, 0), None);
}

#[test]
fn errors_of_our_own() {
    let response = local_error(Dialect::OpenAiChat, StatusCode::NOT_FOUND, "model_not_found", "no model 'x'");
    assert_eq!(response.status(), 404);
    assert_eq!(
        response.body(),
        r#"{"error":{"message":"no model 'x'","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#
    );
    let response =
        local_error(Dialect::AnthropicMessages, StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", "too large");
    assert_eq!(
        response.body(),
        r#"{"type":"error","error":{"type":"request_too_large","message":"too large"},"request_id":null}"#
    );
    let response = local_error(Dialect::GeminiGenerateContent, StatusCode::BAD_REQUEST, "bad_json", "m");
    assert_eq!(body(&response)["error"]["status"], "INVALID_ARGUMENT");
    let response = local_error(Dialect::Ollama, StatusCode::BAD_REQUEST, "bad_json", "m");
    assert_eq!(response.body(), r#"{"error":"m"}"#);
}

/// The kinds that a provider tells.
const TOLD: [K; 16] = [
    K::RateLimited,
    K::QuotaExhausted,
    K::Overloaded,
    K::ServerError,
    K::GatewayTimeout,
    K::RequestTimeout,
    K::Conflict,
    K::TooEarly,
    K::Authentication,
    K::PermissionDenied,
    K::NotFound,
    K::ContextOverflow,
    K::ContentPolicy,
    K::InvalidRequest,
    K::NotSupported,
    K::RequestTooLarge,
];

/// What is left of a kind in a dialect that has fewer words.
fn coarse(dialect: Dialect, kind: K) -> K {
    match (dialect.family(), kind) {
        (Family::Anthropic, K::ContentPolicy | K::NotSupported) => K::InvalidRequest,
        (Family::Anthropic, K::RequestTimeout) => K::GatewayTimeout,
        (Family::Anthropic, K::TooEarly) => K::ServerError,
        _ => kind,
    }
}

#[test]
fn what_is_rendered_reads_as_what_it_was() {
    for kind in TOLD {
        for dialect in DIALECTS.into_iter().filter(|dialect| *dialect != Dialect::Ollama) {
            let failure = Failure::new(kind).with_phase(Phase::AfterOutput).with_message("no").with_attempts(2);
            let frame = in_band(dialect, Framing::Ndjson, &failure, 1).unwrap();
            let read = error::in_band(dialect, None, &frame, None, SystemTime::UNIX_EPOCH).unwrap();
            assert_eq!(read.kind(), coarse(dialect, kind), "{dialect} {kind:?}");

            let response = render(dialect, &failure);
            let reply = ProviderReply {
                status: response.status(),
                headers: response.headers().clone(),
                body: response.body().clone(),
                complete: true,
            };
            let read = error::classify_reply(dialect, reply, SystemTime::UNIX_EPOCH);
            let exact = [kind, coarse(dialect, kind)].contains(&read.kind());
            assert!(exact, "{dialect} {kind:?} {:?}", read.kind());
        }
    }
    // Ollama has no codes: only what its words must tell survives.
    let overflow = in_band(Dialect::Ollama, Framing::Ndjson, &Failure::new(K::ContextOverflow), 0).unwrap();
    let read = error::in_band(Dialect::Ollama, None, &overflow, None, SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(read.kind(), K::ContextOverflow);
}

proptest! {
    #[test]
    fn no_words_break_the_frame(words in any::<String>(), index in 0..TOLD.len(), dialect in 0..DIALECTS.len()) {
        let (kind, dialect) = (TOLD[index], DIALECTS[dialect]);
        let failure = Failure::new(kind).with_message(words.clone());
        let response = render(dialect, &failure);
        prop_assert!(body(&response).to_string().len() > 2);
        let frame = in_band(dialect, Framing::Sse, &failure, 3).unwrap();
        let frame = std::str::from_utf8(&frame).unwrap();
        let inside = frame.trim_end().strip_prefix("event: error\n").unwrap_or(frame.trim_end());
        let breaks = inside.contains(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}', '\u{b}', '\u{c}', '\u{1c}']);
        prop_assert!(!breaks, "more than one line");
        let told: Value = serde_json::from_str(inside.strip_prefix("data: ").unwrap()).unwrap();
        let error = &told["error"];
        let message = error.as_str().or(error["message"].as_str()).unwrap();
        prop_assert!(message.contains(&words));
    }
}
