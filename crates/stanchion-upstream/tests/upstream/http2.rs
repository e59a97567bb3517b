//! HTTP/2, frame by frame.

use std::{error::Error, time::Duration};

use http_body_util::BodyExt;
use stanchion_core::{Failure, FailureKind, Phase};
use stanchion_upstream::Transport;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    join,
    net::TcpStream,
};

use crate::peer::{Answer, Peer, Server, call, within};

const PREFACE: usize = 24;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;
const ENHANCE_YOUR_CALM: u32 = 11;

/// `:status: 200`, by HPACK's static table.
const OK: [u8; 1] = [0x88];
/// The same with `content-length: 400`.
const OK_400: [u8; 7] = [0x88, 0x0f, 0x0d, 3, b'4', b'0', b'0'];

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

fn go_away(last_stream: u32, code: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[&last_stream.to_be_bytes()[..], &code.to_be_bytes(), b"debug-data-hunter2"].concat())
}

/// The server's side of one connection.
pub(crate) struct Http2<S = TcpStream> {
    peer: Peer<S>,
    greeted: bool,
    frames: std::collections::VecDeque<Frame>,
}

impl Http2 {
    async fn accept(server: &Server) -> Self {
        Self::greet(server.accept().await).await
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Http2<S> {
    pub(crate) async fn greet(mut peer: Peer<S>) -> Self {
        peer.send(frame(SETTINGS, 0, 0, &[])).await;
        Self { peer, greeted: false, frames: [].into() }
    }

    async fn next(&mut self) -> Frame {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return frame;
            }
            let start = if self.greeted { 0 } else { PREFACE };
            let read = self.peer.read_until(|read| read.len() > start && rest(&read[start..]).is_empty()).await;
            self.greeted = true;
            let mut read = &read[start..];
            while !read.is_empty() {
                let length = length(read);
                let stream = u32::from_be_bytes(read[5..9].try_into().unwrap());
                self.frames.push_back(Frame {
                    kind: read[3],
                    flags: read[4],
                    stream,
                    payload: read[9..9 + length].to_vec(),
                });
                read = &read[9 + length..];
            }
        }
    }

    /// Reads to the end of the next request, and gives its stream.
    pub(crate) async fn request(&mut self) -> u32 {
        loop {
            let frame = self.next().await;
            if matches!(frame.kind, HEADERS | DATA) && frame.flags & END_STREAM != 0 {
                return frame.stream;
            }
        }
    }

    async fn reset(&mut self) -> (u32, u32) {
        loop {
            let frame = self.next().await;
            if frame.kind == RST_STREAM {
                return (frame.stream, u32::from_be_bytes(frame.payload.try_into().unwrap()));
            }
        }
    }

    pub(crate) async fn answer(&mut self, stream: u32) {
        self.peer.send(frame(HEADERS, END_HEADERS, stream, &OK)).await;
        self.peer.send(frame(DATA, END_STREAM, stream, b"{}")).await;
    }
}

fn length(frame: &[u8]) -> usize {
    u32::from_be_bytes([0, frame[0], frame[1], frame[2]]) as usize
}

/// What is left after the last whole frame.
fn rest(mut read: &[u8]) -> &[u8] {
    while read.len() >= 9 && read.len() >= 9 + length(read) {
        read = &read[9 + length(read)..];
    }
    read
}

fn transport() -> Transport {
    Transport::builder().http2_prior_knowledge(true).build()
}

async fn read(answer: Answer) -> bytes::Bytes {
    answer.unwrap().into_body().collect().await.unwrap().to_bytes()
}

#[derive(Clone, Copy)]
enum Connection {
    Fresh,
    Kept,
}

