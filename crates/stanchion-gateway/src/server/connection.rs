use std::{
    convert::Infallible,
    error::Error,
    future::{Future, poll_fn},
    io,
    pin::pin,
    task::{Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::coop,
};

use super::{
    Lifecycle, ListenerLimits, Phase,
    activity::{Activity, Clock, Overdue, Watched},
    gather::{Gathered, Midst, Pieces},
    held::Held,
    streams::{Sent, Streams},
};
use crate::{
    config::ServerSettings,
    gateway::{Door, Refusal},
};

/// How many headers hyper takes without allocating for them.
const USUAL_HEADERS: usize = 100;
/// How many HTTP/2 requests a client may take back before they were looked at.
const TAKEN_BACK: usize = 20;
/// How many HTTP/2 requests may be reset for what a client did wrong. Either is the end of the connection.
const WRONG: usize = 1024;

/// Answers the requests of connections.
pub trait Answer: Clone + Send + 'static {
    /// The body of its replies.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>> + Send> + Send + 'static;

    /// How clients connect, from now on.
    fn server(&self) -> ServerSettings;

    /// Who is told of those who connect, and of those who are turned away before there is a request to answer.
    fn door(&self) -> Door;

    /// Answers one.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Response<Self::Body>> + Send + 'static;
}

/// Serves a connection to its end.
pub(super) async fn serve<A: Answer>(stream: TcpStream, answer: A, lifecycle: Lifecycle) {
    let ServerSettings { limits, tls, .. } = answer.server();
    // A token a frame: nothing may wait for an acknowledgement.
    if let Err(error) = stream.set_nodelay(true).and_then(|()| bound_silence(&stream, limits.send_timeout)) {
        tracing::debug!(%error, "a socket option cannot be set");
    }
    let Some(tls) = tls else {
        return serve_requests(stream, answer, lifecycle, limits).await;
    };
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(limits.header_timeout, tls.acceptor().accept(stream)) => shaken,
        () = lifecycle.reached(Phase::Draining) => return,
    };
    match shaken {
        Ok(Ok(stream)) => serve_requests(stream, answer, lifecycle, limits).await,
        Ok(Err(error)) => {
            if !is_departure(&error) {
                answer.door().count(Refusal::Tls);
            }
            tracing::debug!(%error, "a TLS handshake failed");
        }
        Err(_) => {
            answer.door().count(Refusal::Tls);
            tracing::debug!("a TLS handshake took too long");
        }
    }
}

/// Whether a client left without a word in the midst of its handshake, as those do who only look whether somebody listens: it was
/// not refused.
pub(crate) fn is_departure(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

async fn serve_requests<A: Answer>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    answer: A,
    lifecycle: Lifecycle,
    limits: ListenerLimits,
) {
    let activity = Activity::new();
    let (requests, door) = (activity.clone(), answer.door());
    let midst = Midst::default();
    let replies = midst.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (answer, running) = (answer.clone(), requests.begin(request.version()));
        let (version, midst) = (request.version(), replies.of(request.version()));
        async move {
            let response = answer.answer(request).await;
            Ok::<_, Infallible>(response.map(|body| Sent::new(Held::new(Pieces::new(body, midst), running), version)))
        }
    });
    let stream = TokioIo::new(Watched::new(Gathered::new(stream, midst), activity.clone()));
    let builder = builder(&limits);
    let mut connection = pin!(builder.serve_connection(stream, service));
    let mut clock = Clock::new(activity.clone(), limits);
    let mut draining = pin!(lifecycle.reached(Phase::Draining));
    // Each event of a reply wakes this task: who waits for the drain is polled anew only once there is news.
    let mut waits: Option<(Phase, Waker)> = None;
    let mut draining = poll_fn(|cx| {
        let now = lifecycle.phase();
        if waits.as_ref().is_some_and(|(phase, waker)| *phase == now && waker.will_wake(cx.waker())) {
            return Poll::Pending;
        }
        let reached = draining.as_mut().poll(cx);
        // A task that has spent its turn is not registered.
        waits = coop::has_budget_remaining().then(|| (now, cx.waker().clone()));
        reached
    });
    let mut going = false;
    let ended = loop {
        tokio::select! {
            // The clock looks at what the connection has just done.
            biased;
            ended = connection.as_mut() => break ended,
            overdue = poll_fn(|cx| clock.poll(cx)) => {
                if overdue == Overdue::Head {
                    door.count(Refusal::HeadTimeout);
                }
                if going || overdue == Overdue::Head {
                    tracing::debug!(?overdue, "a client took too long");
                    return;
                }
            }
            () = &mut draining, if !going => {}
        }
        going = true;
        clock.go();
        connection.as_mut().graceful_shutdown();
    };
    if let Err(error) = ended {
        match error.downcast_ref::<hyper::Error>() {
            Some(error) if error.is_parse_too_large() => door.count(Refusal::HeadTooLarge),
            Some(error) if error.is_parse() => door.count(Refusal::HeadMalformed),
            _ => {}
        }
        tracing::debug!(%error, "a connection ended early");
    }
}

fn builder(limits: &ListenerLimits) -> auto::Builder<Streams> {
    let mut builder = auto::Builder::new(Streams { limit: limits.send_timeout });
    // How long a head may take is for the clock to say.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(None).max_buf_size(limits.header_bytes);
    if limits.headers != USUAL_HEADERS {
        builder.http1().max_headers(limits.headers);
    }
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.http2_streams)
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(limits.http2_ping)
        .keep_alive_timeout(limits.http2_ping_timeout)
        .max_pending_accept_reset_streams(TAKEN_BACK)
        .max_local_error_reset_streams(WRONG);
    builder
}

/// Ends a connection whose client is gone without a word, or takes nothing of what is sent for so long: its stream would hold the provider
/// for ever.
#[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "there is no such option"))]
pub(crate) fn bound_silence(stream: &TcpStream, send_timeout: Duration) -> io::Result<()> {
    let socket = socket2::SockRef::from(stream);
    socket.set_tcp_keepalive(
        &socket2::TcpKeepalive::new().with_time(Duration::from_secs(60)).with_interval(Duration::from_secs(15)),
    )?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(send_timeout))?;
    Ok(())
}
