use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// What a provider speaks: the choice of credentials, paths and bodies that go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Family {
    /// OpenAI and everything compatible with it.
    OpenAi,
    /// Anthropic and everything compatible with it.
    Anthropic,
    /// Google Gemini.
    Gemini,
    /// Ollama's native interface.
    Ollama,
}

impl Family {
    /// The name used in configuration and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The wire form of one call: what its request, its frames and its errors look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
pub enum Dialect {
    /// `POST /v1/chat/completions`.
    #[serde(rename = "openai-chat")]
    OpenAiChat,
    /// `POST /v1/responses`.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// `POST /v1/embeddings`: never streamed.
    #[serde(rename = "openai-embeddings")]
    OpenAiEmbeddings,
    /// `POST /v1/messages`.
    #[serde(rename = "anthropic-messages")]
    AnthropicMessages,
    /// `POST /v1beta/models/{model}:generateContent` and `:streamGenerateContent`.
    #[serde(rename = "gemini-generate-content")]
    GeminiGenerateContent,
    /// `POST /api/chat` and `POST /api/generate`.
    #[serde(rename = "ollama")]
    Ollama,
}

impl Dialect {
    /// Which providers speak it.
    pub const fn family(self) -> Family {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses | Self::OpenAiEmbeddings => Family::OpenAi,
            Self::AnthropicMessages => Family::Anthropic,
            Self::GeminiGenerateContent => Family::Gemini,
            Self::Ollama => Family::Ollama,
        }
    }

    /// The name used in messages and events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAiChat => "openai-chat",
            Self::OpenAiResponses => "openai-responses",
            Self::OpenAiEmbeddings => "openai-embeddings",
            Self::AnthropicMessages => "anthropic-messages",
            Self::GeminiGenerateContent => "gemini-generate-content",
            Self::Ollama => "ollama",
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a reply's bytes are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Framing {
    /// Server-Sent Events (WHATWG HTML §9.2).
    Sse,
    /// One JSON document a line.
    Ndjson,
    /// One JSON array whose elements arrive one by one (Gemini without `alt=sse`).
    JsonArray,
    /// One whole document.
    Document,
}

/// What the client asks for, as far as the layers need to know. Lives in the request's extensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The wire form of request and reply.
    pub dialect: Dialect,
    /// Whether the client asked for a stream.
    pub stream: bool,
    /// The model that the client named, if it named one.
    pub model: Option<Arc<str>>,
    /// The size of the request's body, in bytes; 0 if nobody measured it.
    pub request_bytes: usize,
    /// About how many tokens the request holds; `None` if nobody looked.
    pub tokens: Option<usize>,
    /// Whether the request limits the output of the reply; `None` if nobody looked.
    pub limits_output: Option<bool>,
}

impl Call {
    /// A call that names no model.
    pub const fn new(dialect: Dialect, stream: bool) -> Self {
        Self { dialect, stream, model: None, request_bytes: 0, tokens: None, limits_output: None }
    }

    /// Sets the model that the client named.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<Arc<str>>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets the size of the request's body.
    #[must_use]
    pub const fn with_request_bytes(mut self, bytes: usize) -> Self {
        self.request_bytes = bytes;
        self
    }

    /// Sets whether the request limits the output of the reply.
    #[must_use]
    pub const fn with_output_limit(mut self, limits: bool) -> Self {
        self.limits_output = Some(limits);
        self
    }

    /// Sets about how many tokens the request holds.
    #[must_use]
    pub const fn with_tokens(mut self, tokens: usize) -> Self {
        self.tokens = Some(tokens);
        self
    }

    /// About how many tokens the request holds. If nobody looked, one for every four bytes of its body.
    pub const fn estimated_tokens(&self) -> usize {
        match self.tokens {
            Some(tokens) => tokens,
            None => self.request_bytes.div_ceil(4),
        }
    }
}
