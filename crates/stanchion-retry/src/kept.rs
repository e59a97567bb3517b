//! What is kept of a request as long as another attempt may follow.

use std::ops::Range;

use bytes::Bytes;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version, request};
use stanchion_core::{Attempts, Call, Context, HidesUsage, Selected, WaitsForCircuit, WithoutOutputLimit};

use crate::RetryOwner;

/// A request, kept so that it can be sent again. Most never are: so it is cheaper to keep than a clone, and dearer to
/// send.
pub(crate) struct Kept<B> {
    method: Method,
    uri: Uri,
    version: Version,
    headers: KeptHeaders,
    extensions: KeptExtensions,
    /// What is sent from now on has no limit of its output.
    repaired: bool,
    body: B,
}

impl<B: Clone> Kept<B> {
    pub(crate) fn of(request: &Request<B>, known: &Known) -> Self {
        Self {
            method: request.method().clone(),
            uri: request.uri().clone(),
            version: request.version(),
            headers: KeptHeaders::of(request.headers()),
            extensions: KeptExtensions::of(request.extensions(), known),
            repaired: false,
            body: request.body().clone(),
        }
    }

    /// The request, to be sent once more, while another attempt may follow that as well.
    pub(crate) fn request(&self, known: &Known) -> Request<B> {
        let (mut head, body) = Request::new(self.body.clone()).into_parts();
        head.method = self.method.clone();
        head.uri = self.uri.clone();
        head.extensions = self.extensions.restored(known);
        self.restore(&mut head);
        Request::from_parts(head, body)
    }
}

impl<B> Kept<B> {
    /// The request, to be sent for the last time.
    pub(crate) fn into_request(self, known: &Known) -> Request<B> {
        let (mut head, ()) = Request::new(()).into_parts();
        head.extensions = self.extensions.restored(known);
        self.restore(&mut head);
        head.method = self.method;
        head.uri = self.uri;
        Request::from_parts(head, self.body)
    }

    fn restore(&self, head: &mut request::Parts) {
        head.version = self.version;
        head.headers = self.headers.restored();
        if self.repaired {
            head.extensions.insert(WithoutOutputLimit);
        }
    }

    /// Has everything that is sent from now on bear the mark of a repair.
    pub(crate) fn repair(&mut self) {
        self.repaired = true;
    }

    /// The first value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&[u8]> {
        let KeptHeaders(all) = &self.headers;
        let found = entries(all).find(|entry| &all[entry.name.clone()] == name.as_bytes());
        found.map(|entry| &all[entry.value])
    }
}

/// Headers in one piece of memory: for each the length of its name, that of its value with whether it is sensitive in
/// the lowest bit, the name and the value. Each clone of a value would count up and down what it shares with others.
struct KeptHeaders(Vec<u8>);

impl KeptHeaders {
    /// The length of two lengths.
    const LENGTHS: usize = 2 * size_of::<u64>();
    /// What most headers fit into, one with the other.
    const USUAL: usize = 64;

    fn of(headers: &HeaderMap) -> Self {
        let mut all = Vec::with_capacity(headers.len() * Self::USUAL);
        for (name, value) in headers {
            let (name, bytes) = (name.as_str(), value.as_bytes());
            all.extend_from_slice(&(name.len() as u64).to_ne_bytes());
            all.extend_from_slice(&((bytes.len() as u64) << 1 | u64::from(value.is_sensitive())).to_ne_bytes());
            all.extend_from_slice(name.as_bytes());
            all.extend_from_slice(bytes);
        }
        Self(all)
    }

    fn restored(&self) -> HeaderMap {
        let all = Bytes::copy_from_slice(&self.0);
        let mut headers = HeaderMap::new();
        for entry in entries(&all) {
            // All of them come out of a map: they are what headers may be.
            let name = HeaderName::from_bytes(&all[entry.name]);
            let value = HeaderValue::from_maybe_shared(all.slice(entry.value));
            if let (Ok(name), Ok(mut value)) = (name, value) {
                value.set_sensitive(entry.is_sensitive);
                headers.append(name, value);
            }
        }
        headers
    }
}

