use std::{fmt, sync::Arc};

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::{Family, Secret};

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
        }
    }

    /// The model to ask for. Without one, the client's own model name is passed on.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<Arc<str>>) -> Self {
        let model = model.into();
        self.name = format!("{}/{model}", self.provider).into();
        self.model = Some(model);
        self
    }

    /// The credential, sent as the family wants it. Without one, none is sent.
    #[must_use]
    pub fn with_credential(mut self, credential: Secret) -> Self {
        self.credential = Some(credential);
        self
    }

    /// A header that is set on every request to this candidate, over the client's own.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, mut value: HeaderValue) -> Self {
        value.set_sensitive(true);
        self.headers.insert(name, value);
        self
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
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidate").field("name", &self.name).field("family", &self.family).finish_non_exhaustive()
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
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Candidate>> {
        self.0.iter()
    }
}

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
    fn the_last_candidate_knows_that_it_is() {
        let list = Candidates::new(["a", "b"].map(|p| Candidate::new(p, Family::Anthropic, "http://x")));
        let last: Vec<_> = (0..3).map(|i| list.select(i).map(|s| s.last)).collect();
        assert_eq!(last, [Some(false), Some(true), None]);
    }
}
