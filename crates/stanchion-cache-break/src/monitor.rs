//! What became of each session's prompt cache, from one reply to the next. Knows no clock and no request.

mod aged;
mod compare;
#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc};

use stanchion_core::{PromptCacheBreak, PromptCacheVolatile, RequestClass, Tenant, Usage};
use tokio::time::Instant;

use self::aged::Aged;
use crate::{
    CacheBreakPolicy, CacheLifetime, Fingerprint,
    fingerprint::{Digest, of_digests, of_parts, of_text},
};

/// After so many other system prompts in a row, the prompt is called volatile.
const VOLATILE_AFTER: u64 = 2;

/// Which conversation a reply belongs to. A SHA-256: the names that it was made of are not kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionKey(Digest);

impl SessionKey {
    /// The session of this name; two owners may use the same name.
    pub fn new(owner: Option<&str>, session: &str) -> Self {
        Self(of_parts(&[Some("named"), owner, Some(session)]))
    }

    /// The conversation that begins with the first message of a user in `fingerprint`; `None` if there is none, or if the
    /// request continues a conversation that the provider keeps: its first message is then another on each call.
    pub fn derived(owner: Option<&str>, fingerprint: &Fingerprint) -> Option<Self> {
        if fingerprint.continues {
            return None;
        }
        let first = fingerprint.first_user.as_ref()?;
        Some(Self(of_digests([&of_parts(&[Some("derived"), owner]), first])))
    }

    /// The same session of this tenant's: it is no other tenant's, whatever they call theirs.
    #[must_use]
    pub fn of_tenant(self, tenant: Option<&Tenant>) -> Self {
        match tenant {
            Some(tenant) => Self(of_digests([&of_parts(&[Some("tenant"), Some(tenant.name())]), &self.0])),
            None => self,
        }
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionKey").finish_non_exhaustive()
    }
}

/// One call: what was asked, who answered, and what that used.
#[derive(Clone)]
pub struct Observation {
    fingerprint: Fingerprint,
    candidate: Option<Arc<str>>,
    model: Option<Digest>,
    policy: Option<Digest>,
    epoch: Option<Digest>,
    lifetime: CacheLifetime,
    usage: Usage,
}

impl Observation {
    /// The request of this fingerprint was answered, and `usage` was told of it.
    pub fn new(fingerprint: Fingerprint, usage: Usage) -> Self {
        let lifetime = fingerprint.lifetime;
        let model = fingerprint.model;
        Self { fingerprint, candidate: None, model, policy: None, epoch: None, lifetime, usage }
    }

    /// What was told of it in the end.
    #[must_use]
    pub fn with_usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Who answered, for the event. Not kept.
    #[must_use]
    pub fn with_candidate(mut self, candidate: impl Into<Option<Arc<str>>>) -> Self {
        self.candidate = candidate.into();
        self
    }

    /// What identifies the model that answered: provider, dialect, name. Without it, the request's own `model` does.
    #[must_use]
    pub fn with_model(mut self, identity: &[&str]) -> Self {
        let parts: Vec<_> = identity.iter().copied().map(Some).collect();
        self.model = Some(of_parts(&parts));
        self
    }

    /// What belongs to the request policy and does not stand in the body: the address, headers.
    #[must_use]
    pub fn with_policy(mut self, parts: &[&str]) -> Self {
        let parts: Vec<_> = parts.iter().copied().map(Some).collect();
        self.policy = Some(of_parts(&parts));
        self
    }

    /// Changes when the conversation was compacted.
    #[must_use]
    pub fn with_context_epoch(mut self, epoch: Option<&str>) -> Self {
        self.epoch = epoch.map(of_text);
        self
    }

    /// For how long the prompt is kept.
    pub fn lifetime(&self) -> CacheLifetime {
        self.lifetime
    }

    /// For how long the prompt is kept. Without it, what the body says.
    #[must_use]
    pub fn with_lifetime(mut self, lifetime: CacheLifetime) -> Self {
        self.lifetime = lifetime;
        self
    }
}

impl fmt::Debug for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observation").field("usage", &self.usage).finish_non_exhaustive()
    }
}

/// What one reply has shown. Which model answered, who waited and what it cost is for the caller to add.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// The cache broke.
    pub broken: Option<PromptCacheBreak>,
    /// The system prompt was another on each of the last calls. Once a session.
    pub volatile: Option<PromptCacheVolatile>,
}

