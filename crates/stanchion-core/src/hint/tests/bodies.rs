use super::{Expected, read};
use crate::hint::{HintSource, HintSources, RetryHint};

#[test]
fn bodies() {
    use HintSource::{ResetsAt, RetryInfo, Text};
    let rows: [(&str, Expected); 34] = [
        (
            r#"{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.074824224s"}]}}"#,
            Some((34_075, RetryInfo)),
        ),
        (
            r#"[{"error":{"details":[{"@type":"x/google.rpc.QuotaFailure","retryDelay":"9s"},{"@type":"x/google.rpc.RetryInfo","retryDelay":"34s"}]}}]"#,
            Some((34_000, RetryInfo)),
        ),
        (
            r#"{"error":{"details":[{"@type":"x/google.rpc.RetryInfo","retryDelay":"3s"},{"@type":"x/google.rpc.RetryInfo","retryDelay":"5s"}]}}"#,
            Some((5000, RetryInfo)),
        ),
        (r#"{"error":{"details":[{"@type":"x/google.rpc.RetryInfo","retryDelay":"0s"}]}}"#, None),
        (r#"{"error":{"details":[{"@type":"x/google.rpc.RetryInfo","retryDelay":34},7,null,{"@type":3}]}}"#, None),
        (r#"{"error":{"details":{"@type":"x/google.rpc.RetryInfo","retryDelay":"34s"}}}"#, None),
        (
            r#"{"error":{"type":"usage_limit_reached","plan_type":"plus","resets_at":1786881660,"resets_in_seconds":61}}"#,
            Some((61_000, ResetsAt)),
        ),
        (r#"{"resets_at":1786881660,"resets_in_seconds":-3}"#, Some((60_000, ResetsAt))),
        (r#"{"resets_at":1786881660500}"#, Some((60_500, ResetsAt))),
        (r#"{"resets_at":"1786881660"}"#, Some((60_000, ResetsAt))),
        (r#"{"resets_in_seconds":1.5,"error":{"resets_in_seconds":"2.5"}}"#, Some((2500, ResetsAt))),
        (r#"{"resets_in_seconds":1e2}"#, Some((100_000, ResetsAt))),
        (r#"{"resets_in_seconds":1e300}"#, Some((RetryHint::MAX_DELAY.as_millis() as u64, ResetsAt))),
        (r#"{"resets_in_seconds":"1e2"}"#, None),
        (r#"{"resets_in_seconds":-1e300}"#, None),
        (r#"{"resets_in_seconds":0}"#, None),
        (r#"{"resets_in_seconds":true,"resets_at":null,"next_flush_time":5}"#, None),
        (r#"{"resets_at":1786881600}"#, None),
        (r#"{"error":{"code":"1308","message":"","next_flush_time":"2026-08-16 20:00:30"}}"#, Some((30_000, ResetsAt))),
        (r#"{"error":{"code":"1308"},"next_flush_time":"2026-08-16T20:00:30+08:00"}"#, Some((30_000, ResetsAt))),
        (r#"{"next_flush_time":"2026-08-16 19:59:59"}"#, None),
        (r#"{"error":{"message":"Please try again in 20ms."}}"#, Some((20, Text))),
        (r#"[{"error":{"message":"Please retry in 34s."}}]"#, Some((34_000, Text))),
        (r#"{"error":"try again in 3s"}"#, Some((3000, Text))),
        (r#"{"message":"retry after 26 seconds"}"#, Some((26_000, Text))),
        (r#"{"detail":"reset after 1h2m3s"}"#, Some((3_723_000, Text))),
        (r#""try again in 3s""#, Some((3000, Text))),
        (
            r#"{"error":{"code":"1308","message":"Usage limit reached for 5 hour. Your limit will reset at 2026-08-16 20:01:00"}}"#,
            Some((60_000, Text)),
        ),
        (r#"{"error":{"code":1310,"message":"您的限额将在 2026-08-16 20:01:00 重置。"}}"#, Some((60_000, Text))),
        (r#"{"error":{"code":"1308","message":"Your limit will reset at 2026-08-16 20:01:00Z"}}"#, None),
        (r#"{"error":{"code":"429","message":"Your limit will reset at 2026-08-16 20:01:00"}}"#, None),
        // Not the provider's message: an echo of the request, or a field of unknown meaning.
        (r#"{"error":{"message":"no","input":"try again in 3s"},"hint":"try again in 3s"}"#, None),
        ("upstream busy, try again in 3s\n", Some((3000, Text))),
        ("", None),
    ];
    for (body, expected) in rows {
        assert_eq!(read(&[], body, HintSources::all()), expected, "{body}");
        let without_text = expected.filter(|(_, source)| *source != Text);
        assert_eq!(read(&[], body, HintSources::default()), without_text, "{body}");
        assert_eq!(read(&[], body, HintSources::headers_only()), None, "{body}");
    }
}

#[test]
fn what_is_neither_json_nor_plain_text_is_left_alone() {
    for body in [
        "{\"error\":{\"message\":\"try again in 3s\"",
        "[\"try again in 3s\"",
        "<html><body>try again in 3s</body></html>",
        "\n data: {\"error\":{\"message\":\"try again in 3s\"}}\n\n",
        "event: error\ndata: try again in 3s\n\n",
        ": try again in 3s\n\n",
    ] {
        assert_eq!(read(&[], body, HintSources::all()), None, "{body}");
    }
}

#[test]
fn only_the_first_64_kib_are_looked_at() {
    let hint = "try again in 3s";
    let pad = |len| " ".repeat(len);
    assert_eq!(
        read(&[], &format!("{}{hint}", pad(65_536 - hint.len())), HintSources::all()),
        Some((3000, HintSource::Text))
    );
    assert_eq!(read(&[], &format!("{}{hint}", pad(65_536)), HintSources::all()), None);
    let json = r#"{"resets_in_seconds":4}"#;
    assert_eq!(
        read(&[], &format!("{json}{}", pad(65_536 - json.len())), HintSources::all()),
        Some((4000, HintSource::ResetsAt))
    );
    assert_eq!(read(&[], &format!("{json}{}", pad(65_537 - json.len())), HintSources::all()), None);
}
