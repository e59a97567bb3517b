//! Who is asked, in which order, with what.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context as Wakes, Poll},
};

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use stanchion_core::{Candidates, Context, DispositionRules, FailureKind, FallbackOn, Phase, RecoveryBudget};
use stanchion_fallback::{Fallback, FallbackLayer};
use stanchion_testkit::{Events, candidates, request, request_in};
use tower::{Layer, Service, ServiceExt, service_fn};

use super::{Req, Script, failure, selected, status};

#[tokio::test]
async fn candidates_are_asked_in_order_until_one_answers() {
    let events = Events::new();
    let script = Script::new([Err(status(FailureKind::ServerError, 503)), Err(failure(FailureKind::Connect)), Ok(())]);
    let service = Fallback::new(script.clone(), candidates(["a", "b", "c", "d"]));
    service.oneshot(request_in(events.context())).await.unwrap();
    assert_eq!(script.asked(), ["a", "b", "c"]);
    assert_eq!(events.lines(), ["M.fallback a/gpt-x>b/gpt-x", "M.fallback b/gpt-x>c/gpt-x"]);
    let places: Vec<_> = script.requests().iter().map(|r| (selected(r).index, selected(r).last)).collect();
    assert_eq!(places, [(0, false), (1, false), (2, false)]);
}

/// A service that counts how often it is cloned.
struct CountedService(Script, Arc<AtomicU32>);

impl Clone for CountedService {
    fn clone(&self) -> Self {
        self.1.fetch_add(1, Ordering::Relaxed);
        Self(self.0.clone(), self.1.clone())
    }
}

impl Service<Req> for CountedService {
    type Response = <Script as Service<Req>>::Response;
    type Error = <Script as Service<Req>>::Error;
    type Future = <Script as Service<Req>>::Future;

    fn poll_ready(&mut self, cx: &mut Wakes<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Req) -> Self::Future {
        self.0.call(request)
    }
}

#[tokio::test]
async fn the_service_is_cloned_only_where_another_candidate_follows() {
    for (names, clones) in [(&["a"][..], 0), (&["a", "b"], 1)] {
        let counted = Arc::new(AtomicU32::new(0));
        let script = Script::new([Ok(()), Err(failure(FailureKind::InvalidRequest))]);
        let mut service = Fallback::new(CountedService(script, counted.clone()), candidates(names.iter().copied()));
        service.ready().await.unwrap().call(request()).await.unwrap();
        service.ready().await.unwrap().call(request()).await.unwrap_err();
        assert_eq!(counted.load(Ordering::Relaxed), 2 * clones, "{names:?}");
    }
}

#[tokio::test]
async fn the_first_to_answer_is_the_only_one_asked() {
    let events = Events::new();
    let script = Script::new([Ok(())]);
    Fallback::new(script.clone(), candidates(["a", "b"])).oneshot(request_in(events.context())).await.unwrap();
    assert_eq!((script.asked(), events.lines()), (vec!["a".to_owned()], vec![]));
}

#[tokio::test]
async fn the_marker_comes_before_the_next_call_and_none_comes_after_the_last() {
    let events = Events::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (log, calls) = (events.clone(), seen.clone());
    let service = service_fn(move |_: Request<_>| {
        calls.lock().unwrap().push(log.lines().len());
        async { Err::<Response<()>, _>(failure(FailureKind::Overloaded)) }
    });
    let service = Fallback::new(service, candidates(["a", "b"]));
    service.oneshot(request_in(events.context())).await.unwrap_err();
    assert_eq!(*seen.lock().unwrap(), [0, 1]);
    assert_eq!(events.lines(), ["M.fallback a/gpt-x>b/gpt-x"]);
}

#[tokio::test]
async fn the_requests_own_list_comes_first_and_is_taken_out() {
    let script = Script::new([Err(failure(FailureKind::Overloaded)), Ok(())]);
    let mut request = request();
    request.extensions_mut().insert(candidates(["x", "y"]));
    FallbackLayer::new(candidates(["a", "b"])).layer(script.clone()).oneshot(request).await.unwrap();
    assert_eq!(script.asked(), ["x", "y"]);
    assert!(script.requests().iter().all(|request| request.extensions().get::<Candidates>().is_none()));
}

#[tokio::test]
async fn without_candidates_nothing_is_sent() {
    for own in [None, Some(candidates([]))] {
        let layer = if own.is_some() { FallbackLayer::new(candidates(["a"])) } else { FallbackLayer::default() };
        let script = Script::new([]);
        let events = Events::new();
        let mut request = request_in(events.context());
        if let Some(own) = own {
            request.extensions_mut().insert(own);
        }
        let failed = layer.layer(script.clone()).oneshot(request).await.unwrap_err();
        assert_eq!((failed.kind(), failed.attempts(), failed.candidate()), (FailureKind::Misconfigured, 0, None));
        assert_eq!((script.asked().len(), events.lines().len()), (0, 0));
    }
}

#[tokio::test]
async fn every_candidate_gets_the_same_request() {
    let script = Script::new([Err(failure(FailureKind::Overloaded)), Err(failure(FailureKind::Overloaded)), Ok(())]);
    let mut sent = request();
    *sent.uri_mut() = "/v1/chat/completions?x=1".parse().unwrap();
    sent.headers_mut().insert("x-own", "1".parse().unwrap());
    let whole = sent.clone();
    Fallback::new(script.clone(), candidates(["a", "b", "c"])).oneshot(sent).await.unwrap();
    for got in script.requests() {
        assert_eq!((got.method(), got.uri(), got.version()), (&Method::POST, whole.uri(), whole.version()));
        assert_eq!(got.headers(), whole.headers());
        let (got, whole) = (got.into_body().collect().await.unwrap(), whole.body().clone().collect().await.unwrap());
        assert_eq!(got.to_bytes(), whole.to_bytes());
    }
}

