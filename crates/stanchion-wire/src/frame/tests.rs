use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    event: Option<Vec<u8>>,
    data: Option<Vec<u8>>,
    comment: bool,
}

impl Seen {
    fn of(frame: &Frame<'_>) -> Self {
        Self {
            event: frame.event.map(<[u8]>::to_vec),
            data: frame.data.as_deref().map(<[u8]>::to_vec),
            comment: frame.comment,
        }
    }

    fn data(text: &str) -> Self {
        Self { event: None, data: Some(text.into()), comment: false }
    }
}

/// Feeds the chunks; returns the frames (the unterminated one last, apart) and the released bytes.
fn decode(framing: Framing, chunks: &[&[u8]]) -> (Vec<Seen>, Option<Seen>, Vec<u8>) {
    let mut decoder = FrameDecoder::new(framing, FrameDecoder::DEFAULT_MAX_EVENT);
    let (mut frames, mut out) = (Vec::new(), Vec::new());
    for chunk in chunks {
        decoder.push(Bytes::copy_from_slice(chunk));
        while let Some(frame) = decoder.next_frame().unwrap() {
            frames.push(Seen::of(&frame));
        }
        while let Some(piece) = decoder.release() {
            out.extend_from_slice(&piece);
        }
    }
    let tail = decoder.finish().map(|frame| Seen::of(&frame));
    while let Some(piece) = decoder.release() {
        out.extend_from_slice(&piece);
    }
    (frames, tail, out)
}

fn with_data(frames: Vec<Seen>) -> Vec<Seen> {
    frames.into_iter().filter(|frame| frame.data.is_some()).collect()
}

#[test]
fn every_line_end_divides_events() {
    for end in ["\n", "\r\n", "\r"] {
        let text = format!("event: a{end}data: 1{end}{end}data: 2{end}{end}");
        let (frames, tail, out) = decode(Framing::Sse, &[text.as_bytes()]);
        assert_eq!(
            frames,
            [Seen { event: Some(b"a".into()), data: Some(b"1".into()), comment: false }, Seen::data("2")],
            "{end:?}"
        );
        assert_eq!(tail, None);
        assert_eq!(out, text.as_bytes());
    }
}

#[test]
fn a_carriage_return_at_the_end_of_a_chunk_ends_the_event_at_once() {
    let mut decoder = FrameDecoder::new(Framing::Sse, 1024);
    decoder.push(Bytes::from_static(b"data: 1\r\n\r"));
    assert!(decoder.next_frame().unwrap().is_some());
    assert!(decoder.next_frame().unwrap().is_none());
    assert_eq!(decoder.release().unwrap(), "data: 1\r\n\r");
    decoder.push(Bytes::from_static(b"\n"));
    assert!(decoder.next_frame().unwrap().is_none());
    assert_eq!(decoder.release().unwrap(), "\n", "the LF that completes a line end is not held back");
    decoder.push(Bytes::from_static(b"data: 2\r\n\r\n"));
    assert_eq!(decoder.next_frame().unwrap().unwrap().data.as_deref(), Some(&b"2"[..]));
}

#[test]
fn fields_are_read_as_the_standard_says() {
    for (text, expected) in [
        ("data: a\n\n", Seen::data("a")),
        ("data:a\n\n", Seen::data("a")),
        ("data:  a\n\n", Seen::data(" a")),
        ("data: a\ndata: b\n\n", Seen::data("a\nb")),
        ("data: {\"a\":\ndata:  1\ndata: }\n\n", Seen::data("{\"a\":\n 1\n}")),
        ("data\ndata: x\n\n", Seen::data("\nx")),
        ("id: 7\nretry: 3000\n\n", Seen { event: None, data: None, comment: false }),
        ("data:\n\n", Seen { event: None, data: None, comment: false }),
        (": keep-alive\n\n", Seen { event: None, data: None, comment: true }),
        (":\n\n", Seen { event: None, data: None, comment: true }),
        (
            "event:result\n:HTTP_STATUS/200\ndata:x\n\n",
            Seen { event: Some(b"result".into()), data: Some(b"x".into()), comment: true },
        ),
        ("unknown: x\nnocolon\ndata: y\n\n", Seen::data("y")),
        ("\u{feff}data: first\n\n", Seen::data("first")),
    ] {
        let (frames, tail, out) = decode(Framing::Sse, &[text.as_bytes()]);
        assert_eq!(frames, [expected], "{text:?}");
        assert_eq!((tail, out.as_slice()), (None, text.as_bytes()), "{text:?}");
    }
}

