//! Who may ask the admin listener for what.
//!
//! With a key, whoever presents it. Without one the listener is bound to loopback, and then the danger is a web page in a browser on
//! the same machine: one of another site, or one whose name was made to lead here.

use http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header, request::Parts};
use sha2::{Digest, Sha256};

/// The header without which nothing is done. A page of another site cannot send it without being asked for leave first, which is
/// never given.
pub(super) const ACTION: HeaderName = HeaderName::from_static("x-stanchion-admin");

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// What a request must have.
#[derive(Clone)]
pub(super) struct Access {
    key: Option<[u8; 32]>,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It was sent to a name that is not this machine's own.
    Host,
    /// A page of another site sent it.
    Page,
    /// The key is missing or wrong.
    Key,
    /// It would do something, and lacks the header for that.
    Header,
}

impl Access {
    /// Only with this key; without one, by this machine's own names only.
    pub(super) fn new(key: Option<[u8; 32]>) -> Self {
        Self { key }
    }

    /// Whether a request may have an answer.
    pub(super) fn check(&self, request: &Parts) -> Result<(), Refusal> {
        let path = request.uri.path();
        if matches!(path, "/healthz" | "/readyz") {
            return Ok(());
        }
        if self.key.is_none() && !is_own_name(host(request)) {
            return Err(Refusal::Host);
        }
        // The page itself tells nothing, and a link may lead to it.
        if path == "/" {
            return Ok(());
        }
        if is_foreign_page(request) {
            return Err(Refusal::Page);
        }
        if let Some(key) = &self.key
            && !bearer(&request.headers).is_some_and(|presented| is_same(key, presented))
        {
            return Err(Refusal::Key);
        }
        if !matches!(request.method, Method::GET | Method::HEAD) && !request.headers.contains_key(ACTION) {
            return Err(Refusal::Header);
        }
        Ok(())
    }
}

impl Refusal {
    /// The status, the code and the words of the answer.
    pub(super) const fn told(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::Host => (
                StatusCode::MISDIRECTED_REQUEST,
                "unknown_host",
                "without a key the admin listener answers only to localhost, 127.0.0.1 and [::1]",
            ),
            Self::Page => {
                (StatusCode::FORBIDDEN, "foreign_page", "web pages of other sites may not ask the admin listener")
            }
            Self::Key => (
                StatusCode::UNAUTHORIZED,
                "invalid_admin_key",
                "the admin key is needed as `Authorization: Bearer KEY`, and the one presented is not it",
            ),
            Self::Header => {
                (StatusCode::FORBIDDEN, "header_missing", "an action needs the header `x-stanchion-admin: 1`")
            }
        }
    }
}

