use std::{
    collections::VecDeque,
    convert::Infallible,
    io::Write,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use flate2::{
    Compression,
    write::{DeflateEncoder, GzEncoder, ZlibEncoder},
};
use http::{
    HeaderMap, HeaderValue,
    header::{CONTENT_ENCODING, CONTENT_LENGTH},
};
use http_body::{Body, Frame, SizeHint};
use proptest::{collection::vec, prelude::*};
use stanchion_core::{Failure, FailureKind};

use super::{Coding, Decoded};

/// A body that gives its frames one by one, and then ends.
struct Script {
    frames: VecDeque<Frame<Bytes>>,
    polls_after_end: usize,
}

impl Body for Script {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = self.frames.pop_front();
        if frame.is_none() {
            self.polls_after_end += 1;
            assert_eq!(self.polls_after_end, 1, "a body is not polled after its end");
        }
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.frames.iter().filter_map(Frame::data_ref).map(|data| data.len() as u64).sum())
    }
}

fn body(coding: Coding, chunks: impl IntoIterator<Item = impl Into<Bytes>>) -> Decoded<Script> {
    let frames = chunks.into_iter().map(|chunk| Frame::data(chunk.into())).collect();
    Decoded::new(Script { frames, polls_after_end: 0 }, coding)
}

fn next(body: &mut Decoded<Script>) -> Option<Result<Frame<Bytes>, Failure>> {
    match Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(frame) => frame,
        Poll::Pending => panic!("a script is always ready"),
    }
}

