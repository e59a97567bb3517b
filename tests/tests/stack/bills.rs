//! What a provider has done is told as used, also where nobody got it: replies that were held back and thrown away, and
//! clients that left before anything was theirs.

use serde_json::json;
use stanchion_faults::scenario::{Before, End, Script, Step};
use stanchion_testkit::Events;
use stanchion_tests::{
    provider::Provider,
    replies::{ending, json as reply, refusal, role, secs, stream, text},
    stack::{Outcome, Stack},
};
use tokio::time::timeout;

use super::sessions::{ANTHROPIC, CHAT, answer, priced, request, start, told, watched};

/// Four bytes: a token.
fn words(count: u32) -> Step {
    text("word").times(count)
}

/// What is told of usage when the client leaves a second after it asked.
async fn left(dialect: stanchion::core::Dialect, script: Script, headers: &[(&'static str, &'static str)]) -> String {
    let model = if dialect == CHAT { "gpt-4o" } else { "claude-sonnet-4-20250514" };
    let provider = Provider::new([script]);
    let stack = Stack::of(dialect, [priced(dialect, "a", model)]);
    let (service, events) = (watched(&stack, &provider), Events::new());
    let asked = request(&stack, &events, &json!({}), headers);
    let asking = async {
        let outcome = Outcome::of(service, asked, &Events::new()).await;
        panic!("an answer came: {outcome:?}");
    };
    assert!(timeout(secs(1), asking).await.is_err());
    told(&events).join(" ")
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_before_its_reply_is_billed_for_what_was_done() {
    let complete = [("x-stanchion-commit", "complete")];
    // All of it was held back: 39 in, 9,000 out.
    let held = ending(End::Hang, [role(), words(9_000)]);
    assert_eq!(left(CHAT, held, &complete).await, "U.estimated 39+?/?>9000~90097500");
    // It thinks; what it has read is known already.
    let thinks = ending(End::Hang, [start(6_000)]);
    assert_eq!(left(ANTHROPIC, thinks, &[]).await, "U.estimated 0+6000/1000>1~5565000");
    // Nothing of its answer has come, and nobody knows what it will bill: an unknown cost, and not none.
    let silent = Script { before: Some(Before::Hang), ..Script::default() };
    assert_eq!(left(CHAT, silent, &[]).await, "U.unknown 39+?/?>?");
    // A refusal costs nothing, nor does whoever waits for another try.
    assert_eq!(left(CHAT, refusal(503, "retry-after", "5"), &[]).await, "");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_thrown_away_is_billed_beside_the_one_that_answers() {
    let thrown_away = [
        // Cut while it was held back.
        (ending(End::Reset, [role(), words(100)]), "U.estimated 39+?/?>100~1097500 "),
        // It failed in the place of an answer: nobody bills that.
        (stream([Step::sse(r#"{"error":{"message":"overloaded","code":503}}"#)]), ""),
        (reply(503, "{}"), ""),
        (stream([]), ""),
    ];
    for (first, wanted) in thrown_away {
        let provider = Provider::new([first, answer(CHAT, 0)]);
        let stack = Stack::of(CHAT, [priced(CHAT, "a", "gpt-4o")]);
        let (service, events) = (watched(&stack, &provider), Events::new());
        let asked = request(&stack, &events, &json!({}), &[("x-stanchion-commit", "complete")]);
        let outcome = Outcome::of(service, asked, &events).await;
        assert_eq!((outcome.status(), outcome.failure.is_none(), provider.attempts()), (Some(200), true, 2));
        assert_eq!(told(&events).join(" "), format!("{wanted}U.measured 7000+0/?>2~17520000"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_fails_is_billed_for_all_that_was_tried() {
    // One candidate is cut, and the other is silent for too long: each is told with its own price.
    let cut = || ending(End::Reset, [role(), words(100)]);
    let provider = Provider::with([("a", vec![cut()]), ("b", vec![ending(End::Hang, [role(), words(7)])])]);
    let stack = Stack::of(CHAT, [priced(CHAT, "a", "gpt-4o"), priced(CHAT, "b", "gpt-4o-mini")]).max_retries(0);
    let (service, events) = (watched(&stack, &provider), Events::new());
    let asked = request(&stack, &events, &json!({}), &[("x-stanchion-commit", "complete")]);
    let outcome = Outcome::of(service, asked, &events).await;
    assert_ne!(outcome.status(), Some(200));
    assert_eq!(told(&events), ["U.estimated 39+?/?>100~1097500", "U.estimated 39+?/?>7~10050"]);
}
