use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::Request;
use http_body::Body;
use http_body_util::Full;
use stanchion_core::{Call, Candidate, Dialect, WithoutOutputLimit};
use stanchion_wire::request::{replace_model, target, with_overrides, without_output_limits};

use crate::{Unsendable, headers};

/// The provider's request. The client's extensions stay in it, for whoever stands between us and the transport.
pub(crate) fn for_provider(
    request: Request<Full<Bytes>>,
    candidate: &Candidate,
    call: &Call,
) -> Result<Request<Full<Bytes>>, Unsendable> {
    let family = call.dialect.family();
    if candidate.family() != family {
        return Err(Unsendable::Family { candidate: candidate.family(), call: family });
    }
    let model = candidate.model().map(AsRef::as_ref);
    let (client, body) = request.into_parts();
    let uri = target(call, &client.uri, candidate)?;
    let body = match model {
        // Gemini's model is in the path.
        Some(model) if call.dialect != Dialect::GeminiGenerateContent => Full::new(replace_model(&whole(body), model)),
        _ => body,
    };
    let body = match candidate {
        plain if !plain.has_overrides() => body,
        candidate => Full::new(with_overrides(call.dialect, &whole(body), candidate)),
    };
    let body = match client.extensions.get::<WithoutOutputLimit>() {
        Some(_) => Full::new(without_output_limits(&whole(body))),
        None => body,
    };
    // A fresh head: the version of the client's connection says nothing about the provider's.
    let mut request = Request::new(body);
    *request.method_mut() = client.method;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers::for_provider(client.headers, candidate)?;
    *request.extensions_mut() = client.extensions;
    Ok(request)
}

/// The bytes of a body that is always ready.
fn whole(mut body: Full<Bytes>) -> Bytes {
    match Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
        _ => Bytes::new(),
    }
}
