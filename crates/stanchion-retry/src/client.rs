//! How often the caller's own client library has retried a request, as its headers say.

use http::{HeaderMap, HeaderValue};

/// How often the caller's client library says that it has retried this request before; `None` if it says nothing.
///
/// | header | whose | reading |
/// |---|---|---|
/// | `x-stainless-retry-count` | the OpenAI and Anthropic client libraries | retries so far |
/// | `grpc-previous-rpc-attempts` | gRPC (proposal A6) | attempts before this one |
/// | `x-envoy-attempt-count` | Envoy, and meshes made of it | attempts, this one included |
/// | `amz-sdk-request` | the AWS client libraries | `attempt=N; max=M`, this one included |
///
/// If several say something, the largest number counts. Numbers above 1,000 say nothing.
pub fn client_retries(headers: &HeaderMap) -> Option<u32> {
    retries_told(|name| headers.get(name).map(HeaderValue::as_bytes))
}

/// As [`client_retries`], of headers wherever they are.
pub(crate) fn retries_told<'a>(header: impl Fn(&str) -> Option<&'a [u8]>) -> Option<u32> {
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|number| *number <= 1000);
    let header =
        |name: &str| header(name).and_then(|value| str::from_utf8(value).ok()).filter(|value| value.is_ascii());
    let attempts = |text: &str| number(text).and_then(|attempts| attempts.checked_sub(1));
    [
        header("x-stainless-retry-count").and_then(number),
        header("grpc-previous-rpc-attempts").and_then(number),
        header("x-envoy-attempt-count").and_then(attempts),
        header("amz-sdk-request").and_then(|parts| {
            parts.split(';').find_map(|part| part.trim().strip_prefix("attempt=")).and_then(attempts)
        }),
    ]
    .into_iter()
    .flatten()
    .max()
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    #[test]
    fn every_way_of_saying_it_is_read_and_nonsense_says_nothing() {
        for (headers, retries) in [
            (&[][..], None),
            (&[("x-stainless-retry-count", "0")], Some(0)),
            (&[("x-stainless-retry-count", "2")], Some(2)),
            (&[("x-stainless-retry-count", " 2 ")], Some(2)),
            (&[("x-stainless-retry-count", "-1")], None),
            (&[("x-stainless-retry-count", "two")], None),
            (&[("x-stainless-retry-count", "4294967295")], None),
            (&[("grpc-previous-rpc-attempts", "3")], Some(3)),
            (&[("x-envoy-attempt-count", "1")], Some(0)),
            (&[("x-envoy-attempt-count", "4")], Some(3)),
            (&[("x-envoy-attempt-count", "0")], None),
            (&[("amz-sdk-request", "attempt=3; max=4")], Some(2)),
            (&[("amz-sdk-request", "max=4; attempt=1")], Some(0)),
            (&[("amz-sdk-request", "ttl=20")], None),
            (&[("x-stainless-retry-count", "1"), ("x-envoy-attempt-count", "3")], Some(2)),
        ] {
            let map: HeaderMap = headers
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
                .collect();
            assert_eq!(client_retries(&map), retries, "{headers:?}");
        }
    }
}
