use std::time::{Duration, SystemTime};

use stanchion::core::FailureKind;
use stanchion_faults::scenario::{Script, Step};
use stanchion_tests::{
    provider::Provider,
    replies::{WithHeader, json, millis, ok, secs, stream},
    stack::Stack,
};

fn limited(status: u16, headers: &[(&str, &str)]) -> Script {
    headers.iter().fold(json(status, "{}"), |script, (name, value)| script.with(name, value))
}

#[tokio::test(start_paused = true)]
async fn what_a_provider_asks_for_is_waited_out_to_the_millisecond() {
    // The first backoff, where there is no hint. It is never none, and never negative.
    const BACKOFF: u64 = 500;
    for (status, headers, wait) in [
        (429, &[("retry-after", "2")][..], 2000),
        (429, &[("retry-after", " 2 ")], 2000),
        (429, &[("retry-after", "60")], 60_000),
        (429, &[("retry-after", "0.25")], 250),
        (503, &[("retry-after", "3")], 3000),
        (529, &[("retry-after", "1.5")], 1500),
        (500, &[("retry-after", "1")], 1000),
        (429, &[("retry-after-ms", "1500"), ("retry-after", "9")], 1500),
        (429, &[("retry-after-ms", "nan"), ("retry-after", "2")], 2000),
        (429, &[("retry-after-ms", "-1"), ("retry-after", "2")], 2000),
        (429, &[("retry-after-ms", "0"), ("retry-after", "2")], 2000),
        (429, &[], BACKOFF),
        (429, &[("retry-after", "-5")], BACKOFF),
        (429, &[("retry-after", "0")], BACKOFF),
        (429, &[("retry-after", "0.0")], BACKOFF),
        (429, &[("retry-after", "nan")], BACKOFF),
        (429, &[("retry-after", "NaN")], BACKOFF),
        (429, &[("retry-after", "inf")], BACKOFF),
        (429, &[("retry-after", "-inf")], BACKOFF),
        (429, &[("retry-after", "")], BACKOFF),
        (429, &[("retry-after", "soon")], BACKOFF),
        (429, &[("retry-after", "1e9")], BACKOFF),
        (429, &[("retry-after", "5 minutes")], BACKOFF),
        (503, &[("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT")], BACKOFF),
        (503, &[("retry-after", "Wednesday, 21-Oct-15 07:28:00 GMT")], BACKOFF),
        (503, &[("retry-after", "Wed, 99 Oct 2015 99:28:00 GMT")], BACKOFF),
    ] {
        let provider = Provider::new([limited(status, headers), ok()]);
        let outcome = Stack::chat(&provider).ask(&provider).await;
        let told = format!("{status} {headers:?}");
        assert_eq!((outcome.status(), outcome.took), (Some(200), millis(wait)), "{told}");
        assert_eq!((provider.attempts(), provider.gaps()), (2, vec![u128::from(wait)]), "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_date_is_counted_from_now() {
    let date = httpdate::fmt_http_date(SystemTime::now() + secs(5));
    let provider = Provider::new([limited(429, &[("retry-after", &date)]), ok()]);
    let outcome = Stack::chat(&provider).ask(&provider).await;
    // A date has no fractions of a second, and the test itself takes time.
    assert!((secs(3)..=secs(5)).contains(&outcome.took), "{:?} for {date}", outcome.took);
    assert_eq!(provider.attempts(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_wait_beyond_the_cap_is_neither_slept_nor_cut_down_but_told() {
    for (value, hint) in [
        ("121180", Some(secs(121_180))),
        ("60.001", Some(millis(60_001))),
        ("Fri, 31 Dec 9999 23:59:59 GMT", None),
        ("99999999999999999999999999", None),
    ] {
        let provider = Provider::new([limited(429, &[("retry-after", value)]), ok()]);
        let outcome = Stack::chat(&provider).ask_inner(&provider).await;
        let failure = outcome.failure.expect("a failure");
        let told = failure.hint().map(stanchion::core::RetryHint::delay).expect("a hint");
        assert_eq!((failure.kind(), outcome.took), (FailureKind::RateLimited, Duration::ZERO), "{value}");
        assert_eq!((failure.attempts(), provider.attempts()), (1, 1), "{value}");
        assert!(hint.map_or(told > secs(24 * 3600), |hint| told == hint), "{told:?} of {value}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_client_is_told_how_long_the_provider_wants_to_be_left_alone() {
    let provider = Provider::new([limited(429, &[("retry-after", "121180")])]);
    let outcome = Stack::chat(&provider).ask(&provider).await;
    assert_eq!((outcome.status(), outcome.header("retry-after")), (Some(429), Some("121180")));
    assert_eq!(outcome.header("x-should-retry"), Some("false"));
}

#[tokio::test(start_paused = true)]
async fn a_wait_beyond_the_cap_goes_to_the_next_candidate_at_once() {
    let scripts = [("a", vec![limited(429, &[("retry-after", "900")])]), ("b", vec![ok()])];
    let provider = Provider::with(scripts);
    let outcome = Stack::chat(&provider).ask(&provider).await;
    assert_eq!((outcome.status(), outcome.took), (Some(200), Duration::ZERO));
    assert_eq!(provider.order(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_reconnection_time_inside_the_stream_is_no_wait() {
    // That field is for browsers, and changes nothing here.
    let provider = Provider::new([stream([Step::text("retry: 60000\n\n")]), ok()]);
    let outcome = Stack::chat(&provider).ask(&provider).await;
    assert_eq!((outcome.status(), outcome.took, provider.attempts()), (Some(200), millis(500), 2));
}