#[test]
fn only_one_byte_order_mark_is_taken_and_only_at_the_start() {
    let (frames, ..) = decode(Framing::Sse, &[b"\xef", b"\xbb\xbfdata: 1\n\n", "data: \u{feff}2\n\n".as_bytes()]);
    assert_eq!(frames, [Seen::data("1"), Seen::data("\u{feff}2")]);
    let (frames, ..) = decode(Framing::Sse, &["\u{feff}\u{feff}data: 1\n\n".as_bytes()]);
    assert_eq!(with_data(frames), []);
}

#[test]
fn lines_that_are_no_fields_are_kept_within_a_bound() {
    let mut decoder = FrameDecoder::new(Framing::Sse, FrameDecoder::DEFAULT_MAX_EVENT);
    decoder.push(Bytes::from_static(b"{\"error\":{\"code\":\"x\"}}\n\n"));
    while decoder.next_frame().unwrap().is_some() {}
    assert_eq!(decoder.stray(), b"{\"error\":{\"code\":\"x\"}}\n");
    for _ in 0..100 {
        decoder.push(Bytes::from(format!("{}\n\n", "x".repeat(4096))));
        while decoder.next_frame().unwrap().is_some() {}
    }
    assert!(decoder.stray().len() <= FrameDecoder::MAX_STRAY);
}

#[test]
fn an_unterminated_event_is_handed_out_at_the_end() {
    let (frames, tail, out) = decode(Framing::Sse, &[b"data: 1\n\ndata: {\"a\"", b":1}"]);
    assert_eq!(frames, [Seen::data("1")]);
    assert_eq!(tail, Some(Seen::data("{\"a\":1}")));
    assert_eq!(out, b"data: 1\n\ndata: {\"a\":1}");
}

#[test]
fn lines_of_ndjson_are_split_on_line_feeds_alone() {
    let (frames, tail, out) = decode(Framing::Ndjson, &[b"{\"a\":\"\r\"}\r\n\n{\"b\"", b":2}\n{\"c\":3}"]);
    assert_eq!(with_data(frames), [Seen::data("{\"a\":\"\r\"}"), Seen::data("{\"b\":2}")]);
    assert_eq!(tail, Some(Seen::data("{\"c\":3}")));
    assert_eq!(out, b"{\"a\":\"\r\"}\r\n\n{\"b\":2}\n{\"c\":3}");
}

#[test]
fn array_elements_are_found_by_depth() {
    let text = b"[{\"a\":[{\"t\":\"}]\\\"{\"}]}\r\n,\r\n{\"b\":{}}\r\n]\r\n";
    let (frames, tail, out) = decode(Framing::JsonArray, &[text]);
    assert_eq!(with_data(frames), [Seen::data("{\"a\":[{\"t\":\"}]\\\"{\"}]}"), Seen::data("{\"b\":{}}")]);
    assert_eq!(tail.and_then(|frame| frame.data), None);
    assert_eq!(out, text);
}

#[test]
fn a_giant_event_fails_with_the_ceiling_and_a_large_one_passes() {
    let mut decoder = FrameDecoder::new(Framing::Sse, 1000);
    decoder.push(Bytes::from(format!("data: {}\n\n", "x".repeat(900))));
    assert!(decoder.next_frame().unwrap().is_some());
    let mut decoder = FrameDecoder::new(Framing::Sse, 1000);
    for _ in 0..9 {
        decoder.push(Bytes::from("x".repeat(100)));
        assert!(decoder.next_frame().unwrap().is_none());
    }
    decoder.push(Bytes::from("x".repeat(200)));
    assert_eq!(decoder.next_frame(), Err(EventTooLarge { limit: 1000 }));
    let mut decoder = FrameDecoder::new(Framing::Sse, 1000);
    decoder.push(Bytes::from(format!("data: {}\n\n", "x".repeat(1000))));
    assert_eq!(decoder.next_frame(), Err(EventTooLarge { limit: 1000 }));
}

#[test]
fn a_whole_chunk_is_released_without_a_copy() {
    let chunk = Bytes::from_static(b"data: 1\n\ndata: 2\n\n");
    let mut decoder = FrameDecoder::new(Framing::Sse, 1000);
    decoder.push(chunk.clone());
    while decoder.next_frame().unwrap().is_some() {}
    let released = decoder.release().unwrap();
    assert_eq!(released.as_ptr(), chunk.as_ptr());
    assert_eq!(released, chunk);
}