/// The failure of a request that is answered by these bytes, made for its stream, and then by the end of the
/// connection.
async fn failed_by(connection: Connection, bytes: fn(u32) -> Vec<u8>) -> Failure {
    let server = Server::start().await;
    let transport = transport();
    let answer = within(async {
        let serve = async {
            let mut http2 = Http2::accept(&server).await;
            if let Connection::Kept = connection {
                let stream = http2.request().await;
                http2.answer(stream).await;
            }
            let stream = http2.request().await;
            http2.peer.send(bytes(stream)).await;
        };
        let ask = async {
            if let Connection::Kept = connection {
                read(call(&transport, server.request()).await).await;
            }
            call(&transport, server.request()).await
        };
        join!(ask, serve).0
    })
    .await;
    assert!(!server.is_called(), "the transport made another connection");
    let failure = answer.unwrap_err();
    assert_eq!((failure.phase(), failure.attempts()), (Phase::Head, 1));
    let mut next: Option<&dyn Error> = Some(&failure);
    while let Some(error) = next {
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
        next = error.source();
    }
    failure
}

#[tokio::test]
async fn what_is_proven_unprocessed_is_told_as_such() {
    for connection in [Connection::Fresh, Connection::Kept] {
        for bytes in [
            (|stream| reset(stream, REFUSED_STREAM)) as fn(u32) -> Vec<u8>,
            |_| go_away(0, NO_ERROR),
            |_| go_away(0, INTERNAL_ERROR),
        ] {
            let failure = failed_by(connection, bytes).await;
            assert_eq!(failure.kind(), FailureKind::Unprocessed, "{}", failure.source().unwrap());
        }
    }
}

#[tokio::test]
async fn a_plea_for_calm_is_an_overload_with_a_hint() {
    for connection in [Connection::Fresh, Connection::Kept] {
        for bytes in
            [(|stream| reset(stream, ENHANCE_YOUR_CALM)) as fn(u32) -> Vec<u8>, |_| go_away(0, ENHANCE_YOUR_CALM)]
        {
            let failure = failed_by(connection, bytes).await;
            assert_eq!(failure.kind(), FailureKind::Overloaded);
            assert!(failure.hint().unwrap().delay() >= Duration::from_secs(1));
        }
    }
}

