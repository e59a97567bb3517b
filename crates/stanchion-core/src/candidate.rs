use std::{
    any::Any,
    fmt,
    sync::{Arc, OnceLock},
};

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::{DomainScope, DomainSecret, Drain, FailureDomain, Family, Secret};

/// One way to serve a request: provider, dialect family, base URL, model and credential.
///
/// Immutable once built and shared by `Arc`. `Debug` shows the name, family and model; neither address, credential nor headers.
#[derive(Clone)]
pub struct Candidate {
    name: Arc<str>,
    provider: Arc<str>,
    family: Family,
    base_url: Arc<str>,
    model: Option<Arc<str>>,
    credential: Option<Secret>,
    headers: HeaderMap,
    repairs_opaque_rejections: bool,
    context_window: Option<u32>,
    max_output_tokens: Option<u32>,
    temperature: Option<f64>,
    tier: Option<Arc<str>>,
    drain: Drain,
    api_version: Option<Arc<str>>,
    derived: Derived,
}

impl Candidate {
    /// A candidate of `provider` at `base_url`, as the provider's own client library takes it: OpenAI with `/v1`, the others without.
    ///
    /// Its [name](Self::name) is the provider's until a [model](Self::with_model) is set.
    pub fn new(provider: impl Into<Arc<str>>, family: Family, base_url: impl Into<Arc<str>>) -> Self {
        let provider = provider.into();
        Self {
            name: provider.clone(),
            provider,
            family,
            base_url: base_url.into(),
            model: None,
            credential: None,
            headers: HeaderMap::new(),
            repairs_opaque_rejections: false,
            context_window: None,
            max_output_tokens: None,
            temperature: None,
            tier: None,
            drain: Drain::default(),
            api_version: None,
            derived: Derived::default(),
        }
    }

