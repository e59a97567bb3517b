use std::{convert::Infallible, error::Error, future::Future, io, net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::Watcher},
};
use tokio::net::TcpStream;

use super::{Lifecycle, Phase};

/// How long a connection may take to send the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// How long a client may take nothing of what is sent to it.
#[cfg(target_os = "linux")]
const SILENT_CLIENT: Duration = Duration::from_secs(60);

/// Answers the requests of connections.
pub trait Answer: Clone + Send + 'static {
    /// The body of its replies.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static;

    /// Answers one.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Response<Self::Body>> + Send + 'static;
}

/// Who is at the other end of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// From where it came.
    pub address: SocketAddr,
}

/// Serves a connection to its end.
pub(super) async fn serve<A: Answer>(stream: TcpStream, peer: Peer, answer: A, lifecycle: Lifecycle, watcher: Watcher) {
    // A token a frame: nothing may wait for an acknowledgement.
    if let Err(error) = stream.set_nodelay(true).and_then(|()| bound_silence(&stream)) {
        tracing::debug!(%error, "a socket option cannot be set");
    }
    // The clock of the head starts with its first byte: a connection that never sends one is closed here.
    tokio::select! {
        ready = tokio::time::timeout(HEAD_TIME, stream.readable()) => {
            if !matches!(ready, Ok(Ok(()))) {
                return;
            }
        }
        () = lifecycle.reached(Phase::Draining) => return,
    }
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
    builder.http2().timer(TokioTimer::new());
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        let answer = answer.clone();
        async move { Ok::<_, Infallible>(answer.answer(request).await) }
    });
    let connection = watcher.watch(builder.serve_connection(TokioIo::new(stream), service).into_owned());
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Ends a connection whose client is gone without a word, or takes nothing of what is sent: its stream would hold the provider for ever.
pub(crate) fn bound_silence(stream: &TcpStream) -> io::Result<()> {
    let socket = socket2::SockRef::from(stream);
    socket.set_tcp_keepalive(
        &socket2::TcpKeepalive::new().with_time(Duration::from_secs(60)).with_interval(Duration::from_secs(15)),
    )?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(SILENT_CLIENT))?;
    Ok(())
}
