//! The layer around services that are told what to answer.

use std::task::Poll;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use stanchion_core::{
    Attempts, Call, Candidate, Context, Dialect, Ending, Event, Failure, FailureKind, Family, HidesUsage, Phase,
    RequestClass, Selected, StreamRecord, StreamRecorder, Usage, UsageQuality,
};
use stanchion_testkit::{Contract, Events, Probe, ScriptedBody, Step, request_in};
use stanchion_usage::{Catalogue, UsageLayer};
use tokio_test::{assert_pending, assert_ready, task};
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_test::mock;

use super::{finished, tokens, with_output};

type Req = Request<Full<Bytes>>;

#[tokio::test(start_paused = true)]
async fn the_contract_of_every_layer() {
    Contract::new(UsageLayer::new()).check().await;
    Contract::new(UsageLayer::new().request_usage(true)).check().await;
}

/// A stream of chat completions to `gpt-4o`, with its size.
fn chat(events: &Events) -> Req {
    let mut request = request_in(events.context_builder().class(RequestClass::Background).build());
    let call = Call::new(Dialect::OpenAiChat, true).with_model("asked").with_request_bytes(400);
    request.extensions_mut().insert(call);
    request.extensions_mut().insert(Selected::only(served("openai")));
    request
}

fn served(provider: &str) -> Candidate {
    Candidate::new(provider, Family::OpenAi, "http://provider.test/v1").with_model("gpt-4o")
}

fn reply(record: &StreamRecord, body: ScriptedBody) -> Response<ScriptedBody> {
    let mut response = Response::new(body);
    response.extensions_mut().insert(record.clone());
    response
}

#[tokio::test(start_paused = true)]
async fn a_whole_reply_is_told_before_its_end_marker_leaves() {
    let events = Events::new();
    let (record, mut recorder) = with_output(1, 5);
    let (mut service, mut handle) = mock::spawn_with(|inner| UsageLayer::new().layer(inner));
    assert_ready!(service.poll_ready()).unwrap();
    let mut call = task::spawn(service.call(chat(&events)));
    assert_pending!(call.poll());
    let (_, send): (Req, _) = handle.next_request().await.unwrap();
    send.send_response(reply(&record, ScriptedBody::frames(["text", "finish and usage", "end"]).hides_end()));
    let mut body = assert_ready!(call.poll()).unwrap().into_body();

    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "text");
    recorder.usage(&Usage { cache_read: Some(100), ..tokens(1_000, 50) });
    recorder.finish(stanchion_core::FinishReason::Stop);
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "finish and usage");
    // Usage may follow a finish.
    assert_eq!(events.lines(), [""; 0]);
    recorder.terminal();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "end");
    let expected = ["U.measured 1000+100/?>50~3125000"];
    assert_eq!(events.lines(), expected);
    assert!(body.frame().await.is_none());
    drop(body);
    assert_eq!(events.lines(), expected);

    let Event::Usage(usage) = &events.all()[0] else { panic!("{events:?}") };
    assert_eq!((usage.candidate.as_deref(), usage.model.as_deref()), (Some("openai/gpt-4o"), Some("gpt-4o")));
    assert_eq!(usage.request_class, RequestClass::Background);
}

/// Writes attempts down as the observing layer does.
fn observing<S>(
    inner: S,
    record: StreamRecord,
) -> impl Service<Req, Response = S::Response, Error = Failure, Future: Future<Output = Result<S::Response, Failure>>>
where
    S: Service<Req, Error = Failure> + Clone,
{
    service_fn(move |request: Req| {
        let (mut inner, record) = (inner.clone(), record.clone());
        let attempts = Attempts::of(&request).expect("the layer wants to know").clone();
        let entry = attempts.begin(request.extensions().get().cloned()).expect("room");
        async move {
            let answer = inner.ready().await?.call(request).await;
            match answer {
                Ok(_) => entry.answered(&record),
                Err(_) => entry.refused(),
            }
            answer
        }
    })
}

