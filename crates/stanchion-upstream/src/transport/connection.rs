use bytes::Bytes;
use http::{Request, Response, Uri, header::HOST};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::{TrySendError, http1, http2},
};

use super::{origin::Origin, stream::History};

/// A connection to an [`Origin`]: over HTTP/1.1 the only handle to it, over HTTP/2 one of many.
#[derive(Debug)]
pub(super) struct Connection {
    sender: Sender,
    history: History,
    /// Opened for the one request that it is about to serve.
    is_fresh: bool,
}

#[derive(Debug)]
enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// What came of a request: the head of its response, or why there is none.
pub(super) type Sent = Result<Response<Incoming>, TrySendError<Request<Full<Bytes>>>>;

impl Connection {
    pub(super) fn http1(sender: http1::SendRequest<Full<Bytes>>, history: History) -> Self {
        Self { sender: Sender::Http1(sender), history, is_fresh: true }
    }

    pub(super) fn http2(sender: http2::SendRequest<Full<Bytes>>, history: History) -> Self {
        Self { sender: Sender::Http2(sender), history, is_fresh: true }
    }

    pub(super) fn history(&self) -> &History {
        &self.history
    }

    pub(super) fn is_http2(&self) -> bool {
        matches!(self.sender, Sender::Http2(_))
    }

    /// Whether nobody else has sent anything on it.
    pub(super) fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    pub(super) fn kept(mut self) -> Self {
        self.is_fresh = false;
        self
    }

    /// Another handle, where requests can share the connection.
    pub(super) fn share(&self) -> Option<Self> {
        match &self.sender {
            Sender::Http1(_) => None,
            Sender::Http2(sender) => Some(Self::http2(sender.clone(), self.history.clone()).kept()),
        }
    }

    /// Whether a request can be sent now, as far as is known.
    pub(super) fn is_ready(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => sender.is_ready(),
            Sender::Http2(sender) => sender.is_ready(),
        }
    }

    /// Whether no request can be sent any more.
    pub(super) fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => sender.is_closed(),
            Sender::Http2(sender) => sender.is_closed(),
        }
    }

    /// Waits until a request can be sent: what reads a reply may be ahead of what drives the connection.
    pub(super) async fn ready(&mut self) -> hyper::Result<()> {
        match &mut self.sender {
            Sender::Http1(sender) => sender.ready().await,
            Sender::Http2(sender) => sender.ready().await,
        }
    }

    /// Sends a request to the origin that the connection leads to. An error gives the request back where none of it
    /// was written.
    pub(super) async fn send(&mut self, mut request: Request<Full<Bytes>>, origin: &Origin) -> Sent {
        match &mut self.sender {
            Sender::Http1(sender) => {
                request.headers_mut().entry(HOST).or_insert_with(|| origin.host().clone());
                // The origin form of RFC 9112, section 3.2.1. An empty path reads as the default.
                let path = request.uri().path_and_query().filter(|path| path.as_str() != "/");
                *request.uri_mut() = path.cloned().map(Uri::from).unwrap_or_default();
                sender.try_send_request(request).await
            }
            Sender::Http2(sender) => sender.try_send_request(request).await,
        }
    }
}
