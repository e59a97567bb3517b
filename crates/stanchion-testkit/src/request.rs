use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;
use stanchion_core::{Call, Candidate, Candidates, Context, Dialect, Family, Selected};

/// A candidate of `provider` that speaks as OpenAI does, named `provider/gpt-x`.
pub fn candidate(provider: &str) -> Candidate {
    Candidate::new(provider, Family::OpenAi, format!("http://{provider}.test/v1")).with_model("gpt-x")
}

/// A list of such candidates.
pub fn candidates<'a>(providers: impl IntoIterator<Item = &'a str>) -> Candidates {
    Candidates::new(providers.into_iter().map(candidate))
}

/// A streamed chat completion for `primary/gpt-x`, with [`Context`], [`Call`] and [`Selected`] set.
pub fn request() -> Request<Full<Bytes>> {
    request_in(Context::default())
}

/// The same [`request`] in a context of the test's own.
pub fn request_in(context: Context) -> Request<Full<Bytes>> {
    let body = r#"{"model":"gpt-x","stream":true,"messages":[{"role":"user","content":"Hello?"}]}"#;
    let mut request = Request::new(Full::from(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = http::Uri::from_static("/v1/chat/completions");
    request.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    request.extensions_mut().insert(context);
    request.extensions_mut().insert(Call::new(Dialect::OpenAiChat, true).with_model("gpt-x"));
    request.extensions_mut().insert(Selected::only(candidate("primary")));
    request
}

#[cfg(test)]
mod tests {
    use http_body::Body;

    use super::*;

    #[test]
    fn a_request_carries_what_the_layers_look_for() {
        let context = Context::default();
        context.count_attempt();
        let request = request_in(context);
        assert_eq!((request.method(), request.uri().path()), (&Method::POST, "/v1/chat/completions"));
        assert_eq!(Context::of(&request).map(Context::attempts), Some(1));
        let call = request.extensions().get::<Call>().unwrap();
        assert_eq!((call.dialect, call.stream), (Dialect::OpenAiChat, true));
        assert_eq!(&**request.extensions().get::<Selected>().unwrap().candidate.name(), "primary/gpt-x");
        assert!(!request.body().is_end_stream());
        assert!(Context::of(&super::request()).is_some());
    }
}
