//! The client, face to face with the provider.

use std::path::Path;
use std::time::Duration;

use stanchion_faults::Outcome;
use stanchion_faults::client::{Call, Reply, Transport};
use stanchion_faults::judge::{judge, verbatim};
use stanchion_faults::scenario::{Scenario, load_matching};
use stanchion_faults::upstream::Upstream;

fn file(id: &str) -> Scenario {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios");
    load_matching(folder, &format!("{id}-")).unwrap().remove(0)
}

fn written(text: &str) -> Scenario {
    Scenario::parse("s", &format!("name = 's'\n{text}")).unwrap()
}

async fn ask(scenario: &Scenario) -> (Reply, Upstream) {
    let upstream = Upstream::start(std::slice::from_ref(scenario)).await.unwrap();
    let reply = Call::new(scenario, upstream.address(), "m", &format!("/{}/a", scenario.id)).send().await;
    (reply, upstream)
}

#[tokio::test]
async fn a_bare_client_sees_what_was_sent() {
    use Outcome::{Complete, Cut, Error, GaveUp, Silent};

    // Id, outcome, status, text, finish, events.
    for (id, outcome, status, text, finish, events) in [
        ("s01", Complete, Some(200), "Hello world", Some("stop"), 6),
        ("s02", Error, Some(529), "", None, 0),
        ("s06", Cut, None, "", None, 0),
        ("s07", Cut, Some(200), "", None, 1),
        ("s08", Cut, Some(200), "Hello", None, 2),
        ("s09", Silent, Some(200), "Hello wor", None, 3),
        ("s10", Silent, Some(200), "", None, 0),
        ("s11", Complete, Some(200), "", None, 1),
        ("s12", Error, Some(200), "", None, 1),
        ("s13", Error, Some(200), "Hello", None, 3),
        ("s16", Cut, Some(200), "Hello", None, 2),
        ("s21", GaveUp, Some(200), "xxx", None, 4),
        ("s22", GaveUp, None, "", None, 0),
        ("s23", Complete, Some(200), "\u{5b8c}\u{6210}\u{540e}\u{2713}", Some("stop"), 4),
        ("s24", Complete, Some(200), "Hello world", Some("stop"), 4),
        ("s25", Silent, Some(200), "", None, 0),
        ("s26", Error, Some(502), "", None, 0),
        ("s28", Error, Some(400), "", None, 0),
        ("s30", Cut, Some(200), "", None, 2),
        ("s32", Complete, Some(200), "Hello world", Some("end_turn"), 9),
        ("s33", Error, Some(200), "", None, 3),
        ("s35", Error, Some(200), "Hello", None, 4),
        ("s36", Error, Some(500), "", None, 0),
        ("s37", Cut, Some(200), "", None, 0),
    ] {
        let (reply, upstream) = ask(&file(id)).await;
        let saw = (reply.outcome(), reply.status, reply.text.as_str(), reply.finish.as_deref(), reply.events.len());
        assert_eq!(saw, (outcome, status, text, finish, events), "{id}");
        assert_eq!(upstream.requests(id, "a").len(), 1, "{id}");
    }
}

#[tokio::test]
async fn the_details_are_kept_too() {
    let reply = ask(&file("s30")).await.0;
    assert_eq!((reply.tool_args[&0].as_str(), reply.transport), ("{\"pa", Transport::Truncated));
    assert!(reply.first_output_at.is_some_and(|at| at >= reply.status_at.unwrap() && at <= reply.ended_at.unwrap()));

    let reply = ask(&file("s26")).await.0;
    assert_eq!(reply.error.unwrap()["body"], "<html><h1>502 Bad Gateway</h1></html>");
    assert_eq!(reply.headers.get("Content-Type"), Some("text/html"));

    let (s01, s23) = (file("s01"), file("s23"));
    assert_eq!(verbatim(&s01, &ask(&s01).await.0), Some(true));
    assert_eq!(verbatim(&s23, &ask(&s23).await.0), Some(true));

    let big = file("s40");
    let (reply, upstream) = ask(&big).await;
    assert_eq!(judge(&big, std::slice::from_ref(&reply), &upstream), [""; 0]);
    assert!(reply.text.len() > 4_000_000 && reply.raw == big.upstream["a"][0].body_bytes());
}

