use std::{error::Error, fmt, path::PathBuf, sync::Mutex, time::Duration};

use stanchion_core::{CredentialStrategy, Secret};

use crate::{CredentialPool, lock, rotation::Terms};

/// Builds a [`CredentialPool`]. The table of settings is on the [crate's page](crate#settings).
#[must_use]
pub struct CredentialPoolBuilder {
    pub(crate) provider: Box<str>,
    pub(crate) credentials: Vec<(Box<str>, Secret)>,
    pub(crate) terms: Terms,
    pub(crate) random: Random,
    pub(crate) state_file: Option<PathBuf>,
}

/// Gives a number below the one that it is asked for.
pub(crate) type Random = Box<dyn Fn(usize) -> usize + Send + Sync>;

impl CredentialPoolBuilder {
    pub(crate) fn new(provider: Box<str>) -> Self {
        let terms = Terms {
            strategy: CredentialStrategy::default(),
            cooldown: CredentialPool::COOLDOWN,
            max_cooldown: CredentialPool::MAX_COOLDOWN,
            exhausted_for: CredentialPool::EXHAUSTED_FOR,
            refused_for: Some(CredentialPool::REFUSED_FOR),
            reservation: CredentialPool::RESERVATION,
        };
        let random = seeded(fastrand::Rng::new());
        Self { provider, credentials: Vec::new(), terms, random, state_file: None }
    }

    /// Adds a credential under an id that events, pages and the state file show: the name of the environment variable
    /// that it comes from, or its number. Never anything made of the credential.
    ///
    /// An id has 1 to 64 letters, digits, `_`, `-` and `.`, and is unique in its pool. There are 1 to
    /// [`MAX_CREDENTIALS`](CredentialPool::MAX_CREDENTIALS). Their order matters to `fill_first` and `round_robin`.
    pub fn credential(mut self, id: impl Into<Box<str>>, credential: Secret) -> Self {
        self.credentials.push((id.into(), credential));
        self
    }

    /// How the pool chooses.
    pub fn strategy(mut self, strategy: CredentialStrategy) -> Self {
        self.terms.strategy = strategy;
        self
    }

    /// For how long a rate limit takes a credential out, where the provider does not say. Between 1 s and
    /// `max_cooldown`.
    pub fn cooldown(mut self, cooldown: Duration) -> Self {
        self.terms.cooldown = cooldown;
        self
    }

    /// The longest wait that a provider is believed; a longer one is cut to it. Up to 30 days.
    pub fn max_cooldown(mut self, max_cooldown: Duration) -> Self {
        self.terms.max_cooldown = max_cooldown;
        self
    }

    /// For how long an exhausted quota takes a credential out; longer, if the provider says so. Between 1 s and 30 days.
    pub fn exhausted_for(mut self, time: Duration) -> Self {
        self.terms.exhausted_for = time;
        self
    }

    /// For how long a refused credential is out: between 1 s and 30 days, or, with `None`, until a restart or until it
    /// is [put back](CredentialPool::put_back).
    pub fn refused_for(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.terms.refused_for = time.into();
        self
    }

    /// For how long, at most, `fill_first` passes over a credential whose last request has not been answered. Up to
    /// 1 min; zero passes over none.
    pub fn reservation(mut self, reservation: Duration) -> Self {
        self.terms.reservation = reservation;
        self
    }

    /// Where the pool's state is kept over a restart. Read once, when the pool is built; written by
    /// [`CredentialPool::save`] and at the pool's end. No two pools may share a file.
    pub fn state_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.state_file = Some(path.into());
        self
    }

    /// Takes the choices of [`Random`](CredentialStrategy::Random) from a known seed.
    pub fn seed(mut self, seed: u64) -> Self {
        self.random = seeded(fastrand::Rng::with_seed(seed));
        self
    }

    /// The pool, if every setting is within its range. Reads the state file, if there is one.
    pub fn build(self) -> Result<CredentialPool, InvalidCredentials> {
        let seconds = Duration::from_secs;
        let Terms { cooldown, max_cooldown, exhausted_for, refused_for, reservation, .. } = self.terms;
        let times = seconds(1)..=CredentialPool::LONGEST;
        must(!self.provider.is_empty(), "provider", "the name of a provider")?;
        must(
            (1..=CredentialPool::MAX_CREDENTIALS).contains(&self.credentials.len()),
            "credential",
            "given between 1 and 256 times",
        )?;
        for (index, (id, credential)) in self.credentials.iter().enumerate() {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
            must((1..=64).contains(&id.len()) && id.bytes().all(plain), "id", "1 to 64 letters, digits, _, - and .")?;
            let key = credential.expose();
            must(!key.is_empty(), "credential", "not empty")?;
            must(**id != *key, "id", "the name of a credential, not the credential")?;
            let others = &self.credentials[..index];
            must(others.iter().all(|(other, _)| other != id), "id", "unique in its pool")?;
            must(others.iter().all(|(_, other)| other != credential), "credential", "in its pool once")?;
        }
        must(times.contains(&max_cooldown), "max_cooldown", "between 1 s and 30 days")?;
        must((seconds(1)..=max_cooldown).contains(&cooldown), "cooldown", "between 1 s and `max_cooldown`")?;
        must(times.contains(&exhausted_for), "exhausted_for", "between 1 s and 30 days")?;
        must(refused_for.is_none_or(|time| times.contains(&time)), "refused_for", "between 1 s and 30 days, or none")?;
        must(reservation <= seconds(60), "reservation", "at most 1 min")?;
        Ok(CredentialPool::from_builder(self))
    }
}

/// The lock is taken only where a choice is random.
fn seeded(rng: fastrand::Rng) -> Random {
    let rng = Mutex::new(rng);
    Box::new(move |below| lock(&rng).usize(..below.max(1)))
}

pub(crate) fn must(holds: bool, setting: &'static str, rule: &'static str) -> Result<(), InvalidCredentials> {
    if holds { Ok(()) } else { Err(InvalidCredentials { setting, rule }) }
}

/// A setting that is out of its range. Shows neither ids nor credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidCredentials {
    setting: &'static str,
    rule: &'static str,
}

impl InvalidCredentials {
    /// The setting, as the builder calls it.
    pub fn setting(&self) -> &'static str {
        self.setting
    }
}

impl fmt::Display for InvalidCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` must be {}", self.setting, self.rule)
    }
}

impl Error for InvalidCredentials {}

impl fmt::Debug for CredentialPoolBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialPoolBuilder")
            .field("provider", &self.provider)
            .field("credentials", &self.credentials.len())
            .field("terms", &self.terms)
            .finish_non_exhaustive()
    }
}
