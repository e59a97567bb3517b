//! An event that need not be read is one that reading would find to be the same.

use bytes::Bytes;
use proptest::{prelude::*, sample::Index};

use super::{
    super::{Known, StreamReader},
    *,
};
use crate::frame::{FrameDecoder, Framing};

/// All that was seen of a stream: each frame with what it means, what was released, and what was kept of strange lines.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    frames: Vec<(Vec<u8>, String)>,
    released: Vec<u8>,
    stray: Vec<u8>,
    state: String,
}

/// Reads a stream, with every frame read or without those that are known. Says how many of them were.
fn read(dialect: Dialect, stream: &[u8], cuts: &[usize], all: bool) -> (Seen, usize) {
    let (mut reader, mut seen, mut known) = (StreamReader::new(dialect), Seen::default(), 0);
    let mut decoder = FrameDecoder::new(Framing::Sse, FrameDecoder::DEFAULT_MAX_EVENT);
    let mut from = 0;
    for to in cuts.iter().copied().chain([stream.len()]) {
        decoder.push(Bytes::copy_from_slice(&stream[from..to]));
        from = to;
        loop {
            let ahead = decoder.ahead();
            if let Some(Known { length, text_bytes }) = reader.known(ahead).filter(|_| !all) {
                let told = Reading { text_bytes, ..Reading::of(FrameClass::Output) };
                seen.frames.push((ahead[..length].to_vec(), format!("{told:?}")));
                decoder.pass(length);
                known += 1;
                continue;
            }
            let Some(frame) = decoder.next_frame().unwrap() else { break };
            let told = reader.read(&frame);
            seen.frames.push((frame.raw.to_vec(), format!("{told:?}")));
        }
        while let Some(piece) = decoder.release() {
            seen.released.extend_from_slice(&piece);
        }
    }
    seen.stray = decoder.stray().to_vec();
    seen.state = format!("{:?}", reader.state);
    (seen, known)
}

const CHAT: &str =
    "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"@\"},\"finish_reason\":null}]}\n\n";
const CLAUDE: &str = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"@\"}}\n\n";

/// One with more around its text than is remembered.
fn large() -> String {
    CHAT.replace("]}", &format!("],\"logprobs\":\"{}\"}}", "l".repeat(2_100)))
}

/// How an event is written around its text.
fn event() -> impl Strategy<Value = String> {
    let chat = |from: &str, to: &str| CHAT.replace(from, to);
    prop::sample::select(vec![
        CHAT.to_owned(),
        CHAT.to_owned(),
        CLAUDE.to_owned(),
        CLAUDE.to_owned(),
        chat("data: ", "data:"),
        chat("data: ", "data:  "),
        chat("data: ", "event: message\ndata: "),
        chat("data: ", "event: error\ndata: "),
        chat("data: ", ": comment\ndata: "),
        chat("data: ", "stray\ndata: "),
        chat("\n\n", "\r\n\r\n"),
        chat("\n\n", "\nid: 7\n\n"),
        chat("null", "\"stop\""),
        chat("\"index\":0", "\"index\":1"),
        chat("]}", "],\"obfuscation\":\"@\"}"),
        chat("\"content\":\"@\"", "\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"@\"}}]"),
        chat("\"content\":\"@\"", "\"content\":\"\""),
        large(),
        CLAUDE.replace("event: content_block_delta\n", ""),
        CLAUDE.replace("\"index\":0", "\"index\":1"),
        CLAUDE.replace("\"text_delta\",\"text\"", "\"input_json_delta\",\"partial_json\""),
        CLAUDE.replace("event: content_block_delta", "event: ping"),
        "data: [DONE]\n\n".to_owned(),
        ": ping\n\n".to_owned(),
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":3}}\n\n".to_owned(),
    ])
}

fn written_text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z世😀 ]{0,40}",
        1 => prop::sample::select(vec![
            "", "\\\"", "\\n", "a\\\\", "\\", "\"", "a\nb", "a\n\nb", "a\rb", "\u{1}", "\"},\"finish_reason\":\"stop\"", "a\ndata: b",
            "twenty-six letters and more\\\" of it", "twenty-six letters and more\nof it",
        ]).prop_map(str::to_owned),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn what_is_known_is_what_reading_finds(
        dialect in prop::sample::select(vec![Dialect::OpenAiChat, Dialect::AnthropicMessages, Dialect::OpenAiResponses]),
        events in prop::collection::vec((event(), prop::collection::vec((written_text(), written_text()), 1..5)), 1..6),
        cuts in prop::collection::vec(any::<Index>(), 0..6),
    ) {
        let mut stream = String::new();
        for (event, texts) in events {
            for (text, padding) in texts {
                stream += &event.replacen('@', &text, 1).replace('@', &padding);
            }
        }
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.sort_unstable();
        let (long, _) = read(dialect, stream.as_bytes(), &cuts, true);
        let (short, _) = read(dialect, stream.as_bytes(), &cuts, false);
        prop_assert_eq!(short, long);
    }
}

#[test]
fn what_is_too_large_to_be_remembered_leaves_nothing_behind() {
    let (small, large) = (CHAT.replace('@', "a"), large().replace('@', "b"));
    for stream in [
        [&*small, &*small, &*large, &*small, &*large, &*large, "data: [DONE]\n\n"].concat(),
        [&*small, &*large, "data: {\"},\"finish_reason\":null}]}\n\n", &*small].concat(),
    ] {
        let [short, long] = [false, true].map(|all| read(Dialect::OpenAiChat, stream.as_bytes(), &[], all).0);
        assert_eq!(short, long);
    }
}

#[test]
fn all_but_the_first_of_a_run_are_known() {
    for (dialect, event) in [
        (Dialect::OpenAiChat, CHAT.to_owned()),
        (Dialect::OpenAiChat, CHAT.replace("data: ", "data:")),
        (Dialect::OpenAiChat, CHAT.replace("]}", "],\"obfuscation\":\"abc\"}")),
        (Dialect::AnthropicMessages, CLAUDE.to_owned()),
    ] {
        let texts = ["Hi", " there", "\\n", " a longer text, with \\\"quotes\\\" in it, beyond a word's length"];
        let run = |event: &str| texts.map(|text| event.replace('@', text)).concat();
        // The very first frame of a stream may begin with a byte order mark.
        let stream = ": begin\n\n".to_owned() + &run(&event) + &run(&event.replace("\"index\":0", "\"index\":1"));
        let (_, known) = read(dialect, stream.as_bytes(), &[], false);
        assert_eq!(known, 2 * (texts.len() - 1), "{event}");
    }
}