#[test]
fn what_is_cut_short_is_told_by_its_brackets() {
    for (data, cut) in [
        ("{\"a\":1}", false),
        ("{\"a\":1", true),
        (" [1] ", false),
        ("[1", true),
        ("[DONE]", false),
        ("", false),
        ("text {", false),
        ("{", true),
    ] {
        assert_eq!(is_cut_short(data.as_bytes()), cut, "{data:?}");
    }
}

/// Pieces that streams are made of, whole and broken.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let sse = prop::sample::select(vec![
        "data: {\"a\":\"b\"}",
        "data:x",
        "data",
        "data:",
        "data: ",
        "data:  y",
        "datax: z",
        "event:",
        ": comment",
        ":",
        "event: ping",
        "id: 1",
        "retry: 5",
        "\u{feff}",
        "世😀",
        "{\"error\":1}",
        "[",
        ",",
        "]",
        "{\"x\":[\"}\\\\\",{}]}",
        "\"",
        "\\",
    ]);
    let ends = prop::sample::select(vec!["", "\n", "\r", "\r\n", "\n\n", "\r\r", "\r\n\r\n"]);
    prop::collection::vec((sse, ends), 0..20)
        .prop_map(|parts| parts.into_iter().flat_map(|(text, end)| [text, end]).collect::<String>().into_bytes())
}

fn cut<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

proptest! {
    #[test]
    fn chunking_changes_neither_frames_nor_bytes(
        bytes in pieces(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        framing in prop::sample::select(vec![Framing::Sse, Framing::Ndjson, Framing::JsonArray]),
    ) {
        let (whole, whole_tail, _) = decode(framing, &[&bytes]);
        let (frames, tail, out) = decode(framing, &cut(&bytes, &cuts));
        prop_assert_eq!(&out, &bytes);
        // A CR|LF pair that is cut apart may leave an empty frame's worth of line end: only data and comments count.
        prop_assert_eq!(with_data(frames), with_data(whole));
        prop_assert_eq!(tail.and_then(|frame| frame.data), whole_tail.and_then(|frame| frame.data));
    }

    #[test]
    fn a_plain_frame_is_what_it_is_by_the_long_way(bytes in pieces()) {
        if let Some(plain) = sse::plain(&bytes, 0) {
            let end = SseScanner::default().find_end(&bytes, 0);
            prop_assert_eq!(end, Some(plain.end));
            let mut stray = Vec::new();
            let frame = sse::parse(&bytes[..plain.end], &bytes[..plain.end], &mut stray);
            let data = plain.data.filter(|data| !data.is_empty());
            prop_assert_eq!(plain.event.map(|event| &bytes[event]), frame.event);
            prop_assert_eq!(data.map(|data| &bytes[data]), frame.data.as_deref());
            prop_assert_eq!(plain.comment, frame.comment);
            prop_assert!(stray.is_empty());
        }
    }

    #[test]
    fn dropped_frames_leave_all_others(
        bytes in pieces(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        dropped in prop::collection::vec(any::<bool>(), 40),
    ) {
        let mut decoder = FrameDecoder::new(Framing::Sse, FrameDecoder::DEFAULT_MAX_EVENT);
        let (mut kept, mut out, mut number) = (Vec::new(), Vec::new(), 0);
        for chunk in cut(&bytes, &cuts) {
            decoder.push(Bytes::copy_from_slice(chunk));
            while let Some(frame) = decoder.next_frame().unwrap() {
                let raw = frame.raw.to_vec();
                number += 1;
                if dropped[number % dropped.len()] {
                    prop_assert_eq!(decoder.drop_last(), raw.len());
                } else {
                    kept.extend_from_slice(&raw);
                }
            }
            while let Some(piece) = decoder.release() {
                out.extend_from_slice(&piece);
            }
        }
        if let Some(frame) = decoder.finish() {
            kept.extend_from_slice(frame.raw);
        }
        while let Some(piece) = decoder.release() {
            out.extend_from_slice(&piece);
        }
        // The LF of a CR|LF pair cut apart is released by itself, whatever became of its frame.
        let strip = |bytes: &[u8]| bytes.iter().copied().filter(|byte| *byte != b'\n').collect::<Vec<_>>();
        prop_assert_eq!(strip(&out), strip(&kept));
    }
}
