use std::{borrow::Cow, error::Error, fmt};

use bytes::Bytes;
use http::Uri;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use stanchion_core::{Call, Candidate, Dialect, Family};

/// What of a path segment is escaped: everything but RFC 3986's unreserved characters.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Query keys that carry a client's credential.
const CREDENTIALS: [&str; 7] =
    ["key", "api_key", "api-key", "apikey", "access_token", "oauth_token", "subscription-key"];

/// The query key of Azure's versions.
const API_VERSION: &str = "api-version";

/// Why there is no URI for a call. `Display` names the problem and never quotes the URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadTarget {
    /// The base URL does not begin with `http://` or `https://` and a host.
    NotAbsolute,
    /// The base URL holds a user name or password.
    UserInfo,
    /// The base URL holds what no URL may hold.
    Invalid,
    /// The path wants a model, and neither candidate nor client names one.
    NoModel,
    /// The path wants a model, and its name would lead to another path.
    ModelName,
    /// The dialect has no path here.
    Dialect(Dialect),
}

impl fmt::Display for BadTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAbsolute => f.write_str("the base URL does not begin with http:// or https:// and a host"),
            Self::UserInfo => f.write_str("the base URL holds a user name or password: set a credential instead"),
            Self::Invalid => f.write_str("the base URL is not a valid URL"),
            Self::NoModel => f.write_str("the path wants a model, and neither candidate nor client names one"),
            Self::ModelName => f.write_str("the model's name leads out of the path of models"),
            Self::Dialect(dialect) => write!(f, "no path is known for the dialect {dialect}"),
        }
    }
}

impl Error for BadTarget {}

/// The provider's URI for a call: the candidate's base URL, the path of the call's dialect, and the query.
///
/// `client` is the client's own URI. Of it counts the query, and for Ollama whether it ends in `/api/generate`; the
/// rest follows from the call. Without a model of the candidate's, the client's own is asked for.
///
/// | family | base URL, as the provider's client library takes it | what is put behind it |
/// |---|---|---|
/// | OpenAI | `https://api.openai.com/v1` | `/chat/completions`, `/responses`, `/embeddings` |
/// | Anthropic | `https://api.anthropic.com`; a trailing `/v1` is tolerated | `/v1/messages` |
/// | Gemini | `https://generativelanguage.googleapis.com` | `/v1beta/models/{model}:generateContent`, or `:stream…`; the candidate's API version in place of `v1beta` |
/// | Gemini | one that ends in a version or `/publishers/google` (Vertex) | `/models/{model}:…` |
/// | Ollama | `http://localhost:11434` | `/api/chat`, `/api/generate` |
///
/// Trailing slashes of the base URL do not count. An API version of a candidate that speaks OpenAI's comes first in the
/// query, as `api-version` (Azure). Then comes the base URL's own query, and then the client's; of equal keys, however
/// escaped, the first counts (of `api-version` in any case), and of the client's credentials (`key`, `api_key`, `access_token` and their like) are left out.
pub fn target(call: &Call, client: &Uri, candidate: &Candidate) -> Result<Uri, BadTarget> {
    let base_url = candidate.base_url();
    let base = base_url.trim();
    let base = base.split_once('#').map_or(base, |(base, _)| base);
    let (base, own_query) = base.split_once('?').unwrap_or((base, ""));
    let base = base.trim_end_matches('/');
    let path = base_path(base)?;

    let mut uri = String::with_capacity(base_url.len() + 64 + client.query().map_or(0, str::len));
    uri.push_str(base);
    match call.dialect {
        Dialect::OpenAiChat => uri.push_str("/chat/completions"),
        Dialect::OpenAiResponses => uri.push_str("/responses"),
        Dialect::OpenAiEmbeddings => uri.push_str("/embeddings"),
        Dialect::AnthropicMessages if path.ends_with("/v1") => uri.push_str("/messages"),
        Dialect::AnthropicMessages => uri.push_str("/v1/messages"),
        Dialect::GeminiGenerateContent => {
            let model = candidate.model().or(call.model.as_ref()).ok_or(BadTarget::NoModel)?;
            if !["/v1", "/v1beta", "/v1alpha", "/publishers/google"].iter().any(|end| path.ends_with(end)) {
                uri.push('/');
                uri.extend(utf8_percent_encode(candidate.api_version().unwrap_or("v1beta"), SEGMENT));
            }
            let model = model.strip_prefix("models/").unwrap_or(model);
            if leads_elsewhere(model) {
                return Err(BadTarget::ModelName);
            }
            uri.push_str("/models/");
            uri.extend(utf8_percent_encode(model, SEGMENT));
            uri.push_str(if call.stream { ":streamGenerateContent" } else { ":generateContent" });
        }
        Dialect::Ollama if client.path().ends_with("/api/generate") => uri.push_str("/api/generate"),
        Dialect::Ollama => uri.push_str("/api/chat"),
        other => return Err(BadTarget::Dialect(other)),
    }
    let version = candidate.api_version().filter(|_| call.dialect.family() == Family::OpenAi);
    let version =
        version.map_or(String::new(), |version| format!("{API_VERSION}={}", utf8_percent_encode(version, SEGMENT)));
    push_query(&mut uri, &version, own_query, client.query().unwrap_or_default());
    Uri::from_maybe_shared(Bytes::from(uri)).map_err(|_| BadTarget::Invalid)
}

