use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::{complaints, preferred, verbatim};
use crate::client::{ReceivedEvent, Reply, Transport};
use crate::scenario::Scenario;
use crate::upstream::Ledger;
use crate::upstream::ledger_tests::record;

fn scenario(expect: &str) -> Scenario {
    let text = format!("name = 's'\nupstream.a = [{{ body = [{{ sse = 'hi', times = 2 }}] }}]\n[expect]\n{expect}");
    Scenario::parse("s", &text).unwrap()
}

/// A complete reply that took two seconds.
fn reply() -> Reply {
    let started_at = Instant::now();
    let mut reply = Reply { status: Some(200), done: true, ..Reply::default() };
    reply.text = "Hello".to_owned();
    reply.reasoning = "hm".to_owned();
    reply.finish = Some("stop".to_owned());
    reply.tool_args.insert(0, "{}".to_owned());
    reply.raw = b"data: hi\n\ndata: hi\n\n".to_vec();
    reply.headers.push("x-one", "1");
    reply.started_at = started_at;
    reply.status_at = Some(started_at + Duration::from_secs(1));
    reply.ended_at = Some(started_at + Duration::from_secs(2));
    reply
}

/// Two requests at a, one second apart; the second one's client went half a second after the reply had ended.
fn ledger(reply: &Reply) -> Arc<Ledger> {
    let ledger = Arc::new(Ledger::default());
    let key = ("s".to_owned(), "a".to_owned());
    let mut second = record(reply.started_at + Duration::from_secs(1));
    second.gone_at = reply.ended_at.map(|ended_at| ended_at + Duration::from_millis(500));
    let mut first = record(reply.started_at);
    first.body = "the first".into();
    first.path = "/v1/chat?x=1".to_owned();
    first.headers.push("authorization", "Bearer k");
    second.body = "the second".into();
    let open = [first, second].map(|record| {
        let index = ledger.enter(&key, record);
        ledger.open(key.clone(), index)
    });
    drop(open);
    ledger
}

fn judged(expect: &str, reply: Reply) -> Vec<String> {
    complaints(&scenario(expect), std::slice::from_ref(&reply), &ledger(&reply))
}

#[test]
fn what_is_not_asked_is_not_judged() {
    assert_eq!(judged("", reply()), [""; 0]);
}