/// A body that counts its copies.
struct Counted(Arc<AtomicU32>);

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.0.fetch_add(1, Ordering::Relaxed);
        Self(self.0.clone())
    }
}

#[tokio::test]
async fn the_last_candidate_gets_the_request_itself() {
    for (providers, copies) in [(&["a"][..], 0), (&["a", "b"], 1), (&["a", "b", "c"], 2)] {
        let copied = Arc::<AtomicU32>::default();
        let fails =
            service_fn(|_: Request<Counted>| async { Err::<Response<()>, _>(failure(FailureKind::Overloaded)) });
        let service = Fallback::new(fails, candidates(providers.iter().copied()));
        service.oneshot(Request::new(Counted(copied.clone()))).await.unwrap_err();
        assert_eq!(copied.load(Ordering::Relaxed), copies, "{providers:?}");
    }
}

#[tokio::test]
async fn a_failure_names_its_candidate_and_all_attempts() {
    let run = async |context: Context, second| {
        let script = Script::new([Err(failure(FailureKind::Transport).with_attempts(3)), Err(second)]);
        let service = Fallback::new(script, candidates(["a", "b"]));
        service.oneshot(request_in(context)).await.unwrap_err()
    };
    let named = |failure: &stanchion_core::Failure| failure.candidate().unwrap().to_string();

    // Nobody counts: three by whoever retried, and one.
    let failed = run(Context::default(), failure(FailureKind::Connect)).await;
    assert_eq!((named(&failed), failed.attempts()), ("b/gpt-x".into(), 4));
    // A candidate that was not asked is no attempt.
    let failed = run(Context::default(), failure(FailureKind::CircuitOpen)).await;
    assert_eq!((named(&failed), failed.attempts()), ("a/gpt-x".into(), 3));
    // Who knows better is believed.
    let failed = run(Context::default(), failure(FailureKind::Connect).with_candidate("b/alias")).await;
    assert_eq!(named(&failed), "b/alias");
    let context = Context::default();
    context.count_attempt();
    context.count_attempt();
    assert_eq!(run(context, failure(FailureKind::Connect)).await.attempts(), 2);
}

#[test]
fn layer_and_service_show_what_they_are_made_of() {
    let rules = DispositionRules::default().with_fallback_on(FallbackOn::Quota);
    let layer = FallbackLayer::new(candidates(["a", "b"])).with_rules(rules);
    assert_eq!((layer.candidates().len(), *layer.rules()), (2, rules));
    assert!(FallbackLayer::default().candidates().is_empty());
    let mut service = Fallback::new("inner", layer.candidates().clone());
    assert_eq!(*service.get_ref(), "inner");
    *service.get_mut() = "other";
    assert_eq!(service.into_inner(), "other");
}

#[tokio::test]
async fn a_request_without_an_attempt_left_goes_no_further() {
    for (taken, asked) in [(1, &["a", "b"][..]), (2, &["a"])] {
        let events = Events::new();
        let context = events.context_builder().recovery(RecoveryBudget::new(RecoveryBudget::DEFAULT).with_attempts(1));
        let context = context.build();
        for _ in 0..taken {
            context.recovery().unwrap().take_attempt();
        }
        let script = Script::new([Err(failure(FailureKind::Overloaded)), Ok(())]);
        let _ = Fallback::new(script.clone(), candidates(["a", "b"])).oneshot(request_in(context)).await;
        assert_eq!(script.asked(), asked);
        assert_eq!(events.lines().len(), asked.len() - 1, "no marker where nobody follows");
    }
}

#[tokio::test]
async fn a_drained_candidate_is_passed_over_without_a_word() {
    let list = candidates(["a", "b", "c"]);
    let drain = |index: usize| list.select(index).unwrap().candidate.drain().clone();
    let (events, script) = (Events::new(), Script::new([Err(failure(FailureKind::Overloaded)), Ok(())]));
    let layer = FallbackLayer::new(list.clone());
    drain(0).set(true);
    layer.layer(script.clone()).oneshot(request_in(events.context())).await.unwrap();
    assert_eq!((script.asked(), events.lines().len()), (vec!["b".to_owned(), "c".to_owned()], 1));
    // Whoever waits as the last candidate must be one that is in service.
    drain(2).set(true);
    let script = Script::new([Ok(())]);
    layer.layer(script.clone()).oneshot(request()).await.unwrap();
    assert!(selected(&script.requests()[0]).last);
    drain(1).set(true);
    let script = Script::new([]);
    let failure = layer.layer(script.clone()).oneshot(request()).await.unwrap_err();
    assert_eq!((failure.kind(), failure.phase()), (FailureKind::Drained, Phase::Connect));
    assert!(drain(1).set(false) && !drain(1).set(false));
    let script = Script::new([Ok(())]);
    layer.layer(script.clone()).oneshot(request()).await.unwrap();
    assert_eq!(script.asked(), ["b"]);
}

#[tokio::test]
async fn who_comes_back_into_service_behind_the_last_is_not_asked() {
    let list = candidates(["a", "b"]);
    let drain = list.select(1).unwrap().candidate.drain().clone();
    drain.set(true);
    let back = drain.clone();
    // The last was given the request itself: there is none left.
    let service = service_fn(move |_: Request<_>| {
        back.set(false);
        async { Err::<Response<()>, _>(failure(FailureKind::Overloaded)) }
    });
    let failed = Fallback::new(service, list).oneshot(request()).await.unwrap_err();
    assert_eq!(failed.kind(), FailureKind::Overloaded);
    assert!(!drain.is_drained());
}