/// Whether a server that decodes slashes too early would take a name for a way up.
fn leads_elsewhere(model: &str) -> bool {
    model.split(['/', '\\']).any(|part| matches!(part, "." | ".."))
}

/// The path of a base URL, which must be absolute and without user information.
fn base_path(base: &str) -> Result<&str, BadTarget> {
    let (scheme, rest) = base.split_once("://").ok_or(BadTarget::NotAbsolute)?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(BadTarget::NotAbsolute);
    }
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if authority.is_empty() {
        return Err(BadTarget::NotAbsolute);
    }
    if authority.contains('@') {
        return Err(BadTarget::UserInfo);
    }
    Ok(path)
}

fn push_query(uri: &mut String, version: &str, own: &str, client: &str) {
    let own = || pairs(version).chain(pairs(own).filter(|pair| version.is_empty() || !are_alike(pair, version)));
    let kept = pairs(client).filter(|pair| !is_credential(key(pair)) && !own().any(|other| are_alike(other, pair)));
    let mut separator = '?';
    for pair in own().chain(kept) {
        uri.push(separator);
        uri.push_str(pair);
        separator = '&';
    }
}

/// Whether two pairs have the same key, however it is escaped. Azure's versions have one, whatever its case.
fn are_alike(one: &str, other: &str) -> bool {
    let (one, other) = (decoded(key(one)), decoded(key(other)));
    one == other || [&one, &other].into_iter().all(|key| key.eq_ignore_ascii_case(API_VERSION))
}

fn decoded(key: &str) -> Cow<'_, str> {
    percent_decode_str(key).decode_utf8_lossy()
}

fn key(pair: &str) -> &str {
    pair.split_once('=').map_or(pair, |(key, _)| key)
}

fn pairs(query: &str) -> impl Iterator<Item = &str> {
    query.split('&').filter(|pair| !pair.is_empty())
}

