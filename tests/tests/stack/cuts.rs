use bytes::Bytes;
use serde_json::json;
use stanchion::core::{Dialect, Ending, FailureKind, Phase};
use stanchion_faults::scenario::{End, Script, Step};
use stanchion_tests::{
    provider::Provider,
    replies::{WithHeader, anthropic, done, ending, finish, ok, responses, role, stream, text, tool},
    stack::{Outcome, Stack},
};

/// An answer of two words, and how much of it must have come for it to be whole.
struct Answer {
    dialect: Dialect,
    script: Script,
    whole_from: usize,
}

fn answers() -> Vec<Answer> {
    let length = |steps: &[Step]| steps.iter().map(|step| step.bytes().len()).sum::<usize>();
    let answer = |dialect, steps: Vec<Step>, before_whole: usize, frame_end: usize| Answer {
        dialect,
        whole_from: length(&steps[..before_whole]) - frame_end,
        script: stream(steps),
    };
    let [stop, end] = anthropic::end();
    let block = anthropic::block(0, &json!({ "type": "text", "text": "" }));
    let message = vec![anthropic::start(), block, anthropic::text(0, "alpha "), anthropic::text(0, "beta"), stop, end];
    let [created, in_progress] = responses::start();
    let response =
        vec![created, in_progress, responses::text("alpha "), responses::text("beta"), responses::completed()];
    let line =
        |text: &str, done: bool| Step::text(format!("{}\n", json!({ "message": { "content": text }, "done": done })));
    let lines = vec![line("alpha ", false), line("beta", false), line("", true)];
    let mut ollama = answer(Dialect::Ollama, lines, 3, 1);
    ollama.script = ollama.script.with("content-type", "application/x-ndjson");
    let part = |text: &str, finish: Option<&str>| {
        let content = json!({ "parts": [{ "text": text }] });
        let candidate = json!({ "content": content, "finishReason": finish });
        Step::text(format!("data: {}\r\n\r\n", json!({ "candidates": [candidate] })))
    };
    let parts = vec![part("alpha ", None), part("beta", None), part("", Some("STOP"))];
    vec![
        answer(Dialect::GeminiGenerateContent, parts, 3, 4),
        answer(Dialect::OpenAiChat, vec![role(), text("alpha "), text("beta"), finish("stop"), done()], 4, 2),
        answer(Dialect::AnthropicMessages, message, 5, 2),
        answer(Dialect::OpenAiResponses, response, 5, 2),
        ollama,
    ]
}

impl Answer {
    fn cut(&self, at: usize, end: End) -> Script {
        let bytes = Bytes::from(self.script.body_bytes()).slice(..at);
        Script { body: vec![Step::raw(bytes)], end, ..self.script.clone() }
    }

    /// Where the frames of the answer end.
    fn borders(&self) -> Vec<usize> {
        let lengths = self.script.body.iter().map(|step| step.bytes().len());
        let ends = lengths.scan(0, |sum, length| {
            *sum += length;
            Some(*sum)
        });
        [0].into_iter().chain(ends).collect()
    }
}

