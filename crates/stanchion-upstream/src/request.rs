use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{HeaderMap, Request, Uri};
use http_body::Body;
use http_body_util::Full;
use stanchion_core::{Call, Candidate, Dialect, WithoutOutputLimit};
use stanchion_wire::request::{replace_model, target, with_overrides, without_output_limits};

use crate::{Unsendable, headers};

/// What all requests to a candidate have in common.
struct Common {
    headers: Result<HeaderMap, Unsendable>,
    /// Where calls go whose address follows from the candidate alone.
    targets: Vec<(Dialect, Uri)>,
}

impl Common {
    fn of(candidate: &Candidate) -> Arc<Self> {
        candidate.derive(|candidate| {
            let plain =
                [Dialect::OpenAiChat, Dialect::OpenAiResponses, Dialect::OpenAiEmbeddings, Dialect::AnthropicMessages];
            let target = |dialect| target(&Call::new(dialect, false), &Uri::default(), candidate).ok();
            let targets = plain.into_iter().filter_map(|dialect| Some((dialect, target(dialect)?))).collect();
            Arc::new(Self { headers: headers::own(candidate), targets })
        })
    }

    fn target(&self, call: &Call, client: &Uri, candidate: &Candidate) -> Result<Uri, Unsendable> {
        let known = self.targets.iter().find(|(dialect, _)| *dialect == call.dialect && client.query().is_none());
        match known {
            Some((_, uri)) => Ok(uri.clone()),
            None => Ok(target(call, client, candidate)?),
        }
    }
}

/// The provider's request. The client's extensions stay in it, for whoever stands between us and the transport.
pub(crate) fn for_provider(
    request: Request<Full<Bytes>>,
    candidate: &Candidate,
) -> Result<Request<Full<Bytes>>, Unsendable> {
    let (client, body) = request.into_parts();
    let call: &Call = client.extensions.get().ok_or(Unsendable::NoCall)?;
    let family = call.dialect.family();
    if candidate.family() != family {
        return Err(Unsendable::Family { candidate: candidate.family(), call: family });
    }
    let model = candidate.model().map(AsRef::as_ref);
    let common = Common::of(candidate);
    let uri = common.target(call, &client.uri, candidate)?;
    let own = common.headers.as_ref().map_err(|problem| *problem)?;
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
    *request.headers_mut() = headers::for_provider(client.headers, family, own);
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
