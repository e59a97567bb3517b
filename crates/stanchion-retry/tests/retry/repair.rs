//! A refusal without a word.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use stanchion_core::{
    Call, Candidate, Dialect, Failure, FailureKind, Family, ProviderReply, RecoveryBudget, Selected, WithoutOutputLimit,
};
use stanchion_retry::RetryLayer;
use stanchion_testkit::Events;

use super::{Reply, failure, play_seeing, request_for, retries, status};

fn refusal(status: u16, body: &'static str) -> Failure {
    let reply = ProviderReply {
        status: StatusCode::from_u16(status).unwrap(),
        headers: HeaderMap::new(),
        body: Bytes::from_static(body.as_bytes()),
        complete: true,
    };
    failure(FailureKind::InvalidRequest).with_reply(reply)
}

fn repairing(repairs: bool) -> Selected {
    let candidate = Candidate::new("a", Family::OpenAi, "https://provider.example/v1");
    Selected::only(candidate.with_repair_of_opaque_rejections(repairs))
}

/// Plays replies, and gives back which of the attempts were marked to go without an output limit.
async fn marks(layer: RetryLayer, repairs: bool, events: &Events, replies: Vec<Reply>) -> Vec<bool> {
    let mut marks = Vec::new();
    let request = request_for(events.context(), repairing(repairs));
    let outcome = play_seeing(layer, request, replies, |request| {
        marks.push(request.extensions().get::<WithoutOutputLimit>().is_some());
    })
    .await;
    assert_eq!(outcome.at.len(), marks.len());
    marks
}

#[tokio::test(start_paused = true)]
async fn it_is_sent_once_more_at_once_without_its_output_limit_and_outside_of_every_budget() {
    for refused in [refusal(400, ""), refusal(422, ""), refusal(400, " \r\n")] {
        for max in [0, 2] {
            let events = Events::new();
            let budget = stanchion_retry::RetryBudget::builder().capacity(1).per_second(0.0).build().unwrap();
            let layer = retries(max).with_budget(budget.clone());
            assert_eq!(marks(layer, true, &events, vec![Err(refused.outline()), Ok(())]).await, [false, true]);
            assert_eq!(events.timed_lines(), [""; 0], "no retry, and nothing to tell");
            assert!(budget.withdraw(Some(&repairing(true).candidate), tokio::time::Instant::now()), "untouched");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_refusal_without_a_word_is_repaired_and_only_where_the_candidate_says_so() {
    let described = refusal(400, r#"{"error":{"message":"max_tokens is too large"}}"#);
    let forbidden = failure(FailureKind::PermissionDenied).with_reply(refusal(403, "").reply().unwrap().clone());
    let cut = failure(FailureKind::InvalidRequest)
        .with_reply(ProviderReply { complete: false, ..refusal(400, "").reply().unwrap().clone() });
    let overflow = refusal(400, "").with_kind(FailureKind::ContextOverflow);
    for (refused, repairs) in
        [(described, true), (forbidden, true), (cut, true), (overflow, true), (refusal(400, ""), false)]
    {
        assert_eq!(marks(retries(2), repairs, &Events::new(), vec![Err(refused)]).await, [false]);
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_repaired_once_and_stays_so_for_the_retries_that_follow() {
    let twice = vec![Err(refusal(400, "")), Err(refusal(400, ""))];
    assert_eq!(marks(retries(2), true, &Events::new(), twice).await, [false, true]);
    let events = Events::new();
    let then_down = vec![Err(refusal(400, "")), Err(status(FailureKind::Overloaded, 503)), Ok(())];
    assert_eq!(marks(retries(2), true, &events, then_down).await, [false, true, true]);
    assert_eq!(events.timed_lines(), ["0 R.scheduled#1~500", "500 R.attempt#1", "500 R.recovered#1"]);
}

#[tokio::test(start_paused = true)]
async fn one_request_has_one_repair_over_all_its_candidates() {
    let events = Events::new();
    let context = events.context();
    let mut attempts = 0;
    for _ in 0..2 {
        let request = request_for(context.clone(), repairing(true));
        let replies = [Err(refusal(400, "")), Err(refusal(400, ""))].into_iter().take(2 - usize::from(attempts > 0));
        play_seeing(retries(2), request, replies, |_| attempts += 1).await.failure();
    }
    assert_eq!(attempts, 3);
}

#[tokio::test(start_paused = true)]
async fn a_request_without_an_output_limit_is_not_sent_again_for_nothing() {
    for (limited, attempts) in [(Some(true), 2), (None, 2), (Some(false), 1)] {
        let mut request = request_for(Events::new().context(), repairing(true));
        let call = Call::new(Dialect::OpenAiChat, true);
        request.extensions_mut().insert(match limited {
            Some(limited) => call.with_output_limit(limited),
            None => call,
        });
        let replies = (0..attempts).map(|_| Err(refusal(400, "")));
        assert_eq!(play_seeing(retries(2), request, replies, |_| {}).await.at.len(), attempts, "{limited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_starts_no_recovery() {
    let context = Events::new().context_builder().recovery(RecoveryBudget::new(RecoveryBudget::DEFAULT)).build();
    let request = request_for(context.clone(), repairing(true));
    play_seeing(retries(2), request, [Err(refusal(400, "")), Ok(())], |_| {}).await;
    assert_eq!(context.recovery().unwrap().deadline(), None);
}

#[tokio::test(start_paused = true)]
async fn it_costs_none_of_the_attempts_that_are_shared() {
    let events = Events::new();
    let context =
        events.context_builder().recovery(RecoveryBudget::new(RecoveryBudget::DEFAULT).with_attempts(1)).build();
    let request = request_for(context.clone(), repairing(true));
    let replies = [Err(refusal(400, "")), Err(status(FailureKind::Overloaded, 503)), Ok(())];
    play_seeing(super::standard(), request, replies, |_| {}).await;
    assert_eq!(events.timed_lines(), ["0 R.scheduled#1~500", "500 R.attempt#1", "500 R.recovered#1"]);
    assert_eq!(context.recovery().unwrap().attempts(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_the_candidates_own_can_be_taken_out_and_one_that_must_be_there_cannot() {
    let of = |family| Candidate::new("a", family, "http://x").with_repair_of_opaque_rejections(true);
    for (candidate, attempts) in [
        (of(Family::OpenAi), 1),
        (of(Family::OpenAi).with_max_output_tokens(9), 2),
        (of(Family::Anthropic).with_max_output_tokens(9), 1),
        // The same request would be sent again.
        (of(Family::Gemini).with_max_output_tokens(9), 1),
        (of(Family::Ollama).with_max_output_tokens(9), 1),
    ] {
        let mut request = request_for(Events::new().context(), Selected::only(candidate));
        request.extensions_mut().insert(Call::new(Dialect::OpenAiChat, true).with_output_limit(false));
        let replies = (0..attempts).map(|_| Err(refusal(400, "")));
        assert_eq!(play_seeing(retries(2), request, replies, |_| {}).await.at.len(), attempts);
    }
}
