//! One request on its way: from what it asked to what its reply has used.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, response};
use stanchion_core::{
    CacheRetention, Call, Candidate, Context, Dialect, Event, PromptCacheBreak, PromptCacheVolatile, Selected,
    StreamRecord, Tenant, Usage,
};
use tokio::time::Instant;

use crate::{CacheLifetime, Findings, Fingerprint, Loss, Observation, SessionKey, WholeBody, layer::Shared};

/// What changes how the provider reads a prompt, and does not stand in the body.
const POLICY_HEADERS: [HeaderName; 3] = [
    HeaderName::from_static("anthropic-beta"),
    HeaderName::from_static("anthropic-version"),
    HeaderName::from_static("openai-beta"),
];

/// A request whose answer is awaited.
pub(crate) struct Asked {
    shared: Arc<Shared>,
    context: Option<Context>,
    tenant: Option<Tenant>,
    call: Call,
    headers: Vec<HeaderValue>,
    /// Until it is read.
    body: Option<Bytes>,
    fingerprint: Option<Fingerprint>,
}

/// A reply whose usage is awaited. When it is dropped, whatever was told by then is judged.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    context: Option<Context>,
    dialect: Dialect,
    candidate: Option<Arc<Candidate>>,
    /// The one that the provider was asked for.
    model: Option<Arc<str>>,
    record: StreamRecord,
    session: SessionKey,
    /// Taken when it is judged.
    seen: Option<Observation>,
    /// When its head came: the reply began then, unless its record knows better.
    at: Instant,
}

impl Asked {
    /// `None` if the request belongs to no session, or is not to be watched.
    pub(crate) fn of<B: WholeBody>(request: &Request<B>, shared: &Arc<Shared>) -> Option<Box<Self>> {
        let context = Context::of(request);
        let session = context.and_then(Context::session);
        let policy = shared.monitor.policy();
        if session.is_none() && !policy.derives_sessions() {
            return None;
        }
        let call = request.extensions().get::<Call>()?;
        let tenant = request.extensions().get::<Tenant>().cloned();
        let body = Some(request.body().whole()).filter(|body| body.len() <= policy.max_body_bytes());
        if request.extensions().get() == Some(&CacheRetention::None) {
            let first = || Fingerprint::read(call.dialect, body.as_ref()?, policy.bounds());
            let key = match session {
                Some(session) => Some(SessionKey::new(owner(context), session)),
                None => first().and_then(|fingerprint| SessionKey::derived(owner(context), &fingerprint)),
            };
            if let Some(key) = key {
                shared.monitor.clear(key.of_tenant(tenant.as_ref()), Instant::now());
            }
            return None;
        }
        let headers = POLICY_HEADERS.iter().flat_map(|name| request.headers().get_all(name)).cloned().collect();
        let (context, call, body) = (context.cloned(), call.clone(), Some(body?));
        Some(Box::new(Self { shared: shared.clone(), context, tenant, call, headers, body, fingerprint: None }))
    }

    /// Reads the request's body. Done while the provider is at work, so that it does not wait for it.
    pub(crate) fn read(&mut self) {
        if let Some(body) = self.body.take() {
            let bounds = self.shared.monitor.policy().bounds();
            self.fingerprint = Fingerprint::read(self.call.dialect, &body, bounds);
        }
    }

    /// The reply has begun.
    pub(crate) fn answered(mut self: Box<Self>, head: &response::Parts) -> Option<Box<Watch>> {
        self.read();
        let Self { shared, context, tenant, call, headers, fingerprint, .. } = *self;
        let fingerprint = fingerprint?;
        let record = head.extensions.get::<StreamRecord>()?.clone();
        let candidate = head.extensions.get::<Selected>().map(|selected| selected.candidate.clone());
        let context_ref = context.as_ref();
        let session = match context_ref.and_then(Context::session) {
            Some(session) => SessionKey::new(owner(context_ref), session),
            None => SessionKey::derived(owner(context_ref), &fingerprint)?,
        }
        .of_tenant(tenant.as_ref());
        let model = candidate.as_deref().and_then(Candidate::model).or(call.model.as_ref()).cloned();
        let seen = observation(fingerprint, call.dialect, &headers, candidate.as_deref(), model.as_deref())
            .with_context_epoch(context_ref.and_then(Context::context_epoch));
        let (dialect, at) = (call.dialect, Instant::now());
        Some(Box::new(Watch { shared, context, dialect, candidate, model, record, session, seen: Some(seen), at }))
    }
}

