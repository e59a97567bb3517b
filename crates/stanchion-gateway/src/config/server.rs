//! Where and how clients connect.

use std::time::Duration;

use super::{
    LISTEN, ServerSettings,
    check::Checker,
    file,
    value::{Span, Spanned},
};
use crate::server::ListenerLimits;

/// The least that hyper can work with.
const HEADER_BYTES_LEAST: usize = 8 * 1024;
const HEADER_BYTES_MOST: usize = 1024 * 1024;

impl Checker<'_> {
    pub(super) fn server(&mut self, server: &file::Server) -> ServerSettings {
        let default = ServerSettings::default();
        let listen = server.listen.as_ref().and_then(|text| self.address(text)).unwrap_or(LISTEN);
        let hour = Duration::from_secs(3600);
        let drain = self.within(server.drain.as_ref(), default.drain, Duration::ZERO..=hour, "0s to 1h");
        let watch = match server.watch.as_ref() {
            Some(never) if never.get_ref().0.is_zero() => None,
            watch => {
                let rule = "100ms to 1h (\"0s\" turns it off)";
                Some(self.within(watch, Duration::from_secs(2), Duration::from_millis(100)..=hour, rule))
            }
        };
        let tls = server.tls.as_ref().and_then(|tls| self.server_tls(tls));
        ServerSettings { listen, drain, watch, limits: self.listener_limits(&server.limits), tls }
    }

    fn listener_limits(&mut self, limits: &file::ListenerLimits) -> ListenerLimits {
        let default = ListenerLimits::default();
        let header_bytes = limits.header_bytes.as_ref().map_or(default.header_bytes, |bytes| {
            if !(HEADER_BYTES_LEAST..=HEADER_BYTES_MOST).contains(&bytes.get_ref().0) {
                self.complain(bytes.span(), format!("is {} bytes: set 8KiB to 1MiB", bytes.get_ref().0));
            }
            bytes.get_ref().0
        });
        let hour = Duration::from_secs(3600);
        let mut time = |set: &Option<Spanned<Span>>, default| {
            self.within(set.as_ref(), default, Duration::from_millis(10)..=hour, "10ms to 1h")
        };
        ListenerLimits {
            connections: limits.connections.map_or(default.connections, |number| number as usize),
            header_bytes,
            headers: limits.headers.map_or(default.headers, |number| number as usize),
            header_timeout: time(&limits.header_timeout, default.header_timeout),
            body_idle: time(&limits.body_idle, default.body_idle),
            body_timeout: time(&limits.body_timeout, default.body_timeout),
            keep_alive: time(&limits.keep_alive, default.keep_alive),
            send_timeout: time(&limits.send_timeout, default.send_timeout),
            http2_streams: limits.http2_streams.unwrap_or(default.http2_streams),
            http2_ping: time(&limits.http2_ping, default.http2_ping),
            http2_ping_timeout: time(&limits.http2_ping_timeout, default.http2_ping_timeout),
        }
    }

    /// A duration, complained of if it is out of its range.
    pub(super) fn within(
        &mut self,
        duration: Option<&Spanned<Span>>,
        default: Duration,
        range: std::ops::RangeInclusive<Duration>,
        rule: &str,
    ) -> Duration {
        let Some(set) = duration else { return default };
        let value = set.get_ref().0;
        if !range.contains(&value) {
            self.complain(set.span(), format!("is {value:?}: set {rule}"));
        }
        value
    }
}