/// All data, and how the body ended. After its end, it must stay ended.
fn read(mut body: Decoded<Script>) -> (Vec<u8>, Option<FailureKind>) {
    let mut data = Vec::new();
    let ending = loop {
        match next(&mut body) {
            Some(Ok(frame)) => data.extend_from_slice(frame.data_ref().expect("data")),
            Some(Err(failure)) => break Some(failure.kind()),
            None => break None,
        }
    };
    assert!(next(&mut body).is_none());
    assert!(body.is_end_stream());
    assert_eq!(body.size_hint().exact(), Some(0));
    (data, ending)
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn zlib(data: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn bare(data: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn br(data: &[u8]) -> Vec<u8> {
    let mut coded = Vec::new();
    let params = brotli::enc::BrotliEncoderParams { quality: 4, ..Default::default() };
    brotli::BrotliCompress(&mut &*data, &mut coded, &params).unwrap();
    coded
}

fn zst(data: &[u8]) -> Vec<u8> {
    zstd::encode_all(data, 3).unwrap()
}

type Encode = fn(&[u8]) -> Vec<u8>;

const CODINGS: [(Coding, Encode); 6] = [
    (Coding::Gzip, gzip),
    (Coding::Untold, gzip),
    (Coding::Deflate, zlib),
    (Coding::Deflate, bare),
    (Coding::Brotli, br),
    (Coding::Zstd, zst),
];

#[test]
fn every_coding_is_decoded_whole() {
    let text: Vec<u8> =
        (0..3000_u32).flat_map(|n| format!("data: {}\n\n", n.wrapping_mul(2_654_435_761)).into_bytes()).collect();
    for (coding, encode) in CODINGS {
        let coded = encode(&text);
        for size in [1, 7, 4096, coded.len()] {
            let (data, ending) = read(body(coding, coded.chunks(size).map(Bytes::copy_from_slice)));
            assert_eq!(ending, None, "{coding:?} in chunks of {size}");
            assert!(data == text, "{coding:?} in chunks of {size}");
        }
    }
}

#[test]
fn every_cut_is_an_interruption() {
    let text = b"data: {\"choices\":[{\"delta\":{\"content\":\"ok\"}}]}\n\ndata: [DONE]\n\n";
    for (coding, encode) in CODINGS {
        let coded = encode(text);
        let first = if coding == Coding::Untold { 2 } else { 1 };
        for cut in first..coded.len() {
            let (data, ending) = read(body(coding, [coded[..cut].to_vec()]));
            assert_eq!(ending, Some(FailureKind::Transport), "{coding:?} cut at {cut} of {}", coded.len());
            assert!(text.starts_with(&data), "{coding:?} cut at {cut}");
        }
    }
}

#[test]
fn corruption_is_no_interruption() {
    let text = b"data: an event that is long enough to be worth the trouble of coding it at all\n\n".repeat(20);
    for (coding, encode) in CODINGS {
        let mut coded = encode(&text);
        let middle = coded.len() / 2;
        coded.truncate(middle);
        coded.extend([0xff; 64]);
        let (_, ending) = read(body(coding, [coded]));
        assert!(matches!(ending, Some(FailureKind::MalformedReply | FailureKind::Transport)), "{coding:?} {ending:?}");
        if coding != Coding::Untold {
            assert_eq!(
                read(body(coding, ["<html>not coded at all</html>"])).1,
                Some(FailureKind::MalformedReply),
                "{coding:?}"
            );
        }
    }
    let mut coded = gzip(&text);
    let checksum = coded.len() - 8;
    coded[checksum] ^= 1;
    assert_eq!(read(body(Coding::Gzip, [coded])), (text, Some(FailureKind::MalformedReply)));
}

/// An encoder that is flushed after each event must come out event by event.
#[test]
fn nothing_decodable_is_held_back() {
    fn flushed<W: Write>(mut encoder: W, taken: fn(&mut W) -> Vec<u8>, events: &[&[u8]]) -> Vec<Vec<u8>> {
        events
            .iter()
            .map(|event| {
                encoder.write_all(event).unwrap();
                encoder.flush().unwrap();
                taken(&mut encoder)
            })
            .collect()
    }
    let events: [&[u8]; 3] = [b"data: one\n\n", b": ping\n\n", b"data: two\n\n"];
    let coded: [(Coding, Vec<Vec<u8>>); 5] = [
        (
            Coding::Gzip,
            flushed(GzEncoder::new(Vec::new(), Compression::fast()), |e| std::mem::take(e.get_mut()), &events),
        ),
        (
            Coding::Deflate,
            flushed(ZlibEncoder::new(Vec::new(), Compression::fast()), |e| std::mem::take(e.get_mut()), &events),
        ),
        (
            Coding::Deflate,
            flushed(DeflateEncoder::new(Vec::new(), Compression::fast()), |e| std::mem::take(e.get_mut()), &events),
        ),
        (
            Coding::Brotli,
            flushed(brotli::CompressorWriter::new(Vec::new(), 4096, 5, 20), |e| std::mem::take(e.get_mut()), &events),
        ),
        (Coding::Zstd, flushed(zstd::Encoder::new(Vec::new(), 3).unwrap(), |e| std::mem::take(e.get_mut()), &events)),
    ];
    for (coding, chunks) in coded {
        let mut body = body(coding, chunks);
        for event in events {
            let frame = next(&mut body).unwrap().unwrap();
            assert_eq!(frame.data_ref().unwrap(), event, "{coding:?}");
        }
    }
}

#[test]
fn a_small_reply_that_unpacks_to_a_huge_one_comes_in_small_frames() {
    let zeros = vec![0; 2 * 1024 * 1024];
    for (coding, encode) in CODINGS {
        let mut body = body(coding, [encode(&zeros)]);
        let mut total = 0;
        while let Some(frame) = next(&mut body) {
            let data = frame.unwrap().into_data().unwrap();
            assert!(data.len() <= 16 * 1024);
            total += data.len();
        }
        assert_eq!(total, zeros.len(), "{coding:?}");
    }
}

#[test]
fn a_window_beyond_the_codings_own_limit_is_refused() {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(27).unwrap();
    encoder.write_all(&vec![7; 1024]).unwrap();
    let coded = encoder.finish().unwrap();
    assert_eq!(read(body(Coding::Zstd, [coded])), (Vec::new(), Some(FailureKind::MalformedReply)));
}

#[test]
fn members_follow_each_other_and_rubbish_after_them_is_ignored() {
    let twice = [gzip(b"one"), gzip(b"two")].concat();
    assert_eq!(read(body(Coding::Gzip, twice.chunks(1).map(Bytes::copy_from_slice))), (b"onetwo".to_vec(), None));
    assert_eq!(read(body(Coding::Gzip, [twice, vec![0; 512]])), (b"onetwo".to_vec(), None));
    assert_eq!(read(body(Coding::Zstd, [[zst(b"one"), zst(b"two")].concat()])), (b"onetwo".to_vec(), None));
    let cut = [gzip(b"one"), vec![0x1f]].concat();
    assert_eq!(read(body(Coding::Gzip, [cut])), (b"one".to_vec(), Some(FailureKind::Transport)));
}

#[test]
fn a_header_with_every_field_is_read_in_any_pieces() {
    let mut coded = flate2::GzBuilder::new()
        .extra(vec![7; 300])
        .filename("reply.sse")
        .comment("c")
        .write(Vec::new(), Compression::default());
    coded.write_all(b"ok").unwrap();
    let mut coded = coded.finish().unwrap();
    for size in [1, 3, coded.len()] {
        assert_eq!(read(body(Coding::Gzip, coded.chunks(size).map(Bytes::copy_from_slice))), (b"ok".to_vec(), None));
    }
    let empty_extra = [&[0x1f, 0x8b, 8, 0b0110, 0, 0, 0, 0, 0, 255, 0, 0, 1, 2], &coded[10 + 302 + 10 + 2..]].concat();
    assert_eq!(read(body(Coding::Gzip, [empty_extra])), (b"ok".to_vec(), None));
    coded[3] |= 0x80;
    assert_eq!(read(body(Coding::Gzip, [coded])).1, Some(FailureKind::MalformedReply));
}

#[test]
fn a_reply_without_a_body_is_no_broken_coding() {
    for (coding, _) in CODINGS {
        assert_eq!(read(body(coding, [""; 0])), (Vec::new(), None));
        if let Coding::Untold = coding {
            let body = body(coding, [""; 0]);
            assert!(body.is_end_stream());
            assert_eq!(body.size_hint().exact(), Some(0));
        }
        assert_eq!(read(body(coding, [""])), (Vec::new(), None));
    }
}

#[test]
fn what_is_not_gzip_passes_untouched() {
    for chunks in [
        vec!["data: a\n\n", "data: b\n\n"],
        vec!["", "{}"],
        vec!["\u{1f}", "x"],
        vec!["\u{1f}"],
        vec!["\u{1f}", "", "y"],
    ] {
        for coding in [Coding::Untold, Coding::Untouched] {
            assert_eq!(read(body(coding, chunks.clone())), (chunks.concat().into_bytes(), None), "{chunks:?}");
        }
    }
    let coded = gzip(b"data: a\n\n");
    assert_eq!(read(body(Coding::Untouched, [coded.clone()])), (coded, None));
}

#[test]
fn frames_that_are_not_coded_keep_their_memory_and_their_length() {
    let (one, two) = (Bytes::from_static(b"data: a\n\n"), Bytes::from_static(b"data: b\n\n"));
    let mut body = body(Coding::Untold, [one.clone(), two.clone()]);
    assert_eq!(body.size_hint().exact(), None, "it may still turn out to be coded");
    assert_eq!(next(&mut body).unwrap().unwrap().data_ref().unwrap().as_ptr(), one.as_ptr());
    assert_eq!(body.size_hint().exact(), Some(two.len() as u64));
    assert!(!body.is_end_stream());
    assert_eq!(next(&mut body).unwrap().unwrap().data_ref().unwrap().as_ptr(), two.as_ptr());
    assert!(body.is_end_stream());
}

#[test]
fn trailers_come_last() {
    let trailers = HeaderMap::from_iter([("x-sum".parse().unwrap(), HeaderValue::from_static("1"))]);
    for (coding, data, expected) in [
        (Coding::Untouched, Bytes::from("ok"), "ok"),
        (Coding::Untold, Bytes::from("ok"), "ok"),
        (Coding::Untold, Bytes::from("\u{1f}"), "\u{1f}"),
        (Coding::Gzip, gzip(b"ok").into(), "ok"),
    ] {
        let frames = [Frame::data(data), Frame::trailers(trailers.clone())].into();
        let mut body = Decoded::new(Script { frames, polls_after_end: 0 }, coding);
        assert_eq!(next(&mut body).unwrap().unwrap().into_data().unwrap(), expected);
        assert_eq!(next(&mut body).unwrap().unwrap().into_trailers().unwrap(), trailers);
        assert!(next(&mut body).is_none());
    }
    let frames = [Frame::data(gzip(b"ok")[..12].to_vec().into()), Frame::trailers(trailers)].into();
    assert_eq!(read(Decoded::new(Script { frames, polls_after_end: 0 }, Coding::Gzip)).1, Some(FailureKind::Transport));
}

#[test]
fn the_head_tells_the_coding() {
    let take = |values: &[&'static str]| {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("9"));
        for value in values {
            headers.append(CONTENT_ENCODING, HeaderValue::from_static(value));
        }
        let coding = Coding::take(&mut headers);
        (coding, headers.contains_key(CONTENT_ENCODING), headers.contains_key(CONTENT_LENGTH))
    };
    assert_eq!(take(&[]), (Coding::Untold, false, false));
    assert_eq!(take(&[""]), (Coding::Untold, false, false));
    assert_eq!(take(&["GZip"]), (Coding::Gzip, false, false));
    assert_eq!(take(&["x-gzip"]), (Coding::Gzip, false, false));
    assert_eq!(take(&["deflate"]), (Coding::Deflate, false, false));
    assert_eq!(take(&[" br "]), (Coding::Brotli, false, false));
    assert_eq!(take(&["zstd"]), (Coding::Zstd, false, false));
    for untouched in [&["identity"][..], &["aws-chunked"], &["gzip, br"], &["gzip", "gzip"]] {
        assert_eq!(take(untouched), (Coding::Untouched, true, true), "{untouched:?}");
    }
}

proptest! {
    #[test]
    fn chunking_changes_nothing(
        text in vec(any::<u8>(), 0..2000),
        sizes in vec(1_usize..64, 1..8),
        which in 0..CODINGS.len(),
    ) {
        let (coding, encode) = CODINGS[which];
        let coded = Bytes::from(encode(&text));
        let mut rest = coded.clone();
        let mut chunks = Vec::new();
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            chunks.push(rest.split_to((*size).min(rest.len())));
        }
        prop_assert_eq!(read(body(coding, chunks)), (text, None));
    }

    #[test]
    fn no_bytes_panic_or_go_on_for_ever(bytes in vec(any::<u8>(), 0..256), which in 0..CODINGS.len()) {
        let (coding, encode) = CODINGS[which];
        let _ = read(body(coding, [bytes.clone()]));
        let mut coded = encode(b"data: some words that repeat, some words that repeat\n\n");
        for (at, byte) in bytes.iter().enumerate().take(4) {
            let place = at * usize::from(*byte) % coded.len();
            coded[place] ^= byte;
        }
        let _ = read(body(coding, [coded]));
    }
}