fn owner(context: Option<&Context>) -> Option<&str> {
    context.and_then(Context::owner)
}

fn observation(
    fingerprint: Fingerprint,
    dialect: Dialect,
    headers: &[HeaderValue],
    candidate: Option<&Candidate>,
    model: Option<&str>,
) -> Observation {
    let seen = Observation::new(fingerprint, Usage::default());
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let mut policy: Vec<_> = headers.iter().map(text).collect();
    let Some(candidate) = candidate else {
        let policy: Vec<_> = policy.iter().map(String::as_str).collect();
        let seen = seen.with_policy(&policy);
        return match model {
            Some(model) => seen.with_model(&[dialect.as_str(), model]),
            None => seen,
        };
    };
    policy.push(candidate.base_url().to_owned());
    // What is written over the request's own on its way.
    policy.push(format!(
        "{:?} {:?} {:?} {:?}",
        candidate.tier(),
        candidate.api_version(),
        candidate.temperature().map(f64::to_bits),
        candidate.max_output_tokens()
    ));
    let mut own: Vec<_> = candidate.headers().iter().map(|(name, value)| format!("{name}:{}", text(value))).collect();
    own.sort_unstable();
    policy.extend(own);
    let policy: Vec<_> = policy.iter().map(String::as_str).collect();
    seen.with_candidate(candidate.name().clone())
        .with_model(&[candidate.provider(), dialect.as_str(), model.unwrap_or_default()])
        .with_policy(&policy)
}

impl Watch {
    /// Whether nothing that counts can follow: the dialect's own end has passed.
    pub(crate) fn is_over(&self) -> bool {
        self.record.terminal()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some(seen) = self.seen.take() else { return };
        let usage = self.record.usage();
        let billed = billed(&usage, &seen);
        // A reply that is held back leaves long after it began.
        let at = self.record.begun_at().unwrap_or(self.at);
        let Findings { broken, volatile } = self.shared.monitor.observe(self.session, seen.with_usage(usage), at);
        let context = self.context.as_ref();
        let (model, request_class) = (&self.model, context.map(Context::class).unwrap_or_default());
        if let Some(broken) = broken {
            Context::emit(context, || {
                let lost_nanodollars = self.price(&broken, &billed);
                let broken = PromptCacheBreak { model: model.clone(), request_class, lost_nanodollars, ..broken };
                Event::PromptCacheBreak(Box::new(broken))
            });
        }
        if let Some(volatile) = volatile {
            let volatile = PromptCacheVolatile { model: model.clone(), request_class, ..volatile };
            Context::emit(context, || Event::PromptCacheVolatile(volatile));
        }
    }
}

/// What was written for a time that nobody tells was written for an hour, where the request asked for that.
fn billed(usage: &Usage, seen: &Observation) -> Usage {
    let untold = usage.cache_write_5m.is_none() && usage.cache_write_1h.is_none();
    let hour = untold && seen.lifetime() == CacheLifetime::Long;
    Usage { cache_write_1h: if hour { usage.cache_write } else { usage.cache_write_1h }, ..*usage }
}

impl Watch {
    fn price(&self, broken: &PromptCacheBreak, usage: &Usage) -> Option<u64> {
        let (candidate, model) = (self.candidate.as_deref(), self.model.as_deref());
        self.shared.price.as_ref()?(&Loss { broken, usage, dialect: self.dialect, candidate, model })
    }
}