fn is_credential(key: &str) -> bool {
    let key = decoded(key);
    CREDENTIALS.iter().any(|credential| credential.eq_ignore_ascii_case(&key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(dialect: Dialect, client: &str, base: &str) -> String {
        to(dialect, client, &Candidate::new("p", dialect.family(), base).with_model("m"))
    }

    fn to(dialect: Dialect, client: &str, candidate: &Candidate) -> String {
        let call = Call::new(dialect, true).with_model("asked");
        target(&call, &client.parse().unwrap(), candidate).unwrap().to_string()
    }

    #[test]
    fn each_family_joins_as_its_own_library_does() {
        use Dialect::{
            AnthropicMessages, GeminiGenerateContent, Ollama, OpenAiChat, OpenAiEmbeddings, OpenAiResponses,
        };
        for (dialect, client, base, expected) in [
            (
                OpenAiChat,
                "/v1/chat/completions",
                "https://api.openai.com/v1",
                "https://api.openai.com/v1/chat/completions",
            ),
            (OpenAiResponses, "/v1/responses", "https://api.openai.com/v1/", "https://api.openai.com/v1/responses"),
            (OpenAiEmbeddings, "/v1/embeddings", "https://api.openai.com/v1//", "https://api.openai.com/v1/embeddings"),
            (OpenAiChat, "/", "https://api.deepseek.com", "https://api.deepseek.com/chat/completions"),
            (AnthropicMessages, "/v1/messages", "https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
            (
                AnthropicMessages,
                "/v1/messages",
                "https://api.anthropic.com/v1/",
                "https://api.anthropic.com/v1/messages",
            ),
            (
                AnthropicMessages,
                "/v1/messages",
                "https://api.z.ai/api/anthropic",
                "https://api.z.ai/api/anthropic/v1/messages",
            ),
            (
                GeminiGenerateContent,
                "/v1beta/models/asked:streamGenerateContent?alt=sse",
                "https://generativelanguage.googleapis.com",
                "https://generativelanguage.googleapis.com/v1beta/models/m:streamGenerateContent?alt=sse",
            ),
            (
                GeminiGenerateContent,
                "/v1beta/models/asked:streamGenerateContent?alt=sse",
                "https://vertex/v1/projects/p/locations/l/publishers/google",
                "https://vertex/v1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent?alt=sse",
            ),
            (Ollama, "/api/chat", "http://localhost:11434", "http://localhost:11434/api/chat"),
            (Ollama, "/api/generate", "HTTP://[::1]:11434/", "http://[::1]:11434/api/generate"),
        ] {
            assert_eq!(at(dialect, client, base), expected);
        }
    }

    #[test]
    fn queries_are_joined_and_credentials_left_out() {
        assert_eq!(
            at(
                Dialect::OpenAiChat,
                "/v1/chat/completions?beta=true&api-version=old&key=hunter2&x=%20y",
                "https://r.openai.azure.com/openai/deployments/dep?api-version=2026-01-01"
            ),
            "https://r.openai.azure.com/openai/deployments/dep/chat/completions?api-version=2026-01-01&beta=true&x=%20y"
        );
        assert_eq!(
            at(Dialect::OpenAiChat, "/?k%65y=1&API_KEY=2&access_token=3&&keys=4", "http://h/v1?"),
            "http://h/v1/chat/completions?keys=4"
        );
        assert_eq!(at(Dialect::OpenAiChat, "/?key=1", "http://h/v1#part"), "http://h/v1/chat/completions");
    }

    #[test]
    fn an_api_version_goes_where_the_family_wants_it() {
        use Dialect::{AnthropicMessages, GeminiGenerateContent, Ollama, OpenAiChat};
        for (dialect, client, base, version, expected) in [
            (
                OpenAiChat,
                "/",
                "https://azure/dep",
                "2026-01-01",
                "https://azure/dep/chat/completions?api-version=2026-01-01",
            ),
            (
                OpenAiChat,
                "/?api-version=theirs&x=1",
                "https://azure/dep?api-version=old&y=2",
                "2026&z",
                "https://azure/dep/chat/completions?api-version=2026%26z&y=2&x=1",
            ),
            (
                OpenAiChat,
                "/?api%2Dversion=theirs&API-Version=theirs&y%32=1&y=1",
                "https://azure/dep?Api-Version=old&y2=2",
                "2026",
                "https://azure/dep/chat/completions?api-version=2026&y2=2&y=1",
            ),
            (GeminiGenerateContent, "/", "http://h", "v1", "http://h/v1/models/m:streamGenerateContent"),
            (GeminiGenerateContent, "/", "http://h/v1alpha", "v1", "http://h/v1alpha/models/m:streamGenerateContent"),
            (AnthropicMessages, "/", "http://h", "2024-01-01", "http://h/v1/messages"),
            (Ollama, "/api/chat", "http://h", "1", "http://h/api/chat"),
        ] {
            let candidate = Candidate::new("p", dialect.family(), base).with_model("m").with_api_version(version);
            assert_eq!(to(dialect, client, &candidate), expected);
        }
    }

    #[test]
    fn gemini_takes_the_candidates_model_before_the_clients() {
        let call = Call::new(Dialect::GeminiGenerateContent, false).with_model("asked/x y");
        let plain = Candidate::new("p", Family::Gemini, "http://h");
        let to = |candidate: &Candidate| target(&call, &Uri::from_static("/"), candidate).unwrap().to_string();
        assert_eq!(
            to(&plain.clone().with_model("models/gemini-2.5_a~b")),
            "http://h/v1beta/models/gemini-2.5_a~b:generateContent"
        );
        assert_eq!(to(&plain), "http://h/v1beta/models/asked%2Fx%20y:generateContent");
        let nameless = Call::new(Dialect::GeminiGenerateContent, false);
        assert_eq!(target(&nameless, &Uri::from_static("/"), &plain), Err(BadTarget::NoModel));
        for (name, leads_elsewhere) in [
            ("..", true),
            ("../../files", true),
            ("a/../b", true),
            ("a\\..\\b", true),
            ("models/.", true),
            ("a..b/c.", false),
        ] {
            let named = plain.clone().with_model(name);
            let made = target(&nameless, &Uri::from_static("/"), &named);
            assert_eq!(made == Err(BadTarget::ModelName), leads_elsewhere, "{name}: {made:?}");
        }
    }

    #[test]
    fn a_bad_base_url_is_named_and_not_quoted() {
        let call = Call::new(Dialect::OpenAiChat, false);
        for (base, problem) in [
            ("", BadTarget::NotAbsolute),
            ("hunter2.example/v1", BadTarget::NotAbsolute),
            ("ftp://hunter2", BadTarget::NotAbsolute),
            ("https:///hunter2", BadTarget::NotAbsolute),
            ("https://user:hunter2@h/v1", BadTarget::UserInfo),
            ("https://h/hunter2 x", BadTarget::Invalid),
        ] {
            let told = target(&call, &Uri::from_static("/"), &Candidate::new("p", Family::OpenAi, base)).unwrap_err();
            assert_eq!(told, problem, "{base}");
            assert!(!told.to_string().contains("hunter2"));
        }
    }
}
