//! The canonical text of a scope.

use std::io;

use serde::{Serialize, Serializer, ser::SerializeMap as _};
use url::Url;

use super::DomainScope;

/// Gives the canonical text of `scope` to `sink`, piece by piece.
pub(super) fn write(scope: &DomainScope<'_>, sink: impl FnMut(&[u8])) {
    let mut headers: Vec<_> =
        scope.headers.iter().map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim())).collect();
    headers.sort_by(|(a, _), (b, _)| a.cmp(b));
    let elements = (
        scope.provider.trim(),
        scope.wire_api.trim(),
        base_url(scope.base_url),
        scope.model.trim(),
        scope.tier.unwrap_or_default().trim(),
        scope.api_version.unwrap_or_default().trim(),
        scope.credential.unwrap_or_default(),
        headers,
        Policy(scope.policy),
    );
    serde_json::to_writer(Sink(sink), &elements).expect("text and numbers are JSON, and the sink takes all");
}

/// The canonical form of a base URL, as told at the top of the module above.
pub(super) fn base_url(given: &str) -> String {
    let Ok(mut url) = Url::parse(given.trim()) else {
        return given.trim().trim_end_matches('/').to_owned();
    };
    url.set_fragment(None);
    lower_host(&mut url);
    sort_query(&mut url);
    // An opaque path, as of `mailto:`, is no path of segments.
    if !url.cannot_be_a_base() && url.path() != "/" {
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
    }
    url.into()
}

/// Parsing lowers the host of a web address only; one of any other scheme is opaque to it.
fn lower_host(url: &mut Url) {
    let lower =
        url.host_str().filter(|host| host.contains(|c: char| c.is_ascii_uppercase())).map(str::to_ascii_lowercase);
    if let Some(lower) = lower {
        // The host was valid before, and letters are as valid in lower case. If it were not, it would stay as it is.
        let _unchanged = url.set_host(Some(&lower));
    }
}

fn sort_query(url: &mut Url) {
    let mut pairs: Vec<_> = url.query_pairs().into_owned().collect();
    if pairs.is_empty() {
        url.set_query(None);
    } else {
        pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
        url.query_pairs_mut().clear().extend_pairs(pairs);
    }
}

/// An object whose members keep their order.
struct Policy<'a>(&'a [(&'a str, u64)]);

impl Serialize for Policy<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0 {
            members.serialize_entry(name, value)?;
        }
        members.end()
    }
}

/// A closure as a writer that never fails.
struct Sink<F>(F);

impl<F: FnMut(&[u8])> io::Write for Sink<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (self.0)(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
