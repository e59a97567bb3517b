//! Which requests are watched, and what is written into them.

use http::header::CONTENT_LENGTH;
use stanchion_cache_break::WholeBody;
use stanchion_core::{CacheRetention, RequestClass, Tenant};

use super::*;

const ANTHROPIC: Dialect = Dialect::AnthropicMessages;

#[tokio::test(start_paused = true)]
async fn a_request_without_a_session_is_not_watched() {
    let (events, layer) = (Events::new(), CacheBreakLayer::default());
    let provider = Provider::new([&["read 6000"], &["read 0"], &["read 0"], &["read 0"]]);
    let mut service = layer.layer(provider.service());
    let context = || events.context_builder().owner("o").class(RequestClass::Background).build();
    exchange(&mut service, request(context(), ANTHROPIC, BODY)).await.unwrap();
    exchange(&mut service, Request::new(Full::new(BODY.into()))).await.unwrap();
    // Nor is one that nobody knows the dialect of, or whose body is no request.
    let mut unknown = request(in_session(&events), ANTHROPIC, BODY);
    unknown.extensions_mut().remove::<Call>();
    exchange(&mut service, unknown).await.unwrap();
    exchange(&mut service, request(in_session(&events), ANTHROPIC, "[]")).await.unwrap();
    assert!(layer.monitor().is_empty() && events.all().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_session_may_be_derived_from_its_first_message() {
    let events = Events::new();
    let policy = CacheBreakPolicy::builder().derive_sessions(true).build().unwrap();
    let layer = CacheBreakLayer::new(policy);
    let provider = Provider::new([&["read 6000"], &["read 0"], &["read 0"], &["read 0"]]);
    let mut service = layer.layer(provider.service());
    let owned = |owner: &str| events.context_builder().owner(owner).build();
    exchange(&mut service, request(owned("a"), ANTHROPIC, BODY)).await.unwrap();
    // Somebody else's, and another conversation.
    exchange(&mut service, request(owned("b"), ANTHROPIC, OTHER)).await.unwrap();
    let other = r#"{"system":"ab","messages":[{"role":"user","content":"Good morning."}]}"#;
    exchange(&mut service, request(owned("a"), ANTHROPIC, other)).await.unwrap();
    assert!(events.all().is_empty() && layer.monitor().len() == 3);
    exchange(&mut service, request(owned("a"), ANTHROPIC, OTHER)).await.unwrap();
    assert_eq!(events.lines(), ["B.system_prompt_changed#2~6000(6000>0)"]);
}

#[tokio::test(start_paused = true)]
async fn a_body_beyond_the_limit_is_not_read() {
    let events = Events::new();
    let policy = CacheBreakPolicy::builder().max_body_bytes(BODY.len()).build().unwrap();
    let layer = CacheBreakLayer::new(policy);
    let mut service = layer.layer(Provider::new([&["read 6000"], &["read 0"]]).service());
    exchange(&mut service, request(in_session(&events), ANTHROPIC, BODY)).await.unwrap();
    exchange(&mut service, request(in_session(&events), ANTHROPIC, OTHER)).await.unwrap();
    assert!(events.all().is_empty() && layer.monitor().len() == 1);
}

#[tokio::test(start_paused = true)]
async fn a_new_epoch_begins_anew() {
    let events = Events::new();
    let mut service = CacheBreakLayer::default().layer(Provider::new([&["read 6000"], &["read 0"]]).service());
    exchange(&mut service, request(in_session(&events), ANTHROPIC, BODY)).await.unwrap();
    let compacted = events.context_builder().session("s").context_epoch("e1").build();
    exchange(&mut service, request(compacted, ANTHROPIC, OTHER)).await.unwrap();
    assert!(events.all().is_empty());
}

#[tokio::test(start_paused = true)]
async fn headers_that_change_the_prompt_are_policy() {
    let events = Events::new();
    let provider = Provider::new([&["read 6000"], &["read 6000"], &["read 0"]]);
    let mut service = CacheBreakLayer::default().layer(provider.service());
    for (header, value) in [("x-other", "1"), ("anthropic-beta", "a"), ("anthropic-beta", "b")] {
        let mut request = request(in_session(&events), ANTHROPIC, BODY);
        request.headers_mut().insert(header, value.parse().unwrap());
        exchange(&mut service, request).await.unwrap();
    }
    assert_eq!(events.lines(), ["B.request_policy_changed#3~6000(6000>0)"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_candidate_sets_by_itself_is_policy() {
    let plain = || Candidate::new("a", stanchion_core::Family::Anthropic, "http://a.test").with_model("m");
    for other in [
        plain().with_tier("flex"),
        plain().with_api_version("2"),
        plain().with_temperature(0.5),
        plain().with_max_output_tokens(9),
    ] {
        let events = Events::new();
        let provider = Provider::new([&["read 6000"], &["read 0"]]).answered_by([plain(), other]);
        let mut service = CacheBreakLayer::default().layer(provider.service());
        for _ in 0..2 {
            exchange(&mut service, request(in_session(&events), ANTHROPIC, BODY)).await.unwrap();
        }
        assert_eq!(events.lines(), ["B.request_policy_changed#2~6000(6000>0)"]);
    }
}

#[tokio::test(start_paused = true)]
async fn two_tenants_never_share_a_session() {
    let derives = CacheBreakPolicy::builder().derive_sessions(true).build().unwrap();
    for (policy, named) in [(CacheBreakPolicy::default(), true), (derives, false)] {
        let (events, layer) = (Events::new(), CacheBreakLayer::new(policy));
        let provider = Provider::new([&["read 6000"], &["read 0"], &["read 0"], &["read 0"]]);
        let mut service = layer.layer(provider.service());
        let asked = |tenant: Option<&str>| {
            let context = if named { in_session(&events) } else { events.context() };
            let mut request = request(context, ANTHROPIC, BODY);
            if let Some(tenant) = tenant {
                request.extensions_mut().insert(Tenant::new(tenant));
            }
            request
        };
        exchange(&mut service, asked(Some("first"))).await.unwrap();
        exchange(&mut service, asked(Some("second"))).await.unwrap();
        exchange(&mut service, asked(None)).await.unwrap();
        assert!(events.all().is_empty() && layer.monitor().len() == 3);
        let mut forgets = asked(Some("second"));
        forgets.extensions_mut().insert(CacheRetention::None);
        exchange(&mut service, forgets).await.unwrap();
        assert_eq!(layer.monitor().len(), 2, "the other's stays");
    }
}

#[tokio::test(start_paused = true)]
async fn retention_is_written_into_the_body() {
    let marked = r#"{"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}"#;
    let long = r#"{"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral","ttl":"1h"}}]}"#;
    let none = r#"{"system":[{"type":"text","text":"a"}]}"#;
    for (dialect, retention, expected) in [
        (ANTHROPIC, CacheRetention::Long, long),
        (ANTHROPIC, CacheRetention::None, none),
        (ANTHROPIC, CacheRetention::Default, marked),
        (Dialect::OpenAiChat, CacheRetention::None, marked),
    ] {
        let provider = Provider::new([&["read 6000"]]);
        let mut service = CacheBreakLayer::default().layer(provider.service());
        let mut request = request(Context::default(), dialect, marked);
        request.extensions_mut().insert(retention);
        request.headers_mut().insert(CONTENT_LENGTH, marked.len().into());
        exchange(&mut service, request).await.unwrap();
        let sent = provider.sent.lock().unwrap().remove(0);
        assert_eq!(sent.body().whole(), expected);
        assert_eq!(sent.headers().contains_key(CONTENT_LENGTH), expected == marked);
    }
    assert_eq!(<Bytes as WholeBody>::of("a".into()).whole(), "a");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_to_be_kept_ends_its_session() {
    let (events, layer) = (Events::new(), CacheBreakLayer::default());
    let provider = Provider::new([&["read 6000"], &["read 0"], &["read 0"]]);
    let mut service = layer.layer(provider.service());
    exchange(&mut service, request(in_session(&events), ANTHROPIC, BODY)).await.unwrap();
    let mut once = request(in_session(&events), ANTHROPIC, BODY);
    once.extensions_mut().insert(CacheRetention::None);
    exchange(&mut service, once).await.unwrap();
    assert!(layer.monitor().is_empty());
    exchange(&mut service, request(in_session(&events), ANTHROPIC, BODY)).await.unwrap();
    assert!(events.all().is_empty() && layer.monitor().len() == 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_to_be_kept_ends_a_session_that_is_known_by_its_first_message() {
    let policy = CacheBreakPolicy::builder().derive_sessions(true).build().unwrap();
    let (events, layer) = (Events::new(), CacheBreakLayer::new(policy));
    let provider = Provider::new([&["read 6000"], &["read 6000"], &["read 0"], &["read 0"]]);
    let mut service = layer.layer(provider.service());
    let other = BODY.replace("Hello?", "Good-bye.");
    for body in [BODY, &other] {
        exchange(&mut service, request(events.context(), ANTHROPIC, body)).await.unwrap();
    }
    let mut once = request(events.context(), ANTHROPIC, BODY);
    once.extensions_mut().insert(CacheRetention::None);
    exchange(&mut service, once).await.unwrap();
    assert_eq!(layer.monitor().len(), 1, "the other one stays");
    exchange(&mut service, request(events.context(), ANTHROPIC, BODY)).await.unwrap();
    assert_eq!(events.lines(), [""; 0]);
}
