use std::io::Write as _;

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;
use serde_json::json;
use stanchion::core::{Dialect, Ending, FailureKind, StreamRecord};
use stanchion_faults::scenario::{End, Script, Step};
use stanchion_tests::{
    provider::Provider,
    replies::{WithHeader, anthropic, done, ending, finish, ok, responses, role, secs, stream, text},
    stack::{Outcome, Stack},
};

/// What the layers made of a stream.
#[derive(Debug, PartialEq)]
struct Seen {
    bytes: Bytes,
    kind: Option<FailureKind>,
    attempts: usize,
    frames: Option<u64>,
    usage: (Option<u64>, Option<u64>),
    ending: Option<Ending>,
}

async fn see(dialect: Dialect, script: Script) -> (Seen, Outcome) {
    let provider = Provider::new([script]);
    let outcome = Stack::new(dialect, &provider).max_retries(0).ask_inner(&provider).await;
    let usage = outcome.usage();
    let seen = Seen {
        bytes: outcome.bytes(),
        kind: outcome.kind(),
        attempts: provider.attempts(),
        frames: outcome.record().map(StreamRecord::frames),
        usage: (usage.input, usage.output),
        ending: outcome.record().and_then(StreamRecord::ending),
    };
    (seen, outcome)
}

fn raw(pieces: impl IntoIterator<Item = Bytes>) -> Script {
    stream(pieces.into_iter().filter(|piece| !piece.is_empty()).map(Step::raw))
}

/// A chat stream with everything that may stand in one, and these line ends: six events, four of them with data.
fn rich(line_end: &str, mark: bool) -> Bytes {
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3}}"#;
    let lines = [
        ": welcome",
        "",
        "retry: 3000",
        "id: 1",
        "",
        r#"data:{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#,
        "",
        "event: result",
        ":HTTP_STATUS/200",
        r#"data: {"choices":[{"index":0,"delta":{"content":"世😀 \"x\" \u{feff}"}}]"#,
        "data: }",
        "",
        r#"data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
        "",
        &format!("data: {usage}"),
        "",
        "data: [DONE]",
        "",
        "",
    ];
    let mark = if mark { "\u{feff}" } else { "" };
    Bytes::from(format!("{mark}{}", lines.join(line_end)))
}

const LINE_ENDS: [&str; 3] = ["\n", "\r\n", "\r"];

fn expected(bytes: Bytes) -> Seen {
    Seen { bytes, kind: None, attempts: 1, frames: Some(7), usage: (Some(9), Some(3)), ending: Some(Ending::Complete) }
}