    /// The model to ask for. Without one, the client's own model name is passed on.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<Arc<str>>) -> Self {
        let model = model.into();
        self.name = format!("{}/{model}", self.provider).into();
        self.model = Some(model);
        self.changed()
    }

    /// The credential, sent as the family wants it. Without one, none is sent.
    #[must_use]
    pub fn with_credential(mut self, credential: Secret) -> Self {
        self.credential = Some(credential);
        self.changed()
    }

    /// A header that is set on every request to this candidate, over the client's own.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, mut value: HeaderValue) -> Self {
        value.set_sensitive(true);
        self.headers.insert(name, value);
        self.changed()
    }

    /// Whether a 400 or 422 with an empty body is answered by sending the request once more without its output limits.
    ///
    /// Off by default: for some servers (Cerebras) it means that the prompt is too long, and the same prompt can never fit.
    /// Only where OpenAI's dialect is spoken.
    #[must_use]
    pub fn with_repair_of_opaque_rejections(mut self, repairs: bool) -> Self {
        self.repairs_opaque_rejections = repairs;
        self.changed()
    }

    /// How many tokens the model takes, prompt and reply together. Without one, no request is held to be too long for it.
    #[must_use]
    pub fn with_context_window(mut self, tokens: u32) -> Self {
        self.context_window = Some(tokens);
        self.changed()
    }

    /// The most tokens that a reply of this candidate may have: put into the body of its requests, whatever the client
    /// asks for.
    #[must_use]
    pub fn with_max_output_tokens(mut self, tokens: u32) -> Self {
        self.max_output_tokens = Some(tokens);
        self.changed()
    }

    /// The temperature of this candidate: put into the body of its requests, whatever the client asks for. What is no
    /// finite number is not kept.
    #[must_use]
    pub fn with_temperature(mut self, temperature: f64) -> Self {
        self.temperature = Some(temperature).filter(|temperature| temperature.is_finite());
        self.changed()
    }

    /// The service tier of this candidate: put into the body of its requests, whatever the client asks for.
    #[must_use]
    pub fn with_tier(mut self, tier: impl Into<Arc<str>>) -> Self {
        self.tier = Some(tier.into());
        self.changed()
    }

    /// The switch that takes this candidate out of service. By default it has one of its own.
    #[must_use]
    pub fn with_drain(mut self, drain: Drain) -> Self {
        self.drain = drain;
        self.changed()
    }

    /// The version of the provider's API, which goes where the family wants it: Anthropic's `anthropic-version` header,
    /// Gemini's path, and for OpenAI's the query `api-version`, as Azure has it. Azure takes a key in a header of its own
    /// then, `api-key`. Ollama has none.
    #[must_use]
    pub fn with_api_version(mut self, version: impl Into<Arc<str>>) -> Self {
        self.api_version = Some(version.into());
        self.changed()
    }

    /// What was worked out of it before counts no more.
    fn changed(mut self) -> Self {
        self.derived = Derived::default();
        self
    }

    /// What `work_out` makes of this candidate: worked out once, and kept with it, for whoever would make the same for each
    /// request. A candidate that is changed or cloned works it out anew.
    ///
    /// Of one type alone, that of the first who asks; whoever asks for another works it out each time.
    pub fn derive<T: Clone + Send + Sync + 'static>(&self, work_out: impl FnOnce(&Self) -> T) -> T {
        if let Some(kept) = self.derived.0.get() {
            return match kept.downcast_ref::<T>() {
                Some(kept) => kept.clone(),
                None => work_out(self),
            };
        }
        let made = work_out(self);
        // Two who come first at once have made the same.
        let _ = self.derived.0.set(Box::new(made.clone()));
        made
    }

    /// `provider/model`: what events, errors and the `x-stanchion-candidate` header say.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The provider's name.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// What the provider speaks.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Where the provider is.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// The model to ask for.
    pub fn model(&self) -> Option<&Arc<str>> {
        self.model.as_ref()
    }

    /// The credential.
    pub fn credential(&self) -> Option<&Secret> {
        self.credential.as_ref()
    }

    /// Headers set on every request.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Whether a 400 or 422 with an empty body is answered by sending the request once more without its output limits.
    pub fn repairs_opaque_rejections(&self) -> bool {
        self.repairs_opaque_rejections
    }

    /// How many tokens the model takes.
    pub fn context_window(&self) -> Option<u32> {
        self.context_window
    }

    /// The most tokens that a reply may have.
    pub fn max_output_tokens(&self) -> Option<u32> {
        self.max_output_tokens
    }

    /// The temperature.
    pub fn temperature(&self) -> Option<f64> {
        self.temperature
    }

    /// The service tier.
    pub fn tier(&self) -> Option<&str> {
        self.tier.as_deref()
    }

    /// The switch that takes it out of service.
    pub fn drain(&self) -> &Drain {
        &self.drain
    }

    /// The version of the provider's API.
    pub fn api_version(&self) -> Option<&str> {
        self.api_version.as_deref()
    }

    /// Whether anything of the request's body is the candidate's own, besides the model.
    pub fn has_overrides(&self) -> bool {
        self.max_output_tokens.is_some() || self.temperature.is_some() || self.tier.is_some()
    }

    /// Whether a prompt of about so many tokens fits. A margin of an eighth of the window is kept free, at least 64
    /// tokens and at most 1,024: estimates err, and a reply wants room.
    pub fn fits(&self, tokens: usize) -> bool {
        self.context_window.is_none_or(|window| {
            let margin = (window / 8).clamp(64, 1024);
            tokens <= window.saturating_sub(margin) as usize
        })
    }

    /// What fails together with this candidate, under a policy of the one who asks.
    pub fn domain(&self, secret: &DomainSecret, policy: &[(&str, u64)]) -> FailureDomain {
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers: Vec<(&str, String)> =
            self.headers.iter().map(|(name, value)| (name.as_str(), text(value))).collect();
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, &**value)).collect();
        secret.domain(&DomainScope {
            provider: &self.provider,
            wire_api: self.family.as_str(),
            base_url: &self.base_url,
            model: self.model.as_deref().unwrap_or_default(),
            tier: self.tier.as_deref(),
            api_version: self.api_version.as_deref(),
            credential: self.credential.as_ref().map(Secret::expose),
            headers: &headers,
            policy,
        })
    }
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidate").field("name", &self.name).field("family", &self.family).finish_non_exhaustive()
    }
}

/// What was worked out of a candidate. It is no part of what the candidate is.
#[derive(Default)]
struct Derived(OnceLock<Box<dyn Any + Send + Sync>>);

