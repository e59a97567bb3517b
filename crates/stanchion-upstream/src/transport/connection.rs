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
        Self { sender: Sender::Http1(sender), history }
    }

    pub(super) fn http2(sender: http2::SendRequest<Full<Bytes>>, history: History) -> Self {
        Self { sender: Sender::Http2(sender), history }
    }

    pub(super) fn history(&self) -> &History {
        &self.history
    }

    pub(super) fn is_http2(&self) -> bool {
        matches!(self.sender, Sender::Http2(_))
    }

    /// Another handle, where requests can share the connection.
    pub(super) fn share(&self) -> Option<Self> {
        match &self.sender {
            Sender::Http1(_) => None,
            Sender::Http2(sender) => Some(Self::http2(sender.clone(), self.history.clone())),
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

    /// Sends a request to the origin that the connection leads to. An error gives the request back where none of it
    /// was written.
    pub(super) async fn send(&mut self, mut request: Request<Full<Bytes>>, origin: &Origin) -> Sent {
        match &mut self.sender {
            Sender::Http1(sender) => {
                request.headers_mut().entry(HOST).or_insert_with(|| origin.host().clone());
                // The origin form of RFC 9112, section 3.2.1.
                *request.uri_mut() = request.uri().path_and_query().cloned().map(Uri::from).unwrap_or_default();
                sender.try_send_request(request).await
            }
            Sender::Http2(sender) => sender.try_send_request(request).await,
        }
    }
}