/// Where a header stands among those that are kept.
struct Entry {
    name: Range<usize>,
    value: Range<usize>,
    is_sensitive: bool,
}

/// The headers that are kept in one piece of memory.
fn entries(all: &[u8]) -> impl Iterator<Item = Entry> {
    let number = |at: usize| all.get(at..)?.first_chunk().copied().map(u64::from_ne_bytes);
    let mut at = 0;
    std::iter::from_fn(move || {
        let (name, value) = (number(at)?, number(at + size_of::<u64>())?);
        let name_at = at + KeptHeaders::LENGTHS;
        let value_at = name_at + name as usize;
        at = value_at + (value >> 1) as usize;
        Some(Entry { name: name_at..value_at, value: value_at..at, is_sensitive: value & 1 == 1 })
    })
}

/// What the run itself knows of the request's extensions.
pub(crate) struct Known {
    pub(crate) context: Option<Context>,
    pub(crate) selected: Option<Selected>,
}

/// Extensions. A map of them is boxes in a box: where it holds nothing that is not known here, its values are kept by
/// themselves.
enum KeptExtensions {
    /// Besides what the run knows, and the mark of the owner.
    Few {
        call: Option<Call>,
        attempts: Option<Attempts>,
        waits_for_circuit: bool,
        hides_usage: bool,
    },
    All(Extensions),
}

impl KeptExtensions {
    /// To be kept once the mark of the owner is among them.
    fn of(extensions: &Extensions, known: &Known) -> Self {
        let (call, attempts) = (extensions.get::<Call>(), extensions.get::<Attempts>());
        let waits_for_circuit = extensions.get::<WaitsForCircuit>().is_some();
        let hides_usage = extensions.get::<HidesUsage>().is_some();
        let few = [
            known.context.is_some(),
            known.selected.is_some(),
            call.is_some(),
            attempts.is_some(),
            waits_for_circuit,
            hides_usage,
        ];
        if extensions.len() == 1 + few.into_iter().map(usize::from).sum::<usize>() {
            Self::Few { call: call.cloned(), attempts: attempts.cloned(), waits_for_circuit, hides_usage }
        } else {
            Self::All(extensions.clone())
        }
    }

    fn restored(&self, known: &Known) -> Extensions {
        let (call, attempts, waits_for_circuit, hides_usage) = match self {
            Self::Few { call, attempts, waits_for_circuit, hides_usage } => {
                (call, attempts, waits_for_circuit, hides_usage)
            }
            Self::All(extensions) => return extensions.clone(),
        };
        let mut extensions = Extensions::new();
        extensions.insert(RetryOwner);
        if let Some(context) = &known.context {
            extensions.insert(context.clone());
        }
        if let Some(selected) = &known.selected {
            extensions.insert(selected.clone());
        }
        if let Some(call) = call {
            extensions.insert(call.clone());
        }
        if let Some(attempts) = attempts {
            extensions.insert(attempts.clone());
        }
        if *waits_for_circuit {
            extensions.insert(WaitsForCircuit);
        }
        if *hides_usage {
            extensions.insert(HidesUsage);
        }
        extensions
    }
}

#[cfg(test)]
mod tests {
    use stanchion_core::{Candidate, Dialect, Family};

    use super::*;

    /// Something of an application's.
    #[derive(Debug, Clone, PartialEq)]
    struct Own(u32);

    fn request() -> Request<String> {
        let request = Request::put("https://somewhere.test:8080/v1/chat?x=y")
            .version(Version::HTTP_2)
            .header("x-own", "one")
            .header("accept", "a")
            .header("x-own", "")
            .header("accept", "b")
            .header("x-bytes", HeaderValue::from_bytes(b"\xe4\tx").unwrap())
            .header("x-long", "l".repeat(10_000));
        let mut request = request.body("hello".to_owned()).unwrap();
        let mut secret = HeaderValue::from_static("Bearer k");
        secret.set_sensitive(true);
        request.headers_mut().insert("authorization", secret);
        request.extensions_mut().insert(RetryOwner);
        request
    }

