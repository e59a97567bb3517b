//! The events of a stream, by our decoder and by what one would take instead.

use std::{
    hint::black_box,
    io,
    pin::pin,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use eventsource_stream::Eventsource;
use futures_util::stream::{self, Stream};
use sse_stream::SseStream;
use stanchion::wire::frame::{FrameDecoder, Framing};

use stanchion_bench::measure::{Subject, alone};

use crate::allocations;

/// How many events a stream has that is measured.
pub const EVENTS: usize = 2_000;

/// How a stream comes in pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pieces {
    /// One for each event.
    Event,
    /// So many bytes, wherever they end.
    Bytes(usize),
}

/// Text deltas as Anthropic sends them, in pieces.
pub fn deltas(events: usize, pieces: Pieces) -> Vec<Bytes> {
    let event = |number| {
        format!(
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"tok{number} and some words \"}}}}\n\n"
        )
    };
    match pieces {
        Pieces::Event => (0..events).map(|number| event(number).into()).collect(),
        Pieces::Bytes(size) => cut(&(0..events).map(event).collect::<String>(), size),
    }
}

fn cut(text: &str, size: usize) -> Vec<Bytes> {
    text.as_bytes().chunks(size).map(Bytes::copy_from_slice).collect()
}

/// Hands each event that has data to `each`: its name, or `message`, and its data.
pub fn ours(pieces: &[Bytes], mut each: impl FnMut(&[u8], &[u8])) {
    let mut decoder = FrameDecoder::new(Framing::Sse, FrameDecoder::DEFAULT_MAX_EVENT);
    for piece in pieces {
        decoder.push(piece.clone());
        while let Some(frame) = decoder.next_frame().expect("below the ceiling") {
            if let Some(data) = &frame.data {
                each(frame.event.unwrap_or(b"message"), data);
            }
        }
        // As the layer does that passes the bytes on.
        while let Some(released) = decoder.release() {
            black_box(released);
        }
    }
}

/// As [`ours`], by sse-stream.
pub fn sse_stream(pieces: &[Bytes], mut each: impl FnMut(&[u8], &[u8])) {
    drain(SseStream::from_bytes_stream(arriving(pieces)), |event| {
        let event = event.expect("valid");
        if let Some(data) = event.data {
            each(event.event.as_deref().unwrap_or("message").as_bytes(), data.as_bytes());
        }
    });
}

/// As [`ours`], by eventsource-stream.
pub fn eventsource_stream(pieces: &[Bytes], mut each: impl FnMut(&[u8], &[u8])) {
    drain(arriving(pieces).eventsource(), |event| {
        let event = event.expect("valid");
        each(event.event.as_bytes(), event.data.as_bytes());
    });
}

/// What nobody can be faster than: the ends of lines, and nothing made of them.
pub fn line_ends(pieces: &[Bytes]) -> usize {
    pieces.iter().map(|piece| memchr::memchr_iter(b'\n', piece).count()).sum()
}

fn arriving(pieces: &[Bytes]) -> impl Stream<Item = io::Result<Bytes>> {
    stream::iter(pieces.iter().cloned().map(Ok))
}

fn drain<S: Stream>(stream: S, mut each: impl FnMut(S::Item)) {
    let mut stream = pin!(stream);
    let cx = &mut Context::from_waker(Waker::noop());
    loop {
        match stream.as_mut().poll_next(cx) {
            Poll::Ready(Some(item)) => each(item),
            Poll::Ready(None) => return,
            Poll::Pending => panic!("all of it is there"),
        }
    }
}

/// One decoder on one form of the stream.
#[derive(Debug)]
pub struct Row {
    /// Whose.
    pub name: String,
    /// How the stream came.
    pub pieces: Pieces,
    /// MiB a second, on one thread.
    pub speed: f64,
    /// How many times memory is asked for, for each event.
    pub allocations: f64,
}

