//! HTTP/1.1.

use std::{error::Error, io, time::Duration};

use http_body::Body;
use http_body_util::BodyExt;
use stanchion_core::{Dialect, FailureKind, Family, Phase};
use stanchion_upstream::Transport;
use tokio::{join, net::TcpListener};

use crate::{
    candidate,
    peer::{PLAIN, Server, call, within},
    request,
};

const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n9\r\ndata: a\n\n\r\n";

async fn read(response: http::Response<impl Body<Error = stanchion_core::Failure>>) -> bytes::Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

#[tokio::test]
async fn the_wire_shows_the_providers_request_and_nothing_of_the_client() {
    let server = Server::start().await;
    let transport = Transport::builder().build();
    let (answer, seen) = within(async {
        join!(call(&transport, server.request()), async {
            let mut peer = server.accept().await;
            let seen = peer.request().await;
            peer.send(PLAIN).await;
            seen
        })
    })
    .await;
    assert_eq!(read(answer.unwrap()).await, "{}");
    let (head, body) = seen.split_once("\r\n\r\n").unwrap();
    let mut lines: Vec<_> = head.lines().collect();
    lines[1..].sort_unstable();
    let host = format!("host: {}", server.address());
    assert_eq!(
        lines,
        [
            "POST /v1/chat/completions?beta=true HTTP/1.1",
            "accept-encoding: identity",
            "authorization: Bearer sk-ours",
            "content-length: 48",
            "content-type: application/json",
            &host,
        ]
    );
    assert_eq!(body, r#"{"model":"ours", "messages":[{"model":"asked"}]}"#);
}

#[tokio::test]
async fn connections_are_kept() {
    let server = Server::start().await;
    let transport = Transport::builder().build();
    within(async {
        let (answer, mut peer) = join!(call(&transport, server.request()), async {
            let mut peer = server.accept().await;
            peer.request().await;
            peer.send(PLAIN).await;
            peer
        });
        read(answer.unwrap()).await;
        let (answer, ()) = join!(call(&transport, server.request()), async {
            peer.request().await;
            peer.send(PLAIN).await;
        });
        read(answer.unwrap()).await;
        assert!(!server.is_called());
    })
    .await;
}

/// How a server ends a kept connection: while it is idle, or when a request has just come on it.
#[derive(Clone, Copy, PartialEq)]
enum Death {
    Idle,
    Close,
    Reset,
    HalfAnswered,
}

/// Answers one request, and lets the next one on the same connection die. Gives the second answer and how many
/// connections were made.
async fn second_answer(death: Death, fresh: &str) -> (crate::peer::Answer, u32) {
    let server = Server::start().await;
    let transport = Transport::builder().build();
    let mut connections = 1;
    let (answer, mut peer) = join!(call(&transport, server.request()), async {
        let mut peer = server.accept().await;
        peer.request().await;
        peer.send(PLAIN).await;
        peer
    });
    read(answer.unwrap()).await;
    let dying = async {
        if death != Death::Idle {
            peer.request().await;
        }
        match death {
            Death::Idle | Death::Close => drop(peer),
            Death::Reset => peer.reset(),
            Death::HalfAnswered => {
                peer.send("HTTP/1.1 200 OK\r\n").await;
                drop(peer);
            }
        }
        loop {
            let mut peer = server.accept().await;
            connections += 1;
            peer.request().await;
            peer.send(fresh).await;
        }
    };
    let answer = tokio::select! {
        answer = call(&transport, server.request()) => answer,
        () = dying => unreachable!(),
    };
    (answer, connections)
}

#[tokio::test]
async fn a_stale_connection_costs_one_fresh_one_and_no_attempt() {
    for death in [Death::Idle, Death::Close, Death::Reset] {
        let (answer, connections) = within(second_answer(death, PLAIN)).await;
        assert_eq!(read(answer.unwrap()).await, "{}");
        assert_eq!(connections, 2);
    }
}

#[tokio::test]
async fn the_resend_is_not_resent() {
    let (answer, connections) = within(second_answer(Death::Close, "")).await;
    let failure = answer.unwrap_err();
    assert_eq!((failure.kind(), failure.phase(), failure.attempts()), (FailureKind::Transport, Phase::Head, 1));
    assert_eq!(connections, 2);
}

#[tokio::test]
async fn a_connection_that_dies_within_the_answer_is_not_stale() {
    let (answer, connections) = within(second_answer(Death::HalfAnswered, PLAIN)).await;
    assert_eq!(answer.unwrap_err().kind(), FailureKind::Transport);
    assert_eq!(connections, 1);
}

#[tokio::test]
async fn a_fresh_connection_that_dies_is_a_failure_at_once() {
    for reset in [false, true] {
        let server = Server::start().await;
        let transport = Transport::builder().build();
        let (answer, ()) = within(async {
            join!(call(&transport, server.request()), async {
                let mut peer = server.accept().await;
                peer.request().await;
                if reset {
                    peer.reset();
                }
            })
        })
        .await;
        let failure = answer.unwrap_err();
        assert_eq!((failure.kind(), failure.phase(), failure.attempts()), (FailureKind::Transport, Phase::Head, 1));
        assert_eq!(failure.candidate().map(|name| &**name), Some("primary/ours"));
        assert!(!server.is_called());
    }
}

#[tokio::test]
async fn a_refused_connection_is_a_connect_failure() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let request = request(Dialect::OpenAiChat, candidate(Family::OpenAi, &format!("http://{address}/v1")));
    let failure = within(call(&Transport::builder().build(), request)).await.unwrap_err();
    assert_eq!((failure.kind(), failure.phase(), failure.limit()), (FailureKind::Connect, Phase::Connect, None));
    let mut source: Option<&dyn Error> = failure.source();
    let refused = std::iter::from_fn(|| {
        let error = source?;
        source = error.source();
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("sk-") && !shown.contains("/v1"), "{shown}");
        Some(error.downcast_ref::<io::Error>().map(io::Error::kind))
    });
    assert_eq!(refused.last().flatten(), Some(io::ErrorKind::ConnectionRefused));
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_never_ends_is_bounded_by_the_connect_limit() {
    // Accepts, by the kernel, and never speaks TLS.
    let server = Server::start().await;
    let base = format!("https://{}/v1", server.address());
    let started = tokio::time::Instant::now();
    let transport = Transport::builder().connect_timeout(Duration::from_secs(7)).build();
    let failure = call(&transport, request(Dialect::OpenAiChat, candidate(Family::OpenAi, &base))).await.unwrap_err();
    assert_eq!((failure.kind(), failure.phase()), (FailureKind::Connect, Phase::Connect));
    assert_eq!(failure.limit(), Some(Duration::from_secs(7)));
    assert_eq!(started.elapsed().as_secs(), 7);
    assert_eq!(failure.source().unwrap().to_string(), "no connection within 7s");
}