fn count(outcome: &Outcome, word: &str) -> usize {
    outcome.body().matches(word).count()
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_cut_at_any_byte_is_whole_or_told_as_cut_or_replaced() {
    for answer in answers() {
        let whole = Bytes::from(answer.script.body_bytes());
        let other = Bytes::from(String::from_utf8_lossy(&whole).replace("alpha ", "ALPHA ").replace("beta", "BETA"));
        let borders = answer.borders();
        for end in [End::Fin, End::Truncate] {
            for at in 0..=whole.len() {
                let second = Script { body: vec![Step::raw(other.clone())], ..answer.script.clone() };
                let provider = Provider::new([answer.cut(at, end), second]);
                let outcome = Stack::new(answer.dialect, &provider).ask(&provider).await;
                let told = format!("{} {end:?} at {at}: {}", answer.dialect, outcome.body());
                assert_eq!(outcome.status(), Some(200), "{told}");
                if provider.attempts() == 2 {
                    assert_eq!(outcome.bytes(), other, "{told}");
                    continue;
                }
                assert_eq!((count(&outcome, "ALPHA"), count(&outcome, "BETA")), (0, 0), "{told}");
                let (shown, error) = apart(answer.dialect, outcome.bytes());
                // Line ends may have been added, to set an error apart.
                let sent = shown.trim_ascii_end();
                assert!(whole.starts_with(sent) && sent.len() <= at, "{told}");
                let ends_with_an_event =
                    borders.iter().any(|border| whole[..*border].trim_ascii_end().len() == sent.len());
                assert!(ends_with_an_event, "half an event was passed on: {told}");
                let last = borders.iter().rev().find(|border| **border <= at).expect("the first is 0");
                assert!(shown.len() >= *last, "an event that came whole was not passed on: {told}");
                if error.is_empty() {
                    let counts = if end == End::Fin { at >= answer.whole_from } else { borders_reached(&answer, at) };
                    assert!(counts, "passed off as whole: {told}");
                } else {
                    assert!(error_frame(answer.dialect, &error), "{told}");
                    assert!(at < answer.whole_from || end == End::Truncate, "whole, and told as cut: {told}");
                    // The error begins a frame of its own, or no client can read it.
                    let stands_alone = shown.is_empty() || ends_a_frame(answer.dialect, &shown);
                    assert!(stands_alone, "the error is glued to what was cut: {told}");
                }
            }
        }
    }
}

/// Whether the event that makes the answer whole has come with its end.
fn borders_reached(answer: &Answer, at: usize) -> bool {
    let finish = answer.borders().into_iter().find(|border| *border >= answer.whole_from);
    let line_feed = usize::from(answer.dialect == Dialect::GeminiGenerateContent);
    finish.is_some_and(|border| at + line_feed >= border)
}

/// What was passed on, and the error behind it, with the line ends that set it apart.
fn apart(dialect: Dialect, bytes: Bytes) -> (Bytes, Bytes) {
    let mark = opening(dialect).as_bytes();
    let Some(at) = bytes.windows(mark.len()).position(|part| part == mark) else { return (bytes, Bytes::new()) };
    let shown = bytes.slice(..at);
    (shown, bytes.slice(at..))
}

/// How the frame of an error begins.
fn opening(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::AnthropicMessages | Dialect::OpenAiResponses => "event: error\ndata: {",
        Dialect::Ollama => "{\"error\":",
        _ => "data: {\"error\":{",
    }
}

fn ends_a_frame(dialect: Dialect, bytes: &[u8]) -> bool {
    match dialect {
        Dialect::Ollama => bytes.ends_with(b"\n"),
        // A line feed after the last of these belongs to it, but need not come.
        _ => [&b"\n\n"[..], b"\r\n\r\n", b"\r\n\r"].iter().any(|end| bytes.ends_with(end)),
    }
}

/// Whether this is one frame with an error in it, and nothing else.
fn error_frame(dialect: Dialect, frame: &[u8]) -> bool {
    let text = String::from_utf8_lossy(frame);
    let data = text.strip_prefix("event: error\n").unwrap_or(&text);
    let json = data.strip_prefix("data: ").unwrap_or(data);
    ends_a_frame(dialect, frame) && serde_json::from_str::<serde_json::Value>(json).is_ok()
}