#[tokio::test(start_paused = true)]
async fn a_stream_in_two_pieces_is_the_same_wherever_it_is_cut() {
    for line_end in LINE_ENDS {
        for mark in [false, true] {
            let whole = rich(line_end, mark);
            for at in 0..=whole.len() {
                let (seen, _) = see(Dialect::OpenAiChat, raw([whole.slice(..at), whole.slice(at..)])).await;
                assert_eq!(seen, expected(whole.clone()), "{line_end:?}, mark {mark}, cut at {at}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_comes_byte_by_byte_is_the_same() {
    for line_end in LINE_ENDS {
        let whole = rich(line_end, true);
        let (seen, _) = see(Dialect::OpenAiChat, stream([Step::raw(whole.clone()).split(1)])).await;
        assert_eq!(seen, expected(whole), "{line_end:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_stream_is_the_same_however_it_is_packed(
        line_end in 0_usize..3,
        mark: bool,
        cuts in prop::collection::vec(0_usize..800, 0..40),
    ) {
        let whole = rich(LINE_ENDS[line_end], mark);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(whole.len())).chain([0, whole.len()]).collect();
        cuts.sort_unstable();
        let pieces: Vec<Bytes> = cuts.windows(2).map(|pair| whole.slice(pair[0]..pair[1])).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let (seen, _) = runtime.block_on(see(Dialect::OpenAiChat, raw(pieces)));
        prop_assert_eq!(seen, expected(whole));
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_is_not_held_back_for_the_other_half_of_its_line_end() {
    for line_end in ["\r", "\r\n"] {
        let frame = |step: Step| String::from_utf8(step.bytes().to_vec()).expect("text").replace('\n', line_end);
        let late = |text: String| Step::text(text).after(secs(60));
        // Each event comes with the line feed of the one before, where there is one.
        let begun = |text: &str| text.strip_suffix('\n').unwrap_or(text).to_owned();
        let rest = |text: &str| if text.ends_with('\n') { "\n" } else { "" };
        let frames: Vec<String> = [text("a"), text("b"), finish("stop"), done()].map(frame).into();
        let mut steps = vec![Step::text(begun(&frames[0]))];
        for pair in frames.windows(2) {
            steps.push(late(format!("{}{}", rest(&pair[0]), begun(&pair[1]))));
        }
        steps.push(Step::text(format!("{}: ", rest(&frames[3]))));
        let (_, outcome) = see(Dialect::OpenAiChat, stream(steps)).await;
        let times: Vec<u64> = outcome.pieces.iter().map(|(at, _)| at.as_secs()).collect();
        assert_eq!((times[0], times.contains(&60), times.contains(&120)), (0, true, true), "{line_end:?} {times:?}");
        let first = &outcome.pieces[0].1;
        assert_eq!(first.as_ref(), begun(&frames[0]).as_bytes(), "{line_end:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_mark_at_the_start_is_skipped_and_the_first_event_is_read() {
    let mark = Step::raw(&b"\xef\xbb\xbf"[..]);
    let [stop, end] = anthropic::end();
    let block = anthropic::block(0, &json!({ "type": "text", "text": "" }));
    let script = stream([mark, anthropic::start(), block, anthropic::text(0, "ok"), stop, end]);
    let bytes = Bytes::from(script.body_bytes());
    let (seen, _) = see(Dialect::AnthropicMessages, script).await;
    // The input stands in the very first event.
    assert_eq!((seen.usage, seen.bytes, seen.kind), ((Some(10), Some(2)), bytes, None));
}

#[tokio::test(start_paused = true)]
async fn events_that_hold_no_data_are_no_events() {
    let control =
        [Step::text(":\n\n"), Step::text("retry:3000\n\n"), Step::text("id: 7\n\n"), Step::text("event: x\n\n")];
    let provider = Provider::new([stream(control.clone()), ok()]);
    let outcome = Stack::chat(&provider).ask_inner(&provider).await;
    assert_eq!((outcome.kind(), provider.attempts()), (None, 2));
    let script = stream(control.into_iter().chain(ok().body));
    let bytes = Bytes::from(script.body_bytes());
    let (seen, _) = see(Dialect::OpenAiChat, script).await;
    assert_eq!((seen.bytes, seen.kind, seen.ending), (bytes, None, Some(Ending::Complete)));
}

#[tokio::test(start_paused = true)]
async fn a_character_is_the_same_wherever_it_is_cut() {
    let whole = stream([role(), text("世😀é"), finish("stop"), done()]).body_bytes();
    let whole = Bytes::from(whole);
    for at in 0..=whole.len() {
        for second in [at, (at + 1).min(whole.len()), (at + 3).min(whole.len())] {
            let pieces = [whole.slice(..at), whole.slice(at..second), whole.slice(second..)];
            let (seen, _) = see(Dialect::OpenAiChat, raw(pieces)).await;
            assert_eq!((seen.bytes, seen.kind), (whole.clone(), None), "cut at {at} and {second}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_that_are_no_text_pass_as_they_are() {
    let broken = Bytes::from_static(b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\xff\xfeb\"}}]}\n\n");
    let script = stream([role(), Step::raw(broken), finish("stop"), done()]);
    let bytes = Bytes::from(script.body_bytes());
    let (seen, _) = see(Dialect::OpenAiChat, script).await;
    assert_eq!((seen.bytes, seen.kind, seen.ending), (bytes, None, Some(Ending::Complete)));
}

#[tokio::test(start_paused = true)]
async fn an_event_of_four_megabytes_in_small_reads_passes_unchanged() {
    let [created, _] = responses::start();
    let kind = "response.image_generation_call.partial_image";
    let script = stream([
        created,
        Step::text(format!("event: {kind}\ndata: {{\"type\":\"{kind}\",\"partial_image_b64\":\"")),
        Step::text("A".repeat(4_000_000)).split(1024),
        Step::text("\"}\n\n"),
        responses::completed(),
    ]);
    let bytes = Bytes::from(script.body_bytes());
    let (seen, _) = see(Dialect::OpenAiResponses, script).await;
    assert!(seen.bytes == bytes, "{} bytes of {}", seen.bytes.len(), bytes.len());
    assert_eq!((seen.kind, seen.attempts, seen.ending), (None, 1, Some(Ending::Complete)));
    assert_eq!((seen.frames, seen.usage), (Some(3), (Some(1), Some(1))));
}

fn gzip(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory").into()
}

#[tokio::test(start_paused = true)]
async fn a_coded_stream_is_read_and_passed_on_decoded_wherever_it_is_cut() {
    let coded = gzip(&ok().body_bytes());
    for header in [Some("gzip"), Some("x-gzip"), Some("GZIP"), None] {
        for at in 0..=coded.len() {
            let script = raw([coded.slice(..at), coded.slice(at..)]);
            let script = header.into_iter().fold(script, |script, coding| script.with("content-encoding", coding));
            let provider = Provider::new([script]);
            let outcome = Stack::chat(&provider).ask(&provider).await;
            assert_eq!((outcome.status(), outcome.bytes()), (Some(200), ok().body_bytes().into()), "{header:?} {at}");
            assert_eq!((outcome.header("content-encoding"), outcome.header("content-length")), (None, None));
            assert_eq!(provider.seen()[0].headers["accept-encoding"], "identity");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_cut_within_its_coding_is_made_again_or_told_as_cut() {
    let coded = gzip(&ok().body_bytes());
    for end in [End::Fin, End::Truncate] {
        for at in 0..coded.len() {
            let half = Script { end, ..raw([coded.slice(..at)]) }.with("content-encoding", "gzip");
            let provider = Provider::new([half, ok()]);
            let outcome = Stack::chat(&provider).ask(&provider).await;
            let told = format!("{end:?} at {at}: {}", outcome.body());
            assert_eq!(outcome.status(), Some(200), "{told}");
            // A provider that hangs up rudely after the finish has still said everything.
            let whole = outcome.body().contains(r#""finish_reason":"stop""#);
            assert!(whole || outcome.body().contains(r#"data: {"error":{"#), "{told}");
            assert!(outcome.body().matches("\"ok\"").count() <= 1, "{told}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_coding_that_is_not_known_passes_untouched() {
    let opaque = Bytes::from_static(&[0x9d, 0x91, 0x00, 0x1f, 0x7b, 0x0a, 0x0a, 0x3c, 0xff]);
    let script = stream([Step::raw(opaque.clone())]).with("content-encoding", "x-novel");
    let provider = Provider::new([script, ok()]);
    let outcome = Stack::chat(&provider).ask(&provider).await;
    assert_eq!((outcome.status(), outcome.bytes()), (Some(200), opaque));
    assert_eq!(outcome.header("content-encoding"), Some("x-novel"));
    assert_eq!(provider.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn lines_of_documents_are_the_same_wherever_they_are_cut() {
    let line = |content: &str, done: bool| json!({ "message": { "content": content }, "done": done }).to_string();
    let last = r#"{"message":{"content":""},"done":true,"done_reason":"stop","prompt_eval_count":3,"eval_count":2}"#;
    // A blank line, a CRLF, and no line end at all at the end.
    let whole = Bytes::from(format!("{}\n\r\n{}\r\n{last}", line("he", false), line("y世", false)));
    for at in 0..=whole.len() {
        let script = raw([whole.slice(..at), whole.slice(at..)]).with("content-type", "application/x-ndjson");
        let (seen, _) = see(Dialect::Ollama, script).await;
        assert_eq!((seen.bytes, seen.kind, seen.usage), (whole.clone(), None, (Some(3), Some(2))), "cut at {at}");
    }
    let early =
        ending(End::Fin, [Step::text(format!("{}\n", line("", false)))]).with("content-type", "application/x-ndjson");
    let (seen, _) = see(Dialect::Ollama, early).await;
    assert_eq!(seen.kind, Some(FailureKind::Truncated));
}
