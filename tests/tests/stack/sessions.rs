//! Several requests of one session: how long a cache lives, on a paused clock, since nobody waits an hour for a test; what
//! a break cost by who answered; and replies that nobody read to their end. What breaks a cache is in the scenarios
//! `u10` to `u25`.

use bytes::Bytes;
use http::{HeaderValue, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use stanchion::{
    Onion,
    cache_break::{CacheBreak, CacheBreakLayer},
    core::{Candidate, Dialect, Event, PromptCacheBreak},
    edge::{Edge, EdgeLayer},
    usage::{Catalogue, Money, UsageLayer, UsageService},
};
use stanchion_faults::scenario::{Script, Step};
use stanchion_testkit::Events;
use stanchion_tests::{
    provider::Provider,
    replies::{anthropic, done, event, finish, json as reply, millis, role, stream, text},
    stack::{Inner, Outcome, Stack, candidate},
};
use tower::ServiceExt;

pub(super) const CHAT: Dialect = Dialect::OpenAiChat;
pub(super) const ANTHROPIC: Dialect = Dialect::AnthropicMessages;

/// A whole answer to 7,000 tokens, of which so many were read from the cache.
pub(super) fn answer(dialect: Dialect, cache_read: u64) -> Script {
    if dialect == ANTHROPIC {
        let block = anthropic::block(0, &json!({ "type": "text", "text": "" }));
        let body = [start(cache_read), block, anthropic::text(0, "ok"), anthropic::stop(0)];
        return stream(body.into_iter().chain(anthropic::end()));
    }
    let usage = json!({
        "prompt_tokens": 7000,
        "completion_tokens": 2,
        "prompt_tokens_details": { "cached_tokens": cache_read },
    });
    stream([
        role(),
        text("ok"),
        finish("stop"),
        Step::sse(json!({ "choices": [], "usage": usage }).to_string()),
        done(),
    ])
}

/// Anthropic tells of the cache before anything else.
pub(super) fn start(cache_read: u64) -> Step {
    let usage = json!({
        "input_tokens": 0,
        "cache_read_input_tokens": cache_read,
        "cache_creation_input_tokens": 7000 - cache_read,
        "output_tokens": 1,
    });
    event("message_start", &json!({ "message": { "id": "msg_1", "role": "assistant", "content": [], "usage": usage } }))
}

/// A candidate of the model that has a price.
pub(super) fn priced(dialect: Dialect, name: &str, model: &str) -> Candidate {
    candidate(dialect, name, &format!("http://{name}.test")).with_model(model)
}

/// All layers, with those that look at sessions and prices.
pub(super) fn watched(stack: &Stack, provider: &Provider) -> Edge<CacheBreak<UsageService<Inner<Provider>>>> {
    let caches = CacheBreakLayer::default().with_price(|loss| {
        let (candidate, lost_tokens) = (loss.candidate?, loss.broken.lost_tokens);
        let cost = Catalogue::built_in().loss_with(candidate, loss.model?, lost_tokens, loss.usage);
        cost.map(Money::nanodollars)
    });
    let inner = stack.service(provider.clone()).into_inner();
    Onion::new().edge(EdgeLayer::new()).cache_break(caches).usage(UsageLayer::new()).service(inner)
}

/// A request of the one session, with these members in its body and these header fields.
pub(super) fn request(
    stack: &Stack,
    events: &Events,
    members: &Value,
    headers: &[(&'static str, &'static str)],
) -> Request<Full<Bytes>> {
    let (mut head, _) = stack.request(events.context_builder().session("s").build()).into_parts();
    for (name, value) in headers {
        head.headers.insert(*name, HeaderValue::from_static(value));
    }
    let mut body = json!({
        "model": "any",
        "stream": true,
        "max_tokens": 9,
        "messages": [{ "role": "user", "content": [{ "type": "text", "text": "Hello?", "cache_control": { "type": "ephemeral" } }] }],
    });
    if let (Value::Object(body), Value::Object(members)) = (&mut body, members) {
        body.extend(members.clone());
    }
    Request::from_parts(head, Full::from(body.to_string()))
}

/// What was told of usage and of caches.
pub(super) fn told(events: &Events) -> Vec<String> {
    events.lines().into_iter().filter(|line| line.starts_with("U.") || line.starts_with("B.")).collect()
}

fn only_break(events: &Events) -> PromptCacheBreak {
    let mut breaks = events.all().into_iter().filter_map(|event| match event {
        Event::PromptCacheBreak(broken) => Some(*broken),
        _ => None,
    });
    let broken = breaks.next().expect("a break");
    assert!(breaks.next().is_none(), "one break");
    broken
}

#[tokio::test(start_paused = true)]
async fn a_cache_expires_when_the_request_says_and_not_a_millisecond_before() {
    let day = json!({ "prompt_cache_retention": "24h" });
    let none = json!({});
    let long = [("x-stanchion-cache-retention", "long")];
    for (dialect, members, headers, milliseconds, reason) in [
        (CHAT, &none, &[][..], 299_999, "server_side"),
        (CHAT, &none, &[], 300_000, "ttl_expired"),
        (CHAT, &day, &[], 86_399_999, "server_side"),
        (CHAT, &day, &[], 86_400_000, "ttl_expired"),
        (ANTHROPIC, &none, &[], 299_999, "server_side"),
        (ANTHROPIC, &none, &[], 300_000, "ttl_expired"),
        (ANTHROPIC, &none, &long, 3_599_999, "server_side"),
        (ANTHROPIC, &none, &long, 3_600_000, "ttl_expired"),
        // Elsewhere the wish has no effect.
        (CHAT, &none, &long, 300_000, "ttl_expired"),
    ] {
        let provider = Provider::new([answer(dialect, 6_000), answer(dialect, 0)]);
        let (stack, events) = (Stack::new(dialect, &provider), Events::new());
        let service = watched(&stack, &provider);
        for wait in [0, milliseconds] {
            tokio::time::advance(millis(wait)).await;
            let outcome = Outcome::of(service.clone(), request(&stack, &events, members, headers), &events).await;
            assert_eq!((outcome.status(), outcome.failure.is_none()), (Some(200), true));
        }
        let broken = only_break(&events);
        assert_eq!(
            (broken.reason.as_str(), broken.elapsed),
            (reason, millis(milliseconds)),
            "{dialect} {milliseconds}"
        );
        let hour = provider.seen().iter().all(|seen| seen.body.windows(10).any(|part| part == br#""ttl":"1h""#));
        assert_eq!(hour, dialect == ANTHROPIC && !headers.is_empty(), "{dialect}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_held_back_began_with_its_first_byte_and_not_when_it_leaves() {
    // It takes 150 s to be whole.
    let usage =
        json!({ "prompt_tokens": 7000, "completion_tokens": 2, "prompt_tokens_details": { "cached_tokens": 0 } });
    let usage = Step::sse(json!({ "choices": [], "usage": usage }).to_string());
    let slow = stream([role(), text("x").after(millis(1_000)).times(150), finish("stop"), usage, done()]);
    let provider = Provider::new([answer(CHAT, 6_000), slow]);
    let (stack, events) = (Stack::new(CHAT, &provider), Events::new());
    let service = watched(&stack, &provider);
    for wait in [0, 200_000] {
        tokio::time::advance(millis(wait)).await;
        let asked = request(&stack, &events, &json!({}), &[("x-stanchion-commit", "complete")]);
        let outcome = Outcome::of(service.clone(), asked, &events).await;
        assert_eq!((outcome.status(), outcome.failure.is_none()), (Some(200), true));
    }
    let broken = only_break(&events);
    assert_eq!((broken.reason.as_str(), broken.elapsed), ("server_side", millis(200_000)));
}

#[tokio::test(start_paused = true)]
async fn who_answers_says_what_a_break_cost() {
    let down = || reply(503, r#"{"error":{"message":"down"}}"#);
    let provider = Provider::with([("a", vec![answer(CHAT, 6_000), down()]), ("openai", vec![answer(CHAT, 0)])]);
    let stack = Stack::of(CHAT, [priced(CHAT, "a", "gpt-4o"), priced(CHAT, "openai", "gpt-4o-mini")]).max_retries(0);
    let (service, events) = (watched(&stack, &provider), Events::new());
    for _ in 0..2 {
        Outcome::of(service.clone(), request(&stack, &events, &json!({}), &[]), &events).await;
    }
    // 7,000 at 2.50, since what OpenAI takes off is not known of another, and 2 at 10; then 7,000 at 0.15 and 2 at 0.60
    // for a million.
    let wanted =
        ["U.measured 1000+6000/?>2~17520000", "U.measured 7000+0/?>2~1051200", "B.model_changed#2~6000(6000>0)"];
    assert_eq!(told(&events), wanted);
    let broken = only_break(&events);
    assert_eq!(
        (broken.candidate.as_deref(), broken.model.as_deref()),
        (Some("openai/gpt-4o-mini"), Some("gpt-4o-mini"))
    );
    // 6,000 at 0.15 less 0.075, by the one who answered.
    assert_eq!(broken.lost_nanodollars, Some(450_000));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_is_billed_for_what_it_got() {
    for (dialect, second, wanted) in [
        // Chat tells its usage at the end: all is estimated, and nothing is known of the cache.
        (CHAT, stream([role(), text("one"), text("two"), finish("stop"), done()]), "U.estimated 39+?/?>1"),
        // Anthropic tells its input at the beginning: that is measured, and judged.
        (
            ANTHROPIC,
            stream([start(0), anthropic::text(0, "one"), anthropic::text(0, "two")]),
            "U.estimated 0+0/7000>1~26265000 B.server_side#2~6000(6000>0)",
        ),
    ] {
        let model = if dialect == CHAT { "house-model" } else { "claude-sonnet-4-20250514" };
        let provider = Provider::new([answer(dialect, 6_000), second]);
        let stack = Stack::of(dialect, [priced(dialect, "a", model)]);
        let service = watched(&stack, &provider);
        Outcome::of(service.clone(), request(&stack, &Events::new(), &json!({}), &[]), &Events::new()).await;
        let events = Events::new();
        let Ok(response) = service.oneshot(request(&stack, &events, &json!({}), &[])).await;
        let mut body = Box::pin(response.into_body());
        loop {
            let piece = body.frame().await.expect("more").expect("no failure").into_data().unwrap_or_default();
            assert_eq!(told(&events), [""; 0], "told before it is over");
            if piece.windows(3).any(|part| part == b"one") {
                break;
            }
        }
        drop(body);
        assert_eq!(told(&events).join(" "), wanted, "{dialect}");
    }
}