#[tokio::test(start_paused = true)]
async fn each_end_after_output_has_its_own_name_and_is_told_once() {
    for answer in answers() {
        let shown = answer.borders()[answer.borders().len() - 2].min(answer.whole_from - 1);
        let shown = *answer.borders().iter().rev().find(|border| **border <= shown).expect("the first is 0");
        for (end, kind, noted) in [
            (End::Fin, FailureKind::Truncated, Ending::Truncated),
            (End::Truncate, FailureKind::Transport, Ending::Failed),
            (End::Hang, FailureKind::IdleTimeout, Ending::Cancelled),
        ] {
            let provider = Provider::new([answer.cut(shown, end), answer.script.clone()]);
            let outcome = Stack::new(answer.dialect, &provider).ask_inner(&provider).await;
            let failure = outcome.failure.as_ref().expect("a failure");
            assert_eq!((failure.kind(), failure.phase()), (kind, Phase::AfterOutput));
            assert_eq!((failure.attempts(), provider.attempts()), (1, 1));
            assert_eq!(outcome.bytes(), Bytes::from(answer.script.body_bytes()).slice(..shown));
            assert_eq!(outcome.record().and_then(stanchion::core::StreamRecord::ending), Some(noted));
            let told = format!("P.failed#1({})", kind.code());
            assert_eq!(
                outcome.events.iter().filter(|event| event.starts_with("P.failed")).collect::<Vec<_>>(),
                [&told]
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_before_its_first_word_is_made_again_unseen() {
    for answer in answers() {
        let preamble =
            answer.script.body.iter().take_while(|step| !step.bytes().windows(5).any(|part| part == b"alpha"));
        let preamble: Vec<Step> = preamble.cloned().collect();
        for end in [End::Fin, End::Close, End::Truncate, End::Reset] {
            let lost = Script { body: preamble.clone(), end, ..answer.script.clone() };
            let provider = Provider::new([lost, answer.script.clone()]);
            let outcome = Stack::new(answer.dialect, &provider).ask_inner(&provider).await;
            assert_eq!((outcome.kind(), provider.attempts()), (None, 2), "{} {end:?}", answer.dialect);
            assert_eq!(outcome.bytes(), answer.script.body_bytes());
            assert_eq!(outcome.record().and_then(stanchion::core::StreamRecord::ending), Some(Ending::Complete));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_shows_something_ends_the_replays_and_what_shows_nothing_does_not() {
    let chunk =
        |delta: serde_json::Value| Step::sse(json!({ "choices": [{ "index": 0, "delta": delta }] }).to_string());
    let shows = [
        text("a"),
        tool(""),
        tool("{"),
        chunk(json!({ "reasoning_content": "hm" })),
        chunk(json!({ "reasoning": "hm" })),
        chunk(json!({ "refusal": "no" })),
        chunk(json!({ "audio": { "data": "AAAA" } })),
        Step::sse(r#"{"something":"that nobody knows"}"#),
    ];
    let silent = [
        role(),
        chunk(json!({})),
        chunk(json!({ "content": null })),
        chunk(json!({ "tool_calls": [] })),
        Step::sse(r#"{"choices":[]}"#),
        Step::sse(r#"{"choices":[],"usage":{"prompt_tokens":1}}"#),
        Step::text(": keep-alive\n\n"),
        Step::text("retry: 10\nid: 3\n\n"),
        Step::text("event: x\ndata:\n\n"),
    ];
    let cases = shows.into_iter().map(|step| (step, 1)).chain(silent.into_iter().map(|step| (step, 2)));
    for (step, attempts) in cases {
        let provider = Provider::new([ending(End::Truncate, [step.clone()]), ok()]);
        let outcome = Stack::chat(&provider).ask_inner(&provider).await;
        assert_eq!(provider.attempts(), attempts, "{step:?}");
        let expected = if attempts == 1 { step.bytes() } else { ok().body_bytes().into() };
        assert_eq!(outcome.bytes(), expected, "{step:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_document_that_breaks_off_is_made_again() {
    let document = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}"#;
    let whole = || stanchion_tests::replies::json(200, document);
    for end in [End::Truncate, End::Reset, End::Fin] {
        for at in 0..document.len() {
            let half = Script { body: vec![Step::text(&document[..at])], end, ..whole() };
            let provider = Provider::new([half, whole()]);
            let outcome = Stack::chat(&provider).whole().ask(&provider).await;
            assert_eq!((outcome.status(), outcome.body().as_str()), (Some(200), document), "{end:?} at {at}");
            assert_eq!(provider.attempts(), 2, "{end:?} at {at}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_array_that_is_cut_at_any_byte_stays_an_array() {
    let part = |text: &str, finish: Option<&str>| {
        json!({ "candidates": [{ "content": { "parts": [{ "text": text }] }, "finishReason": finish }] }).to_string()
    };
    let parts = [part("alpha ", None), part("beta [}\\\"", None), part("", Some("STOP"))];
    let whole = Bytes::from(format!("[{}]", parts.join("\r\n,\r\n")));
    let other = Bytes::from(String::from_utf8_lossy(&whole).replace("alpha", "ALPHA"));
    let array = |bytes: Bytes| stream([Step::raw(bytes)]).with("content-type", "application/json");
    for end in [End::Fin, End::Truncate] {
        for at in 0..=whole.len() {
            let cut = Script { end, ..array(whole.slice(..at)) };
            let provider = Provider::new([cut, array(other.clone())]);
            let outcome = Stack::new(Dialect::GeminiGenerateContent, &provider).array().ask(&provider).await;
            let told = format!("{end:?} at {at}: {}", outcome.body());
            if provider.attempts() == 2 {
                assert_eq!(outcome.bytes(), other, "{told}");
                continue;
            }
            assert!(!outcome.body().contains("ALPHA"), "{told}");
            if outcome.body().contains("STOP") && !outcome.body().contains("error") {
                // The finish has come: what is missing is a bracket at most.
                assert!(whole.starts_with(&outcome.bytes()), "{told}");
                continue;
            }
            let parsed: serde_json::Value =
                serde_json::from_slice(&outcome.bytes()).unwrap_or_else(|_| panic!("{told}"));
            let last = parsed.as_array().and_then(|items| items.last()).expect("an array");
            assert!(last.get("error").is_some() && outcome.body().contains("alpha"), "{told}");
        }
    }
}
