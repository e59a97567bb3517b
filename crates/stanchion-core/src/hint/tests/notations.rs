use std::time::Duration;

use super::{ms, now};
use crate::hint::{RetryHint, parse};

const MAX: Option<Duration> = Some(RetryHint::MAX_DELAY);

/// What no notation takes for a delay, though some parser somewhere does.
const NEVER: [&str; 24] = [
    "",
    " ",
    "0",
    "0.0",
    "-5",
    "+5",
    "3abc",
    "1e3",
    "0x10",
    "1_000",
    "1,000",
    "5.",
    ".5",
    "1.2.3",
    "1 2",
    "NaN",
    "nan",
    "Infinity",
    "-inf",
    "2026-08-16",
    "2026-08-16T13:00:00",
    "soon",
    "\u{661}",
    "5, 10",
];

#[test]
fn the_clock_of_these_tests() {
    assert_eq!(humantime::format_rfc3339(now()).to_string(), "2026-08-16T12:00:00Z");
}

#[test]
fn no_notation_takes_half_a_token() {
    for token in NEVER {
        assert_eq!(parse::retry_after_ms(token), None, "{token:?}");
        assert_eq!(parse::retry_after(token, now()), None, "{token:?}");
        assert_eq!(parse::delta_seconds(token), None, "{token:?}");
        assert_eq!(parse::epoch_seconds(token, now()), None, "{token:?}");
        assert_eq!(parse::rate_limit_reset(token, now()), None, "{token:?}");
        assert_eq!(parse::go_duration(token), None, "{token:?}");
        assert_eq!(parse::window_reset(token, now()), None, "{token:?}");
        assert_eq!(parse::protobuf_duration(&format!("{token}s")), None, "{token:?}");
        assert_eq!(parse::rfc3339(token, now()), None, "{token:?}");
        assert_eq!(parse::beijing_time(token, now()), None, "{token:?}");
        // A comma would begin another item there.
        let field = format!("\"d\";t={}", token.replace(',', "_"));
        assert_eq!(parse::rate_limit(&field), None, "{token:?}");
        assert_eq!(parse::text(&format!("try again in {token}")), None, "{token:?}");
    }
}

#[test]
fn milliseconds() {
    for (value, delay) in [
        ("1500", ms(1500)),
        ("1250.0", ms(1250)),
        (" 7 ", ms(7)),
        ("\t20.5", ms(21)),
        ("0.001", ms(1)),
        ("0.0000000000000000000000001", ms(1)),
        ("99999999999999999999999999", MAX),
    ] {
        assert_eq!(parse::retry_after_ms(value), delay, "{value:?}");
    }
}

