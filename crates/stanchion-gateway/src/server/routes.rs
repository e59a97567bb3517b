use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version, header};
use http_body::Body as _;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use stanchion::{
    core::Dialect,
    wire::{render, request::route},
};
use tower_service::Service;

use super::{Lifecycle, connection::Answer, held::Held};
use crate::{
    config::ServerSettings,
    current::Current,
    gateway::{Door, ModelBody, Refusal},
    keys::{Running, TooMuch},
};

/// A body: of a model call, or of our own.
type Body = Either<Held<ModelBody, Option<Running>>, Full<Bytes>>;

/// How long a client is to wait for a request of its own to end.
const SOON: Duration = Duration::from_secs(1);

/// Answers clients with what is served at the moment.
#[derive(Debug, Clone)]
pub(super) struct Routes {
    pub(super) current: Current,
    pub(super) lifecycle: Lifecycle,
}

impl Answer for Routes {
    type Body = Body;

    fn server(&self) -> ServerSettings {
        self.current.get().gateway.server.clone()
    }

    fn door(&self) -> Door {
        self.current.get().gateway.door.clone()
    }

    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Response<Body>> + Send + 'static {
        let own = self.answer_itself(&request);
        let current = self.current.clone();
        async move {
            match own {
                Some(response) => response.map(own_body),
                None => answer(&current, request).await,
            }
        }
    }
}

impl Routes {
    /// What needs no key: whether the process lives, and whether it takes requests.
    fn answer_itself(&self, request: &Request<Incoming>) -> Option<Response<Bytes>> {
        match request.uri().path() {
            "/healthz" => Some(plain(StatusCode::OK, "ok\n")),
            "/readyz" if self.lifecycle.is_ready() => Some(plain(StatusCode::OK, "ready\n")),
            "/readyz" => Some(plain(StatusCode::SERVICE_UNAVAILABLE, "draining\n")),
            _ => None,
        }
    }
}

async fn answer(current: &Current, mut request: Request<Incoming>) -> Response<Body> {
    // The configuration of this moment is that of the whole request.
    let served = current.get();
    let gateway = &served.gateway;
    let path = request.uri().path();
    let dialect = || route(path).map_or(Dialect::OpenAiChat, |route| route.dialect);
    let refuse = |refusal, status, code: &str, text: &str| {
        gateway.door.count(refusal);
        hang_up(render::local_error(dialect(), status, code, text).map(own_body), &request)
    };
    // HTTP/1 is held to it while it is read; HTTP/2 knows no such limit.
    if request.headers().len() > gateway.server.limits.headers {
        let text = format!("a request may have {} headers", gateway.server.limits.headers);
        return refuse(Refusal::HeadTooLarge, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "too_many_headers", &text);
    }
    let Some(identity) = gateway.keys.identify(request.headers(), request.uri()) else {
        let text = "a client key is needed, and the one presented is not known";
        return refuse(Refusal::UnknownKey, StatusCode::UNAUTHORIZED, "invalid_api_key", text);
    };
    if gateway.keys.is_empty() && is_foreign_page(request.headers()) {
        let text = "web pages of other sites may not ask here, since no client key is configured";
        return refuse(Refusal::ForeignPage, StatusCode::FORBIDDEN, "permission_denied", text);
    }
    if path == "/v1/models" && request.method() == Method::GET {
        return json(gateway.names.list(identity.models()).to_string());
    }
    let running = match route(path).map(|_| identity.admit()) {
        None => None,
        Some(Ok(running)) => running,
        Some(Err(too_much)) => {
            gateway.door.count(match too_much {
                TooMuch::Often { .. } => Refusal::Rate,
                TooMuch::AtOnce { .. } => Refusal::Concurrency,
            });
            return hang_up(too_many(dialect(), too_much), &request);
        }
    };
    identity.apply(request.headers_mut());
    if let Some(models) = identity.models() {
        request.extensions_mut().insert(models.clone());
    }
    if let Some(tenant) = identity.tenant() {
        request.extensions_mut().insert(tenant.clone());
    }
    let (mut edge, door) = (gateway.edge.clone(), gateway.door.clone());
    drop(served);
    let Ok(response) = edge.call(request).await;
    if let Some(refusal) = response.extensions().get().copied().and_then(Refusal::of_edge) {
        door.count(refusal);
    }
    response.map(|body| Either::Left(Held::new(body, running)))
}

/// What is answered before the request's body has come leaves no connection to ask on, and says so.
fn hang_up(mut response: Response<Body>, request: &Request<Incoming>) -> Response<Body> {
    if request.version() < Version::HTTP_2 && !request.body().is_end_stream() {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// A client asks for more than it may: when it may ask again, in its dialect.
fn too_many(dialect: Dialect, too_much: TooMuch) -> Response<Body> {
    let (text, retry_after) = match too_much {
        TooMuch::Often { limit, retry_after } => (format!("this key may make {limit} requests a minute"), retry_after),
        TooMuch::AtOnce { limit } => (format!("this key may have {limit} requests running at one time"), SOON),
    };
    let mut response = render::local_error(dialect, StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded", &text);
    let headers = response.headers_mut();
    // Client libraries wait for so long, and ask again.
    headers.remove("x-should-retry");
    headers
        .insert(header::RETRY_AFTER, retry_after.as_secs_f64().ceil().max(1.0).to_string().parse().expect("a number"));
    response.map(own_body)
}

/// Whether a web page of another site sent the request: browsers say so, and do not ask before they send a plain POST.
fn is_foreign_page(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    let host = origin
        .to_str()
        .ok()
        .and_then(|origin| url::Url::parse(origin).ok())
        .and_then(|url| url.host_str().map(str::to_owned));
    !matches!(host.as_deref(), Some("localhost" | "127.0.0.1" | "[::1]"))
}

fn own_body(body: Bytes) -> Body {
    Either::Right(Full::new(body))
}

fn plain(status: StatusCode, text: &'static str) -> Response<Bytes> {
    said(status, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()))
}

fn json(text: String) -> Response<Body> {
    said(StatusCode::OK, "application/json", text.into()).map(own_body)
}

fn said(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
