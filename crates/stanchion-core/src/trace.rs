use std::{
    fmt,
    num::{NonZeroU64, NonZeroU128},
    sync::Arc,
};

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Serialize, Serializer};

/// The id of a trace (W3C Trace Context): 16 bytes, shown as 32 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(NonZeroU128);

/// The id of a span within its trace: 8 bytes, shown as 16 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(NonZeroU64);

impl TraceId {
    /// The id of this number; zero, which is no id, becomes one.
    pub fn new(id: u128) -> Self {
        Self(NonZeroU128::new(id).unwrap_or(NonZeroU128::MIN))
    }

    /// The number.
    pub const fn get(self) -> u128 {
        self.0.get()
    }
}

impl SpanId {
    /// The id of this number; zero, which is no id, becomes one.
    pub fn new(id: u64) -> Self {
        Self(NonZeroU64::new(id).unwrap_or(NonZeroU64::MIN))
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// The span of its child of this number: always the same, and another for each.
    #[must_use]
    pub fn child(self, number: u32) -> Self {
        // The finaliser of splitmix64: a bijection, so that no two children of a span share an id.
        let mut id = self.get().wrapping_add(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(u64::from(number)));
        id = (id ^ (id >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        id = (id ^ (id >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self::new(id ^ (id >> 31))
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for TraceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for SpanId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Where a logical request stands in a trace (W3C Trace Context, level 2): its own span, and the one that it is a child of.
///
/// Each physical attempt is a child of the request's span, whose id follows from the request's and the attempt's number: whoever
/// sends the header and whoever exports the span come to the same one without a word.
///
/// `Debug` shows ids and flags; not the state, which is a caller's own.
#[derive(Clone, PartialEq, Eq)]
pub struct TraceContext {
    trace_id: TraceId,
    span_id: SpanId,
    parent: Option<SpanId>,
    flags: u8,
    state: Option<Arc<str>>,
}

impl TraceContext {
    /// The header that says where a request stands in a trace.
    pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
    /// The header with what tracing systems have to say to themselves.
    pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
    /// The longest state that is passed on, in bytes. What the standard asks for at least; a longer one is dropped whole.
    pub const MAX_STATE: usize = 512;

    const SAMPLED: u8 = 1;
    /// Sampled, and that the trace id is random (level 2). Other flags mean nothing yet and are not passed on.
    const KNOWN_FLAGS: u8 = 0b11;

    /// A trace that begins with this request.
    pub fn root(trace_id: TraceId, span_id: SpanId, sampled: bool) -> Self {
        Self { trace_id, span_id, parent: None, flags: u8::from(sampled), state: None }
    }

    /// The trace that a caller's headers tell of, with `span_id` for this request. `None` unless there is exactly one
    /// `traceparent` and it is as the standard wants it.
    pub fn from_headers(headers: &HeaderMap, span_id: SpanId) -> Option<Self> {
        let mut parents = headers.get_all(Self::TRACEPARENT).iter();
        let (trace_id, parent, flags) = parse(parents.next()?.as_bytes())?;
        if parents.next().is_some() {
            return None;
        }
        Some(Self { trace_id, span_id, parent: Some(parent), flags, state: state(headers) })
    }

    /// The trace.
    pub const fn trace_id(&self) -> TraceId {
        self.trace_id
    }

    /// The request's own span.
    pub const fn span_id(&self) -> SpanId {
        self.span_id
    }

    /// The caller's span; `None` if the trace begins here.
    pub const fn parent(&self) -> Option<SpanId> {
        self.parent
    }

    /// Whether the trace is recorded.
    pub const fn sampled(&self) -> bool {
        self.flags & Self::SAMPLED != 0
    }

    /// The span of the request's attempt of this number, from 1: see [`SpanId::child`].
    pub fn attempt(&self, number: u32) -> SpanId {
        self.span_id.child(number)
    }

    /// Puts the trace into the headers of a request, as one of this span, in the place of what stands there.
    pub fn write(&self, span: SpanId, headers: &mut HeaderMap) {
        let parent = format!("00-{}-{span}-{:02x}", self.trace_id, self.flags);
        headers.insert(Self::TRACEPARENT, HeaderValue::try_from(parent).expect("hexadecimal digits and dashes"));
        match self.state.as_deref().map(HeaderValue::from_str) {
            Some(Ok(state)) => headers.insert(Self::TRACESTATE, state),
            _ => headers.remove(Self::TRACESTATE),
        };
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceContext")
            .field("trace_id", &self.trace_id)
            .field("span_id", &self.span_id)
            .field("parent", &self.parent)
            .field("flags", &self.flags)
            .finish_non_exhaustive()
    }
}

/// `version-traceid-parentid-flags`. Versions to come may add to the end, and are read as far as this one goes.
fn parse(text: &[u8]) -> Option<(TraceId, SpanId, u8)> {
    let (known, rest) = text.split_at_checked(55)?;
    let dashes = [2, 35, 52].iter().all(|at| known[*at] == b'-');
    let version = hex(&known[..2])?;
    let ends = match version {
        0 => rest.is_empty(),
        0xff => false,
        _ => rest.is_empty() || rest[0] == b'-',
    };
    if !dashes || !ends {
        return None;
    }
    let trace_id = NonZeroU128::new(hex(&known[3..35])?)?;
    let parent = NonZeroU64::new(hex(&known[36..52])? as u64)?;
    let flags = hex(&known[53..])? as u8 & TraceContext::KNOWN_FLAGS;
    Some((TraceId(trace_id), SpanId(parent), flags))
}

/// Lower-case digits only, as the standard has it.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(digit))
    })
}

/// All of the state's headers as one, if there are any and they are not too long.
fn state(headers: &HeaderMap) -> Option<Arc<str>> {
    let mut state = String::new();
    for value in headers.get_all(TraceContext::TRACESTATE) {
        let value = value.to_str().ok()?.trim();
        if value.is_empty() {
            continue;
        }
        if !state.is_empty() {
            state.push(',');
        }
        state.push_str(value);
        if state.len() > TraceContext::MAX_STATE {
            return None;
        }
    }
    (!state.is_empty()).then(|| state.into())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn headers(parents: &[&str], states: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for parent in parents {
            headers.append(TraceContext::TRACEPARENT, HeaderValue::from_str(parent).unwrap());
        }
        for state in states {
            headers.append(TraceContext::TRACESTATE, HeaderValue::from_str(state).unwrap());
        }
        headers
    }

    fn read(parent: &str) -> Option<TraceContext> {
        TraceContext::from_headers(&headers(&[parent], &[]), SpanId::new(7))
    }

    #[test]
    fn a_trace_is_read_and_goes_on_with_a_span_of_its_own() {
        let trace = TraceContext::from_headers(&headers(&[PARENT], &["a=1", " b=2 "]), SpanId::new(7)).unwrap();
        assert_eq!(trace.trace_id().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(trace.parent().unwrap().to_string(), "00f067aa0ba902b7");
        assert_eq!((trace.span_id().get(), trace.sampled()), (7, true));

        let mut sent = headers(&[PARENT, PARENT], &["old=1"]);
        trace.write(trace.attempt(1), &mut sent);
        let told = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{}-01", trace.attempt(1));
        assert_eq!(sent.get_all(TraceContext::TRACEPARENT).iter().collect::<Vec<_>>(), [&*told]);
        assert_eq!(sent.get_all(TraceContext::TRACESTATE).iter().collect::<Vec<_>>(), ["a=1,b=2"]);
        // The next hop reads what was written.
        let next = TraceContext::from_headers(&sent, SpanId::new(8)).unwrap();
        assert_eq!((next.trace_id(), next.parent()), (trace.trace_id(), Some(trace.attempt(1))));

        let root = TraceContext::root(TraceId::new(5), SpanId::new(6), false);
        root.write(root.span_id(), &mut sent);
        assert_eq!(sent[TraceContext::TRACEPARENT], "00-00000000000000000000000000000005-0000000000000006-00");
        assert!(!sent.contains_key(TraceContext::TRACESTATE), "a caller's state belongs to the caller's trace");
    }

    #[test]
    fn what_the_standard_forbids_is_no_trace() {
        for wrong in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(TraceContext::from_headers(&headers(&[PARENT, PARENT], &[]), SpanId::new(7)), None);
        assert!(read(PARENT).is_some());
        // A version to come.
        assert!(read("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-it-adds").is_some());
    }

    #[test]
    fn flags_without_a_meaning_and_too_long_a_state_go() {
        let trace = read("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-fe").unwrap();
        assert_eq!((trace.flags, trace.sampled()), (0b10, false));
        let long = "x".repeat(TraceContext::MAX_STATE - 1);
        let of =
            |states: &[&str]| TraceContext::from_headers(&headers(&[PARENT], states), SpanId::new(7)).unwrap().state;
        assert_eq!(of(&[&long]).map(|state| state.len()), Some(511));
        assert_eq!(of(&[&long, "y"]), None);
        assert_eq!(of(&["", " "]), None);
    }

    #[test]
    fn debug_does_not_show_the_state() {
        let trace = TraceContext::from_headers(&headers(&[PARENT], &["vendor=secret"]), SpanId::new(7)).unwrap();
        assert!(!format!("{trace:?}").contains("secret"));
    }

    proptest! {
        #[test]
        fn attempts_have_spans_of_their_own(span in any::<u64>()) {
            let trace = TraceContext::root(TraceId::new(1), SpanId::new(span), true);
            let spans: HashSet<_> = (0..200).map(|number| trace.attempt(number)).collect();
            prop_assert_eq!(spans.len(), 200);
        }

        #[test]
        fn no_header_panics(parent in "[ -~]{0,60}") {
            let _ = read(&parent);
        }
    }
}