/// All decoders on all forms of the stream.
pub fn measure(runs: usize, rounds: usize) -> Vec<Row> {
    let forms = [Pieces::Event, Pieces::Bytes(16 << 10), Pieces::Bytes(64)];
    let mut rows = Vec::new();
    for form in forms {
        let pieces = deltas(EVENTS, form);
        let mib = pieces.iter().map(Bytes::len).sum::<usize>() as f64 / f64::from(1 << 20);
        let subject = |name: &str, decode: fn(&[Bytes]) -> usize| {
            let pieces = pieces.clone();
            Subject::new(name, move || {
                let pieces = pieces.clone();
                Box::new(move || _ = black_box(decode(black_box(&pieces))))
            })
        };
        let subjects = [
            subject("`FrameDecoder`", |pieces| length(|each| ours(pieces, each))),
            subject("sse-stream", |pieces| length(|each| sse_stream(pieces, each))),
            subject("eventsource-stream", |pieces| length(|each| eventsource_stream(pieces, each))),
            subject("`memchr`, line ends alone", line_ends),
        ];
        let times = alone(&subjects, runs, rounds);
        rows.extend(subjects.iter().zip(times).map(|(subject, time)| Row {
            name: subject.name.clone(),
            pieces: form,
            speed: mib / (time / 1e9),
            allocations: allocations(subject) / EVENTS as f64,
        }));
    }
    rows
}

/// How much all events have in them, so that nothing of them is left out as unused.
fn length(decode: impl FnOnce(&mut dyn FnMut(&[u8], &[u8]))) -> usize {
    let mut length = 0;
    decode(&mut |event, data| length += event.len() + data.len());
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    type Decoder = fn(&[Bytes], &mut dyn FnMut(&[u8], &[u8]));

    const DECODERS: [(&str, Decoder); 3] = [
        ("ours", |pieces, each| ours(pieces, each)),
        ("sse-stream", |pieces, each| sse_stream(pieces, each)),
        ("eventsource-stream", |pieces, each| eventsource_stream(pieces, each)),
    ];

    fn events(decode: Decoder, pieces: &[Bytes]) -> Vec<(String, String)> {
        let mut events = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        decode(pieces, &mut |event, data| events.push((text(event), text(data))));
        events
    }

    #[test]
    fn all_decoders_find_the_same_events_in_what_is_measured() {
        for pieces in [Pieces::Event, Pieces::Bytes(16 << 10), Pieces::Bytes(64), Pieces::Bytes(1)] {
            let stream = deltas(EVENTS, pieces);
            for (name, decode) in DECODERS {
                let found = events(decode, &stream);
                assert_eq!(found.len(), EVENTS, "{name}, {pieces:?}");
                for (number, (event, data)) in found.iter().enumerate() {
                    assert_eq!(event, "content_block_delta", "{name}, {pieces:?}");
                    assert!(
                        data.starts_with("{\"type\"") && data.ends_with("words \"}}"),
                        "{name}, {pieces:?}: {data}"
                    );
                    assert!(data.contains(&format!("tok{number} ")), "{name}, {pieces:?}: {data}");
                }
            }
        }
    }

    #[test]
    fn and_in_streams_with_all_that_is_in_use() {
        let stream = ": hello\n\nevent: a\ndata: 1\n\ndata: two\ndata: lines\n\ndata:none\r\nid: 7\r\n\r\nunknown: x\ndata: é\n\ndata: [DONE]\n\n";
        let expected =
            [("a", "1"), ("message", "two\nlines"), ("message", "none"), ("message", "é"), ("message", "[DONE]")]
                .map(|(event, data)| (event.to_owned(), data.to_owned()));
        for size in [1, 2, 3, 7, 64, stream.len()] {
            for (name, decode) in DECODERS {
                assert_eq!(events(decode, &cut(stream, size)), expected, "{name} in pieces of {size}");
            }
        }
    }
}
