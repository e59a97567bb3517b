//! From the file as it is written to a configuration that can be served, with all complaints at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    ops::Range,
    path::Path,
};

use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use stanchion::{
    core::{Candidate, Candidates, DispositionRules, Family, RequestClass, Secret},
    fallback::OnOverflow,
    stream::{CommitLayer, CommitWindow, Malformed},
    wire::frame::FrameDecoder,
};
use toml::de::DeTable;

use super::{
    CONNECT, Complaint, Config, FallbackSettings, MAX_REQUEST_BYTES, Model, Overrides, StreamSettings, file,
    locate::Places,
    nearest::suggestion,
    resilience::RetryBudgets,
    shape,
    sources::Sources,
    value::{Bytes, Spanned},
};

pub(super) fn check<'a>(
    text: &'a str,
    folder: &Path,
    overrides: &'a Overrides,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Config, Vec<Complaint>> {
    let mut places = Places::new(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let told = |error: &toml::de::Error| {
            places.complaint(&error.span().unwrap_or_default(), error.message().trim().replace('\n', "; "))
        };
        return Err(in_order(errors.iter().map(told).collect()));
    }
    let mut table = table.into_inner();
    let unfit = overrides.apply(&mut table, &mut places);
    places.note(&table);
    let providers: BTreeSet<String> = names(&table, "providers");
    let misfits = shape::misfits(&mut table);
    let mut complaints: Vec<Complaint> = unfit
        .into_iter()
        .chain(misfits.into_iter().map(|misfit| (misfit.span, misfit.reason)))
        .map(|(span, reason)| places.complaint(&span, reason))
        .collect();
    let unread: BTreeSet<String> = providers.difference(&names(&table, "providers")).cloned().collect();
    let file = match file::File::deserialize(toml::Deserializer::from(toml::Spanned::new(0..text.len(), table))) {
        Ok(file) => file,
        Err(error) => {
            // Whatever has the right shape can be read: this is for what the schema cannot say. What was found is not shown.
            let span = error.span().unwrap_or_default();
            complaints.push(places.complaint(&span, "is not what can stand here"));
            return Err(in_order(complaints));
        }
    };
    let sources = Sources::new(folder, text, overrides);
    let mut checker = Checker::new(&places, environment, sources);
    checker.unread = unread;
    checker.inline_keys = file.server.inline_keys == Some(true);
    let config = checker.config(&file);
    // What may only follow from what is told already is not told.
    let told: Vec<String> = complaints.iter().map(|complaint| scope(&complaint.key)).collect();
    let follows = |complaint: &Complaint| {
        let own = scope(&complaint.key);
        told.iter().any(|told| *told == own || (told == "defaults" && own.starts_with("models")))
    };
    complaints.extend(checker.complaints.into_iter().filter(|complaint| !follows(complaint)));
    if complaints.is_empty() { Ok(config) } else { Err(in_order(complaints)) }
}

/// What is wrong with the meaning of a text, whatever the schema says of it.
#[cfg(test)]
pub(super) fn meaning(text: &str) -> Vec<Complaint> {
    let places = Places::new(text);
    let file: file::File = toml::from_str(text).expect("of the right types");
    let mut checker = Checker::new(&places, &|_| None, Sources::new(Path::new(""), text, &Overrides::default()));
    checker.config(&file);
    checker.complaints
}

/// By their lines, those of the file first; each once.
fn in_order(mut complaints: Vec<Complaint>) -> Vec<Complaint> {
    complaints.sort_by(|a, b| (&a.variable, a.line).cmp(&(&b.variable, b.line)));
    // A provider is looked at for every candidate that uses it.
    complaints.dedup();
    complaints
}

fn names(table: &DeTable<'_>, key: &str) -> BTreeSet<String> {
    let entries = table.get(key).and_then(|value| value.get_ref().as_table());
    entries.into_iter().flatten().map(|(name, _)| name.get_ref().to_string()).collect()
}

/// What stands and falls together: an entry of a map, or else a table.
fn scope(key: &str) -> String {
    let mut keys = key.split('.');
    let first = keys.next().unwrap_or_default();
    match (first, keys.next()) {
        ("clients" | "providers" | "models" | "owners", Some(name)) => format!("{first}.{name}"),
        _ => first.to_owned(),
    }
}

