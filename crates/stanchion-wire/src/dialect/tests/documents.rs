use super::*;

#[test]
fn broken_utf8_in_a_whole_reply_is_read_around() {
    let mut document = br#"{"choices":[{"message":{"content":""#.to_vec();
    document.extend_from_slice(b"\xff\"},\"finish_reason\":\"stop\"}]}");
    assert!(read_document(Chat, &document).output);
}

#[test]
fn whole_replies_are_judged_before_anyone_sees_them() {
    for (dialect, document, expected) in [
        (
            Chat,
            r#"{"choices":[{"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}"#,
            None,
        ),
        (Chat, "\r\n\u{feff} {\"choices\":[{\"message\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}", None),
        (Chat, "\u{feff}\n\n{\"choices\":[{\"message\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}", None),
        (Chat, r#"{"choices":[{"message":{"content":""},"finish_reason":"stop"}]}"#, None),
        (Chat, r#"{"choices":[{"message":{"content":""}}]}"#, Some(FailureKind::EmptyReply)),
        (Chat, r#"{"choices":[]}"#, Some(FailureKind::EmptyReply)),
        (Chat, "", Some(FailureKind::EmptyReply)),
        (Chat, "[]", Some(FailureKind::MalformedReply)),
        (Chat, "true", Some(FailureKind::MalformedReply)),
        (Chat, "  \n", Some(FailureKind::EmptyReply)),
        (Chat, r#"{"choices":[{"mess"#, Some(FailureKind::MalformedReply)),
        (Chat, "<!doctype html><title>Blocked</title>", Some(FailureKind::NotModelReply)),
        (
            Chat,
            r#"{"error":{"message":"out of credit","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            Some(FailureKind::QuotaExhausted),
        ),
        (
            Chat,
            r#"{"code":"The service is currently unavailable","error":"The service is temporarily unavailable"}"#,
            Some(FailureKind::Overloaded),
        ),
        (
            Chat,
            r#"{"choices":[{"message":{"content":"half"},"finish_reason":"error"}]}"#,
            Some(FailureKind::ServerError),
        ),
        (Responses, r#"{"object":"response","status":"completed","error":null,"output":[{"type":"message"}]}"#, None),
        (
            Responses,
            r#"{"object":"response","status":"completed","error":null,"output":[]}"#,
            Some(FailureKind::EmptyReply),
        ),
        (
            Responses,
            r#"{"object":"response","status":"failed","error":{"code":"server_error","message":"x"},"output":[]}"#,
            Some(FailureKind::ServerError),
        ),
        (Responses, r#"{"object":"response","status":"queued","error":null,"output":[]}"#, None),
        (
            Anthropic,
            r#"{"type":"message","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","usage":{"input_tokens":1}}"#,
            None,
        ),
        (
            Anthropic,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#,
            Some(FailureKind::Overloaded),
        ),
        (Gemini, r#"{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}]}"#, None),
        (Gemini, r#"{"candidates":[]}"#, Some(FailureKind::EmptyReply)),
        (Gemini, r#"{"promptFeedback":{"blockReason":"SAFETY"}}"#, None),
        (Ollama, r#"{"message":{"content":"Hi"},"done":true}"#, None),
        (
            Dialect::OpenAiEmbeddings,
            r#"{"object":"list","data":[{"embedding":[0.1]}],"usage":{"prompt_tokens":1}}"#,
            None,
        ),
    ] {
        let reading = read_document(dialect, document.as_bytes());
        assert_eq!(reading.fault.map(|fault| fault.failure.kind()), expected, "{dialect} {document}");
        assert_eq!(reading.output, expected.is_none(), "{dialect} {document}");
    }
}
