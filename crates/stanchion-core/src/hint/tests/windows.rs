use super::{Headers, read};
use crate::hint::{HintSource, HintSources};

#[test]
fn windows() {
    let rows: [(Headers<'_>, Option<u64>); 24] = [
        (&[("x-ratelimit-reset-requests", "1s")], Some(1000)),
        (&[("x-ratelimit-reset-requests", "1s"), ("x-ratelimit-remaining-requests", "0")], Some(1000)),
        (&[("x-ratelimit-reset-requests", "1s"), ("x-ratelimit-remaining-requests", "59")], None),
        (&[("x-ratelimit-reset-requests", "0s"), ("x-ratelimit-remaining-requests", "0")], None),
        // Unknown, several: the smallest. Groq counts requests by the day, tokens by the minute.
        (&[("x-ratelimit-reset-requests", "9h"), ("x-ratelimit-reset-tokens", "7.66s")], Some(7660)),
        // One is known to be exhausted: it alone counts, though the other is shorter.
        (
            &[
                ("x-ratelimit-reset-requests", "9h"),
                ("x-ratelimit-remaining-requests", "0"),
                ("x-ratelimit-reset-tokens", "7.66s"),
            ],
            Some(9 * 3_600_000),
        ),
        // Both are: the largest, whatever the order.
        (
            &[
                ("x-ratelimit-reset-requests", "1s"),
                ("x-ratelimit-remaining-requests", "0"),
                ("x-ratelimit-reset-tokens", "6m0s"),
                ("x-ratelimit-remaining-tokens", "0"),
            ],
            Some(360_000),
        ),
        (
            &[
                ("x-ratelimit-reset-requests", "6m0s"),
                ("x-ratelimit-remaining-requests", "0"),
                ("x-ratelimit-reset-tokens", "1s"),
                ("x-ratelimit-remaining-tokens", "0.0"),
            ],
            Some(360_000),
        ),
        // One has something left: the other, unknown, is the suspect.
        (
            &[
                ("x-ratelimit-reset-requests", "1s"),
                ("x-ratelimit-remaining-requests", "9"),
                ("x-ratelimit-reset-tokens", "6m0s"),
                ("x-ratelimit-remaining-tokens", "-1"),
            ],
            Some(360_000),
        ),
        (&[("x-ratelimit-reset-tokens", "10")], Some(10_000)),
        (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1786881660500")], Some(60_500)),
        (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1786881660")], Some(60_000)),
        (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "60")], Some(60_000)),
        (&[("x-ratelimit-remaining", "1"), ("x-ratelimit-reset", "60"), ("x-ratelimit-reset-after", "9")], None),
        (&[("x-ratelimit-reset-after", "0.5")], Some(500)),
        (&[("ratelimit-reset", "5"), ("ratelimit-remaining", "0")], Some(5000)),
        (&[("ratelimit", "\"m\";r=0;t=5, \"d\";r=9;t=999"), ("ratelimit", "\"h\";r=0;t=6")], Some(6000)),
        (&[("anthropic-ratelimit-tokens-reset", "2026-08-16T12:01:00Z")], Some(60_000)),
        (
            &[
                ("anthropic-ratelimit-requests-remaining", "12"),
                ("anthropic-ratelimit-requests-reset", "2026-08-16T12:00:01Z"),
                ("anthropic-ratelimit-input-tokens-remaining", "0"),
                ("anthropic-ratelimit-input-tokens-reset", "2026-08-16T12:00:30Z"),
                ("anthropic-ratelimit-output-tokens-remaining", "0"),
                ("anthropic-ratelimit-output-tokens-reset", "2026-08-16T12:00:20Z"),
            ],
            Some(30_000),
        ),
        // Subscriptions: the deciding window, then those that are known to be used up.
        (
            &[
                ("anthropic-ratelimit-unified-reset", "1786888800"),
                ("anthropic-ratelimit-unified-5h-reset", "1786881700"),
                ("anthropic-ratelimit-unified-7d-reset", "1786888800"),
            ],
            Some(7_200_000),
        ),
        (
            &[
                ("anthropic-ratelimit-unified-status", "rejected"),
                ("anthropic-ratelimit-unified-reset", "1786881700"),
                ("anthropic-ratelimit-unified-5h-reset", "1786881700"),
                ("anthropic-ratelimit-unified-5h-utilization", "1.0"),
                ("anthropic-ratelimit-unified-7d-reset", "1786888800"),
                ("anthropic-ratelimit-unified-7d-utilization", "0.62"),
            ],
            Some(100_000),
        ),
        (
            &[
                ("anthropic-ratelimit-unified-status", "allowed_warning"),
                ("anthropic-ratelimit-unified-reset", "1786881700"),
                ("anthropic-ratelimit-unified-5h-reset", "1786881700"),
                ("anthropic-ratelimit-unified-7d-reset", "1786888800"),
            ],
            None,
        ),
        (
            &[
                ("anthropic-ratelimit-unified-5h-reset", "1786881700"),
                ("anthropic-ratelimit-unified-7d-reset", "1786888800"),
            ],
            Some(100_000),
        ),
        (
            &[
                ("anthropic-ratelimit-unified-5h-reset", "1786881700"),
                ("anthropic-ratelimit-unified-5h-status", "allowed"),
                ("anthropic-ratelimit-unified-7d-reset", "1786888800"),
                ("anthropic-ratelimit-unified-7d-status", "rejected"),
            ],
            Some(7_200_000),
        ),
    ];
    for (headers, expected) in rows {
        assert_eq!(read(headers, "", HintSources::headers_only()).map(|(delay, _)| delay), expected, "{headers:?}");
    }
}

#[test]
fn a_window_counts_only_if_its_source_is_allowed() {
    let headers: Headers<'_> = &[
        ("x-ratelimit-reset-requests", "1s"),
        ("ratelimit", "\"m\";t=2"),
        ("anthropic-ratelimit-tokens-reset", "2026-08-16T12:00:03Z"),
        ("anthropic-ratelimit-unified-reset", "1786881604"),
    ];
    let sources = HintSources::default();
    for (sources, expected) in [
        (sources, Some((1000, HintSource::RateLimitReset))),
        (sources.without(HintSource::RateLimitReset), Some((3000, HintSource::AnthropicReset))),
        (sources.without(HintSource::RateLimitReset).without(HintSource::AnthropicReset), None),
    ] {
        assert_eq!(read(headers, "", sources), expected);
    }
}
