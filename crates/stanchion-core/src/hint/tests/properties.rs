use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;

use super::{ms, now};
use crate::hint::{HintSources, RetryHint, parse};

const HEADERS: [&str; 16] = [
    "retry-after-ms",
    "retry-after",
    "x-ratelimit-reset-requests",
    "x-ratelimit-remaining-requests",
    "x-ratelimit-reset",
    "x-ratelimit-remaining",
    "x-ratelimit-reset-after",
    "ratelimit-reset",
    "ratelimit",
    "anthropic-ratelimit-tokens-reset",
    "anthropic-ratelimit-tokens-remaining",
    "anthropic-ratelimit-unified-reset",
    "anthropic-ratelimit-unified-status",
    "anthropic-ratelimit-unified-5h-reset",
    "anthropic-ratelimit-unified-5h-utilization",
    "anthropic-ratelimit-unified-7d-reset",
];

/// Tokens that look like delays, whole or damaged.
fn token() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{1,30}(\\.[0-9]{0,30})?",
        "([0-9]{1,20}(\\.[0-9]{1,20})?(h|m|s|ms|us|ns|d)){1,4}",
        "[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{0,12})?(Z|[+-][0-9]{2}:[0-9]{2})?",
        "(Mon|Sun), [0-9]{2} (Jan|Feb|Dec) [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT",
        "\"[a-z,;\\\\\"]{0,5}\"?(;[rt]=-?[0-9.]{0,5}){0,3}",
        "[-+.0-9eExXsmhTZ:, \u{b5}]{0,24}",
        "\\PC{0,24}",
    ]
}

fn clock() -> impl Strategy<Value = SystemTime> {
    (0..=400_000_000_000u64, 0..1_000_000_000u32).prop_map(|(s, n)| SystemTime::UNIX_EPOCH + Duration::new(s, n))
}

fn is_sound(delay: Option<Duration>) -> bool {
    delay.is_none_or(|d| d > Duration::ZERO && d <= RetryHint::MAX_DELAY && d.subsec_nanos() % 1_000_000 == 0)
}

proptest! {
    #[test]
    fn no_notation_panics_or_gives_an_unsound_delay(token in token(), now in clock()) {
        for delay in [
            parse::retry_after_ms(&token),
            parse::retry_after(&token, now),
            parse::delta_seconds(&token),
            parse::epoch_seconds(&token, now),
            parse::rate_limit_reset(&token, now),
            parse::go_duration(&token),
            parse::window_reset(&token, now),
            parse::protobuf_duration(&token),
            parse::rfc3339(&token, now),
            parse::beijing_time(&token, now),
            parse::rate_limit(&token),
            parse::text(&token),
            parse::text(&format!("try again in {token}")),
        ] {
            prop_assert!(is_sound(delay), "{token:?}: {delay:?}");
        }
    }

    #[test]
    fn no_reply_panics_or_gives_an_unsound_hint(
        headers in prop::collection::vec((prop::sample::select(&HEADERS[..]), token()), 0..8),
        field in "(error|message|resets_at|resets_in_seconds|next_flush_time|details|retryDelay)",
        value in prop_oneof![
            token().prop_map(|token| serde_json::to_string(&token).unwrap()),
            "-?[1-9][0-9]{0,30}(e[0-9]{1,2})?",
        ],
        junk in prop::collection::vec(any::<u8>(), 0..64),
        now in clock(),
    ) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
                map.append(HeaderName::from_static(name), value);
            }
        }
        for body in [
            format!("{{\"{field}\":{value}}}").into_bytes(),
            format!("[{{\"error\":{{\"code\":\"1308\",\"{field}\":{value}}}}}]").into_bytes(),
            junk,
        ] {
            let hint = RetryHint::read(&map, &body, now, HintSources::all());
            prop_assert!(is_sound(hint.map(RetryHint::delay)), "{hint:?}");
            let silent = RetryHint::read(&map, &body, now, HintSources::headers_only());
            prop_assert_eq!(silent, RetryHint::read(&map, b"", now, HintSources::headers_only()), "the body was read");
        }
    }

    #[test]
    fn decimals_are_exact(millis in 1..=315_360_000_000u64) {
        let seconds = format!("{}.{:03}", millis / 1000, millis % 1000);
        prop_assert_eq!(parse::retry_after(&seconds, now()), ms(millis));
        prop_assert_eq!(parse::delta_seconds(&seconds), ms(millis));
        prop_assert_eq!(parse::retry_after_ms(&millis.to_string()), ms(millis));
        prop_assert_eq!(parse::protobuf_duration(&format!("{seconds}s")), ms(millis));
        let (h, m, s) = (millis / 3_600_000, millis / 60_000 % 60, millis % 60_000);
        let go = format!("{h}h{m}m{}.{:03}s", s / 1000, s % 1000);
        prop_assert_eq!(parse::go_duration(&go), ms(millis));
        prop_assert_eq!(parse::text(&format!("Please try again in {go}.")), ms(millis));
    }

    #[test]
    fn what_is_below_a_millisecond_rounds_up(millis in 0..1_000_000u64, rest in "[0-9]{0,20}[1-9][0-9]{0,20}") {
        let seconds = format!("{}.{:03}{rest}", millis / 1000, millis % 1000);
        prop_assert_eq!(parse::retry_after(&seconds, now()), ms(millis + 1));
    }

    #[test]
    fn dates_agree_with_their_writers(ahead in 1..=300_000_000u64) {
        let at = now() + Duration::from_secs(ahead);
        let delay = ms(ahead * 1000);
        prop_assert_eq!(parse::retry_after(&httpdate::fmt_http_date(at), now()), delay);
        prop_assert_eq!(parse::rfc3339(&humantime::format_rfc3339(at).to_string(), now()), delay);
        let beijing = humantime::format_rfc3339_seconds(at + Duration::from_secs(8 * 3600)).to_string();
        prop_assert_eq!(parse::beijing_time(beijing.replace('T', " ").trim_end_matches('Z'), now()), delay);
        prop_assert_eq!(parse::rfc3339(&beijing.replace('Z', "+08:00"), now()), delay);
        let epoch = at.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        prop_assert_eq!(parse::epoch_seconds(&epoch.as_secs().to_string(), now()), delay);
        prop_assert_eq!(parse::rate_limit_reset(&epoch.as_secs().to_string(), now()), delay);
        prop_assert_eq!(parse::rate_limit_reset(&epoch.as_millis().to_string(), now()), delay);
    }
}
