//! What a gateway is told of a single candidate.

use std::collections::BTreeMap;

use serde::Deserialize;

/// What a gateway is told of a single candidate, besides its address.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Candidate {
    /// Settings of its provider, over those that every candidate's provider has.
    pub provider: BTreeMap<String, toml::Value>,
    /// Its own, as in the list of a model's candidates.
    #[serde(flatten)]
    pub settings: BTreeMap<String, toml::Value>,
}
