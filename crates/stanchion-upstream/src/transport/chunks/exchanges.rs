//! hyper's client gets the same from whatever a server says, joined or not.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use proptest::{collection::vec, prelude::*, sample::select};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::timeout,
};

use super::ChunkJoin;
use crate::transport::{READ, stream::Tracked};

/// A server that has prepared what it says after each request, read by read, and closes after the last.
#[derive(Clone, Default)]
struct Server {
    answers: VecDeque<Vec<Vec<u8>>>,
    reads: VecDeque<Vec<u8>>,
    reader: Option<Waker>,
}

impl AsyncRead for Server {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Some(mut read) = self.reads.pop_front() else {
            if self.answers.is_empty() {
                return Poll::Ready(Ok(()));
            }
            self.reader = Some(cx.waker().clone());
            return Poll::Pending;
        };
        let rest = read.split_off(read.len().min(buf.remaining()));
        buf.put_slice(&read);
        if !rest.is_empty() {
            self.reads.push_front(rest);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Server {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        assert!(buf.ends_with(b"\r\n\r\n"), "a whole request without a body");
        if let Some(answer) = self.answers.pop_front() {
            self.reads.extend(answer);
        }
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// What a client gets for one request.
#[derive(Debug, Default, PartialEq)]
struct Got {
    head: Option<(http::StatusCode, HeaderMap)>,
    body: Vec<u8>,
    trailers: Option<HeaderMap>,
    /// What was wrong, in hyper's words.
    error: Option<String>,
    /// Whether the connection takes another request.
    kept: bool,
}

/// Sends these requests one after another. The frames of all bodies are counted too.
async fn exchange<S>(stream: S, methods: &[Method]) -> (Vec<Got>, usize)
where
    S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    // Under paused time: only what will never come takes so long.
    let limit = Duration::from_secs(60);
    // In reads of the transport's size. hyper's own measure would read less where chunks are joined, and so cut some in two.
    let mut builder = http1::Builder::new();
    builder.read_buf_exact_size(Some(READ));
    let (mut sender, connection) = builder.handshake::<_, Full<Bytes>>(stream).await.unwrap();
    let driver = tokio::spawn(connection);
    let (mut all, mut frames) = (Vec::new(), 0);
    for method in methods {
        let mut got = Got::default();
        let request = Request::builder().method(method).uri("/").header("host", "x").body(Full::default()).unwrap();
        match timeout(limit, sender.send_request(request)).await {
            Err(_) => got.error = Some("no head".to_owned()),
            Ok(Err(error)) => got.error = Some(format!("{error:?}")),
            Ok(Ok(response)) => {
                let (parts, mut body) = response.into_parts();
                got.head = Some((parts.status, parts.headers));
                loop {
                    match timeout(limit, body.frame()).await {
                        Err(_) => got.error = Some("no end".to_owned()),
                        Ok(Some(Err(error))) => got.error = Some(format!("{error:?}")),
                        Ok(None) => {}
                        Ok(Some(Ok(frame))) => {
                            match frame.into_data() {
                                Ok(data) => {
                                    frames += 1;
                                    got.body.extend_from_slice(&data);
                                }
                                Err(frame) => got.trailers = frame.into_trailers().ok(),
                            }
                            continue;
                        }
                    }
                    break;
                }
            }
        }
        got.kept = got.error.is_none() && matches!(timeout(limit, sender.ready()).await, Ok(Ok(())));
        let kept = got.kept;
        all.push(got);
        if !kept {
            break;
        }
    }
    driver.abort();
    (all, frames)
}

/// The same exchange with and without joined chunks, and the frames of both.
fn compare(server: Server, methods: &[Method]) -> (Vec<Got>, [usize; 2]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let (plain, before) = exchange(TokioIo::new(server.clone()), methods).await;
        let (joined, after) = exchange(Tracked::wrap(TokioIo::new(server)), methods).await;
        assert_eq!(joined, plain);
        (joined, [before, after])
    })
}

/// Text that looks like what is around it.
fn text() -> impl Strategy<Value = Vec<u8>> {
    const WORDS: &[&str] = &[
        "data: {}\n\n",
        "\r\n",
        "\r",
        "0\r\n\r\n",
        "1\r\na\r\n1\r\nb\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc",
        "a",
        "f\r\n",
    ];
    prop_oneof![
        20 => vec(select(WORDS), 1..6).prop_map(|words| words.concat().into_bytes()),
        1 => (1_000..30_000usize).prop_map(|length| vec![b'1'; length]),
    ]
}

fn chunked() -> impl Strategy<Value = Vec<u8>> {
    let styles = prop_oneof![30 => Just(0), 3 => Just(1), 3 => Just(2), 1 => Just(3), 1 => Just(4)];
    let ends = select(&[
        "0\r\n\r\n",
        "0\r\n\r\n",
        "0\r\n\r\n",
        "000\r\n\r\n",
        "0\r\nx: y\r\nz: 1\r\n\r\n",
        "0;a=b\r\n\r\n",
        "x",
        "",
    ]);
    (vec((text(), styles), 0..30), ends).prop_map(|(chunks, end)| {
        let mut body = Vec::new();
        for (data, style) in chunks {
            let size = data.len();
            let line = match style {
                0 => format!("{size:x}\r\n"),
                1 => format!("{size:X}\r\n"),
                2 => format!("{size:06x}\r\n"),
                3 => format!("{size:x};name=\"value\"\r\n"),
                _ => format!("{size:x} \r\n"),
            };
            body.extend([line.as_bytes(), &data, b"\r\n"].concat());
        }
        body.extend(end.as_bytes());
        body
    })
}