/// Lets a service answer with `body` and tells what it told after so many polls of its future and body, and after their
/// drop.
fn after_polls(record: &StreamRecord, script: &[Step], polls: usize) -> (Vec<String>, Vec<String>) {
    let events = Events::new();
    let (told, script) = (record.clone(), script.to_vec());
    let probe = Probe::new(move || reply(&told, ScriptedBody::new(script.clone()).hides_end()));
    let mut service = UsageLayer::new().layer(observing(probe.clone(), record.clone()));
    let mut call = Box::pin(task::spawn(service.call(chat(&events))));
    let mut left = polls;
    let answer = loop {
        if left == 0 {
            drop(call);
            assert_eq!(probe.live(), 0);
            return (events.lines(), events.lines());
        }
        left -= 1;
        if let Poll::Ready(answer) = call.poll() {
            break answer.unwrap();
        }
    };
    let mut body = Box::pin(answer.into_body());
    for _ in 0..left {
        let mut frame = task::spawn(std::future::poll_fn(|cx| body.as_mut().poll_frame(cx)));
        let _ = frame.poll();
    }
    let held = events.lines();
    drop(body);
    (held, events.lines())
}

#[tokio::test(start_paused = true)]
async fn a_reply_dropped_at_any_poll_is_told_once() {
    let script = [Step::Pending, Step::Data("a".into()), Step::Pending, Step::Data("b".into()), Step::End];
    let (record, _recorder) = with_output(2, 40);
    let told = ["U.estimated 100+?/?>20~450000"];
    // Three polls come to the head: before that nobody knows what is billed, and that is not nothing.
    for polls in 0..=2 {
        assert_eq!(after_polls(&record, &script, polls).1, ["U.unknown 100+?/?>?"], "after {polls} polls");
    }
    for polls in 3..=7 {
        let (held, dropped) = after_polls(&record, &script, polls);
        assert_eq!(
            (held.as_slice(), dropped.as_slice()),
            (&[][..], &told.map(str::to_owned)[..]),
            "after {polls} polls"
        );
    }
    for polls in 8..=10 {
        let (held, dropped) = after_polls(&record, &script, polls);
        assert_eq!((held, dropped), (told.map(str::to_owned).to_vec(), told.map(str::to_owned).to_vec()));
    }
}

/// What is told of a request that fails or is left after attempts that ended so.
async fn told_of(records: &[Option<&StreamRecord>], fails: bool) -> Vec<String> {
    let events = Events::new();
    let (into, request) = tokio::sync::oneshot::channel();
    let mut into = Some(into);
    let service = service_fn(move |request: Req| {
        let _ = into.take().unwrap().send(Attempts::of(&request).unwrap().clone());
        async move {
            if fails {
                return Err(Failure::new(FailureKind::Overloaded));
            }
            std::future::pending::<Result<Response<ScriptedBody>, Failure>>().await
        }
    });
    let mut service = UsageLayer::new().layer(service);
    let mut call = task::spawn(service.call(chat(&events)));
    let attempts = request.await.unwrap();
    for record in records {
        let entry = attempts.begin(None).unwrap();
        match record {
            Some(record) => entry.answered(record),
            None => drop(entry),
        }
    }
    let _ = call.poll();
    drop(call);
    events.lines()
}