#[tokio::test]
async fn a_future_that_is_dropped_before_the_head_closes_the_connection() {
    let server = Server::start().await;
    let transport = Transport::builder().build();
    within(async {
        let mut exchange = Box::pin(call(&transport, server.request()));
        let mut peer = tokio::select! {
            _ = &mut exchange => unreachable!(),
            peer = async {
                let mut peer = server.accept().await;
                peer.request().await;
                peer
            } => peer,
        };
        drop(exchange);
        peer.closed().await;
    })
    .await;
}

#[tokio::test]
async fn a_body_that_is_dropped_in_mid_stream_closes_the_connection() {
    let server = Server::start().await;
    let transport = Transport::builder().build();
    within(async {
        let (answer, mut peer) = join!(call(&transport, server.request()), async {
            let mut peer = server.accept().await;
            peer.request().await;
            peer.send(STREAM).await;
            peer
        });
        let mut body = answer.unwrap().into_body();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "data: a\n\n");
        drop(body);
        peer.closed().await;
    })
    .await;
}

#[tokio::test]
async fn a_body_that_breaks_off_is_a_transport_failure() {
    let short = "HTTP/1.1 200 OK\r\ncontent-length: 400\r\n\r\n{\"choices\":[";
    for (reply, reset) in [(STREAM, false), (STREAM, true), (short, false)] {
        let server = Server::start().await;
        let transport = Transport::builder().build();
        within(async {
            let (answer, peer) = join!(call(&transport, server.request()), async {
                let mut peer = server.accept().await;
                peer.request().await;
                peer.send(reply).await;
                peer
            });
            let mut body = answer.unwrap().into_body();
            assert!(body.frame().await.unwrap().unwrap().is_data());
            if reset {
                peer.reset();
            } else {
                drop(peer);
            }
            let failure = body.frame().await.unwrap().unwrap_err();
            assert_eq!(
                (failure.kind(), failure.phase(), failure.attempts()),
                (FailureKind::Transport, Phase::BeforeOutput, 1)
            );
            assert!(body.frame().await.is_none() && body.is_end_stream());
        })
        .await;
    }
}

