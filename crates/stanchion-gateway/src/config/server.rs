//! Where and how clients connect.

use std::time::Duration;

use super::{
    LISTEN, ServerSettings,
    check::Checker,
    file,
    value::{Span, Spanned},
};

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
        ServerSettings { listen, drain, watch }
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