#[test]
fn each_rule_holds_and_each_can_complain() {
    for (holds, fails, complaint) in [
        ("outcome = 'complete'", "outcome = 'error'", "outcome complete, wanted error"),
        ("outcome = ['cut', 'complete']", "outcome = ['cut', 'error']", "outcome complete, wanted cut/error"),
        ("text = 'Hello'", "text = 'Hi'", r#"text "Hello", wanted "Hi""#),
        ("text_prefix_of = 'Hello world'", "text_prefix_of = 'Hell'", r#"text "Hello" is no prefix of "Hell""#),
        ("reasoning = 'hm'", "reasoning = ''", r#"reasoning "hm", wanted """#),
        ("tool_args = '{}'", "tool_args = ''", r#"tool args "{}", wanted """#),
        ("finish = 'stop'", "finish = 'length'", r#"finish "stop", wanted "length""#),
        ("status = 200", "status = 429", "status 200, wanted [429]"),
        ("status = [200, 429]", "status = [402, 429]", "status 200, wanted [402, 429]"),
        ("status_within = '1s'", "status_within = '900ms'", "status after 1.00s, wanted within 900ms"),
        ("headers = { X-One = '1' }", "headers = { x-one = 2 }", r#"header x-one "1", wanted "2""#),
        ("headers = {}", "headers = { x-two = '2' }", r#"header x-two none, wanted "2""#),
        ("body_contains = 'hi'", "body_contains = 'ho'", r#"the body lacks "ho""#),
        (
            "body_contains = ['data', 'hi', 'data', 'hi']",
            "body_contains = ['hi', 'hi', 'data']",
            r#"the body lacks "data" in its place"#,
        ),
        ("body_lacks = ['ho', 'he']", "body_lacks = ['ho', 'hi']", r#"the body has "hi""#),
        ("within = '2s'", "within = '1900ms'", "took 2.00s, wanted within 1.9s"),
        ("at_least = '2s'", "at_least = '3s'", "took 2.00s, wanted at least 3s"),
        ("attempts = { a = 2, b = 0 }", "attempts = { a = 1 }", "2 requests reached a, wanted 1"),
        ("attempts = { a = [1, 2] }", "attempts = { b = [1, 2] }", "0 requests reached b, wanted [1, 2]"),
        ("gap_at_least = { a = '1s' }", "gap_at_least = { a = '1.5s' }", "retried a after 1.00s, wanted at least 1.5s"),
        (
            "gap_at_least = { a = ['1s', '9s'] }",
            "gap_at_least = { a = ['1.5s', '1s'] }",
            "retried a after 1.00s, wanted at least 1.5s",
        ),
        (
            "requests.a = [{ contains = 'first' }, { contains = ['se', 'cond'], lacks = 'first' }]",
            "requests.a = [{}, { contains = ['se', 'first'] }]",
            r#"request 2 to a lacks "first""#,
        ),
        (
            "requests.a = [{ lacks = 'second' }]",
            "requests.a = [{ lacks = ['x', 'first'] }]",
            r#"request 1 to a has "first""#,
        ),
        (
            "requests.a = [{ path = ['/chat', 'x=1'] }]",
            "requests.a = [{ path = '/chats' }]",
            r#"the path of request 1 to a lacks "/chats""#,
        ),
        (
            "requests.a = [{ headers = { Authorization = 'Bearer k' } }]",
            "requests.a = [{ headers = { authorization = 'Bearer' } }]",
            r#"request 1 to a has authorization Some("Bearer k"), wanted "Bearer""#,
        ),
        (
            "requests.a = [{ headers_lack = 'api-key' }, { headers_lack = ['authorization'] }]",
            "requests.a = [{ headers_lack = ['api-key', 'Authorization'] }]",
            "request 1 to a has Authorization",
        ),
        ("requests.a = []", "requests.a = [{}, {}, { contains = 'x' }, {}]", "no request 3 reached a"),
        (
            "upstream_freed_within = '500ms'",
            "upstream_freed_within = '400ms'",
            "upstream connection freed after 0.50s, wanted within 400ms",
        ),
        (
            "upstream_freed_within = '1s'\nfreed = 'a'",
            "upstream_freed_within = '1s'\nfreed = 'b'",
            "no request reached b",
        ),
        ("peak_inflight_at_most = 2", "peak_inflight_at_most = 1", "2 in flight at once, wanted at most 1"),
        ("each = { complete = 1, error = 0 }", "each = { complete = 2 }", "1 of 1 clients complete, wanted 2"),
        ("each = { gave-up = [0, 1] }", "each = { cut = [1, 2] }", "0 of 1 clients cut, wanted [1, 2]"),
    ] {
        assert_eq!(judged(holds, reply()), [""; 0], "{holds}");
        assert_eq!(judged(fails, reply()), [complaint], "{fails}");
    }
}

#[test]
fn nothing_at_all_is_told_as_such() {
    let mut nothing = Reply { transport: Transport::Refused, ..Reply::default() };
    nothing.ended_at = Some(nothing.started_at);
    let expect = "status = 200\nstatus_within = '1s'\ntool_args = ''\nfinish = 'stop'\nerror_contains = 'x'";
    let told = complaints(&scenario(expect), &[nothing], &Ledger::default());
    assert_eq!(
        told,
        [
            "outcome refused, wanted complete",
            r#"tool args none, wanted """#,
            "status none, wanted [200]",
            "status never, wanted within 1s",
            r#"error null lacks "x""#,
            r#"finish none, wanted "stop""#,
        ]
    );
    assert_eq!(complaints(&scenario(""), &[], &Ledger::default()), ["nobody asked"]);
}

#[test]
fn an_error_is_searched_as_json_in_any_case_of_letters() {
    let wrong = || Reply { error: Some(json!({ "code": 503, "message": "Slow Down" })), ..reply() };
    for part in ["slow down", "SLOW", r#"\"code\": 503"#] {
        assert_eq!(judged(&format!("outcome = 'error'\nerror_contains = \"{part}\""), wrong()), [""; 0], "{part}");
    }
    let told = judged("outcome = 'error'\nerror_contains = 'quota'", wrong());
    assert_eq!(told, [r#"error {"code": 503, "message": "Slow Down"} lacks "quota""#]);
}

#[test]
fn bytes_are_compared_with_the_last_script_of_the_serving_candidate() {
    let wish = scenario("verbatim = true");
    assert_eq!(verbatim(&wish, &reply()), Some(true));
    assert_eq!(verbatim(&scenario(""), &reply()), None);
    let mut changed = reply();
    changed.raw.pop();
    assert_eq!(judged("verbatim = true", changed), ["the 19 bytes that arrived are not those that were sent"]);
    let mut more = reply();
    more.raw.splice(0..0, *b": waiting\n\n");
    assert_eq!(judged("verbatim_but_ours = true", more.clone()), [""; 0]);
    assert_eq!(judged("verbatim = true", more), ["the 31 bytes that arrived are not those that were sent"]);
}

#[test]
fn a_preference_is_no_condition() {
    assert_eq!(judged("outcome = ['complete', 'error']\nprefer = 'error'", reply()), [""; 0]);
    let preference = |outcome| preferred(&scenario(&format!("prefer = '{outcome}'")), &reply());
    assert_eq!((preference("error"), preference("complete")), (Some(false), Some(true)));
    assert_eq!(preferred(&scenario(""), &reply()), None);
}

#[test]
fn a_connection_that_stays_is_never_freed() {
    let reply = reply();
    let ledger = Ledger::default();
    ledger.enter(&("s".to_owned(), "a".to_owned()), record(reply.started_at));
    let told = complaints(&scenario("upstream_freed_within = '1s'"), &[reply], &ledger);
    assert_eq!(told, ["upstream connection freed never, wanted within 1s"]);
}

#[test]
fn many_clients_are_counted_and_the_first_is_judged() {
    let cut = Reply { transport: Transport::Reset, ..reply() };
    let replies = [reply(), cut.clone(), cut];
    let wish = scenario("each = { complete = 1, cut = 2 }");
    assert_eq!(complaints(&wish, &replies, &Ledger::default()), [""; 0]);
}

fn told_of(name: &str, data: &str) -> ReceivedEvent {
    ReceivedEvent { name: Some(name.to_owned()), data: data.to_owned() }
}

#[test]
fn control_events_are_found_in_order_by_some_of_their_members() {
    let reply = || {
        let mut reply = reply();
        reply.events = vec![
            told_of("stanchion.usage", r#"{"quality":"measured","tokens":{"input":9,"output":2}}"#),
            told_of("usage", r#"{"quality":"no event of ours"}"#),
            ReceivedEvent { name: None, data: "{}".to_owned() },
            told_of("stanchion.prompt_cache_break", r#"{"reason":"tools_changed"}"#),
        ];
        reply
    };
    for (holds, fails, complaint) in [
        (
            "told = [{ usage = { tokens = { input = 9 } } }, { prompt_cache_break = {} }]",
            "told = [{ usage = { tokens = { input = 8 } } }]",
            "was not told of usage {\"tokens\": {\"input\": 8}}, but: \
             usage {\"quality\": \"measured\", \"tokens\": {\"input\": 9, \"output\": 2}}; \
             prompt_cache_break {\"reason\": \"tools_changed\"}",
        ),
        (
            "told = [{ prompt_cache_break = { reason = 'tools_changed' } }]",
            "told = [{ prompt_cache_break = {} }, { usage = {} }]",
            "was not told after that of usage {}, but: of nothing",
        ),
        (
            "told = [{ usage = { quality = 'measured' } }]",
            "told = [{ usage = { lost_nanodollars = 1 } }]",
            "was not told of usage {\"lost_nanodollars\": 1}, but: \
             usage {\"quality\": \"measured\", \"tokens\": {\"input\": 9, \"output\": 2}}; \
             prompt_cache_break {\"reason\": \"tools_changed\"}",
        ),
        (
            "not_told = ['provider_retry', 'prompt_cache_volatile']",
            "not_told = 'prompt_cache_break'",
            r#"was told of prompt_cache_break {"reason": "tools_changed"}"#,
        ),
    ] {
        assert_eq!(judged(holds, reply()), [""; 0], "{holds}");
        assert_eq!(judged(fails, reply()), [complaint], "{fails}");
    }
}

#[test]
fn later_requests_are_judged_by_what_they_expect_themselves() {
    let text = "name = 's'\n[request]\nclients = 2\njudge = 'JUDGE'\n[[request.then]]\nclients = 2\n\
        expect = { text = 'Hello' }\n[[request.then]]\n[[request.then]]\nexpect = { outcome = 'cut' }";
    let other = || Reply { text: "Hi".to_owned(), ..reply() };
    let cut = || Reply { transport: Transport::Reset, ..other() };
    // Of six clients those without expectations may see anything.
    let told = |judge: &str, replies: &[Reply]| {
        let wish = Scenario::parse("s", &text.replace("JUDGE", judge)).unwrap();
        complaints(&wish, replies, &Ledger::default())
    };
    assert_eq!(told("first", &[other(), other(), reply(), reply(), other(), cut()]), [""; 0]);
    let wanted = [r#"request 4: text "Hi", wanted "Hello""#, "request 6: outcome complete, wanted cut"];
    assert_eq!(told("first", &[other(), other(), reply(), other(), cut(), reply()]), wanted);
    // The last one comes first where it is the one that is judged.
    assert_eq!(told("last", &[reply(), other(), other(), reply(), other(), cut()]), wanted);
}

#[test]
fn a_later_request_expects_nothing_of_the_whole() {
    let parse = |expect: &str| {
        let text = format!("name = 's'\nupstream.a = [{{}}]\nrequest.then = [{{}}, {{ expect = {{ {expect} }} }}]");
        Scenario::parse("s", &text).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(parse("status = 200, told = [{ usage = {} }], within = '1s'"), Ok(()));
    for expect in ["attempts = { a = 1 }", "each = { cut = 1 }", "verbatim = true", "prefer = 'cut'"] {
        let told = parse(expect).unwrap_err();
        assert!(told.contains("`request.then[1].expect` judges what its client saw"), "{told}");
    }
    for event in ["{}", "{ a = {}, b = {} }", "'usage'", "{ usage = 1 }"] {
        assert!(parse(&format!("told = [{event}]")).is_err(), "{event}");
    }
}