/// What a server says to one request.
fn response() -> impl Strategy<Value = Vec<u8>> {
    let before =
        select(&["", "", "", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", "\r\n"]);
    let chunked_heads = select(&[
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 429 \r\nContent-Type: text/event-stream\r\nTransfer-Encoding:  Chunked \r\n\r\n",
        "HTTP/1.1 200\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 20\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 20\r\ncontent-length: 20\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 20, 20\r\n\r\n",
        "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.0 200 OK\r\ncontent-length: 20\r\nconnection: keep-alive\r\n\r\n",
        "HTTP/1.1 204 No Content\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\ntransfer-encoding: chunked\n\n",
        "HTTP/1.1 200 OK\r\nx: y\r\n z\r\ntransfer-encoding: chunked\r\n\r\n",
    ]);
    let bodies = prop_oneof![
        4 => (chunked_heads, chunked()).prop_map(|(head, body)| [head.as_bytes(), &body].concat()),
        4 => chunked().prop_map(|body| [super::tests::HEAD.as_bytes(), &body].concat()),
        2 => text().prop_map(|body| {
            [format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len()).as_bytes(), &body].concat()
        }),
        1 => Just(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()),
    ];
    let change = (any::<prop::sample::Index>(), select(&b"\r\n0aZ;: \t"[..]), 0..3);
    (before, bodies, prop::option::weighted(0.2, change)).prop_map(|(before, body, change)| {
        let mut bytes = [before.as_bytes(), &body].concat();
        if let Some((at, byte, kind)) = change {
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        bytes
    })
}

/// What a server says, cut into reads.
fn reads(said: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<Vec<u8>>> {
    (said, vec(any::<prop::sample::Index>(), 0..12)).prop_map(|(bytes, cuts)| {
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        cuts.dedup();
        cuts.windows(2).map(|cut| bytes[cut[0]..cut[1]].to_vec()).collect()
    })
}

/// The data of the chunks so far, how many they are, and where the decoder stands.
fn decode(mut bytes: &[u8]) -> (Vec<u8>, usize, &'static str) {
    let (mut data, mut chunks) = (Vec::new(), 0);
    let stands = loop {
        let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else { break "in a size" };
        let line = str::from_utf8(&bytes[..end]).ok().and_then(|line| line.split([';', ' ']).next());
        let Some(size) = line.and_then(|size| usize::from_str_radix(size, 16).ok()) else { break "wrong" };
        if size == 0 {
            break "at the end";
        }
        let rest = &bytes[end + 2..];
        let here = size.min(rest.len());
        data.extend_from_slice(&rest[..here]);
        chunks += usize::from(here > 0);
        match &rest[here..] {
            [] if here < size => break "in data",
            [] => break "after data",
            [b'\r'] => break "within a line end",
            [b'\r', b'\n', rest @ ..] => bytes = rest,
            _ => break "wrong",
        }
    };
    (data, chunks, stands)
}

const METHODS: &[Method] = &[Method::POST, Method::POST, Method::POST, Method::GET, Method::HEAD];

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hypers_client_gets_the_same(
        answers in vec((reads(response()), select(METHODS)), 1..5)
    ) {
        let (answers, methods): (VecDeque<_>, Vec<_>) = answers.into_iter().unzip();
        let (_, [before, after]) = compare(Server { answers, ..Server::default() }, &methods);
        prop_assert!(after <= before);
    }

    #[test]
    fn what_came_is_there_after_each_read_and_in_few_chunks(reads in reads(chunked())) {
        let mut join = ChunkJoin::default();
        join.write(b"POST ");
        let head = super::tests::HEAD.as_bytes();
        prop_assert_eq!(join.read(&mut head.to_vec()), head.len());
        let (mut came, mut passed) = (Vec::new(), Vec::new());
        for read in reads {
            let mut bytes = read.clone();
            let kept = join.read(&mut bytes);
            prop_assert!(0 < kept && kept <= read.len());
            came.extend(read);
            passed.extend_from_slice(&bytes[..kept]);
            let (data, before, stands) = decode(&came);
            let (same, after, stands_too) = decode(&passed);
            prop_assert_eq!((data, stands), (same, stands_too));
            prop_assert!(after <= before);
        }
    }
}

#[test]
fn ready_chunks_come_as_two_frames_at_most() {
    let chunk = |size: usize| format!("{size:x}\r\n{}\r\n", "x".repeat(size));
    for (count, size) in [(2, 1), (23, 150), (50, 100), (7, 1000), (1000, 2)] {
        let body = chunk(size).repeat(count);
        let whole = [super::tests::HEAD, &body, "0\r\n\r\n"].concat().into_bytes();
        // One read of the head, then one of chunks that ends in the midst of one, then the rest.
        let head = super::tests::HEAD.len();
        for cuts in [vec![whole.len()], vec![head, whole.len()], vec![head + body.len() / 2, whole.len()]] {
            let mut begin = 0;
            let reads: Vec<_> =
                cuts.iter().map(|cut| whole[std::mem::replace(&mut begin, *cut)..*cut].to_vec()).collect();
            let most = reads.len() * 2;
            let (got, [before, after]) =
                compare(Server { answers: [reads, vec![]].into(), ..Server::default() }, &[Method::POST]);
            assert_eq!((got[0].body.len(), &got[0].error, got[0].kept), (count * size, &None, true));
            assert!(before >= count && after < most, "{count} of {size}: {after} frames");
        }
    }
}
