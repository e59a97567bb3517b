use std::{collections::VecDeque, convert::Infallible, future::poll_fn, pin::pin};

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body_util::BodyExt;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_test::{assert_pending, assert_ready, assert_ready_ok, task};

use super::*;

/// What was written, a call each; takes nothing while it is full.
#[derive(Debug, Default)]
struct Wire {
    writes: Vec<String>,
    full: bool,
    takes: Option<usize>,
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.full {
            return Poll::Pending;
        }
        let taken = &buf[..self.takes.unwrap_or(buf.len()).min(buf.len())];
        self.writes.push(String::from_utf8(taken.to_vec()).unwrap());
        Poll::Ready(Ok(taken.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A connection to drive by hand, in the midst of a reply or not.
fn connection(midst: bool) -> (task::Spawn<Gathered<Wire>>, Midst) {
    let shared = Midst::default();
    shared.set(midst);
    (task::spawn(Gathered::new(Wire::default(), shared.clone())), shared)
}

fn write(connection: &mut task::Spawn<Gathered<Wire>>, text: &str) {
    let written = connection.enter(|cx, gathered| gathered.poll_write(cx, text.as_bytes()));
    assert_eq!(assert_ready_ok!(written), text.len());
}

fn flush(connection: &mut task::Spawn<Gathered<Wire>>) -> Poll<()> {
    connection.enter(|cx, gathered| gathered.poll_flush(cx).map(|flushed| flushed.unwrap()))
}

fn writes(connection: &task::Spawn<Gathered<Wire>>) -> Vec<&str> {
    connection.stream.writes.iter().map(String::as_str).collect()
}

#[test]
fn pieces_that_come_within_a_turn_leave_together() {
    let (mut connection, _midst) = connection(true);
    for piece in ["a", "b", "c"] {
        write(&mut connection, piece);
        assert_pending!(flush(&mut connection));
        assert!(connection.is_woken(), "it asks for the next turn itself");
    }
    assert_ready!(flush(&mut connection));
    assert_eq!(writes(&connection), ["abc"]);
}

#[test]
fn a_piece_that_came_alone_leaves_with_the_next_turn() {
    let (mut connection, _midst) = connection(true);
    write(&mut connection, "a");
    assert_pending!(flush(&mut connection));
    assert_ready!(flush(&mut connection));
    assert_eq!(writes(&connection), ["a"]);
}

#[test]
fn after_two_that_came_alone_pieces_are_not_kept_for_a_while() {
    let (mut connection, _midst) = connection(true);
    let turns = |connection: &mut task::Spawn<Gathered<Wire>>, pieces: &[&str]| {
        let mut turns = 0;
        for piece in pieces {
            write(connection, piece);
            turns += u32::from(flush(connection).is_pending());
        }
        while flush(connection).is_pending() {
            turns += 1;
        }
        turns
    };
    for _ in 0..3 {
        assert_eq!(turns(&mut connection, &["a"]), 1);
        assert_eq!(turns(&mut connection, &["b", "c"]), 2, "one alone says nothing");
    }
    assert_eq!(turns(&mut connection, &["a"]), 1);
    for _ in 0..2 {
        assert_eq!(turns(&mut connection, &["a"]), 1);
        let sent = writes(&connection).len();
        assert_eq!(turns(&mut connection, &["a"; ALONE as usize]), 0);
        assert_eq!(writes(&connection)[sent..], ["a"; ALONE as usize], "each at once");
    }
    assert_eq!(turns(&mut connection, &["b", "c"]), 2);
    assert_eq!(writes(&connection).last(), Some(&"bc"));
}

#[test]
fn what_is_not_in_the_midst_of_a_reply_is_written_at_once() {
    let (mut connection, _midst) = connection(false);
    write(&mut connection, "head");
    assert_eq!(writes(&connection), ["head"]);
    assert_ready!(flush(&mut connection));
}

#[test]
fn the_end_leaves_with_what_is_kept() {
    let (mut connection, midst) = connection(true);
    write(&mut connection, "piece");
    assert_pending!(flush(&mut connection));
    midst.set(false);
    write(&mut connection, " end");
    assert_ready!(flush(&mut connection));
    assert_eq!(writes(&connection), ["piece end"]);
}

#[test]
fn nothing_is_kept_for_ever() {
    let (mut connection, _midst) = connection(true);
    let turns = (1..100).take_while(|_| {
        write(&mut connection, "a");
        flush(&mut connection).is_pending()
    });
    assert_eq!(turns.count(), usize::from(TURNS));
    assert_eq!(writes(&connection), ["a".repeat(usize::from(TURNS) + 1)]);
}

#[test]
fn no_more_is_kept_than_the_most() {
    let (mut connection, _midst) = connection(true);
    let piece = "a".repeat(MOST / 2);
    (0..3).for_each(|_| write(&mut connection, &piece));
    assert_eq!(writes(&connection), ["a".repeat(MOST)]);
    let large = "b".repeat(MOST + 1);
    write(&mut connection, &large);
    assert_eq!(writes(&connection)[1..], [piece, large], "in their order");
}

#[test]
fn a_client_that_takes_nothing_holds_up_what_follows() {
    let (mut connection, _midst) = connection(true);
    write(&mut connection, &"a".repeat(MOST));
    connection.stream.full = true;
    let more = connection.enter(|cx, gathered| gathered.poll_write(cx, b"more"));
    assert!(more.is_pending());
    assert_pending!(flush(&mut connection));
    connection.stream.full = false;
    connection.stream.takes = Some(MOST - 1);
    write(&mut connection, "more");
    assert_pending!(flush(&mut connection));
    assert_ready!(flush(&mut connection));
    assert_eq!(writes(&connection).concat(), "a".repeat(MOST) + "more");
}

#[test]
fn what_is_kept_is_written_before_the_connection_is_shut() {
    let (mut connection, _midst) = connection(true);
    write(&mut connection, "a");
    let shut = connection.enter(|cx, gathered| gathered.poll_shutdown(cx));
    assert_ready_ok!(shut);
    assert_eq!(writes(&connection), ["a"]);
}

/// A body of these pieces, each ready once it is there.
struct Queue(VecDeque<Result<&'static str, &'static str>>);

impl Body for Queue {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let next = self.0.pop_front();
        Poll::Ready(next.map(|piece| piece.map(|text| Frame::data(Bytes::from_static(text.as_bytes())))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }
}

fn reply<const N: usize>(pieces: [Result<&'static str, &'static str>; N], midst: &Midst) -> Pieces<Queue> {
    Pieces::new(Queue(pieces.into()), midst.of(Version::HTTP_11))
}

#[tokio::test]
async fn a_reply_is_in_its_midst_from_its_second_piece_to_its_end() {
    let midst = Midst::default();
    let mut body = pin!(reply([Ok("a"), Ok("b"), Ok("c")], &midst));
    for (piece, is_midst) in [("a", false), ("b", true), ("c", true)] {
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), piece);
        assert_eq!(midst.is(), is_midst, "{piece}");
    }
    assert!(body.is_end_stream());
    assert!(!midst.is());
}

#[tokio::test]
async fn what_came_before_an_error_can_be_written_before_it_is_told() {
    let midst = Midst::default();
    let mut body = pin!(reply([Ok("a"), Ok("b"), Err("broken")], &midst));
    for _ in 0..2 {
        body.frame().await.unwrap().unwrap();
    }
    let mut turn = task::spawn(poll_fn(|cx| body.as_mut().poll_frame(cx)));
    assert_pending!(turn.poll());
    assert!(turn.is_woken() && !midst.is(), "the connection may write now");
    let told = assert_ready!(turn.poll()).unwrap();
    assert_eq!(told.unwrap_err(), "broken");
}

#[tokio::test]
async fn a_reply_that_ends_without_a_word_is_over() {
    let midst = Midst::default();
    let mut body = Box::pin(reply([Ok("a"), Ok("b"), Ok("c")], &midst));
    for _ in 0..2 {
        body.frame().await.unwrap().unwrap();
    }
    assert!(midst.is());
    drop(body);
    assert!(!midst.is());
}

/// Over a real connection: replies of known and unknown length, one after the other, and one that breaks.
#[tokio::test]
async fn every_byte_arrives_in_its_order() {
    let (mut client, server) = tokio::io::duplex(64 * 1024);
    let midst = Midst::default();
    let replies = midst.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let pieces = match request.uri().path() {
            "/broken" => VecDeque::from([Ok("one "), Ok("two "), Err("broken")]),
            _ => VecDeque::from([Ok("one "), Ok("two "), Ok("three")]),
        };
        let mut response = Response::new(Pieces::new(Queue(pieces), replies.of(request.version())));
        if request.uri().path() == "/known" {
            response.headers_mut().insert("content-length", HeaderValue::from_static("13"));
        }
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let connection =
        http1::Builder::new().serve_connection(TokioIo::new(Gathered::new(server, midst.clone())), service);
    let serving = tokio::spawn(connection);
    let mut told = String::new();
    for (path, end) in [("/known", "three"), ("/chunked", "0\r\n\r\n"), ("/known", "three"), ("/broken", "two \r\n")] {
        client.write_all(format!("GET {path} HTTP/1.1\r\nhost: h\r\n\r\n").as_bytes()).await.unwrap();
        told.clear();
        while !told.ends_with(end) {
            let mut piece = [0; 1024];
            let read = client.read(&mut piece).await.unwrap();
            assert!(read > 0, "{path}: the connection ended after {told:?}");
            told += std::str::from_utf8(&piece[..read]).unwrap();
        }
        let (_, body) = told.split_once("\r\n\r\n").unwrap();
        let expected = match path {
            "/known" => "one two three",
            "/chunked" => "4\r\none \r\n4\r\ntwo \r\n5\r\nthree\r\n0\r\n\r\n",
            _ => "4\r\none \r\n4\r\ntwo \r\n",
        };
        assert_eq!(body, expected, "{path}");
        assert!(!midst.is(), "{path}");
    }
    assert!(serving.await.unwrap().is_err(), "what broke is not ended as if it were whole");
}

#[test]
fn http2_gathers_by_itself() {
    assert!(Midst::default().of(Version::HTTP_2).is_none());
}