    fn known(request: &Request<String>) -> Known {
        Known { context: Context::of(request).cloned(), selected: request.extensions().get().cloned() }
    }

    fn is_the_same(kept: Request<String>, request: &Request<String>) {
        let names = |request: &Request<String>| {
            let all = request.headers().iter();
            all.map(|(name, value)| (name.clone(), value.clone(), value.is_sensitive())).collect::<Vec<_>>()
        };
        assert_eq!(names(&kept), names(request));
        assert_eq!(kept.headers(), request.headers());
        assert_eq!(kept.extensions().get::<HidesUsage>().is_some(), request.extensions().get::<HidesUsage>().is_some());
        assert_eq!(
            kept.extensions().get::<WaitsForCircuit>().is_some(),
            request.extensions().get::<WaitsForCircuit>().is_some()
        );
        assert_eq!(
            (kept.method(), kept.uri(), kept.version(), kept.body()),
            (request.method(), request.uri(), request.version(), request.body())
        );
        let (kept, all) = (kept.extensions(), request.extensions());
        assert_eq!(kept.len(), all.len());
        assert_eq!((kept.get::<Call>(), kept.get::<Own>()), (all.get(), all.get()));
        let candidate = |all: &Extensions| all.get::<Selected>().map(|selected| selected.candidate.name().clone());
        assert_eq!(candidate(kept), candidate(all));
        assert_eq!(kept.get::<Context>().is_some(), all.get::<Context>().is_some());
        assert_eq!(kept.get::<Attempts>().is_some(), all.get::<Attempts>().is_some());
        assert!(kept.get::<RetryOwner>().is_some());
    }

    #[test]
    fn what_is_sent_again_is_what_was_sent() {
        let plain = request();
        let mut usual = request();
        usual.extensions_mut().insert(Call::new(Dialect::OpenAiChat, true).with_model("m").with_output_limit(true));
        usual.extensions_mut().insert(Selected::only(Candidate::new("a", Family::OpenAi, "http://a.test")));
        usual.extensions_mut().insert(WaitsForCircuit);
        usual.extensions_mut().insert(HidesUsage);
        let attempts = Attempts::attach(&mut usual);
        let context = Context::default();
        usual.extensions_mut().insert(context.clone());
        let mut others = usual.clone();
        others.extensions_mut().insert(Own(7));
        let mut empty = Request::new(String::new());
        empty.extensions_mut().insert(RetryOwner);
        for request in [&plain, &usual, &others, &empty] {
            let known = known(request);
            let kept = Kept::of(request, &known);
            for name in ["x-own", "accept", "x-bytes", "x-long", "authorization", "x-absent"] {
                assert_eq!(kept.header(name), request.headers().get(name).map(HeaderValue::as_bytes), "{name}");
            }
            is_the_same(kept.request(&known), request);
            is_the_same(kept.into_request(&known), request);
        }
        assert!(matches!(KeptExtensions::of(usual.extensions(), &known(&usual)), KeptExtensions::Few { .. }));
        assert!(matches!(KeptExtensions::of(others.extensions(), &known(&others)), KeptExtensions::All(_)));
        // It is one context and one list of attempts, whichever request counts in them.
        for (request, counted) in [(&usual, 1), (&others, 2)] {
            let again = Kept::of(request, &known(request)).request(&known(request));
            Context::of(&again).unwrap().count_attempt();
            Attempts::of(&again).unwrap().begin(None);
            assert_eq!(context.attempts(), counted);
            assert_eq!(attempts.take().len(), 1);
        }
    }

    #[test]
    fn what_follows_a_repair_bears_its_mark() {
        let known = Known { context: None, selected: None };
        let mut kept = Kept::of(&request(), &known);
        assert!(kept.request(&known).extensions().get::<WithoutOutputLimit>().is_none());
        kept.repair();
        let repaired = kept.request(&known);
        assert!(repaired.extensions().get::<WithoutOutputLimit>().is_some());
        assert!(Kept::of(&repaired, &known).into_request(&known).extensions().get::<WithoutOutputLimit>().is_some());
        assert!(kept.into_request(&known).extensions().get::<WithoutOutputLimit>().is_some());
    }
}
