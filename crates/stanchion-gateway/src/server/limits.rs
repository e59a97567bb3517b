use std::time::Duration;

/// How much a listener bears of its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenerLimits {
    /// How many connections there may be. Others wait, not yet accepted, until one ends. Default 10,000.
    pub connections: usize,
    /// How large the head of a request may be, in bytes: its line and its headers. Default 64 KiB.
    pub header_bytes: usize,
    /// How many headers a request may have. Default 100.
    pub headers: usize,
    /// How long the head of a request may take to come, from its first byte on; and a TLS handshake. Default 30 s.
    pub header_timeout: Duration,
    /// How long a request body may pause between two of its pieces. Default 30 s.
    pub body_idle: Duration,
    /// How long the whole of a request body may take to come. Default 5 min.
    pub body_timeout: Duration,
    /// How long a connection without a request is kept. Default 75 s.
    pub keep_alive: Duration,
    /// How long a client may take nothing of what is sent to it. Default 60 s.
    pub send_timeout: Duration,
    /// How many requests an HTTP/2 connection may have running. Default 256.
    pub http2_streams: u32,
    /// How often an HTTP/2 client is asked whether it is still there. Default 30 s.
    pub http2_ping: Duration,
    /// How long it may take to say so. Default 20 s.
    pub http2_ping_timeout: Duration,
}

impl Default for ListenerLimits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            header_bytes: 64 * 1024,
            headers: 100,
            header_timeout: Duration::from_secs(30),
            body_idle: Duration::from_secs(30),
            body_timeout: Duration::from_secs(300),
            keep_alive: Duration::from_secs(75),
            send_timeout: Duration::from_secs(60),
            http2_streams: 256,
            http2_ping: Duration::from_secs(30),
            http2_ping_timeout: Duration::from_secs(20),
        }
    }
}
