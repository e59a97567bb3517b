//! What it costs to divide a stream into frames, and to read what an error means.
//!
//! `cargo bench -p stanchion-wire`. Each line is the best of several runs.

#![expect(clippy::disallowed_types, reason = "real time is what is measured, and there is no runtime here")]

use std::{
    hint::black_box,
    time::{Instant, SystemTime},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header::CONTENT_TYPE};
use stanchion_core::{Dialect, ProviderReply};
use stanchion_wire::{
    error::classify_reply,
    frame::{FrameDecoder, Framing},
};

const EVENTS: usize = 2_000;

fn main() {
    // What `cargo test` passes to a target without a harness; a smoke test is enough then.
    let runs = if std::env::args().any(|argument| argument == "--bench") { 200 } else { 1 };
    let anthropic = (0..EVENTS).map(event).collect::<Vec<_>>().concat();
    for (size, name) in [(16 << 10, "16 KiB"), (1 << 10, "1 KiB"), (64, "64 bytes")] {
        let pieces: Vec<_> = anthropic.as_bytes().chunks(size).map(Bytes::copy_from_slice).collect();
        let nanoseconds = best(runs, 1, || assert_eq!(frames(&pieces), EVENTS));
        let speed = anthropic.len() as f64 / f64::from(1 << 30) / (nanoseconds / 1e9);
        println!("frames, in pieces of {name}: {speed:.2} GiB a second, {:.0} ns each", nanoseconds / EVENTS as f64);
    }
    for (name, dialect, status, body) in ERRORS {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let status = StatusCode::from_u16(status).expect("a status");
        let nanoseconds = best(runs, 100, || {
            let body = Bytes::from_static(body.as_bytes());
            let reply = ProviderReply { status, headers: headers.clone(), body, complete: true };
            black_box(classify_reply(dialect, black_box(reply), SystemTime::UNIX_EPOCH));
        });
        println!("{name}: {nanoseconds:.0} ns");
    }
}

const ERRORS: [(&str, Dialect, u16, &str); 3] = [
    (
        "a prompt that is too long, by its code",
        Dialect::OpenAiChat,
        400,
        r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
    ),
    (
        "an overload, by its type",
        Dialect::AnthropicMessages,
        529,
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}"#,
    ),
    (
        "a rate, by its words",
        Dialect::OpenAiChat,
        429,
        r#"{"error":{"message":"Rate limit reached for m in organization o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2s.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#,
    ),
];

/// One event with text, as Anthropic sends them.
fn event(number: usize) -> String {
    format!(
        "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"tok{number} and some words \"}}}}\n\n"
    )
}

fn frames(pieces: &[Bytes]) -> usize {
    let mut decoder = FrameDecoder::new(Framing::Sse, FrameDecoder::DEFAULT_MAX_EVENT);
    let mut frames = 0;
    for piece in pieces {
        decoder.push(piece.clone());
        while let Some(frame) = decoder.next_frame().expect("below the ceiling") {
            black_box(&frame);
            frames += 1;
        }
        while let Some(piece) = decoder.release() {
            black_box(piece);
        }
    }
    frames
}

/// Nanoseconds of a round, in the best run.
fn best(runs: usize, rounds: u32, mut round: impl FnMut()) -> f64 {
    let run = |_| {
        let began = Instant::now();
        (0..rounds).for_each(|_| round());
        began.elapsed().as_nanos() as f64 / f64::from(rounds)
    };
    (0..runs).map(run).fold(f64::INFINITY, f64::min)
}