impl Clone for Derived {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// An ordered list of candidates, first choice first. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Candidates(Arc<[Arc<Candidate>]>);

impl Candidates {
    /// A list in order of preference.
    pub fn new(candidates: impl IntoIterator<Item = Candidate>) -> Self {
        Self(candidates.into_iter().map(Arc::new).collect())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The selection of the candidate at `index`, knowing whether it is the last; `None` past the end.
    pub fn select(&self, index: usize) -> Option<Selected> {
        let candidate = self.0.get(index)?.clone();
        Some(Selected { candidate, index, last: index + 1 == self.0.len() })
    }

    /// In order of preference.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Candidate>> {
        self.0.iter()
    }
}

/// Says, in the extensions of a request, that it is to be sent without its output limits (`max_tokens` and the like).
/// See [`Candidate::with_repair_of_opaque_rejections`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WithoutOutputLimit;

/// The candidate that a request is for just now. Lives in the request's and the response's extensions.
#[derive(Debug, Clone)]
pub struct Selected {
    /// The candidate.
    pub candidate: Arc<Candidate>,
    /// Its place in the list, from 0.
    pub index: usize,
    /// Whether no other follows it.
    pub last: bool,
}

impl Selected {
    /// The only candidate there is.
    pub fn only(candidate: Candidate) -> Self {
        Self { candidate: Arc::new(candidate), index: 0, last: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_neither_address_nor_secret() {
        let candidate = Candidate::new("primary", Family::OpenAi, "https://user:hunter2@provider.example/v1")
            .with_model("gpt-x")
            .with_credential(Secret::new("sk-live"))
            .with_header(HeaderName::from_static("x-tenant"), HeaderValue::from_static("acme"));
        let shown = format!("{candidate:?} {:?}", Selected::only(candidate.clone()));
        assert!(shown.contains("primary/gpt-x"));
        for secret in ["hunter2", "provider.example", "sk-live", "acme"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }

    #[test]
    fn candidates_that_lead_elsewhere_fail_apart() {
        let secret = DomainSecret::from_bytes([3; 32]);
        let plain = || Candidate::new("p", Family::OpenAi, "https://provider.example/v1");
        let domain = |candidate: Candidate| candidate.domain(&secret, &[]);
        assert_eq!(domain(plain()), domain(Candidate::new("p", Family::OpenAi, "https://provider.example:443/v1/")));
        let header = |value| (HeaderName::from_static("x-tenant"), HeaderValue::from_static(value));
        let with_header = |value| {
            let (name, value) = header(value);
            plain().with_header(name, value)
        };
        let others = [
            plain().with_model("m"),
            plain().with_tier("flex"),
            plain().with_api_version("flex"),
            plain().with_api_version("2026-01-01"),
            plain().with_credential(Secret::new("k")),
            plain().with_credential(Secret::new("l")),
            with_header("a"),
            with_header("b"),
            Candidate::new("p", Family::Anthropic, "https://provider.example/v1"),
            Candidate::new("q", Family::OpenAi, "https://provider.example/v1"),
            plain(),
        ];
        let domains: std::collections::HashSet<_> = others.into_iter().map(domain).collect();
        assert_eq!(domains.len(), 11);
        assert_ne!(plain().domain(&secret, &[]), plain().domain(&secret, &[("open_ms", 10_000)]));
    }

    #[test]
    fn what_is_worked_out_is_kept_until_the_candidate_changes() {
        let plain = Candidate::new("p", Family::OpenAi, "http://x").with_model("m");
        let address = |candidate: &Candidate| candidate.derive(|it| format!("{}|{:?}", it.base_url(), it.model()));
        let first = address(&plain);
        assert_eq!(plain.derive(|_| -> String { unreachable!("it is kept") }), first);
        assert_eq!(plain.derive(|_| 7_u32), 7, "of another type");
        assert_eq!(plain.derive(|_| 8_u32), 8, "of another type, which is not kept");
        assert_eq!(address(&plain.clone().with_model("n")), "http://x|Some(\"n\")");
        assert_eq!(address(&plain.with_model("o")), "http://x|Some(\"o\")");
    }

    #[test]
    fn a_prompt_fits_with_a_margin() {
        let of = |window| Candidate::new("p", Family::OpenAi, "http://x").with_context_window(window);
        for (window, most) in [(128, 64), (1_000, 875), (8_192, 7_168), (200_000, 198_976), (64, 0)] {
            assert!(of(window).fits(most), "{window}");
            assert!(!of(window).fits(most + 1), "{window}");
        }
        assert!(Candidate::new("p", Family::OpenAi, "http://x").fits(usize::MAX));
        assert_eq!(of(1).with_temperature(f64::NAN).temperature(), None);
    }

    #[test]
    fn the_last_candidate_knows_that_it_is() {
        let list = Candidates::new(["a", "b"].map(|p| Candidate::new(p, Family::Anthropic, "http://x")));
        let last: Vec<_> = (0..3).map(|i| list.select(i).map(|s| s.last)).collect();
        assert_eq!(last, [Some(false), Some(true), None]);
    }
}
