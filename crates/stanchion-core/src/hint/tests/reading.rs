use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderValue};

use super::{Headers, ms, now, read};
use crate::hint::{HintSource, HintSources, RetryHint};

#[test]
fn each_place_gives_way_to_the_one_before() {
    use HintSource::{AnthropicReset, ResetsAt, RetryAfter, RetryAfterMs, RetryInfo, Text};
    let info = r#"{"error":{"message":"Please retry in 7s","resets_in_seconds":4,"details":[{"@type":
        "type.googleapis.com/google.rpc.RetryInfo","retryDelay":"3s"}]}}"#;
    let resets = r#"{"error":{"message":"Please retry in 7s","resets_in_seconds":4}}"#;
    let text = r#"{"error":{"message":"Please retry in 7s"}}"#;
    let reset = ("anthropic-ratelimit-requests-reset", "2026-08-16T12:00:05Z");
    let after = ("retry-after", "2");
    let millis = ("retry-after-ms", "1");
    let rows: [(Headers<'_>, &str, super::Expected); 6] = [
        (&[reset, after, millis], info, Some((1, RetryAfterMs))),
        (&[reset, after], info, Some((2000, RetryAfter))),
        (&[reset], info, Some((3000, RetryInfo))),
        (&[reset], resets, Some((4000, ResetsAt))),
        (&[reset], text, Some((5000, AnthropicReset))),
        (&[], text, Some((7000, Text))),
    ];
    for (headers, body, expected) in rows {
        assert_eq!(read(headers, body, HintSources::all()), expected, "{headers:?} {body}");
        // Without the winner, the next in line speaks.
        let (_, winner) = expected.unwrap();
        let next = read(headers, body, HintSources::all().without(winner));
        assert_ne!(next.map(|(_, source)| source), Some(winner));
        assert_eq!(next.is_some(), winner != Text, "{headers:?} {body}");
        assert_eq!(read(headers, body, HintSources::none()), None);
    }
}

#[test]
fn the_unusable_falls_through() {
    for bad in ["", "abc", "NaN", "inf", "-1", "0", "+5", "1e3", "0x10", "3abc", "2026-08-16T13:00:00Z"] {
        let headers: Headers<'_> = &[("retry-after-ms", bad), ("retry-after", "2")];
        assert_eq!(read(headers, "", HintSources::default()), Some((2000, HintSource::RetryAfter)), "{bad:?}");
        let headers: Headers<'_> = &[("retry-after-ms", bad), ("retry-after", bad)];
        assert_eq!(read(headers, "{}", HintSources::default()), None, "{bad:?}");
        let body = r#"{"error":{"resets_in_seconds":9}}"#;
        assert_eq!(read(headers, body, HintSources::default()), Some((9000, HintSource::ResetsAt)), "{bad:?}");
    }
}

#[test]
fn of_repeated_headers_the_largest_usable_value_counts() {
    let rows: [(Headers<'_>, u64); 3] = [
        (&[("retry-after", "2"), ("retry-after", "9"), ("retry-after", "1e9"), ("retry-after", "3")], 9000),
        (&[("retry-after", "2"), ("retry-after", "Sun, 16 Aug 2026 12:00:05 GMT")], 5000),
        (&[("retry-after-ms", "-1"), ("retry-after-ms", "20"), ("retry-after", "9")], 20),
    ];
    for (headers, millis) in rows {
        assert_eq!(read(headers, "", HintSources::default()).map(|(delay, _)| delay), Some(millis), "{headers:?}");
    }
}

#[test]
fn a_header_that_is_no_text_is_no_hint() {
    let mut headers = HeaderMap::new();
    headers.append("retry-after", HeaderValue::from_bytes(b"5\xff").unwrap());
    assert_eq!(RetryHint::read(&headers, b"\xff\xfe", now(), HintSources::all()), None);
    headers.append("retry-after", HeaderValue::from_static("4"));
    assert_eq!(RetryHint::read(&headers, b"", now(), HintSources::all()).map(RetryHint::delay), ms(4000));
}

#[test]
fn clocks_far_off_do_no_harm() {
    let mut headers = HeaderMap::new();
    headers.append("retry-after", HeaderValue::from_static("Fri, 31 Dec 9999 23:59:59 GMT"));
    headers.append("x-ratelimit-reset", HeaderValue::from_static("253402300799"));
    for (now, sources) in [
        (SystemTime::UNIX_EPOCH - Duration::from_secs(1 << 40), HintSources::all()),
        (SystemTime::UNIX_EPOCH, HintSources::all().without(HintSource::RetryAfter)),
    ] {
        let hint = RetryHint::read(&headers, b"", now, sources).unwrap();
        assert_eq!(hint.delay(), RetryHint::MAX_DELAY);
        assert!(now.checked_add(hint.delay()).is_some());
    }
    let late = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
    assert_eq!(RetryHint::read(&headers, b"", late, HintSources::all()), None);
}
