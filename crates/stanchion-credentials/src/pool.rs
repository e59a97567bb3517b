use std::{
    collections::HashMap,
    fmt,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError, RwLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use stanchion_core::{
    Candidate, Context, CredentialRotation, CredentialStrategy, Event, Failure, HintSource, Phase, RetryHint,
    RotationReason, Secret,
};
use tokio::time::Instant;

use crate::{
    CredentialPoolBuilder, CredentialStatus, PoolStatus, Restored, StateError, lock,
    policy::Random,
    rotation::{Empty, Pick, Rotation},
    state::{self, Members, StateFile},
};

/// The credentials of one provider. Cheap to clone: clones are the same pool.
///
/// `Debug` shows the provider and the ids.
#[derive(Clone)]
pub struct CredentialPool(Arc<Inner>);

struct Inner {
    provider: Arc<str>,
    ids: Box<[Arc<str>]>,
    secrets: Box<[Secret]>,
    random: Random,
    rotation: Mutex<Rotation>,
    /// Each candidate with each credential, by the candidate's address: whoever keeps something for a candidate, as its
    /// circuit, finds the same one again.
    candidates: RwLock<HashMap<usize, Keyed>>,
    file: Option<StateFile>,
    /// Whether the file is another pool's now.
    retired: AtomicBool,
    restored: Restored,
}

/// A candidate, and what it is with each credential.
type Keyed = (Weak<Candidate>, Arc<[Arc<Candidate>]>);

impl CredentialPool {
    /// How many credentials a pool holds at most.
    pub const MAX_CREDENTIALS: usize = 256;
    /// For how long a rate limit without a hint takes a credential out by default: 60 s.
    pub const COOLDOWN: Duration = Duration::from_secs(60);
    /// The longest wait that a provider is believed by default: 24 h.
    pub const MAX_COOLDOWN: Duration = Duration::from_secs(24 * 3600);
    /// For how long an exhausted quota takes a credential out by default: 1 h.
    pub const EXHAUSTED_FOR: Duration = Duration::from_secs(3600);
    /// For how long a refused credential is out by default: 1 h.
    pub const REFUSED_FOR: Duration = Duration::from_secs(3600);
    /// For how long a pick is reserved by default, at most: 5 s.
    pub const RESERVATION: Duration = Duration::from_secs(5);
    /// The longest that any setting takes a credential out: 30 days.
    pub(crate) const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);
    /// Candidates of the past are forgotten when so many are known, and there are never more than twice as many.
    const SWEEP_AT: usize = 256;

    /// Starts a pool of the credentials of `provider`: the name that its [`Candidate`]s bear.
    pub fn builder(provider: impl Into<Box<str>>) -> CredentialPoolBuilder {
        CredentialPoolBuilder::new(provider.into())
    }

    pub(crate) fn from_builder(builder: CredentialPoolBuilder) -> Self {
        let CredentialPoolBuilder { provider, credentials, terms, random, state_file } = builder;
        let (ids, secrets): (Vec<Arc<str>>, Vec<Secret>) =
            credentials.into_iter().map(|(id, secret)| (id.into(), secret)).unzip();
        let mut rotation = Rotation::new(terms, ids.len());
        let mut file = state_file.map(StateFile::new);
        let restored = file.as_mut().map_or(Restored::Nothing, |file| {
            let members = Members { provider: &provider, ids: &ids, secrets: &secrets };
            state::restore(&mut rotation, members, file, Instant::now(), SystemTime::now())
        });
        Self(Arc::new(Inner {
            provider: provider.into(),
            ids: ids.into(),
            secrets: secrets.into(),
            random,
            rotation: Mutex::new(rotation),
            candidates: RwLock::default(),
            file,
            retired: AtomicBool::new(false),
            restored,
        }))
    }

    /// The provider.
    pub fn provider(&self) -> &Arc<str> {
        &self.0.provider
    }

    /// The ids of the credentials, in the order in which they were given.
    pub fn ids(&self) -> &[Arc<str>] {
        &self.0.ids
    }

    /// How the pool chooses.
    pub fn strategy(&self) -> CredentialStrategy {
        self.rotation(|rotation| rotation.strategy())
    }

    /// Whether another pool has the same credentials under the same ids and settings, so that the one can stand for the
    /// other.
    pub fn is_like(&self, other: &Self) -> bool {
        let (own, others) = (&self.0, &other.0);
        own.provider == others.provider
            && own.ids == others.ids
            && own.secrets == others.secrets
            && self.state_path() == other.state_path()
            && self.rotation(|rotation| *rotation.terms()) == other.rotation(|rotation| *rotation.terms())
    }

    /// Whether another pool writes the same state file, by whatever path it goes there.
    pub fn shares_state_file(&self, other: &Self) -> bool {
        self.0.file.as_ref().zip(other.0.file.as_ref()).is_some_and(|(own, other)| own.is_same(other))
    }

    /// Writes the state file never again, not even at the end: another pool has taken its place, and requests that still
    /// run with this one must not undo what that has learnt.
    pub fn retire(&self) {
        self.0.retired.store(true, Ordering::Relaxed);
    }

    /// What became of the state file when the pool was built.
    pub fn restored(&self) -> &Restored {
        &self.0.restored
    }

    /// The credentials as they stand, for an operator.
    pub fn status(&self) -> PoolStatus {
        let now = Instant::now();
        self.rotation(|rotation| PoolStatus {
            provider: self.0.provider.clone(),
            strategy: rotation.strategy(),
            credentials: rotation
                .slots(now)
                .iter()
                .zip(&self.0.ids)
                .map(|(slot, id)| CredentialStatus::of(id.clone(), slot, now))
                .collect(),
            ready_count: rotation.ready_count() as u32,
        })
    }

    /// Takes a credential out of service until it is [put back](Self::put_back), or until a restart. What is in flight
    /// with it goes on. `false` if there is none of that id, or a hand has taken it out before.
    pub fn park(&self, id: &str) -> bool {
        self.by_hand(id, |rotation, index| rotation.park(index, Instant::now()))
    }

    /// Puts a credential back into service, whatever it was taken out for, and forgets what requests that were sent
    /// before may still learn about it. `false` if there is none of that id, or it was in service.
    pub fn put_back(&self, id: &str) -> bool {
        self.by_hand(id, Rotation::put_back)
    }

    fn by_hand(&self, id: &str, act: impl FnOnce(&mut Rotation, usize) -> bool) -> bool {
        let Some(index) = self.0.ids.iter().position(|known| **known == *id) else { return false };
        let changed = self.rotation(|rotation| {
            // What was over by itself is not undone by a hand.
            rotation.slots(Instant::now());
            act(rotation, index)
        });
        if changed {
            self.tell(None, None, index, RotationReason::Manual, None);
        }
        changed
    }

    /// Writes the state file, if there is one and its content has changed since it was written last. `false` if nothing
    /// was to be written, or if what stands there is [none of this pool's](Restored::Ignored).
    ///
    /// Nothing of this layer writes while a request waits: call this now and then, off the request's path, and at the
    /// end. It blocks for as long as the file system does. The new file takes the place of the old one whole or not at
    /// all. Ids, times and counts are written, and of each credential a [mark](crate#state-over-a-restart) of 16 bits.
    pub fn save(&self) -> Result<bool, StateError> {
        self.0.save()
    }

    pub(crate) fn state_path(&self) -> Option<&Path> {
        self.0.file.as_ref().map(StateFile::path)
    }

    /// The candidate with the credential at a place of the pool. The same candidate gives the same one each time.
    pub(crate) fn candidate(&self, plain: &Arc<Candidate>, index: usize) -> Arc<Candidate> {
        // An address may be used again once its candidate is gone; the weak reference keeps it from being so.
        let address = Arc::as_ptr(plain).addr();
        let known = &self.0.candidates;
        if let Some((_, keyed)) = known.read().unwrap_or_else(PoisonError::into_inner).get(&address) {
            return keyed[index].clone();
        }
        let keyed: Arc<[_]> = self.keyed(plain).map(|(_, candidate)| Arc::new(candidate)).collect();
        let mut known = known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= Self::SWEEP_AT {
            known.retain(|_, (plain, _)| plain.strong_count() > 0);
        }
        if known.len() < 2 * Self::SWEEP_AT {
            let (_, keyed) = known.entry(address).or_insert_with(|| (Arc::downgrade(plain), keyed));
            return keyed[index].clone();
        }
        keyed[index].clone()
    }

    /// A candidate with each credential in turn, under the credential's id.
    pub fn keyed(&self, plain: &Candidate) -> impl Iterator<Item = (&Arc<str>, Candidate)> {
        let with = |secret: &Secret| plain.clone().with_credential(secret.clone());
        self.0.ids.iter().zip(self.0.secrets.iter().map(with))
    }

    pub(crate) fn rotation<T>(&self, act: impl FnOnce(&mut Rotation) -> T) -> T {
        act(&mut lock(&self.0.rotation))
    }

    pub(crate) fn pick(&self, now: Instant) -> Result<Pick, Empty> {
        self.rotation(|rotation| rotation.pick(now, &self.0.random))
    }

    /// Tells that a credential comes or goes.
    pub(crate) fn tell(
        &self,
        context: Option<&Context>,
        candidate: Option<&Candidate>,
        index: usize,
        reason: RotationReason,
        cooldown: Option<Duration>,
    ) {
        Context::emit(context, || {
            let (strategy, ready_count) = self.rotation(|rotation| (rotation.strategy(), rotation.ready_count()));
            Event::CredentialRotation(CredentialRotation {
                reason,
                provider: self.0.provider.clone(),
                candidate: candidate.map(|candidate| candidate.name().clone()),
                credential_id: self.0.ids[index].clone(),
                strategy,
                cooldown,
                ready_count: ready_count as u32,
            })
        });
    }
}