/// A model's own key over the default.
#[expect(clippy::ref_option, reason = "fields, as they stand in the file")]
pub(super) fn picked<'a, T>(own: &'a Option<Spanned<T>>, default: &'a Option<Spanned<T>>) -> Option<&'a Spanned<T>> {
    own.as_ref().or(default.as_ref())
}

/// The commit layer of a model: its own keys over the defaults.
fn commit(own: &file::Commit, defaults: &file::Commit) -> CommitLayer {
    let mut layer = CommitLayer::new();
    if let Some(policy) = own.policy.or(defaults.policy) {
        layer = layer.policy(policy);
    }
    for (class, policy) in [
        (RequestClass::Foreground, own.foreground.or(defaults.foreground)),
        (RequestClass::Background, own.background.or(defaults.background)),
        (RequestClass::Internal, own.internal.or(defaults.internal)),
    ] {
        if let Some(policy) = policy {
            layer = layer.policy_for(class, policy);
        }
    }
    let events = own.events.or(defaults.events);
    let bytes = own.bytes.or(defaults.bytes).map(|bytes| bytes.0);
    let time = own.time.or(defaults.time).map(|time| time.0);
    if events.is_some() || bytes.is_some() || time.is_some() {
        layer = layer.window(CommitWindow { events, bytes, time });
    }
    match own.hold_max.or(defaults.hold_max) {
        Some(bytes) => layer.max_hold(bytes.0),
        None => layer,
    }
}

/// What belongs to the connection, and is set by whoever makes it.
const CONNECTION_HEADERS: [&str; 8] =
    ["host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "keep-alive"];

pub(super) struct Checker<'a> {
    pub(super) places: &'a Places<'a>,
    pub(super) environment: &'a dyn Fn(&str) -> Option<String>,
    /// Providers that are there, but cannot be read.
    unread: BTreeSet<String>,
    /// Whether keys may stand in the file.
    inline_keys: bool,
    /// What the configuration is read from.
    pub(super) sources: Sources,
    warnings: Vec<Complaint>,
    complaints: Vec<Complaint>,
}

