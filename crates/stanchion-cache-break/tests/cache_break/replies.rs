//! When a reply is judged, and by whom it was given.

use stanchion_core::{Event, FailureKind, PromptCacheBreak, RequestClass};
use stanchion_testkit::{Probe, candidate};

use super::*;

const CHAT: Dialect = Dialect::OpenAiChat;

fn asked(events: &Events) -> Req {
    request(in_session(events), CHAT, BODY)
}

fn only_break(events: &Events) -> PromptCacheBreak {
    match events.all().as_slice() {
        [Event::PromptCacheBreak(broken)] => (**broken).clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_judged_with_the_end_marker() {
    let events = Events::new();
    let provider = Provider::new([&["read 6000", "done"], &["read 500", "text", "done", "more"]]);
    let mut service = CacheBreakLayer::default().layer(provider.service());
    exchange(&mut service, asked(&events)).await.unwrap();
    tokio::time::advance(Duration::from_secs(300)).await;
    let response = service.ready().await.unwrap().call(asked(&events)).await.unwrap();
    let mut body = response.into_body();
    for (text, told) in [("read 500", 0), ("text", 0), ("done", 1), ("more", 1)] {
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), text);
        assert_eq!(events.all().len(), told, "after {text}");
    }
    drop(body);
    let broken = only_break(&events);
    assert_eq!((broken.elapsed, broken.lost_tokens), (Duration::from_secs(300), 5_500));
    assert_eq!(events.lines(), ["B.ttl_expired#2~5500(6000>500)"]);
}

#[tokio::test(start_paused = true)]
async fn it_is_judged_with_the_end_or_an_error() {
    for last in [Step::End, Step::Error(FailureKind::Transport)] {
        let events = Events::new();
        let scripts = [vec![Step::Data("read 6000".into())], vec![Step::Data("read 0".into()), Step::Pending, last]];
        let mut service = CacheBreakLayer::default().layer(Provider::playing(scripts).service());
        exchange(&mut service, asked(&events)).await.unwrap();
        let _ = exchange(&mut service, asked(&events)).await;
        assert_eq!(events.lines(), ["B.server_side#2~6000(6000>0)"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_tells_nothing_of_the_cache_is_not_judged() {
    let events = Events::new();
    let layer = CacheBreakLayer::default();
    let provider = Provider::new([&["read 6000"], &["input"], &["text"], &[], &["read 0"]]);
    let mut service = layer.layer(provider.service());
    for _ in 0..4 {
        exchange(&mut service, asked(&events)).await.unwrap();
    }
    assert!(events.all().is_empty());
    exchange(&mut service, asked(&events)).await.unwrap();
    assert_eq!(only_break(&events).call_number, 2);
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_nobody_observes_is_not_judged() {
    let layer = CacheBreakLayer::default();
    let mut service = layer.layer(Probe::new(|| Response::new(ScriptedBody::frames(["a"]))));
    let ready = std::future::poll_fn(|cx| Service::<Req>::poll_ready(&mut service, cx)).await;
    ready.unwrap();
    service.call(asked(&Events::new())).await.unwrap().into_body().collect().await.unwrap();
    assert!(layer.monitor().is_empty());
}

#[tokio::test(start_paused = true)]
async fn another_candidate_is_another_model() {
    let events = Events::new();
    let provider = Provider::new([&["read 6000"], &["read 6000"], &["read 0"]]).answered_by([
        candidate("primary"),
        candidate("primary"),
        candidate("backup"),
    ]);
    let mut service = CacheBreakLayer::default().layer(provider.service());
    for _ in 0..3 {
        exchange(&mut service, asked(&events)).await.unwrap();
    }
    let broken = only_break(&events);
    assert_eq!((broken.candidate.as_deref(), broken.call_number), (Some("backup/gpt-x"), 3));
    assert!(broken.model_changed && broken.request_policy_changed && !broken.system_prompt_changed);
}

#[tokio::test(start_paused = true)]
async fn a_break_has_a_price_where_one_is_known() {
    let events = Events::new();
    let layer = CacheBreakLayer::default().with_price(|loss| {
        assert_eq!((loss.dialect, &**loss.candidate?.name(), loss.model?), (CHAT, "primary/gpt-x", "gpt-x"));
        assert_eq!((loss.usage.input, loss.usage.cache_read), (Some(50_000), Some(0)));
        Some(loss.broken.lost_tokens * 1_125)
    });
    let provider =
        Provider::new([&["read 6000"], &["read 0"]]).answered_by([candidate("primary"), candidate("primary")]);
    let mut service = layer.layer(provider.service());
    for _ in 0..2 {
        exchange(&mut service, asked(&events)).await.unwrap();
    }
    assert_eq!(only_break(&events).lost_nanodollars, Some(6_750_000));
}

#[tokio::test(start_paused = true)]
async fn a_break_and_a_volatile_prompt_say_whose_they_are() {
    let events = Events::new();
    let provider = Provider::new([&["read 6000"], &["read 0"], &["read 0"]]);
    let mut service = CacheBreakLayer::default().layer(provider.service());
    for minute in 0..3 {
        let context = events.context_builder().session("s").class(RequestClass::Background).build();
        let body = format!(r#"{{"messages":[{{"role":"system","content":"It is 9:0{minute}."}}]}}"#);
        exchange(&mut service, request(context, CHAT, &body)).await.unwrap();
    }
    let all = events.all();
    let [Event::PromptCacheBreak(broken), Event::PromptCacheVolatile(volatile)] = all.as_slice() else {
        panic!("{all:?}")
    };
    // Nobody was selected: the model is the one that the client named.
    let whose = [(&broken.model, broken.request_class), (&volatile.model, volatile.request_class)];
    assert_eq!(whose, [(&Some("m".into()), RequestClass::Background); 2]);
    assert_eq!(broken.lost_nanodollars, None);
}

#[tokio::test(start_paused = true)]
async fn a_volatile_prompt_is_told_once() {
    let events = Events::new();
    let provider = Provider::new([&["read 0"], &["read 0"], &["read 0"], &["read 0"]]);
    let mut service = CacheBreakLayer::default().layer(provider.service());
    for minute in 0..4 {
        let body = format!(r#"{{"messages":[{{"role":"system","content":"It is 9:0{minute}."}}]}}"#);
        exchange(&mut service, request(in_session(&events), CHAT, &body)).await.unwrap();
    }
    assert_eq!(events.lines(), ["B.volatile#3"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_written_for_an_untold_time_was_written_for_what_was_asked() {
    for (ttl, hour) in [("", None), (r#","ttl":"1h""#, Some(50_000))] {
        let body =
            format!(r#"{{"system":[{{"type":"text","text":"a","cache_control":{{"type":"ephemeral"{ttl}}}}}]}}"#);
        let events = Events::new();
        let layer = CacheBreakLayer::default().with_price(|loss| loss.usage.cache_write_1h);
        let mut service = layer.layer(Provider::new([&["read 6000"], &["wrote 50000"]]).service());
        for _ in 0..2 {
            exchange(&mut service, request(in_session(&events), Dialect::AnthropicMessages, &body)).await.unwrap();
        }
        assert_eq!(only_break(&events).lost_nanodollars, hour, "{body}");
    }
}