impl Inner {
    fn save(&self) -> Result<bool, StateError> {
        let Some(file) = self.file.as_ref().filter(|_| !self.retired.load(Ordering::Relaxed)) else { return Ok(false) };
        file.save(|saved| {
            let mut rotation = lock(&self.rotation);
            let version = rotation.version();
            (saved != Some(version)).then(|| {
                let (now, wall) = (Instant::now(), SystemTime::now());
                let members = Members { provider: &self.provider, ids: &self.ids, secrets: &self.secrets };
                (version, state::content(&mut rotation, members, file.salt(), now, wall))
            })
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The last chance. Whoever wants to hear of an error saves before.
        let _ = self.save();
    }
}

impl Empty {
    /// How long it takes until the first credential is back.
    pub(crate) fn hint(&self, now: Instant) -> Option<RetryHint> {
        let wait = |until: Instant| RetryHint::new(until.saturating_duration_since(now), HintSource::Credentials);
        self.until.map(wait)
    }

    /// The failure of a request for which there is no credential.
    pub(crate) fn refuse(&self, candidate: &Candidate, now: Instant) -> Failure {
        Failure::new(self.kind)
            .with_phase(Phase::Connect)
            .with_candidate(candidate.name().clone())
            .with_hint(self.hint(now))
            .with_no_credential()
    }
}

impl fmt::Debug for CredentialPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialPool")
            .field("provider", &self.0.provider)
            .field("ids", &self.0.ids)
            .finish_non_exhaustive()
    }
}
