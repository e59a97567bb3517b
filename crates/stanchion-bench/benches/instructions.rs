//! How many instructions the paths take that every request or chunk goes along, counted by callgrind: no load disturbs
//! that, and the same compiler makes the same count.
//!
//! `.ci/instructions` runs this, and compares with `instructions.json` beside it. Each path is gone along some times
//! before it is counted, so that what is made once is there.

#![allow(missing_docs, reason = "the macros write items without")]
#![expect(clippy::exit, reason = "the macro of the main function ends so")]

use std::{
    hint::black_box,
    pin::pin,
    sync::Arc,
    task::{Context as Wakes, Waker},
};

use bytes::Bytes;
use gungraun::{library_benchmark, library_benchmark_group, main};
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use stanchion::{
    core::{Context, RequestClass},
    stream::{CommitLayer, ObserveLayer},
    wire::frame::{FrameDecoder, Framing},
};
use stanchion_bench::{
    drive::{body, head},
    onions,
    ready::{self, Provider, inner_request, request, whole_request},
};
use tower_layer::Layer;
use tower_service::Service;

/// A path, to be gone along again and again; how many pieces there were.
type Path = Box<dyn FnMut() -> usize>;

/// The path, gone along often enough for all that is made once.
fn warm(mut path: impl FnMut() -> usize + 'static) -> Path {
    for _ in 0..16 {
        path();
    }
    Box::new(path)
}

/// A request to a service, and its reply to the end.
fn asking<S, R>(mut service: S, ask: impl Fn() -> Request<Full<Bytes>> + 'static) -> Path
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>> + 'static,
    R: Body<Data = Bytes>,
{
    // Timers want a runtime; nothing is ever driven by it. The process ends with it.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    Box::leak(Box::new(Box::leak(Box::new(runtime)).enter()));
    warm(move || body(head(&mut service, black_box(ask()))))
}

fn inside() -> Request<Full<Bytes>> {
    inner_request(Context::default())
}

fn frames_in_pieces_of(size: usize) -> Path {
    let body = Provider::streaming_in(2_000, size);
    warm(move || {
        let mut decoder = FrameDecoder::new(Framing::Sse, FrameDecoder::DEFAULT_MAX_EVENT);
        let mut frames = 0;
        for piece in body.iter() {
            decoder.push(piece.clone());
            while let Ok(Some(frame)) = decoder.next_frame() {
                black_box(&frame);
                frames += 1;
            }
            while let Some(piece) = decoder.release() {
                black_box(piece);
            }
        }
        frames
    })
}

fn provider_alone(events: usize) -> Path {
    asking(Provider::streaming(events), inside)
}

fn observe(events: usize) -> Path {
    asking(ObserveLayer::new().layer(Provider::streaming(events)), inside)
}

fn commit_over_observe(events: usize) -> Path {
    asking(CommitLayer::new().layer(ObserveLayer::new().layer(Provider::streaming(events))), inside)
}

fn circuit(events: usize) -> Path {
    asking(onions::circuit().layer(Provider::streaming(events)), inside)
}

fn admission(events: usize) -> Path {
    asking(onions::admission().layer(Provider::streaming(events)), inside)
}

fn admission_handle() -> Path {
    let handle = onions::admission().handle(&Arc::new(ready::candidate()));
    warm(move || {
        let permit = pin!(handle.admit(Some("owner"), RequestClass::Foreground, 90));
        usize::from(permit.poll(&mut Wakes::from_waker(Waker::noop())).is_ready())
    })
}

fn observe_a_tool_call(events: usize) -> Path {
    asking(ObserveLayer::new().layer(Provider::calling_a_tool(events)), inside)
}

fn whole_onion(provider: Provider) -> Path {
    asking(onions::whole(provider), request)
}

fn whole_onion_a_document() -> Path {
    asking(onions::whole(Provider::whole()), whole_request)
}

#[library_benchmark]
#[bench::decode_2001_frames_in_pieces_of_16_kib(args = (16 << 10), setup = frames_in_pieces_of)]
#[bench::decode_2001_frames_in_pieces_of_64_bytes(args = (64), setup = frames_in_pieces_of)]
#[bench::provider_alone_1_event(args = (1), setup = provider_alone)]
#[bench::provider_alone_100_events(args = (100), setup = provider_alone)]
#[bench::observe_1_event(args = (1), setup = observe)]
#[bench::observe_100_events(args = (100), setup = observe)]
#[bench::commit_over_observe_1_event(args = (1), setup = commit_over_observe)]
#[bench::commit_over_observe_100_events(args = (100), setup = commit_over_observe)]
#[bench::circuit_1_event(args = (1), setup = circuit)]
#[bench::admission_1_event(args = (1), setup = admission)]
#[bench::admission_handle(args = (), setup = admission_handle)]
#[bench::observe_100_events_of_a_tool_call(args = (100), setup = observe_a_tool_call)]
#[bench::whole_onion_1_event(args = (Provider::streaming(1)), setup = whole_onion)]
#[bench::whole_onion_100_events(args = (Provider::streaming(100)), setup = whole_onion)]
#[bench::whole_onion_a_document(args = (), setup = whole_onion_a_document)]
#[bench::whole_onion_a_refusal(args = (Provider::refusing()), setup = whole_onion)]
fn path(mut path: Path) -> (Path, usize) {
    let pieces = path();
    (path, pieces)
}

library_benchmark_group!(name = instructions, benchmarks = path);
main!(library_benchmark_groups = instructions);