#[tokio::test]
async fn the_other_wires_are_spoken_as_well() {
    let lines = r#"body = [
        { text = '{"message":{"content":"He"},"done":false}', split = 5 },
        { text = "\n{\"message\":{\"content\":\"llo\"},\"done\":true,\"done_reason\":\"stop\"}\n" },
    ]"#;
    let gemini = r#"body = [
        { text = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hello\"}]}}]}\r\n\r\n" },
        { text = "data: {\"candidates\":[{\"content\":{\"parts\":[]},\"finishReason\":\"STOP\"}]}\r\n\r\n" },
    ]"#;
    let responses = r#"body = [
        { event = "response.output_text.delta", data = '{"type":"response.output_text.delta","delta":"Hello"}' },
        { event = "response.completed", data = '{"type":"response.completed","response":{"status":"completed"}}' },
    ]"#;
    let whole = r#"headers = { content-type = "application/json" }, body = [
        { text = '{"candidates":[{"content":{"parts":[{"text":"Hello"}]},"finishReason":"STOP"}]}' },
    ]"#;
    let html = r#"headers = { content-type = "text/html" }, body = [{ text = "<html>" }]"#;
    for (keys, script, outcome, path) in [
        ("dialect = 'ollama'", lines, Outcome::Complete, "/s/a/api/chat"),
        ("dialect = 'ollama'", html, Outcome::Silent, "/s/a/api/chat"),
        ("dialect = 'gemini'", gemini, Outcome::Complete, "/s/a/v1beta/models/m:streamGenerateContent?alt=sse"),
        ("dialect = 'gemini'\nstream = false", whole, Outcome::Complete, "/s/a/v1beta/models/m:generateContent"),
        ("dialect = 'openai-responses'", responses, Outcome::Complete, "/s/a/v1/responses"),
    ] {
        // An inline table may not span lines.
        let script = script.replace('\n', " ");
        let (reply, upstream) = ask(&written(&format!("{keys}\nupstream.a = [{{ {script} }}]"))).await;
        let text = if outcome == Outcome::Complete { "Hello" } else { "" };
        assert_eq!((reply.outcome(), reply.text.as_str()), (outcome, text), "{keys}: {reply:?}");
        assert_eq!(upstream.requests("s", "a")[0].path, path);
    }
}

#[tokio::test]
async fn every_way_of_framing_a_body_is_read() {
    let answer = r#"{ text = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: [DONE]" }"#;
    for (script, outcome, transport) in [
        (format!("end = 'close', body = [{answer}]"), Outcome::Complete, Transport::Clean),
        (format!("headers = {{ content-length = 60 }}, body = [{answer}]"), Outcome::Complete, Transport::Clean),
        (
            format!("headers = {{ content-length = 99 }}, end = 'truncate', body = [{answer}]"),
            Outcome::Cut,
            Transport::Truncated,
        ),
        (
            "end = 'close', headers = { transfer-encoding = 'chunked' }, body = [{ text = 'x' }]".to_owned(),
            Outcome::Cut,
            Transport::Truncated,
        ),
        ("headers = { content-length = 'many' }".to_owned(), Outcome::Cut, Transport::Truncated),
        ("status = 101, end = 'close'".to_owned(), Outcome::Cut, Transport::Truncated),
    ] {
        let reply = ask(&written(&format!("upstream.a = [{{ {script} }}]"))).await.0;
        assert_eq!((reply.outcome(), reply.transport), (outcome, transport), "{script}: {reply:?}");
    }
}

#[tokio::test]
async fn a_client_that_pauses_holds_up_its_provider_and_gets_all_in_the_end() {
    let body = r#"[{ sse = "{}" }, { fill = 20000000 }, { text = "\n\n" }, { sse = "[DONE]" }]"#;
    let scenario =
        written(&format!("upstream.a = [{{ body = {body} }}]\n[request]\npause = '300ms'\npause_after_events = 1"));
    let upstream = Upstream::start(std::slice::from_ref(&scenario)).await.unwrap();
    let call = Call::new(&scenario, upstream.address(), "m", "/s/a");
    let asking = tokio::spawn(async move { call.send().await });
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert!(upstream.requests("s", "a").iter().all(|request| request.ended_at.is_none()));
    let reply = asking.await.unwrap();
    assert_eq!((reply.outcome(), reply.raw.len()), (Outcome::Complete, 20_000_026));
    assert!(reply.elapsed() >= Duration::from_millis(300));
}

#[tokio::test]
async fn a_client_has_limits_and_may_find_nobody() {
    let silence = "upstream.a = [{ before = 'hang', hang = '60s' }]\n[request]";
    for (limit, outcome) in [("give_up = '30ms'", Outcome::Timeout), ("leave_after = '30ms'", Outcome::GaveUp)] {
        let reply = ask(&written(&format!("{silence}\n{limit}"))).await.0;
        assert_eq!(reply.outcome(), outcome);
        assert!(reply.elapsed() >= Duration::from_millis(30));
    }
    let scenario = written("");
    let upstream = Upstream::start(&[]).await.unwrap();
    let refusing = upstream.refusing_address().unwrap();
    assert_eq!(Call::new(&scenario, refusing, "m", "").send().await.outcome(), Outcome::Refused);
}