#[test]
fn seconds_and_dates() {
    for (value, delay) in [
        ("2", ms(2000)),
        ("007", ms(7000)),
        ("0.25", ms(250)),
        ("0.1", ms(100)),
        ("1.0001", ms(1001)),
        ("121180", ms(121_180_000)),
        ("315360000", MAX),
        ("315360001", MAX),
        ("18446744073709551616", MAX),
        ("18446744073709551626", MAX),
        ("Sun, 16 Aug 2026 12:00:05 GMT", ms(5000)),
        (" Sun, 16 Aug 2026 12:00:05 GMT ", ms(5000)),
        ("Sunday, 16-Aug-26 12:01:00 GMT", ms(60_000)),
        ("Sun Aug 16 13:00:00 2026", ms(3_600_000)),
        ("Fri, 31 Dec 9999 23:59:59 GMT", MAX),
        ("Sun, 16 Aug 2026 12:00:00 GMT", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", None),
        ("Thu, 01 Jan 1970 00:00:05 GMT", None),
        ("Mon, 16 Aug 2027 12:00:00 PST", None),
        ("Mon, 16 Aug 2027 12:00:00 GMT.", None),
        ("Tue, 30 Feb 2027 12:00:00 GMT", None),
    ] {
        assert_eq!(parse::retry_after(value, now()), delay, "{value:?}");
    }
}

#[test]
fn a_date_is_rounded_up_from_a_clock_with_fractions() {
    let now = now() + Duration::from_micros(1);
    assert_eq!(parse::retry_after("Sun, 16 Aug 2026 12:00:01 GMT", now), ms(1000));
    assert_eq!(parse::retry_after("Sun, 16 Aug 2026 12:00:01 GMT", now + Duration::from_millis(999)), ms(1));
    assert_eq!(parse::retry_after("Sun, 16 Aug 2026 12:00:01 GMT", now + Duration::from_secs(1)), None);
}

#[test]
fn durations_of_go() {
    for (value, delay) in [
        ("1s", ms(1000)),
        ("20ms", ms(20)),
        ("6ms", ms(6)),
        ("8.64s", ms(8640)),
        ("6m0s", ms(360_000)),
        ("2m59.56s", ms(179_560)),
        ("1h2m3s", ms(3_723_000)),
        ("1.5h", ms(5_400_000)),
        ("1us", ms(1)),
        ("1500\u{b5}s", ms(2)),
        ("1500\u{3bc}s", ms(2)),
        ("7ns", ms(1)),
        (" 1s ", ms(1000)),
        ("0s", None),
        ("0h0m0s", None),
        ("99999999999999999999h99999999999999999999h", MAX),
        ("10", None),
        ("-1s", None),
        ("1s ago", None),
        ("1 s", None),
        ("1m 3s", None),
        ("1d", None),
        ("1S", None),
        ("s", None),
        ("1s1", None),
        ("1e3s", None),
        ("1.s", None),
    ] {
        assert_eq!(parse::go_duration(value), delay, "{value:?}");
    }
    assert_eq!(parse::window_reset("10", now()), ms(10_000), "Azure's bare seconds");
    assert_eq!(parse::window_reset("6m0s", now()), ms(360_000));
}

#[test]
fn epochs_by_magnitude() {
    for (value, plain, epoch) in [
        ("30", ms(30_000), None),
        ("0.5", ms(500), None),
        ("1000000000", MAX, None),
        ("1000000001", None, None),
        ("1786881600", None, None),
        ("1786881601", ms(1000), ms(1000)),
        ("1786881660.5", ms(60_500), ms(60_500)),
        ("1786881660500", ms(60_500), ms(60_500)),
        ("1786881599999", None, None),
        ("1000000000000", MAX, MAX),
        ("1000000000001", None, None),
        ("99999999999999999999", MAX, MAX),
    ] {
        assert_eq!(parse::rate_limit_reset(value, now()), plain, "x-ratelimit-reset: {value}");
        assert_eq!(parse::epoch_seconds(value, now()), epoch, "epoch {value}");
    }
}

#[test]
fn protobuf_durations() {
    for (value, delay) in [
        ("34s", ms(34_000)),
        ("34.074824224s", ms(34_075)),
        ("0.000000001s", ms(1)),
        ("315576000000s", MAX),
        ("0s", None),
        ("-3s", None),
        ("34", None),
        ("34 s", None),
        ("500ms", None),
        ("34.s", None),
        ("s", None),
    ] {
        assert_eq!(parse::protobuf_duration(value), delay, "{value:?}");
    }
}

#[test]
fn dates_of_rfc_3339() {
    for (value, delay) in [
        ("2026-08-16T12:00:30Z", ms(30_000)),
        (" 2026-08-16T12:00:30Z ", ms(30_000)),
        ("2026-08-16T12:00:30.25Z", ms(30_250)),
        ("2026-08-16T12:00:30.2500000000000000000000001Z", ms(30_251)),
        ("2026-08-16T14:00:30+02:00", ms(30_000)),
        ("2026-08-16T05:00:30.5-07:00", ms(30_500)),
        ("2026-08-16T12:00:30+00:00", ms(30_000)),
        ("9999-12-31T23:59:59-23:59", MAX),
        ("2026-08-16T12:00:00Z", None),
        ("2020-01-01T00:00:00Z", None),
        ("1969-12-31T23:59:59Z", None),
        ("1970-01-01T00:00:00+23:59", None),
        ("2027-08-16T12:00:30", None),
        ("2027-08-16 12:00:30Z", None),
        ("2027-08-16T12:00:30ZZ", None),
        ("2027-08-16T12:00:30.Z", None),
        ("2027-08-16T12:00Z", None),
        ("2027-02-29T12:00:30Z", None),
        ("2027-13-01T12:00:30Z", None),
        ("2027-08-16T24:00:00Z", None),
        ("2027-08-16T12:00:30+24:00", None),
        ("2027-08-16T12:00:30+0200", None),
        ("2027-08-16T12:00:30+2:000", None),
        ("2027-08-16T12:00:3\u{e9}Z", None),
    ] {
        assert_eq!(parse::rfc3339(value, now()), delay, "{value:?}");
    }
}

#[test]
fn times_of_beijing() {
    for (value, delay) in [
        ("2026-08-16 20:00:30", ms(30_000)),
        ("2026-08-17 00:00:00", ms(4 * 3_600_000)),
        ("9999-12-31 23:59:59", MAX),
        ("2026-08-16 20:00:00", None),
        ("2026-08-16 12:00:30", None),
        ("1970-01-01 00:00:00", None),
        ("2027-08-16T20:00:30", None),
        ("2027-08-16 20:00:30Z", None),
        ("2027-08-16", None),
    ] {
        assert_eq!(parse::beijing_time(value, now()), delay, "{value:?}");
    }
}

#[test]
fn the_rate_limit_field() {
    for (value, delay) in [
        ("\"default\";r=0;t=30", ms(30_000)),
        ("\"default\"; t=30 ; r=0", ms(30_000)),
        ("default;t=2.5", ms(2500)),
        ("\"default\";r=50;t=30", None),
        ("\"a\";r=0;t=10, \"b\";r=0;t=100, \"c\";r=5;t=999, \"d\";t=3", ms(100_000)),
        ("\"a\";t=10, \"b\";t=100", ms(10_000)),
        ("\"a,b;t=9\\\";t=8\";r=0;t=7", ms(7000)),
        ("\"default\";r=0;t=-5", None),
        ("\"default\";r=0;t=\"5\"", None),
        ("\"default\";r=0", None),
        ("t=30", None),
        ("limit=100, remaining=0", None),
    ] {
        assert_eq!(parse::rate_limit(value), delay, "{value:?}");
    }
}

#[test]
fn prose() {
    for (message, delay) in [
        (
            "Rate limit reached for gpt-x on tokens per min (TPM): Limit 10000. Please try again in 1.5s. Visit ...",
            ms(1500),
        ),
        ("Please try again in 20ms.", ms(20)),
        ("Please try again in 6m0s", ms(360_000)),
        ("Please try again in 7m12.5s. Need more tokens?", ms(432_500)),
        ("Please retry in 10h17m5.72s.", ms(37_025_720)),
        ("Your quota will reset after 1h2m3s.", ms(3_723_000)),
        ("Requests have exceeded the rate limit. Please retry after 26 seconds. Contact us", ms(26_000)),
        ("PLEASE RETRY AFTER 1 SECOND", ms(1000)),
        ("try again in 2 minutes and 30 seconds!", ms(150_000)),
        ("try again in 1 hour, 2 mins", ms(3_720_000)),
        ("try again in 3 days", ms(3 * 86_400_000)),
        ("retry after 26 seconds, 3 of 5 left", ms(26_000)),
        ("try again in 99999999999999999999999 hours", MAX),
        ("retry after a while. Then retry in 5s, or try again in 9s", ms(5000)),
        ("retry after 26", None),
        ("try again in a few minutes", None),
        ("try again in -5s", None),
        ("try again in 0s", None),
        ("try again in 5s1x", None),
        ("try again in 5s_1", None),
        ("try again in 1,000 seconds", None),
        ("Timed out in 20ms", None),
        ("Limit 5s. Try later", None),
        ("Autoretry in 5s", None),
    ] {
        assert_eq!(parse::text(message), delay, "{message:?}");
    }
}