#[tokio::test]
async fn chunks_that_come_together_come_out_together() {
    let event = "data: {\"choices\":[{\"delta\":{\"content\":\"word\"}}]}\n\n";
    let chunks = format!("{:X}\r\n{event}\r\n", event.len()).repeat(60);
    let server = Server::start().await;
    let transport = Transport::builder().build();
    within(async {
        let mut kept = None;
        // In one write with the head on the first request of a connection, after it on the next.
        for with_head in [chunks.as_str(), ""] {
            let (answer, mut peer) = join!(call(&transport, server.request()), async {
                let mut peer = match kept.take() {
                    Some(peer) => peer,
                    None => server.accept().await,
                };
                peer.request().await;
                peer.send(["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", with_head].concat()).await;
                peer
            });
            let mut body = answer.unwrap().into_body();
            if with_head.is_empty() {
                peer.send(&chunks).await;
            }
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), event.repeat(60));
            peer.send("0\r\n\r\n").await;
            assert!(body.frame().await.is_none());
            kept = Some(peer);
        }
        assert!(!server.is_called());
    })
    .await;
}

#[tokio::test]
async fn no_piece_is_larger_than_a_read() {
    let data = "x".repeat(1 << 20);
    let whole = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{data}", data.len());
    let small =
        format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{}0\r\n\r\n", "3\r\nabc\r\n".repeat(100_000));
    let large = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n100000\r\n{data}\r\n0\r\n\r\n");
    for (reply, length) in [(whole, 1 << 20), (small, 300_000), (large, 1 << 20)] {
        let server = Server::start().await;
        let transport = Transport::builder().build();
        let read = async {
            let mut body = call(&transport, server.request()).await.unwrap().into_body();
            let mut pieces = Vec::new();
            while let Some(frame) = body.frame().await {
                pieces.push(frame.unwrap().into_data().unwrap().len());
            }
            pieces
        };
        let (pieces, ()) = within(async {
            join!(read, async {
                let mut peer = server.accept().await;
                peer.request().await;
                peer.send(reply).await;
            })
        })
        .await;
        assert_eq!(pieces.iter().sum::<usize>(), length);
        assert!(pieces.iter().all(|piece| *piece <= 32 * 1024), "{pieces:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_no_http_is_a_transport_failure() {
    let server = Server::start().await;
    let transport = Transport::builder().build();
    let (answer, _peer) = within(async {
        join!(call(&transport, server.request()), async {
            let mut peer = server.accept().await;
            peer.request().await;
            peer.send("SSH-2.0-OpenSSH_9.9\r\n\r\n").await;
            peer
        })
    })
    .await;
    let failure = answer.unwrap_err();
    assert_eq!((failure.kind(), failure.phase()), (FailureKind::Transport, Phase::Head));
}