#[tokio::test(start_paused = true)]
async fn attempts_that_came_to_nothing_are_told_if_they_are_paid_for() {
    let ended = |(record, mut recorder): (StreamRecord, StreamRecorder), ending| {
        recorder.end(ending);
        record
    };
    let of_output = ended(with_output(2, 40), Ending::Failed);
    let left_early = ended(StreamRecord::new(), Ending::Cancelled);
    let (going_on, _recorder) = StreamRecord::new();
    let (counted, mut recorder) = StreamRecord::new();
    recorder.usage(&Usage { input: Some(7), ..Usage::default() });
    recorder.end(Ending::Failed);
    for fails in [false, true] {
        for (record, wanted) in [
            (Some(&of_output), Some("U.estimated 100+?/?>20~450000")),
            (Some(&left_early), Some("U.estimated 100+?/?>0~250000")),
            (Some(&going_on), Some("U.estimated 100+?/?>0~250000")),
            (Some(&counted), Some("U.estimated 7+?/?>0~17500")),
            (Some(&ended(StreamRecord::new(), Ending::Failed)), None),
            (Some(&ended(StreamRecord::new(), Ending::Truncated)), None),
            (None, Some("U.unknown 100+?/?>?")),
        ] {
            assert_eq!(told_of(&[record], fails).await.first().map(String::as_str), wanted, "{record:?}");
        }
        assert_eq!(told_of(&[], fails).await, [""; 0]);
        assert_eq!(told_of(&[Some(&of_output), None, Some(&counted)], fails).await.len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_breaks_is_estimated() {
    let (record, _recorder) = with_output(2, 40);
    let script = [Step::Data("a".into()), Step::Error(FailureKind::Transport)];
    let (held, dropped) = after_polls(&record, &script, 5);
    assert_eq!((held.as_slice(), dropped.as_slice()), (&["U.estimated 100+?/?>20~450000".to_owned()][..], &held[..]));
}

/// What is told of a reply that is read to its end.
async fn told(layer: UsageLayer, request: Req, events: &Events, response: Response<ScriptedBody>) -> Vec<String> {
    let mut response = Some(response);
    let service = service_fn(move |_: Req| std::future::ready(Ok::<_, Failure>(response.take().unwrap())));
    let body = layer.layer(service).oneshot(request).await.unwrap().into_body();
    let _ = body.collect().await;
    events.lines()
}

#[tokio::test(start_paused = true)]
async fn who_answered_counts_and_not_who_was_asked_first() {
    let events = Events::new();
    let (record, _recorder) = finished(1, 4, &tokens(1_000_000, 0));
    let mut response = reply(&record, ScriptedBody::frames(["a"]));
    let second = Candidate::new("second", Family::OpenAi, "http://second.test/v1").with_model("deepseek-chat");
    response.extensions_mut().insert(Selected { candidate: second.into(), index: 1, last: true });
    // Text has passed, so that no output is not believed.
    assert_eq!(
        told(UsageLayer::new(), chat(&events), &events, response).await,
        ["U.estimated 1000000+?/?>1~270001100"]
    );
    let Event::Usage(usage) = &events.all()[0] else { panic!("{events:?}") };
    assert_eq!(usage.candidate.as_deref(), Some("second/deepseek-chat"));
}

#[tokio::test(start_paused = true)]
async fn what_was_not_read_is_unknown_and_what_failed_is_no_reply() {
    let layer = UsageLayer::new;
    let events = Events::new();
    let unread = Response::new(ScriptedBody::frames(["a"]));
    assert_eq!(told(layer(), chat(&events), &events, unread).await, ["U.unknown 100+?/?>?"]);

    let events = Events::new();
    let mut refused = Response::new(ScriptedBody::frames(["a"]));
    *refused.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    assert_eq!(told(layer(), chat(&events), &events, refused).await, [""; 0]);

    let events = Events::new();
    let failing = Probe::new(|| unreachable!()).failing([FailureKind::Overloaded]);
    let failure = layer().layer(failing).oneshot(chat(&events)).await.map(drop).unwrap_err();
    assert_eq!(
        (failure.kind(), failure.phase(), events.lines().len()),
        (FailureKind::Overloaded, Phase::BeforeOutput, 0)
    );

    // Nobody selected a candidate, or named a model: there is no price, and the size of the body is enough to estimate.
    let events = Events::new();
    let mut request = chat(&events);
    request.extensions_mut().remove::<Selected>();
    request.extensions_mut().insert(Call::new(Dialect::OpenAiChat, true));
    let size = request.body().size_hint().exact().unwrap().div_ceil(4);
    let (record, _recorder) = with_output(1, 4);
    let lines = told(layer(), request, &events, reply(&record, ScriptedBody::frames(["a"]))).await;
    assert_eq!(lines, [format!("U.estimated {size}+?/?>1")]);
}

#[tokio::test(start_paused = true)]
async fn an_empty_body_is_told_although_nobody_polls_it() {
    let events = Events::new();
    let (record, _recorder) = finished(0, 0, &tokens(1, 0));
    let response = reply(&record, ScriptedBody::new([]));
    let mut response = Some(response);
    let service = service_fn(move |_: Req| std::future::ready(Ok::<_, Failure>(response.take().unwrap())));
    let reply = UsageLayer::new().layer(service).oneshot(chat(&events)).await.unwrap();
    assert_eq!(events.lines(), ["U.measured 1+?/?>0~2500"]);
    drop(reply);
    assert_eq!(events.lines().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn prices_come_from_the_catalogue_that_was_given() {
    let text = "[[models]]\nid = \"gpt-4o\"\nprovider = \"openai\"\n\
                price = { input = 1, output = 1, date = \"2026-09-01\", source = \"us\" }\n";
    let own = Catalogue::built_in().with(Catalogue::parse("own.toml", text).unwrap());
    let events = Events::new();
    let (record, _recorder) = finished(1, 4, &tokens(10, 10));
    let response = reply(&record, ScriptedBody::frames(["a"]));
    let layer = UsageLayer::new().catalogue(own);
    assert_eq!(told(layer, chat(&events), &events, response).await, ["U.measured 10+?/?>10~20000"]);
}

#[tokio::test(start_paused = true)]
async fn a_write_of_an_untold_lifetime_is_billed_as_what_was_asked_for() {
    let marked = |ttl: &str| {
        let body = r#"{"system":[{"type":"text","text":"be \"1h\" brief","cache_control":{"type":"ephemeral"TTL}}]}"#;
        body.replace("TTL", ttl)
    };
    let written = Usage { cache_write: Some(1_000_000), ..tokens(0, 1) };
    let short = Usage { cache_write_5m: Some(1_000_000), ..written };
    for (dialect, body, usage, cost) in [
        (Dialect::AnthropicMessages, marked(""), written, 3_125_010_000),
        (Dialect::AnthropicMessages, marked(r#","ttl":"1h""#), written, 5_000_010_000),
        (Dialect::OpenAiChat, marked(r#","ttl" : "1h""#), written, 5_000_010_000),
        // What the provider tells is right.
        (Dialect::AnthropicMessages, marked(r#","ttl":"1h""#), short, 3_125_010_000),
    ] {
        let events = Events::new();
        let mut request = chat(&events);
        *request.body_mut() = Full::from(body);
        request.extensions_mut().insert(Call::new(dialect, true).with_request_bytes(400));
        let (record, _recorder) = finished(1, 4, &usage);
        told(UsageLayer::new(), request, &events, reply(&record, ScriptedBody::frames(["a"]))).await;
        let Event::Usage(usage) = &events.all()[0] else { panic!("{events:?}") };
        assert_eq!((usage.cost_nanodollars, usage.tokens.cache_write), (Some(cost), Some(1_000_000)), "{dialect}");
        assert_eq!(usage.tokens.cache_write_1h, usage.tokens.cache_write_5m.map(|_| 0), "{dialect}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_gemini_leaves_out_is_zero_once_it_has_told_it() {
    let layer = UsageLayer::new();
    let read = Usage { cache_read: Some(600), ..tokens(400, 1) };
    for (provider, dialect, usage, expected) in [
        ("a", Dialect::GeminiGenerateContent, tokens(1_000, 1), "U.measured 1000+?/?>1"),
        ("a", Dialect::GeminiGenerateContent, read, "U.measured 400+600/?>1"),
        ("a", Dialect::GeminiGenerateContent, tokens(1_000, 1), "U.measured 1000+0/?>1"),
        // Of somebody else nobody knows, nor of a reply that tells nothing; and others say zero where it is zero.
        ("b", Dialect::GeminiGenerateContent, tokens(1_000, 1), "U.measured 1000+?/?>1"),
        ("a", Dialect::GeminiGenerateContent, Usage::default(), "U.estimated 100+?/?>1"),
        ("a", Dialect::OpenAiChat, tokens(1_000, 1), "U.measured 1000+?/?>1"),
    ] {
        let events = Events::new();
        let mut request = chat(&events);
        request.extensions_mut().insert(Call::new(dialect, true).with_request_bytes(400));
        let candidate = Candidate::new(provider, Family::Gemini, "http://g.test").with_model("no-price");
        request.extensions_mut().insert(Selected::only(candidate));
        let (record, _recorder) = finished(1, 4, &usage);
        let body = ScriptedBody::frames(["a"]);
        assert_eq!(told(layer.clone(), request, &events, reply(&record, body)).await, [expected], "{provider}");
    }
}

/// What reaches the provider: the body, and whether the frame is to be hidden.
async fn sent(layer: UsageLayer, request: Req) -> (Bytes, bool, Option<String>) {
    let (mut service, mut handle) = mock::spawn_with(move |inner| layer.layer(inner));
    assert_ready!(service.poll_ready()).unwrap();
    let mut call = task::spawn(service.call(request));
    assert_pending!(call.poll());
    let (request, send): (Req, _) = handle.next_request().await.unwrap();
    send.send_response(Response::new(ScriptedBody::new([])));
    assert_ready!(call.poll()).unwrap();
    let hides = request.extensions().get::<HidesUsage>().is_some();
    let length = request.headers().get("content-length").map(|value| value.to_str().unwrap().to_owned());
    (request.into_body().collect().await.unwrap().to_bytes(), hides, length)
}

fn with_body(dialect: Dialect, stream: bool, body: &'static str) -> Req {
    let mut request = request_in(Context::default());
    *request.body_mut() = Full::from(body);
    request.headers_mut().insert("content-length", body.len().into());
    request.extensions_mut().insert(Call::new(dialect, stream));
    request
}

#[tokio::test(start_paused = true)]
async fn usage_is_asked_for_where_it_is_wanted_and_the_client_does_not_ask() {
    const PLAIN: &str = r#"{"stream":true}"#;
    const ASKING: &str = r#"{"stream":true,"stream_options":{"include_usage":true}}"#;
    for (wanted, dialect, stream, body, expected) in [
        (true, Dialect::OpenAiChat, true, PLAIN, Some(ASKING)),
        (false, Dialect::OpenAiChat, true, PLAIN, None),
        (true, Dialect::OpenAiChat, true, ASKING, None),
        (true, Dialect::OpenAiChat, false, PLAIN, None),
        (true, Dialect::OpenAiChat, true, "no JSON", None),
        (true, Dialect::OpenAiResponses, true, PLAIN, None),
        (true, Dialect::AnthropicMessages, true, PLAIN, None),
        (true, Dialect::Ollama, true, PLAIN, None),
    ] {
        let layer = UsageLayer::new().request_usage(wanted);
        let (found, hides, length) = sent(layer, with_body(dialect, stream, body)).await;
        assert_eq!((found, hides), (Bytes::from(expected.unwrap_or(body)), expected.is_some()), "{dialect} {body}");
        assert_eq!(length, Some(expected.unwrap_or(body).len().to_string()));
    }
    // Without a call nobody knows what the body is.
    let mut request = with_body(Dialect::OpenAiChat, true, PLAIN);
    request.extensions_mut().remove::<Call>();
    assert!(!sent(UsageLayer::new().request_usage(true), request).await.1);
}

#[tokio::test(start_paused = true)]
async fn nothing_that_is_shown_holds_what_was_said_or_who_asked() {
    let events = Events::new();
    let context = events.context_builder().session("alice").owner("bob").build();
    let mut request = request_in(context);
    request.extensions_mut().insert(Call::new(Dialect::OpenAiChat, true));
    let (record, _recorder): (_, StreamRecorder) = with_output(1, 4);
    let layer = UsageLayer::new();
    let mut response = Some(reply(&record, ScriptedBody::frames(["secret"])));
    let service = service_fn(move |_: Req| std::future::ready(Ok::<_, Failure>(response.take().unwrap())));
    let mut service = layer.layer(service);
    let call = service.call(request);
    let before = format!("{layer:?} {call:?}");
    let reply = call.await.unwrap();
    let body = format!("{:?}", reply.body());
    reply.into_body().collect().await.unwrap();
    let event = events.all().remove(0);
    let shown = format!("{before} {body} {event:?}");
    for secret in ["alice", "bob", "secret", "Hello"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    let Event::Usage(usage) = event else { panic!("{event:?}") };
    assert_eq!(usage.quality, UsageQuality::Estimated);
}
