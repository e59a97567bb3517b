//! What a candidate has of its provider, and of the first candidate of its model.

use http::HeaderValue;
use stanchion::{
    core::{Candidate, Family},
    fallback::OnOverflow,
};

use super::{check::Checker, file, value::Spanned};

impl file::Candidate {
    /// With what it does not set itself, and has of the first of its model.
    ///
    /// The temperature, in any case: it is the application's wish. The tier, if both are of the same provider, to whom it
    /// means something. The rest of what makes a request, if they are and this one sets none of it: who sets some has
    /// thought of all.
    pub(super) fn after(&self, first: &Self) -> Self {
        let mut own = self.clone();
        if self.inherit == Some(false) {
            return own;
        }
        let same_provider = first.provider.get_ref() == self.provider.get_ref();
        if same_provider && !self.sets_anything() {
            own.max_output_tokens.clone_from(&first.max_output_tokens);
            own.api_version.clone_from(&first.api_version);
            own.headers.clone_from(&first.headers);
        }
        own.temperature = own.temperature.or_else(|| first.temperature.clone());
        own.tier = own.tier.or_else(|| first.tier.clone().filter(|_| same_provider));
        own
    }

    fn sets_anything(&self) -> bool {
        self.max_output_tokens.is_some()
            || self.temperature.is_some()
            || self.api_version.is_some()
            || !self.headers.is_empty()
    }
}

impl Checker<'_> {
    /// The version of the provider's API, the candidate's own over that of its provider.
    pub(super) fn api_version(
        &mut self,
        candidate: Candidate,
        provider: &file::Provider,
        own: Option<&file::Candidate>,
    ) -> Candidate {
        let own = own.and_then(|own| own.api_version.as_ref());
        let Some(version) = own.or(provider.api_version.as_ref()) else { return candidate };
        let text = version.get_ref().as_str();
        if text.trim().is_empty() || HeaderValue::from_str(text).is_err() {
            self.complain(version.span(), "a version has visible characters");
        }
        if let Some(problem) = no_room(provider) {
            self.complain(version.span(), problem);
        }
        candidate.with_api_version(text)
    }
}

impl Checker<'_> {
    /// Tells of candidates whose window is not known, where windows say who is next.
    pub(super) fn windows(&mut self, candidates: &[Spanned<file::Candidate>], on_overflow: OnOverflow) {
        if on_overflow != OnOverflow::LargerWindow || candidates.len() < 2 {
            return;
        }
        for candidate in candidates.iter().filter(|candidate| candidate.get_ref().context_window.is_none()) {
            let text = "without a context_window no prompt that is too long elsewhere comes here (on_overflow = \"larger_window\")";
            self.warn(candidate.span(), text);
        }
    }
}

/// Why a version has no place in requests to this provider.
fn no_room(provider: &file::Provider) -> Option<&'static str> {
    let url = url::Url::parse(provider.base_url.get_ref()).ok()?;
    let last = url.path().trim_end_matches('/').rsplit('/').next();
    match provider.dialect {
        Family::Ollama => Some("this dialect has no versions"),
        Family::Gemini if matches!(last, Some("v1" | "v1beta" | "v1alpha" | "google")) => {
            Some("the version is given twice: keep this one or that of base_url")
        }
        Family::OpenAi if url.query_pairs().any(|(key, _)| key.eq_ignore_ascii_case("api-version")) => {
            Some("the version is given twice: keep this one or that of base_url")
        }
        _ => None,
    }
}
