mod bodies;
mod notations;
mod properties;
mod reading;
mod windows;

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue};

use super::{HintSource, HintSources, RetryHint};

/// 2026-08-16T12:00:00Z, which is 20:00 in Beijing.
fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_786_881_600)
}

/// The delay that is given, or none for 0, as there is no hint of 0.
fn ms(millis: u64) -> Option<Duration> {
    (millis > 0).then_some(Duration::from_millis(millis))
}

type Headers<'a> = &'a [(&'static str, &'a str)];
type Expected = Option<(u64, HintSource)>;

fn read(headers: Headers<'_>, body: &str, sources: HintSources) -> Expected {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    }
    let hint = RetryHint::read(&map, body.as_bytes(), now(), sources)?;
    Some((hint.delay().as_millis() as u64, hint.source()))
}
