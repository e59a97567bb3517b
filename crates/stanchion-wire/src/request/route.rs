use percent_encoding::percent_decode_str;
use stanchion_core::Dialect;

/// What a request's path says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The wire form of request and reply.
    pub dialect: Dialect,
    /// Whether a stream is asked for, where the path says so (Gemini). `None`: the body does.
    pub stream: Option<bool>,
    /// The model, where the path names it (Gemini), percent-decoded. `None`: the body does.
    pub model: Option<String>,
}

/// The dialect that is spoken at a path; `None` for every other path.
///
/// Exact: neither a missing `/v1` nor a trailing slash is tolerated. The query is no part of the path.
///
/// | path | dialect |
/// |---|---|
/// | `/v1/chat/completions` | [`Dialect::OpenAiChat`] |
/// | `/v1/responses` | [`Dialect::OpenAiResponses`] |
/// | `/v1/embeddings` | [`Dialect::OpenAiEmbeddings`] |
/// | `/v1/messages` | [`Dialect::AnthropicMessages`] |
/// | `/v1beta/models/{model}:generateContent` | [`Dialect::GeminiGenerateContent`] |
/// | `/v1beta/models/{model}:streamGenerateContent` | [`Dialect::GeminiGenerateContent`], streamed |
/// | `/api/chat`, `/api/generate` | [`Dialect::Ollama`] |
pub fn route(path: &str) -> Option<Route> {
    let dialect = match path {
        "/v1/chat/completions" => Dialect::OpenAiChat,
        "/v1/responses" => Dialect::OpenAiResponses,
        "/v1/embeddings" => Dialect::OpenAiEmbeddings,
        "/v1/messages" => Dialect::AnthropicMessages,
        "/api/chat" | "/api/generate" => Dialect::Ollama,
        _ => return gemini(path),
    };
    Some(Route { dialect, stream: None, model: None })
}

fn gemini(path: &str) -> Option<Route> {
    let segment = path.strip_prefix("/v1beta/models/").filter(|segment| !segment.contains('/'))?;
    // Decoded first: some HTTP clients escape the colon before the method.
    let segment = percent_decode_str(segment).decode_utf8().ok()?;
    let (model, method) = segment.rsplit_once(':').filter(|(model, _)| !model.is_empty())?;
    let stream = match method {
        "generateContent" => false,
        "streamGenerateContent" => true,
        _ => return None,
    };
    Some(Route { dialect: Dialect::GeminiGenerateContent, stream: Some(stream), model: Some(model.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_endpoint_has_its_dialect() {
        for (path, dialect) in [
            ("/v1/chat/completions", Dialect::OpenAiChat),
            ("/v1/responses", Dialect::OpenAiResponses),
            ("/v1/embeddings", Dialect::OpenAiEmbeddings),
            ("/v1/messages", Dialect::AnthropicMessages),
            ("/api/chat", Dialect::Ollama),
            ("/api/generate", Dialect::Ollama),
        ] {
            assert_eq!(route(path), Some(Route { dialect, stream: None, model: None }), "{path}");
        }
    }

    #[test]
    fn gemini_names_model_and_method_in_its_path() {
        let routed = |path| route(path).map(|route| (route.stream.unwrap(), route.model.unwrap()));
        assert_eq!(routed("/v1beta/models/gemini-x:generateContent"), Some((false, "gemini-x".into())));
        assert_eq!(routed("/v1beta/models/gemini-x:streamGenerateContent"), Some((true, "gemini-x".into())));
        assert_eq!(routed("/v1beta/models/a%2Fb%20c%3Ad:generateContent"), Some((false, "a/b c:d".into())));
        assert_eq!(routed("/v1beta/models/gemini-x%3AstreamGenerateContent"), Some((true, "gemini-x".into())));
        for path in [
            "/v1beta/models/:generateContent",
            "/v1beta/models/gemini-x",
            "/v1beta/models/gemini-x:countTokens",
            "/v1beta/models/a/b:generateContent",
            "/v1beta/models/%ff:generateContent",
            "/v1beta/models/gemini-x:generateContent/",
        ] {
            assert_eq!(route(path), None, "{path}");
        }
    }

    #[test]
    fn nothing_but_the_exact_path() {
        for path in [
            "",
            "/",
            "/chat/completions",
            "/v1/v1/chat/completions",
            "/v1/chat/completions/",
            "//v1/chat/completions",
            "/v1/messages/count_tokens",
            "/V1/messages",
            "/api/tags",
        ] {
            assert_eq!(route(path), None, "{path}");
        }
    }
}