/// The sessions and what was last seen of each.
///
/// Plain data: it takes the time, and waits for nothing. [`CacheBreakLayer`](crate::CacheBreakLayer) keeps one behind a
/// lock; an offline analysis can use it as it is.
///
/// ```
/// use stanchion_cache_break::{CacheBreakPolicy, Fingerprint, FingerprintBounds, Monitor, Observation, SessionKey};
/// use stanchion_core::{CacheBreakReason, Dialect, Usage};
/// use tokio::time::Instant;
///
/// let mut monitor = Monitor::new(CacheBreakPolicy::default());
/// let session = SessionKey::new(None, "s1");
/// let mut observe = |body: &str, cache_read| {
///     let fingerprint = Fingerprint::read(Dialect::AnthropicMessages, body.as_bytes(), FingerprintBounds::default());
///     let usage = Usage { input: Some(10), cache_read: Some(cache_read), ..Usage::default() };
///     monitor.observe(session, Observation::new(fingerprint.unwrap(), usage), Instant::now()).broken
/// };
/// assert_eq!(observe(r#"{"system":"It is 9:00.","messages":[]}"#, 6_000), None);
/// let broken = observe(r#"{"system":"It is 10:00.","messages":[]}"#, 500).unwrap();
/// assert_eq!((broken.reason, broken.token_drop), (CacheBreakReason::SystemPromptChanged, 5_500));
/// assert_eq!(broken.system_char_delta, 1);
/// ```
pub struct Monitor {
    policy: CacheBreakPolicy,
    /// What was seen longest ago goes first.
    sessions: Aged<Session>,
    /// When those were forgotten that are: a reply that had begun before does not bring them back.
    forgotten: Aged<Instant>,
}

/// What was last seen of a session.
struct Session {
    fingerprint: Fingerprint,
    model: Option<Digest>,
    policy: Option<Digest>,
    epoch: Option<Digest>,
    lifetime: CacheLifetime,
    prompt: Option<u64>,
    cache_read: u64,
    at: Instant,
    calls: u64,
    system_changes: u64,
    told_volatile: bool,
}

impl Monitor {
    /// No session yet.
    pub fn new(policy: CacheBreakPolicy) -> Self {
        let room = policy.max_sessions();
        Self { policy, sessions: Aged::new(room), forgotten: Aged::new(room) }
    }

    /// The policy.
    pub fn policy(&self) -> &CacheBreakPolicy {
        &self.policy
    }

    /// How many sessions are kept.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.sessions.len() == 0
    }

    /// Forgets a session, and replies of it that began before `now` and are not over.
    pub fn clear(&mut self, session: SessionKey, now: Instant) {
        self.sessions.remove(&session);
        self.forgotten.insert(session, now);
    }

    /// Forgets all sessions.
    pub fn clear_all(&mut self) {
        self.sessions.clear();
        self.forgotten.clear();
    }

    /// Compares a reply with the one before it in its session, and takes its place.
    ///
    /// Usage that does not say what was read from the cache says nothing of the cache: it is not judged, and what was
    /// seen before stands. Of Gemini's it is zero, once the same model has told it in this session: what is zero is left
    /// out there. `now` is when the reply began: one that began before the one that was seen last says nothing of it, and
    /// does not take its place.
    pub fn observe(&mut self, session: SessionKey, seen: Observation, now: Instant) -> Findings {
        let Observation { fingerprint, candidate, model, policy, epoch, lifetime, mut usage } = seen;
        let last = self.sessions.get(&session);
        if usage.cache_read.is_none() && fingerprint.omits_zero && usage.input.is_some() {
            usage.cache_read = last.filter(|last| last.model == model).map(|_| 0);
        }
        let Some(cache_read) = usage.cache_read else { return Findings::default() };
        let is_late = last.is_some_and(|last| now < last.at);
        if is_late || self.forgotten.get(&session).is_some_and(|at| now < *at) {
            return Findings::default();
        }
        let previous = self.sessions.remove(&session);
        let mut current = Session {
            fingerprint,
            model,
            policy,
            epoch,
            lifetime,
            prompt: usage.input_total(),
            cache_read,
            at: now,
            calls: 1,
            system_changes: 0,
            told_volatile: false,
        };
        let findings = previous.map(|previous| current.follow(&previous, candidate, &usage)).unwrap_or_default();
        self.sessions.insert(session, current);
        findings
    }
}

impl Session {
    /// Takes the place of the reply before this one.
    fn follow(&mut self, previous: &Self, candidate: Option<Arc<str>>, usage: &Usage) -> Findings {
        let mut findings = Findings::default();
        self.calls = previous.calls + 1;
        self.told_volatile = previous.told_volatile;
        let same_epoch = self.epoch == previous.epoch;
        // A compaction may rewrite the system prompt, and another model may want another one.
        if self.fingerprint.system != previous.fingerprint.system && same_epoch && self.model == previous.model {
            self.system_changes = previous.system_changes + 1;
        }
        let volatile = self.system_changes >= VOLATILE_AFTER;
        if same_epoch {
            findings.broken = compare::broken(previous, self, usage).map(|mut broken| {
                broken.candidate.clone_from(&candidate);
                broken.volatile_prefix = volatile;
                broken
            });
        }
        if volatile && !self.told_volatile {
            self.told_volatile = true;
            findings.volatile = Some(PromptCacheVolatile {
                candidate,
                model: None,
                request_class: RequestClass::default(),
                call_number: self.calls,
                change_count: self.system_changes,
                system_char_delta: compare::delta(previous.fingerprint.system_chars, self.fingerprint.system_chars),
                cache_read_tokens: self.cache_read,
            });
        }
        findings
    }
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor")
            .field("policy", &self.policy)
            .field("sessions", &self.sessions.len())
            .finish_non_exhaustive()
    }
}
