//! What a provider says about when to come back.

use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderName, HeaderValue};
use stanchion_core::{Context, FailureKind, HintSource, HintSources, RetryHint};
use stanchion_retry::{RetryLayer, RetryPolicy};
use stanchion_testkit::Events;

use super::{failure, hinted, ms, play, retries};

#[tokio::test(start_paused = true)]
async fn a_hint_is_waited_out_exactly() {
    // Shorter than the backoff, longer, and not in whole milliseconds.
    for (hint, wait) in
        [(ms(250), 250), (ms(1500), 1500), (ms(60_000), 60_000), (Duration::from_micros(1_000_200), 1001)]
    {
        let replies = [Err(hinted(FailureKind::RateLimited, 429, hint)), Ok(())];
        assert_eq!(play(retries(2), Context::default(), replies).await.at, [0, wait], "{hint:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn jitter_does_not_shorten_a_hint() {
    let lowest = RetryLayer::default().with_random(|| 0.0);
    let replies = [Err(hinted(FailureKind::RateLimited, 429, ms(2000))), Err(failure(FailureKind::Overloaded)), Ok(())];
    assert_eq!(play(lowest, Context::default(), replies).await.at, [0, 2000, 2750]);
}

#[tokio::test(start_paused = true)]
async fn a_hint_above_the_cap_is_given_back_at_once() {
    let events = Events::new();
    let day = Duration::from_secs(121_180);
    let outcome = play(retries(2), events.context(), [Err(hinted(FailureKind::RateLimited, 429, day))]).await;
    assert_eq!(outcome.took, Duration::ZERO);
    let failure = outcome.failure();
    assert_eq!(failure.kind(), FailureKind::RateLimited);
    let hint = failure.hint().expect("the hint is kept");
    assert_eq!((hint.delay(), hint.source()), (day, HintSource::RetryAfter));
    assert_eq!(events.lines(), ["R.exhausted#0(rate_limit/429)"]);
}

/// What the headers of a refusal come to: a wait, or `None` for giving up at once.
#[tokio::test(start_paused = true)]
async fn odd_headers_never_make_a_tight_loop_and_never_hang_the_caller() {
    let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    for (headers, wait) in [
        (&[("retry-after", "121180")][..], None),
        (&[("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT")], None),
        (&[("retry-after", "-5")], Some(500)),
        (&[("retry-after", "0")], Some(500)),
        (&[("retry-after", "nan")], Some(500)),
        (&[("retry-after", "Infinity")], Some(500)),
        (&[("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT")], Some(500)),
        (&[("retry-after", "0.25")], Some(250)),
        (&[("retry-after-ms", "1500"), ("retry-after", "9")], Some(1500)),
    ] {
        let map = headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let hint = RetryHint::read(&map.collect(), b"{}", now, HintSources::default());
        let replies = [Err(failure(FailureKind::RateLimited).with_hint(hint)), Ok(())];
        let outcome =
            play(retries(2), Context::default(), replies.into_iter().take(1 + usize::from(wait.is_some()))).await;
        assert_eq!(outcome.at[1..], *wait.as_slice(), "{headers:?}");
        assert_eq!(outcome.result.is_ok(), wait.is_some(), "{headers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hint_of_nothing_is_no_hint() {
    let replies = [Err(hinted(FailureKind::Overloaded, 503, Duration::ZERO)), Ok(())];
    assert_eq!(play(retries(2), Context::default(), replies).await.at, [0, 500]);
}

#[tokio::test(start_paused = true)]
async fn the_cap_is_a_setting() {
    let policy = RetryPolicy::builder().hint_cap(ms(1000)).build().unwrap();
    let layer = RetryLayer::new(policy);
    let within = [Err(hinted(FailureKind::RateLimited, 429, ms(1000))), Ok(())];
    assert_eq!(play(layer.clone(), Context::default(), within).await.at, [0, 1000]);
    let above = [Err(hinted(FailureKind::RateLimited, 429, ms(1001)))];
    assert_eq!(play(layer, Context::default(), above).await.at, [0]);
}

#[tokio::test(start_paused = true)]
async fn a_hint_outweighs_at_once() {
    let replies = [Err(hinted(FailureKind::Unprocessed, 503, ms(700))), Ok(())];
    assert_eq!(play(retries(2), Context::default(), replies).await.at, [0, 700]);
}

#[tokio::test(start_paused = true)]
async fn a_hint_that_only_the_policy_reads_leaves_with_the_failure() {
    let policy = RetryPolicy::builder().hints([HintSource::Text]).build().unwrap();
    let told = failure(FailureKind::RateLimited).with_message("Please try again in 90s.");
    let failure = play(RetryLayer::new(policy), Context::default(), [Err(told)]).await.failure();
    assert_eq!(failure.hint().map(RetryHint::delay), Some(Duration::from_secs(90)));
}

#[tokio::test(start_paused = true)]
async fn another_key_is_tried_at_once_and_costs_its_retry() {
    let limited = || Err(hinted(FailureKind::RateLimited, 429, ms(20_000)).with_another_credential());
    let outcome = play(retries(2), Context::default(), [limited(), limited(), limited(), limited()]).await;
    assert_eq!((&*outcome.at, outcome.took), (&[0, 0, 0, 0][..], Duration::ZERO), "one free, and two");
}
