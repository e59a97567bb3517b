use schemars::JsonSchema;
use serde::Deserialize;

use super::super::value::{Bytes, Span, Spanned, in_order};

/// Where and how clients connect.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(in super::super) struct Server {
    /// beyond loopback only with client keys, or with `--open`
    #[schemars(extend("default" = "127.0.0.1:8080", "x-range" = "IP:PORT"))]
    pub(in super::super) listen: Option<Spanned<String>>,
    /// the largest request body
    #[schemars(extend("default" = "32MiB", "x-range" = "above 0"))]
    pub(in super::super) max_request_bytes: Option<Spanned<Bytes>>,
    /// how long replies may go on once the process is told to end; then they are ended in band, as failures in their dialect
    #[schemars(extend("default" = "30s", "x-range" = "up to 1 h"))]
    pub(in super::super) drain: Option<Spanned<Span>>,
    /// how often the file, and the files that it names, are looked at; what has changed is served without a restart, if it is in order.
    /// `SIGHUP` does the same at once
    #[schemars(extend("default" = "2s", "x-range" = "100 ms to 1 h, or `\"0s\"` for never"))]
    pub(in super::super) watch: Option<Spanned<Span>>,
    /// whether keys may stand in the file itself, as `key`, `api_key` and `api_keys`: whoever reads or copies it has them
    #[schemars(extend("default" = false))]
    pub(in super::super) inline_keys: Option<bool>,
    /// whether the `x-stanchion-*` headers of requests count where no client has a key. Turn it off where callers must not choose their class, commit
    /// policy or events. A client with a key needs its own leave: see `[clients.NAME]`
    #[schemars(extend("default" = true))]
    pub(in super::super) identity_headers: Option<Spanned<bool>>,
    /// What is borne of clients.
    #[serde(default)]
    pub(in super::super) limits: ListenerLimits,
    /// How TLS is spoken.
    pub(in super::super) tls: Option<ServerTls>,
}

/// What a listener bears of its clients, so that none of them can keep others out by sending too much, or too slowly. They count for
/// connections that come after a reload.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(in super::super) struct ListenerLimits {
    /// how many connections there may be; others wait, not yet accepted, until one ends
    #[schemars(range(min = 1, max = 1_000_000), extend("default" = 10_000))]
    pub(in super::super) connections: Option<u32>,
    /// how large the head of a request may be; beyond it the answer is 431
    #[schemars(extend("default" = "64KiB", "x-range" = "8 KiB to 1 MiB"))]
    pub(in super::super) header_bytes: Option<Spanned<Bytes>>,
    /// how many headers a request may have; beyond it the answer is 431
    #[schemars(range(min = 1, max = 1_000), extend("default" = 100))]
    pub(in super::super) headers: Option<u32>,
    /// how long the head of a request may take to come, from its first byte on, and a TLS handshake; then the connection is closed
    #[schemars(extend("default" = "30s", "x-range" = "10 ms to 1 h"))]
    pub(in super::super) header_timeout: Option<Spanned<Span>>,
    /// how long a request body may pause between two of its pieces; then the answer is 408
    #[schemars(extend("default" = "30s", "x-range" = "10 ms to 1 h"))]
    pub(in super::super) body_idle: Option<Spanned<Span>>,
    /// how long the whole of a request body may take to come; then the answer is 408
    #[schemars(extend("default" = "5m", "x-range" = "10 ms to 1 h"))]
    pub(in super::super) body_timeout: Option<Spanned<Span>>,
    /// how long a connection without a request is kept. Longer than a load balancer before it keeps its own (60 s is common), so that it does not
    /// send a request into one that closes
    #[schemars(extend("default" = "75s", "x-range" = "10 ms to 1 h"))]
    pub(in super::super) keep_alive: Option<Spanned<Span>>,
    /// how long a client may take nothing of a reply that is there for it; then its stream is reset (HTTP/2), or its connection is (on Linux), and
    /// whatever its request held is free
    #[schemars(extend("default" = "60s", "x-range" = "10 ms to 1 h"))]
    pub(in super::super) send_timeout: Option<Spanned<Span>>,
    /// how many requests an HTTP/2 connection may have running; a client waits with others
    #[schemars(range(min = 1, max = 100_000), extend("default" = 256))]
    pub(in super::super) http2_streams: Option<u32>,
    /// how often an HTTP/2 client is asked whether it is still there
    #[schemars(extend("default" = "30s", "x-range" = "10 ms to 1 h"))]
    pub(in super::super) http2_ping: Option<Spanned<Span>>,
    /// how long it may take to say so; then the connection is closed
    #[schemars(extend("default" = "20s", "x-range" = "10 ms to 1 h"))]
    pub(in super::super) http2_ping_timeout: Option<Spanned<Span>>,
}

/// With this table a listener speaks TLS (1.2 and 1.3) and nothing else; HTTP/2 and HTTP/1.1 are agreed on by ALPN (HTTP/1.1 alone under
/// `[admin]`). The files are PEM. They are looked at like the configuration: a certificate that was renewed counts for connections that come
/// after, without a restart.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(in super::super) struct ServerTls {
    /// the file of the certificate, and of those that lead from it to a root
    pub(in super::super) cert: Spanned<String>,
    /// the file of its private key
    pub(in super::super) key: Spanned<String>,
    /// the file of the certificates that sign those of clients: without a certificate of its own nobody comes in then
    pub(in super::super) client_ca: Option<Spanned<String>>,
}