/// Where the request says that it was sent, without the port.
fn host(request: &Parts) -> &str {
    let authority = authority(request);
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

fn authority(request: &Parts) -> &str {
    let header = request.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    request.uri.authority().map(http::uri::Authority::as_str).or(header).unwrap_or_default()
}

/// A name that nobody else's name server can make lead here.
fn is_own_name(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || address.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether a page of another site sent it. Browsers say so; what is no browser says nothing. Another port of the same machine is
/// another site, too.
fn is_foreign_page(request: &Parts) -> bool {
    if let Some(site) = request.headers.get(FETCH_SITE) {
        return !matches!(site.as_bytes(), b"same-origin" | b"none");
    }
    let Some(origin) = request.headers.get(header::ORIGIN) else { return false };
    let origin = origin.to_str().ok().and_then(|origin| origin.parse::<Uri>().ok());
    origin.and_then(|origin| origin.into_parts().authority).is_none_or(|origin| origin.as_str() != authority(request))
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, key) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(key)
}

/// Compares digests, to the end: how long it takes tells nothing of the key.
fn is_same(key: &[u8; 32], presented: &[u8]) -> bool {
    let presented: [u8; 32] = Sha256::digest(presented).into();
    let differ = key.iter().zip(presented).fold(0, |differ, (a, b)| differ | (a ^ b));
    std::hint::black_box(differ) == 0
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn keyed() -> Access {
        Access::new(Some(Sha256::digest(b"secret").into()))
    }

    fn asked(access: &Access, method: &str, path: &str, headers: &[(&str, &str)]) -> Result<(), Refusal> {
        let request = headers
            .iter()
            .fold(Request::builder().method(method).uri(path), |request, (name, value)| request.header(*name, *value));
        access.check(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn without_a_key_only_this_machines_own_names_lead_here() {
        let access = Access::new(None);
        for host in ["localhost", "LocalHost:9090", "127.0.0.1:9090", "127.1.2.3", "[::1]:9090", "[::1]"] {
            assert_eq!(asked(&access, "GET", "/status", &[("host", host)]), Ok(()), "{host}");
        }
        for host in ["evil.example:9090", "localhost.evil.example", "10.0.0.1", "", "127.0.0.1.evil.example", "[::2]"] {
            for path in ["/status", "/", "/metrics", "/events"] {
                assert_eq!(asked(&access, "GET", path, &[("host", host)]), Err(Refusal::Host), "{host} {path}");
            }
        }
        assert_eq!(asked(&access, "GET", "/status", &[]), Err(Refusal::Host));
        // Those who look whether it lives need no name.
        assert_eq!(asked(&access, "GET", "/healthz", &[("host", "10.0.0.1")]), Ok(()));
        assert_eq!(asked(&keyed(), "GET", "/", &[("host", "admin.example")]), Ok(()));
    }

    #[test]
    fn pages_of_other_sites_get_nothing() {
        let own = ("host", "localhost:9090");
        for access in [Access::new(None), keyed()] {
            for (name, value) in [
                ("origin", "http://evil.example"),
                ("origin", "http://localhost:8080"),
                ("origin", "null"),
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-site", "same-site"),
            ] {
                for (method, path) in [("GET", "/status"), ("GET", "/events"), ("POST", "/circuits/a/open")] {
                    let headers = [own, (name, value), ("authorization", "Bearer secret"), ("x-stanchion-admin", "1")];
                    assert_eq!(asked(&access, method, path, &headers), Err(Refusal::Page), "{name} {value} {path}");
                }
            }
            for (name, value) in [
                ("origin", "http://localhost:9090"),
                ("origin", "https://localhost:9090"),
                ("sec-fetch-site", "same-origin"),
                ("sec-fetch-site", "none"),
            ] {
                let headers = [own, (name, value), ("authorization", "Bearer secret"), ("x-stanchion-admin", "1")];
                assert_eq!(asked(&access, "POST", "/circuits/a/open", &headers), Ok(()), "{name} {value}");
            }
            // A link to the page is no harm: it shows nothing by itself.
            assert_eq!(asked(&access, "GET", "/", &[own, ("sec-fetch-site", "cross-site")]), Ok(()));
        }
    }

    #[test]
    fn with_a_key_it_must_be_presented() {
        for path in ["/status", "/metrics", "/events", "/nothing"] {
            assert_eq!(asked(&keyed(), "GET", path, &[]), Err(Refusal::Key));
            for wrong in ["Bearer other", "Bearer secret ", "Basic secret", "Bearer", "secret", "Bearer "] {
                assert_eq!(asked(&keyed(), "GET", path, &[("authorization", wrong)]), Err(Refusal::Key), "{wrong}");
            }
            assert_eq!(asked(&keyed(), "GET", path, &[("authorization", "bearer secret")]), Ok(()));
        }
        // Not in the address, where logs would keep it.
        assert_eq!(asked(&keyed(), "GET", "/status?key=secret", &[]), Err(Refusal::Key));
    }

    #[test]
    fn an_action_needs_its_header() {
        let headers = [("host", "localhost"), ("authorization", "Bearer secret")];
        for access in [Access::new(None), keyed()] {
            for method in ["POST", "PUT", "DELETE"] {
                assert_eq!(asked(&access, method, "/circuits/a/open", &headers), Err(Refusal::Header));
            }
        }
    }
}
