//! What all models share: the queue, the keys of providers, prices, and the monitor of prompt caches.

use std::collections::BTreeMap;

use stanchion::{
    admission::{Adaptive, AdmissionPolicy, AdmissionScheduler, ClassLimits, InvalidAdmission},
    cache_break::CacheBreakPolicy,
    core::Secret,
    credentials::{CredentialPool, CredentialPools, Restored},
    edge::is_name,
    usage::Catalogue,
};

use super::{check::Checker, clients::NO_OWNER, file, value::Spanned};

impl Checker<'_> {
    /// The queue of all requests. Without a limit nobody queues.
    pub(super) fn scheduler(&mut self, file: &file::File) -> AdmissionScheduler {
        let admission = &file.admission;
        let mut scheduler = AdmissionScheduler::builder();
        if let Some(requests) = &admission.global_concurrency {
            scheduler = scheduler.global_concurrency(*requests.get_ref());
        }
        if let Some(requests) = &admission.owner_concurrency {
            scheduler = scheduler.owner_concurrency(*requests.get_ref());
        }
        if let Some(requests) = &admission.max_pending {
            scheduler = scheduler.max_pending(*requests.get_ref());
        }
        if let Some(bytes) = &admission.max_pending_bytes {
            scheduler = scheduler.max_pending_bytes(bytes.get_ref().0 as u64);
        }
        if let Some(requests) = &admission.owner_max_pending {
            scheduler = scheduler.owner_max_pending(*requests.get_ref());
        }
        if let Some(bytes) = &admission.owner_max_pending_bytes {
            scheduler = scheduler.owner_max_pending_bytes(bytes.get_ref().0 as u64);
        }
        if let Some(aging) = &admission.aging {
            scheduler = scheduler.aging(aging.get_ref().0);
        }
        if admission.class_limits == Some(true) {
            scheduler = scheduler.class_limits(ClassLimits::default());
        }
        for (name, owner) in &file.owners {
            if !is_name(name) {
                self.complain(owner.weight.span(), NO_OWNER);
            }
            scheduler = scheduler.weight(name.as_str(), *owner.weight.get_ref());
        }
        scheduler.build().unwrap_or_else(|error| {
            let span = match error.setting() {
                "global_concurrency" => admission.global_concurrency.as_ref().map(Spanned::span),
                "owner_concurrency" => admission.owner_concurrency.as_ref().map(Spanned::span),
                "max_pending" => admission.max_pending.as_ref().map(Spanned::span),
                "max_pending_bytes" => admission.max_pending_bytes.as_ref().map(Spanned::span),
                "owner_max_pending" => admission.owner_max_pending.as_ref().map(Spanned::span),
                "owner_max_pending_bytes" => admission.owner_max_pending_bytes.as_ref().map(Spanned::span),
                "aging" => admission.aging.as_ref().map(Spanned::span),
                _ => {
                    let wrong = file.owners.values().find(|owner| !(1..=100).contains(owner.weight.get_ref()));
                    wrong.map(|owner| owner.weight.span())
                }
            };
            self.complain(span.unwrap_or(0..0), error.to_string());
            AdmissionScheduler::new()
        })
    }

    /// What a model's requests queue for, by the provider that they go to.
    pub(super) fn admission(&mut self, file: &file::File, model: &file::Model) -> BTreeMap<String, AdmissionPolicy> {
        let names = model.candidates.iter().map(|candidate| candidate.get_ref().provider.get_ref());
        let providers: BTreeMap<_, _> = names.filter_map(|name| file.providers.get_key_value(name)).collect();
        let policies = providers.into_iter().map(|(name, provider)| {
            let tables = [&model.admission, &provider.get_ref().admission, &file.defaults.admission];
            (name.clone(), self.admission_policy(tables, model.cost.as_ref()))
        });
        policies.collect()
    }

    /// A policy of these tables: each key is that of the first which has it.
    pub(super) fn admission_policy(
        &mut self,
        tables: [&file::CandidateAdmission; 3],
        cost: Option<&Spanned<u8>>,
    ) -> AdmissionPolicy {
        let concurrency = tables.iter().find_map(|table| table.concurrency.as_ref());
        let max_wait = tables.iter().find_map(|table| table.max_wait.as_ref());
        let max_pending = tables.iter().find_map(|table| table.max_pending.as_ref());
        let max_pending_bytes = tables.iter().find_map(|table| table.max_pending_bytes.as_ref());
        let mut admission = AdmissionPolicy::builder().adaptive(self.adaptive(tables));
        if let Some(requests) = concurrency {
            admission = admission.concurrency(*requests.get_ref());
        }
        if let Some(wait) = max_wait {
            admission = admission.max_wait(wait.get_ref().0);
        }
        if let Some(requests) = max_pending {
            admission = admission.max_pending(*requests.get_ref());
        }
        if let Some(bytes) = max_pending_bytes {
            admission = admission.max_pending_bytes(bytes.get_ref().0 as u64);
        }
        if let Some(cost) = cost {
            admission = admission.cost(*cost.get_ref());
        }
        admission.build().unwrap_or_else(|error| {
            let span = match error.setting() {
                "concurrency" => concurrency.map(Spanned::span),
                "max_wait" => max_wait.map(Spanned::span),
                "max_pending" => max_pending.map(Spanned::span),
                "max_pending_bytes" => max_pending_bytes.map(Spanned::span),
                _ => cost.map(Spanned::span),
            };
            self.complain(span.unwrap_or(0..0), error.to_string());
            AdmissionPolicy::default()
        })
    }

    /// A limit that follows what the provider can take. Without a table it is off.
    fn adaptive(&mut self, tables: [&file::CandidateAdmission; 3]) -> Option<Adaptive> {
        let tables: Vec<&file::Adaptive> = tables.iter().filter_map(|table| table.adaptive.as_ref()).collect();
        if tables.is_empty() || tables.iter().find_map(|table| table.enabled) == Some(false) {
            return None;
        }
        let floor = tables.iter().find_map(|table| table.floor.as_ref());
        let ceiling = tables.iter().find_map(|table| table.ceiling.as_ref());
        let decrease = tables.iter().find_map(|table| table.decrease.as_ref());
        let tolerance = tables.iter().find_map(|table| table.tolerance.as_ref());
        let mut adaptive = Adaptive::builder();
        if let Some(requests) = floor {
            adaptive = adaptive.floor(*requests.get_ref());
        }
        if let Some(requests) = ceiling {
            adaptive = adaptive.ceiling(*requests.get_ref());
        }
        if let Some(share) = decrease {
            adaptive = adaptive.decrease(*share.get_ref());
        }
        if let Some(times) = tolerance {
            adaptive = adaptive.tolerance(Some(*times.get_ref()).filter(|times| *times != 0.0));
        }
        let complain = |error: InvalidAdmission| {
            let span = match error.setting() {
                "ceiling" => ceiling.map(Spanned::span),
                "floor" => floor.or(ceiling).map(Spanned::span),
                "decrease" => decrease.map(Spanned::span),
                _ => tolerance.map(Spanned::span),
            };
            self.complain(span.unwrap_or(0..0), error.to_string());
        };
        adaptive.build().map_err(complain).ok()
    }

    /// The keys of the providers that have several.
    pub(super) fn credential_pools(&mut self, file: &file::File) -> CredentialPools {
        let mut pools: Vec<CredentialPool> = Vec::new();
        for (name, provider) in &file.providers {
            let Some(pool) = self.credential_pool(name, provider.get_ref()) else { continue };
            let other = pools.iter().find(|other| other.shares_state_file(&pool));
            let state_file = provider.get_ref().credentials.as_ref().and_then(|it| it.get_ref().state_file.as_ref());
            if let (Some(other), Some(path)) = (other, state_file) {
                self.complain(
                    path.span(),
                    format!("is that of the provider {:?} too: each needs its own", other.provider()),
                );
                continue;
            }
            pools.push(pool);
        }
        // What two pools must not have in common is told above.
        CredentialPools::new(pools).expect("of one provider each, with a file of its own")
    }

    fn credential_pool(&mut self, name: &str, provider: &file::Provider) -> Option<CredentialPool> {
        if let Some(keys) = &provider.api_keys {
            self.must_not_be_inline(keys);
        }
        let Some(several) = provider.api_keys_env.as_ref().or(provider.api_keys.as_ref()) else {
            if let Some(credentials) = &provider.credentials {
                let text = "there is nothing to choose from: set api_keys_env or api_keys";
                self.complain(credentials.span(), text);
            }
            return None;
        };
        let single = [&provider.api_key, &provider.api_key_env, &provider.api_key_file];
        if let Some(single) = single.into_iter().flatten().next() {
            self.complain(single.span(), "the key is given twice: keep this one or the list of keys");
        }
        if let (Some(_), Some(plain)) = (&provider.api_keys_env, &provider.api_keys) {
            self.complain(plain.span(), "the keys are given twice: keep these or api_keys_env");
        }
        let mut pool = CredentialPool::builder(name);
        for (index, text) in several.get_ref().iter().enumerate() {
            // A key is known by the name of its variable, or else by its number.
            let (id, key) = match &provider.api_keys_env {
                Some(_) => (text.clone(), (self.environment)(text)),
                None => ((index + 1).to_string(), Some(text.clone())),
            };
            let key = key.map(|key| key.trim().to_owned()).filter(|key| !key.is_empty());
            match key {
                Some(key) if http::HeaderValue::from_str(&key).is_ok() => {
                    pool = pool.credential(id, Secret::new(key));
                }
                Some(_) => {
                    self.complain(several.span(), format!("the key {id} has characters that no HTTP header can carry"));
                }
                None if provider.api_keys_env.is_some() => {
                    self.complain(several.span(), format!("the environment variable {id} is not set"));
                    return None;
                }
                None => {
                    self.complain(several.span(), format!("the key {id} is empty"));
                    return None;
                }
            }
        }
        let settings = provider.credentials.as_ref().map(Spanned::get_ref);
        if let Some(strategy) = settings.and_then(|settings| settings.strategy) {
            pool = pool.strategy(strategy);
        }
        if let Some(cooldown) = settings.and_then(|settings| settings.cooldown.as_ref()) {
            pool = pool.cooldown(cooldown.get_ref().0);
        }
        if let Some(time) = settings.and_then(|settings| settings.exhausted_for.as_ref()) {
            pool = pool.exhausted_for(time.get_ref().0);
        }
        if let Some(path) = settings.and_then(|settings| settings.state_file.as_ref()) {
            pool = pool.state_file(self.sources.path(path.get_ref()));
        }
        match pool.build() {
            Ok(pool) => {
                let state_file = settings.and_then(|settings| settings.state_file.as_ref());
                if let (Some(path), Restored::Ignored(error)) = (state_file, pool.restored()) {
                    self.warn(
                        path.span(),
                        format!("{error}: it is left alone, and what is known of the keys is not kept"),
                    );
                }
                Some(pool)
            }
            Err(error) => {
                let span = match error.setting() {
                    "cooldown" => settings.and_then(|settings| settings.cooldown.as_ref()).map(Spanned::span),
                    "exhausted_for" => settings.and_then(|settings| settings.exhausted_for.as_ref()).map(Spanned::span),
                    _ => None,
                };
                self.complain(span.unwrap_or(several.span()), error.to_string());
                None
            }
        }
    }

    /// The prices: those that come with us, and a file's over them.
    pub(super) fn catalogue(&mut self, usage: &file::Usage) -> Catalogue {
        let built_in = Catalogue::built_in();
        let Some(path) = &usage.prices else { return built_in.clone() };
        let name = path.get_ref();
        let text = match self.sources.read(name) {
            Ok(text) => text,
            Err(error) => {
                self.complain(path.span(), format!("the file cannot be read: {error}"));
                return built_in.clone();
            }
        };
        match Catalogue::parse(name, &text) {
            Ok(own) => built_in.with(own),
            Err(error) => {
                self.complain(path.span(), error.to_string());
                built_in.clone()
            }
        }
    }

    /// The monitor of prompt caches.
    pub(super) fn cache(&mut self, cache: &file::Cache) -> CacheBreakPolicy {
        let mut policy = CacheBreakPolicy::builder().derive_sessions(cache.derive_sessions.unwrap_or(false));
        if let Some(sessions) = &cache.max_sessions {
            policy = policy.max_sessions(*sessions.get_ref());
        }
        policy.build().unwrap_or_else(|error| {
            self.complain(cache.max_sessions.as_ref().map_or(0..0, Spanned::span), error.to_string());
            CacheBreakPolicy::default()
        })
    }
}