impl<'a> Checker<'a> {
    fn new(places: &'a Places<'a>, environment: &'a dyn Fn(&str) -> Option<String>, sources: Sources) -> Self {
        Self {
            places,
            environment,
            sources,
            unread: BTreeSet::new(),
            inline_keys: false,
            complaints: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

impl Checker<'_> {
    pub(super) fn complain(&mut self, span: Range<usize>, reason: impl Into<String>) {
        self.complaints.push(self.places.complaint(&span, reason));
    }

    pub(super) fn address(&mut self, text: &Spanned<String>) -> Option<SocketAddr> {
        let address = text.get_ref().parse().ok();
        if address.is_none() {
            self.complain(
                text.span(),
                format!("{:?} is no address: write IP:PORT, such as \"127.0.0.1:8080\"", text.get_ref()),
            );
        }
        address
    }

    fn config(&mut self, file: &file::File) -> Config {
        let server = self.server(&file.server);
        let identity_headers = file.server.identity_headers.as_ref().is_none_or(|set| *set.get_ref());
        let clients = self.clients(file);
        let passes_any = |provider: &file::Provider| provider.passthrough.as_ref().is_some_and(|it| *it.get_ref());
        if file.models.is_empty() && !file.providers.values().any(|provider| passes_any(provider.get_ref())) {
            self.complaints.push(Complaint {
                line: None,
                variable: None,
                key: "models".into(),
                reason: "no model is configured: add a table such as [models.main] with its candidates".into(),
            });
        }
        let mut budgets = RetryBudgets::default();
        let models =
            file.models.iter().map(|(name, model)| (name.clone(), self.model(file, model, &mut budgets))).collect();
        let mut passthrough = BTreeMap::new();
        for (name, provider) in file.providers.iter().filter(|(_, provider)| passes_any(provider.get_ref())) {
            let candidates = self.candidate(name, provider.get_ref(), None);
            let model = self.with_settings(file, &file::Model::default(), candidates, &mut budgets);
            passthrough.insert(name.clone(), model);
        }
        self.names(file);
        // A provider that no model uses is checked all the same.
        for (name, provider) in &file.providers {
            let used = file.models.values().any(|model| {
                model.get_ref().candidates.iter().any(|candidate| candidate.get_ref().provider.get_ref() == name)
            });
            if !used {
                let provider = provider.get_ref();
                let _ = self.candidate(name, provider, None);
                let _ = self
                    .admission_policy([&provider.admission, &file.defaults.admission, &file.defaults.admission], None);
            }
        }
        let provider_tls = file
            .providers
            .iter()
            .filter_map(|(name, provider)| Some((name.clone(), self.provider_tls(provider.get_ref())?)));
        let provider_tls = provider_tls.collect();
        let mut config = Config {
            server,
            provider_tls,
            admin: file.admin.as_ref().map(|admin| self.admin(admin)),
            hash: String::new(),
            files: Vec::new(),
            warnings: Vec::new(),
            max_request_bytes: self.size(file.server.max_request_bytes.as_ref(), MAX_REQUEST_BYTES),
            identity_headers,
            clients,
            scheduler: self.scheduler(file),
            credentials: self.credential_pools(file),
            catalogue: self.catalogue(&file.usage).into(),
            cache: self.cache(&file.cache),
            telemetry: self.telemetry(&file.telemetry),
            models,
            passthrough,
        };
        // Now everything has been read.
        config.hash = self.sources.hash();
        config.files = std::mem::take(&mut self.sources.files);
        config.warnings = in_order(std::mem::take(&mut self.warnings));
        config
    }

    fn model(&mut self, file: &file::File, spanned: &Spanned<file::Model>, budgets: &mut RetryBudgets) -> Model {
        let model = spanned.get_ref();
        if model.candidates.is_empty() {
            self.complain(
                spanned.span(),
                "a model needs at least one candidate: candidates = [{ provider = \"...\", model = \"...\" }]",
            );
        }
        let first = model.candidates.first().map(Spanned::get_ref);
        let candidates: Vec<Candidate> = model
            .candidates
            .iter()
            .filter_map(|candidate| {
                let candidate = candidate.get_ref();
                let named = &candidate.provider;
                let Some(provider) = file.providers.get(named.get_ref()) else {
                    if !self.unread.contains(named.get_ref()) {
                        let known: Vec<&str> = file.providers.keys().map(String::as_str).collect();
                        let hint = suggestion(named.get_ref(), &known, '"');
                        self.complain(named.span(), format!("there is no provider {:?}{hint}", named.get_ref()));
                    }
                    return None;
                };
                let own = first.map_or_else(|| candidate.clone(), |first| candidate.after(first));
                self.candidate(named.get_ref(), provider.get_ref(), Some(&own))
            })
            .collect();
        let settled = self.with_settings(file, model, candidates, budgets);
        self.windows(&model.candidates, settled.fallback.on_overflow);
        settled
    }

    /// Candidates with a model's own settings over the defaults.
    fn with_settings(
        &mut self,
        file: &file::File,
        model: &file::Model,
        candidates: impl IntoIterator<Item = Candidate>,
        budgets: &mut RetryBudgets,
    ) -> Model {
        let defaults = &file.defaults;
        let mut rules = DispositionRules::default();
        for class in model.fallback.on.as_ref().or(defaults.fallback.on.as_ref()).into_iter().flatten() {
            rules = rules.with_fallback_on(*class);
        }
        let connect = picked(&model.timeouts.connect, &defaults.timeouts.connect);
        if let Some(connect) = connect.filter(|connect| connect.get_ref().0.is_zero()) {
            self.complain(connect.span(), "no connection is made in no time: write a limit such as \"10s\"");
        }
        let limits = self.limits(&model.timeouts, &defaults.timeouts);
        let max_event = picked(&model.stream.max_event, &defaults.stream.max_event);
        let max_event = self.size(max_event, FrameDecoder::DEFAULT_MAX_EVENT);
        let names = |names: &[Spanned<String>]| names.iter().map(|name| name.get_ref().clone()).collect();
        Model {
            aliases: names(&model.aliases),
            patterns: names(&model.patterns),
            candidates: Candidates::new(candidates),
            recovery: self.recovery(model.recovery.as_ref(), defaults.recovery.as_ref()),
            retry: self.retry(&model.retry, &defaults.retry, rules),
            retry_budget: self.retry_budget(&model.retry_budget, &defaults.retry_budget, budgets),
            heartbeat: self.heartbeat(picked(&model.heartbeat, &defaults.heartbeat)),
            circuit: self.circuit(
                &model.circuit,
                &defaults.circuit,
                model.fallback.mode.or(defaults.fallback.mode),
                rules,
                limits.idle(),
            ),
            limits,
            admission: self.admission(file, model),
            request_usage: model.request_usage.or(defaults.request_usage).unwrap_or(false),
            connect: connect.map_or(CONNECT, |connect| connect.get_ref().0),
            rules,
            fallback: FallbackSettings {
                on_overflow: match model.fallback.on_overflow.or(defaults.fallback.on_overflow) {
                    None | Some(file::Overflow::Stop) => OnOverflow::Stop,
                    Some(file::Overflow::LargerWindow) => OnOverflow::LargerWindow,
                },
                fit_guard: model.fallback.fit_guard.or(defaults.fallback.fit_guard).unwrap_or(true),
            },
            commit: commit(&model.commit, &defaults.commit),
            stream: StreamSettings {
                malformed: match model.stream.malformed.or(defaults.stream.malformed) {
                    None | Some(file::Malformed::Drop) => Malformed::Drop,
                    Some(file::Malformed::Pass) => Malformed::Pass,
                    Some(file::Malformed::Fail) => Malformed::Fail,
                },
                max_event,
            },
        }
    }

    /// A size that must not be zero.
    fn size(&mut self, size: Option<&Spanned<Bytes>>, default: usize) -> usize {
        let Some(size) = size else { return default };
        if size.get_ref().0 == 0 {
            self.complain(size.span(), "nothing fits into no bytes: write a size such as \"16MiB\"");
        }
        size.get_ref().0
    }

    fn candidate(&mut self, name: &str, provider: &file::Provider, own: Option<&file::Candidate>) -> Option<Candidate> {
        let before = self.complaints.len();
        let base = &provider.base_url;
        match url::Url::parse(base.get_ref()) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => {
                if !url.username().is_empty() || url.password().is_some() {
                    self.complain(base.span(), "a base URL holds no credentials: set api_key_env instead");
                }
            }
            _ => self.complain(base.span(), "not an http or https URL"),
        }
        let mut candidate = Candidate::new(name, provider.dialect, base.get_ref().as_str());
        if let Some(model) = own.and_then(|own| own.model.as_deref()) {
            candidate = candidate.with_model(model);
        }
        let (plain, variable, path) =
            (provider.api_key.as_ref(), provider.api_key_env.as_ref(), provider.api_key_file.as_ref());
        if let Some(secret) = self.secret(plain, variable, path) {
            if HeaderValue::from_str(secret.expose()).is_err() {
                let span = plain.or(variable).or(path).map_or(0..0, Spanned::span);
                self.complain(span, "the key has characters that no HTTP header can carry");
            }
            candidate = candidate.with_credential(secret);
        }
        if let Some(own) = own {
            candidate = self.parameters(candidate, own);
        }
        candidate = self.api_version(candidate, provider, own);
        // A candidate's own header goes over its provider's.
        for (header, value) in provider.headers.iter().chain(own.into_iter().flat_map(|own| &own.headers)) {
            if CONNECTION_HEADERS.contains(&header.to_ascii_lowercase().as_str()) {
                self.complain(value.span(), format!("{header:?} belongs to the connection and cannot be set"));
            }
            match (HeaderName::try_from(header.as_str()), HeaderValue::from_str(value.get_ref())) {
                (Ok(header), Ok(value)) => candidate = candidate.with_header(header, value),
                (Err(_), _) => self.complain(value.span(), format!("{header:?} is no header name")),
                (_, Err(_)) => self.complain(
                    value.span(),
                    format!("the value of {header:?} has characters that no HTTP header can carry"),
                ),
            }
        }
        if let Some(repair) = provider.repair_opaque_400.as_ref().filter(|repair| *repair.get_ref()) {
            if provider.dialect != Family::OpenAi {
                self.complain(repair.span(), "only requests in the dialect openai have a limit that can be taken out");
            }
            candidate = candidate.with_repair_of_opaque_rejections(true);
        }
        (self.complaints.len() == before).then_some(candidate)
    }

    /// What a candidate sets of its own into the bodies of its requests.
    fn parameters(&mut self, mut candidate: Candidate, own: &file::Candidate) -> Candidate {
        for (name, tokens) in [("context_window", &own.context_window), ("max_output_tokens", &own.max_output_tokens)] {
            if let Some(tokens) = tokens.as_ref().filter(|tokens| *tokens.get_ref() == 0) {
                self.complain(tokens.span(), format!("{name} is 0: set at least 1, or leave it out"));
            }
        }
        if let Some(window) = &own.context_window {
            candidate = candidate.with_context_window(*window.get_ref());
        }
        if let Some(tokens) = &own.max_output_tokens {
            candidate = candidate.with_max_output_tokens(*tokens.get_ref());
        }
        if let Some(temperature) = &own.temperature {
            if !(0.0..=2.0).contains(temperature.get_ref()) {
                self.complain(temperature.span(), format!("temperature is {}: set 0 to 2", temperature.get_ref()));
            }
            candidate = candidate.with_temperature(*temperature.get_ref());
        }
        match &own.tier {
            Some(tier) => {
                if matches!(candidate.family(), Family::Gemini | Family::Ollama) {
                    self.complain(tier.span(), "requests in this dialect name no tier: leave it out");
                }
                candidate.with_tier(tier.get_ref().as_str())
            }
            None => candidate,
        }
    }

    /// A secret from exactly one of its three places; `None` if none is named, or after a complaint.
    pub(super) fn secret(
        &mut self,
        plain: Option<&Spanned<String>>,
        variable: Option<&Spanned<String>>,
        path: Option<&Spanned<String>>,
    ) -> Option<Secret> {
        let named: Vec<&Spanned<String>> = [plain, variable, path].into_iter().flatten().collect();
        if named.len() > 1 {
            self.complain(named[1].span(), "the key is given twice: keep one of the three ways");
            return None;
        }
        if let Some(value) = plain {
            self.must_not_be_inline(value);
            let text = value.get_ref().trim();
            if text.is_empty() {
                self.complain(value.span(), "the key is empty");
                return None;
            }
            return Some(Secret::new(text));
        }
        if let Some(variable) = variable {
            let value = (self.environment)(variable.get_ref()).filter(|value| !value.trim().is_empty());
            if value.is_none() {
                self.complain(variable.span(), format!("the environment variable {} is not set", variable.get_ref()));
            }
            return value.map(|value| Secret::new(value.trim()));
        }
        let path = path?;
        match self.sources.read(path.get_ref()) {
            Ok(text) if !text.trim().is_empty() => {
                self.warn_if_open(path);
                Some(Secret::new(text.trim()))
            }
            Ok(_) => {
                self.complain(path.span(), "the file is empty");
                None
            }
            Err(error) => {
                self.complain(path.span(), format!("the file cannot be read: {error}"));
                None
            }
        }
    }

    /// Complains of a key that stands in the file itself, unless it may.
    pub(super) fn must_not_be_inline<T>(&mut self, key: &Spanned<T>) {
        if !self.inline_keys && !self.places.is_variable(&key.span()) {
            self.complain(
                key.span(),
                "a key does not stand in this file: name a variable or a file that has it (for a client, `stanchion hash-key` makes a \
                 key_sha256), or set inline_keys = true under [server]",
            );
        }
    }

    /// Tells of a file with a secret that everybody can read.
    pub(super) fn warn_if_open(&mut self, path: &Spanned<String>) {
        if is_open_to_others(&self.sources.path(path.get_ref())) {
            self.warn(path.span(), "every user of this machine can read the file: chmod 600 it");
        }
    }

    /// Tells of what is allowed and should not be.
    pub(super) fn warn(&mut self, span: Range<usize>, reason: impl Into<String>) {
        self.warnings.push(self.places.complaint(&span, reason));
    }
}

/// Whether users who are neither the owner nor of the group can read a file.
#[cfg(unix)]
fn is_open_to_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o004 != 0)
}

#[cfg(not(unix))]
fn is_open_to_others(_: &Path) -> bool {
    false
}