#[tokio::test]
async fn what_may_have_been_processed_is_a_broken_transport() {
    for (connection, bytes) in [
        (Connection::Fresh, (|stream| reset(stream, INTERNAL_ERROR)) as fn(u32) -> Vec<u8>),
        (Connection::Kept, |stream| reset(stream, INTERNAL_ERROR)),
        (Connection::Kept, |stream| reset(stream, CANCEL)),
        (Connection::Fresh, |stream| go_away(stream, NO_ERROR)),
        (Connection::Fresh, |stream| go_away(stream, INTERNAL_ERROR)),
        (Connection::Fresh, |_| Vec::new()),
        (Connection::Kept, |_| frame(DATA, 0, 0, b"never on stream 0")),
    ] {
        let failure = failed_by(connection, bytes).await;
        assert_eq!(failure.kind(), FailureKind::Transport, "{}", failure.source().unwrap());
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_a_transport_failure() {
    for (head, end) in [
        (&OK[..], (|stream| reset(stream, INTERNAL_ERROR)) as fn(u32) -> Vec<u8>),
        (&OK, |stream| reset(stream, CANCEL)),
        (&OK, |stream| reset(stream, ENHANCE_YOUR_CALM)),
        (&OK, |_| go_away(0, INTERNAL_ERROR)),
        (&OK_400, |stream| reset(stream, NO_ERROR)),
        (&OK_400, |stream| frame(DATA, END_STREAM, stream, b"")),
    ] {
        let server = Server::start().await;
        let transport = transport();
        within(async {
            let (answer, (mut http2, stream)) = join!(call(&transport, server.request()), async {
                let mut http2 = Http2::accept(&server).await;
                let stream = http2.request().await;
                http2.peer.send(frame(HEADERS, END_HEADERS, stream, head)).await;
                http2.peer.send(frame(DATA, 0, stream, b"data: a\n\n")).await;
                (http2, stream)
            });
            let mut body = answer.unwrap().into_body();
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "data: a\n\n");
            http2.peer.send(end(stream)).await;
            let failure = body.frame().await.unwrap().unwrap_err();
            assert_eq!((failure.kind(), failure.phase()), (FailureKind::Transport, Phase::BeforeOutput));
            assert!(body.frame().await.is_none());
        })
        .await;
    }
}

#[tokio::test]
async fn one_connection_serves_many_and_a_dropped_future_or_body_resets_its_stream_alone() {
    let server = Server::start().await;
    let transport = transport();
    within(async {
        let (answer, mut http2) = join!(call(&transport, server.request()), async {
            let mut http2 = Http2::accept(&server).await;
            let stream = http2.request().await;
            http2.answer(stream).await;
            http2
        });
        assert_eq!(read(answer).await, "{}");

        // Before the head.
        let mut exchange = Box::pin(call(&transport, server.request()));
        let stream = tokio::select! {
            _ = &mut exchange => unreachable!(),
            stream = http2.request() => stream,
        };
        drop(exchange);
        assert_eq!(http2.reset().await, (stream, CANCEL));

        // In mid-stream.
        let (answer, stream) = join!(call(&transport, server.request()), async {
            let stream = http2.request().await;
            http2.peer.send(frame(HEADERS, END_HEADERS, stream, &OK)).await;
            stream
        });
        drop(answer.unwrap());
        assert_eq!(http2.reset().await, (stream, CANCEL));

        let (answer, ()) = join!(call(&transport, server.request()), async {
            let stream = http2.request().await;
            http2.answer(stream).await;
        });
        assert_eq!(read(answer).await, "{}");
        assert!(!server.is_called());
    })
    .await;
}

#[tokio::test]
async fn a_kept_connection_that_dies_costs_a_fresh_one_and_no_attempt() {
    let server = Server::start().await;
    let transport = transport();
    within(async {
        let (answer, mut http2) = join!(call(&transport, server.request()), async {
            let mut http2 = Http2::accept(&server).await;
            let stream = http2.request().await;
            http2.answer(stream).await;
            http2
        });
        assert_eq!(read(answer).await, "{}");
        let (answer, mut fresh) = join!(call(&transport, server.request()), async {
            http2.request().await;
            drop(http2);
            let mut fresh = Http2::accept(&server).await;
            let stream = fresh.request().await;
            fresh.answer(stream).await;
            fresh
        });
        assert_eq!(read(answer).await, "{}");

        // It is kept in the other's place.
        let (answer, ()) = join!(call(&transport, server.request()), async {
            let stream = fresh.request().await;
            fresh.answer(stream).await;
        });
        assert_eq!(read(answer).await, "{}");
        assert!(!server.is_called());
    })
    .await;
}

#[tokio::test]
async fn requests_at_once_wait_for_one_connection_whoever_goes_away() {
    let server = Server::start().await;
    let transport = transport();
    within(async {
        let asked = [(); 3].map(|()| {
            let (transport, request) = (transport.clone(), server.request());
            tokio::spawn(async move { read(call(&transport, request).await).await })
        });
        let peer = server.accept().await;
        let [first, second, third] = asked;
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        let mut http2 = Http2::greet(peer).await;
        let serve = async {
            loop {
                let stream = http2.request().await;
                http2.answer(stream).await;
            }
        };
        tokio::select! {
            answers = async { (second.await.unwrap(), third.await.unwrap()) } => {
                assert_eq!(answers, ("{}".into(), "{}".into()));
            }
            () = serve => unreachable!(),
        }
        assert!(!server.is_called());
    })
    .await;
}

#[tokio::test]
async fn all_who_wait_are_told_that_there_is_no_connection() {
    let server = Server::start().await;
    let request = || server.request();
    let requests = [request(), request(), request()];
    let transport = transport();
    drop(server);
    let asked = requests.map(|request| {
        let transport = transport.clone();
        tokio::spawn(async move { call(&transport, request).await.unwrap_err() })
    });
    for asked in asked {
        let failure = within(asked).await.unwrap();
        assert_eq!((failure.kind(), failure.phase()), (FailureKind::Connect, Phase::Connect));
        assert!(failure.source().and_then(Error::source).is_some(), "{failure:?}");
    }
}
