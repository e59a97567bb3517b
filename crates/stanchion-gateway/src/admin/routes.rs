//! What is answered to whom.

use std::{borrow::Cow, sync::Arc, time::SystemTime};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use stanchion::telemetry::MetricsFormat;

use super::{
    Shared,
    access::Refusal,
    board::{Acted, Action},
    events::{ActionEvent, Feed, FeedBody, View},
    page::PAGE,
    status,
};

type Body = Either<Full<Bytes>, FeedBody>;

/// What goes with every answer: it is for the one who asked, and for nobody's cache, frame or sniffer.
const ALWAYS: [(HeaderName, &str); 6] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

pub(super) fn answer(shared: &Arc<Shared>, request: Request<Incoming>) -> Response<Body> {
    // No request here has a body that means anything.
    let (parts, _) = request.into_parts();
    let mut response = match shared.access.check(&parts) {
        Ok(()) => route(shared, &parts),
        Err(refusal) => {
            shared.refused(refusal);
            refuse(refusal)
        }
    };
    for (name, value) in ALWAYS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn route(shared: &Arc<Shared>, request: &http::request::Parts) -> Response<Body> {
    let path = request.uri.path();
    let is_reading = matches!(request.method, Method::GET | Method::HEAD);
    match path {
        "/" | "/metrics" | "/status" | "/events" | "/healthz" | "/readyz" if !is_reading => wrong_method("GET, HEAD"),
        "/" => {
            let mut response = own(StatusCode::OK, "text/html; charset=utf-8", PAGE.html.clone());
            response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, PAGE.policy.clone());
            response
        }
        "/metrics" => {
            let accept = request.headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
            let format = MetricsFormat::accepted(accept.unwrap_or_default());
            own(StatusCode::OK, format.content_type(), shared.metrics.encode(format))
        }
        "/status" => own(StatusCode::OK, "application/json", shared.status(usize::MAX)),
        "/events" => events(shared, request.uri.query().unwrap_or_default()),
        "/healthz" => own(StatusCode::OK, "text/plain; charset=utf-8", "ok\n"),
        "/readyz" if *shared.draining.borrow() => {
            own(StatusCode::SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", "draining\n")
        }
        "/readyz" => own(StatusCode::OK, "text/plain; charset=utf-8", "ready\n"),
        _ => match action(path) {
            Some(_) if request.method != Method::POST => wrong_method("POST"),
            Some((action, candidate)) => act(shared, action, &candidate),
            None => error(StatusCode::NOT_FOUND, "not_found", "there is nothing at this path"),
        },
    }
}

/// `/circuits/ID/open` and the like. An id may be written with its slash or without.
fn action(path: &str) -> Option<(Action, Cow<'_, str>)> {
    let (actions, rest): (&[Action], _) = match path.strip_prefix("/circuits/") {
        Some(rest) => (&[Action::Open, Action::Close, Action::Reset], rest),
        None => (&[Action::Drain, Action::Undrain], path.strip_prefix("/candidates/")?),
    };
    let (id, verb) = rest.rsplit_once('/')?;
    let action = *actions.iter().find(|action| action.as_str() == verb)?;
    Some((action, percent_encoding::percent_decode_str(id).decode_utf8().ok()?))
}

fn act(shared: &Shared, action: Action, candidate: &str) -> Response<Body> {
    match shared.board().act(candidate, action) {
        Acted::Done => {
            tracing::info!(target: "stanchion", action = action.as_str(), %candidate, "operator_action");
            let at_ms = status::epoch_milliseconds(SystemTime::now());
            // Nobody need listen.
            let _ = shared.actions.send(ActionEvent { at_ms, action, candidate: candidate.to_owned() });
            let done = serde_json::json!({ "action": action, "candidate": candidate });
            own(StatusCode::OK, "application/json", done.to_string())
        }
        Acted::Unknown => error(StatusCode::NOT_FOUND, "unknown_candidate", "no candidate of this name is configured"),
        Acted::NoCircuit => error(
            StatusCode::CONFLICT,
            "no_circuit",
            "this candidate has no circuit: its circuit.open is 0s, or there are too many open ones",
        ),
    }
}

fn events(shared: &Arc<Shared>, query: &str) -> Response<Body> {
    let Ok(place) = shared.subscribers.clone().try_acquire_owned() else {
        let text = "as many listen to the events as may; close a page that nobody looks at";
        let mut response = error(StatusCode::SERVICE_UNAVAILABLE, "too_many_subscribers", text);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        return response;
    };
    let (mut view, mut model) = (View::Status, None);
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "view" if value == "requests" => view = View::Requests,
            "model" => model = Some(value.into_owned()),
            _ => {}
        }
    }
    let feed = Feed::new(shared.clone(), view, model, place);
    let mut response = Response::new(Either::Right(FeedBody::new(feed)));
    let content_type = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    // For a proxy in between that would wait for more.
    response.headers_mut().insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

fn refuse(refusal: Refusal) -> Response<Body> {
    let (status, code, message) = refusal.told();
    let mut response = error(status, code, message);
    if refusal == Refusal::Key {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

fn wrong_method(allowed: &'static str) -> Response<Body> {
    let mut response = error(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "this path takes another method");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

fn error(status: StatusCode, code: &str, message: &str) -> Response<Body> {
    let told = serde_json::json!({ "error": { "code": code, "message": message } });
    own(status, "application/json", told.to_string())
}

fn own(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Either::Left(Full::new(body.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_may_have_slashes_or_have_them_encoded() {
        for (path, expected) in [
            ("/circuits/a%2Fx/open", Some((Action::Open, "a/x"))),
            ("/circuits/a/x/open", Some((Action::Open, "a/x"))),
            ("/circuits/openrouter/meta/llama/reset", Some((Action::Reset, "openrouter/meta/llama"))),
            ("/candidates/a%2Fx%3A30b/drain", Some((Action::Drain, "a/x:30b"))),
            ("/candidates/a/undrain", Some((Action::Undrain, "a"))),
            ("/candidates/a/open", None),
            ("/circuits/a/drain", None),
            ("/circuits/open", None),
            ("/circuits/a%ff/open", None),
            ("/circuits/a/", None),
        ] {
            let found = action(path);
            assert_eq!(found.as_ref().map(|(action, id)| (*action, &**id)), expected, "{path}");
        }
    }
}
