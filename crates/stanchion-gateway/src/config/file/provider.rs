use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use stanchion::core::{CredentialStrategy, Family};

use super::{
    super::value::{Span, Spanned, Words, in_order},
    CandidateAdmission,
};

/// Who answers.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(in super::super) struct Provider {
    /// what it speaks
    #[schemars(with = "Words<Family>")]
    pub(in super::super) dialect: Family,
    /// as the provider's own client library takes it
    #[schemars(extend("x-range" = "an http or https URL"))]
    pub(in super::super) base_url: Spanned<String>,
    /// the variable that has its key. At most one of the ways to give a key
    pub(in super::super) api_key_env: Option<Spanned<String>>,
    /// the file that has its key
    pub(in super::super) api_key_file: Option<Spanned<String>>,
    /// its key; only with `server.inline_keys`
    #[schemars(extend("writeOnly" = true))]
    pub(in super::super) api_key: Option<Spanned<String>>,
    /// the variables of several keys, of which `credentials` chooses
    pub(in super::super) api_keys_env: Option<Spanned<Vec<String>>>,
    /// several keys; only with `server.inline_keys`
    #[schemars(extend("writeOnly" = true))]
    pub(in super::super) api_keys: Option<Spanned<Vec<String>>>,
    /// How one of several keys is chosen.
    pub(in super::super) credentials: Option<Spanned<ProviderCredentials>>,
    /// set on every request, over the client's own
    #[serde(default)]
    pub(in super::super) headers: BTreeMap<String, Spanned<String>>,
    /// the version of the provider's API: Anthropic's `anthropic-version`, Gemini's in the path (`v1beta`), and for `openai` the query
    /// `api-version`, as Azure has it, to whom the key then goes as `api-key`. Not for `ollama`
    #[schemars(extend("x-default" = "the dialect's own"))]
    pub(in super::super) api_version: Option<Spanned<String>>,
    /// whether clients may ask for any model of this provider, as `provider/model`: see [names](#names)
    #[schemars(extend("default" = false))]
    pub(in super::super) passthrough: Option<Spanned<bool>>,
    /// a 400 or 422 with an empty body is answered by sending the request once more without `max_tokens`, `max_completion_tokens` and
    /// `max_output_tokens`. Leave it off where an empty 400 means that the prompt is too long (Cerebras). For `openai` only
    #[schemars(extend("default" = false))]
    pub(in super::super) repair_opaque_400: Option<Spanned<bool>>,
    /// How TLS is spoken to it.
    pub(in super::super) tls: Option<Spanned<ProviderTls>>,
    /// What requests to each of its models queue for.
    #[serde(default)]
    pub(in super::super) admission: CandidateAdmission,
}

/// How one of the keys in `api_keys_env` or `api_keys` is chosen.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Credentials", transform = in_order::<Self>)]
pub(in super::super) struct ProviderCredentials {
    /// which of the keys that are ready is taken
    #[schemars(with = "Option<Words<CredentialStrategy>>", extend("default" = "round_robin"))]
    pub(in super::super) strategy: Option<CredentialStrategy>,
    /// how long a limited key rests where the provider does not say
    #[schemars(extend("default" = "60s", "x-range" = "1 s to 24 h"))]
    pub(in super::super) cooldown: Option<Spanned<Span>>,
    /// how long a key rests whose account is out of quota
    #[schemars(extend("default" = "1h", "x-range" = "1 s to 30 days"))]
    pub(in super::super) exhausted_for: Option<Spanned<Span>>,
    /// where what is known of the keys outlives a restart; the keys themselves are never written. A file of this provider's alone
    pub(in super::super) state_file: Option<Spanned<String>>,
}

/// How TLS is spoken to a provider that has a certificate of a CA of your own, or asks for one of yours. The files are PEM, and looked at like the
/// configuration.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = in_order::<Self>)]
pub(in super::super) struct ProviderTls {
    /// the file of certificates that are trusted besides the platform's
    pub(in super::super) ca: Option<Spanned<String>>,
    /// the file of the certificate that is presented, and of those that lead from it to a root
    pub(in super::super) cert: Option<Spanned<String>>,
    /// the file of its private key
    pub(in super::super) key: Option<Spanned<String>>,
}
