//! What of a pool outlives a restart: counts and times, under the ids of the configuration. The wall clock is read here
//! and nowhere else.

use std::{
    error::Error,
    ffi::OsString,
    fmt,
    fs::{File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    path::{Component, Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use stanchion_core::Secret;
use tokio::time::Instant;

use crate::{
    lock,
    rotation::{Out, Rotation, Slot, Why},
};

/// What became of the state file when a [`CredentialPool`](crate::CredentialPool) was built.
#[derive(Debug)]
#[non_exhaustive]
pub enum Restored {
    /// There was nothing to restore: no file is set, or it does not exist yet.
    Nothing,
    /// The state of so many credentials was taken over. Others are new to the file or have another key since, or what it
    /// says of them could not be read.
    Credentials(usize),
    /// The file could not be used. The pool starts afresh. It leaves the file alone, which may be somebody else's, and writes
    /// its own once that is gone.
    Ignored(StateError),
}

/// A state file that could not be read or written. Shows the path, and nothing of the content.
#[derive(Debug)]
pub struct StateError {
    path: PathBuf,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    Unreadable(io::Error),
    Unwritable(io::Error),
    TooLarge,
    Corrupt,
    Foreign,
}

impl StateError {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the state file {} ", self.path.display())?;
        f.write_str(match &self.cause {
            Cause::Unreadable(_) => "cannot be read",
            Cause::Unwritable(_) => "cannot be written",
            Cause::TooLarge => "is larger than any that a pool writes",
            Cause::Corrupt => "is no state file of this version",
            Cause::Foreign => "is that of another provider",
        })
    }
}

impl Error for StateError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.cause {
            Cause::Unreadable(error) | Cause::Unwritable(error) => Some(error),
            Cause::TooLarge | Cause::Corrupt | Cause::Foreign => None,
        }
    }
}

/// A larger file is not read: 256 credentials take less than a quarter of it.
const MAX_BYTES: u64 = 256 * 1024;

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Content<R> {
    version: u32,
    provider: Box<str>,
    /// What the marks of the keys are made with: none is like that of the same key in another file.
    #[serde(default)]
    salt: Box<str>,
    /// Whose turn is next, where they take turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<Box<str>>,
    credentials: Vec<R>,
}

#[derive(Serialize, Deserialize)]
struct Row {
    id: Box<str>,
    /// The mark of the key that the rest is about.
    mark: Box<str>,
    usage_count: u64,
    #[serde(default)]
    picked_count: u64,
    rate_limit_count: u64,
    /// Milliseconds of the epoch, as all times here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_used_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    out: Option<RowOut>,
}

#[derive(Serialize, Deserialize)]
struct RowOut {
    reason: RowReason,
    until: u64,
}

/// What a restart does not cure. A refusal may have been mended at the provider, and what a hand has taken out it takes
/// out again: neither is written.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RowReason {
    RateLimited,
    Exhausted,
}

/// Who the rows of a file are about.
#[derive(Clone, Copy)]
pub(crate) struct Members<'a> {
    pub(crate) provider: &'a str,
    pub(crate) ids: &'a [Arc<str>],
    pub(crate) secrets: &'a [Secret],
}

impl Members<'_> {
    /// The place of a row's credential, if it still has the key that the row is about.
    fn place(&self, row: &Row, salt: &str) -> Option<usize> {
        let index = self.named(&row.id)?;
        (mark(salt, &self.secrets[index]) == *row.mark).then_some(index)
    }

    fn named(&self, id: &str) -> Option<usize> {
        self.ids.iter().position(|known| **known == *id)
    }
}

/// Tells a key from another that came in its place, and nothing else: it has 16 bits, so that of any list of guesses one in
/// 65,536 has the same.
fn mark(salt: &str, key: &Secret) -> String {
    let digest = Sha256::new().chain_update(salt).chain_update([0]).chain_update(key.expose()).finalize();
    format!("{:02x}{:02x}", digest[0], digest[1])
}

/// Where a pool's state is kept.
pub(crate) struct StateFile {
    path: PathBuf,
    salt: Box<str>,
    /// The version of the state that was written last. Held while a file is written, so that there is one writer.
    saved: Mutex<Option<u64>>,
    /// Whether what stands there is to be left alone.
    is_foreign: bool,
}

impl StateFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        // A pool that nothing has happened to has nothing to write.
        let salt = format!("{:032x}", fastrand::u128(..)).into();
        Self { path, salt, saved: Mutex::new(Some(0)), is_foreign: false }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn salt(&self) -> &str {
        &self.salt
    }

    /// Whether both are one file, by whatever path.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        place(&self.path) == place(&other.path)
    }

    /// Writes what `content` gives, which is told what was written last.
    pub(crate) fn save(&self, content: impl FnOnce(Option<u64>) -> Option<(u64, Vec<u8>)>) -> Result<bool, StateError> {
        let mut saved = lock(&self.saved);
        // A path that cannot be looked at is one that cannot be written either, or none of ours.
        if self.is_foreign && *saved == Some(0) && self.path.try_exists().unwrap_or(true) {
            return Ok(false);
        }
        let Some((version, bytes)) = content(*saved) else { return Ok(false) };
        self.replace(&bytes)
            .map_err(|error| StateError { path: self.path.clone(), cause: Cause::Unwritable(error) })?;
        *saved = Some(version);
        Ok(true)
    }

    /// Writes a file beside, and puts it in the place of the old one.
    fn replace(&self, bytes: &[u8]) -> io::Result<()> {
        let name = self.path.file_name().ok_or(ErrorKind::InvalidInput)?;
        let mut beside = OsString::from(".");
        beside.push(name);
        beside.push(format!(".{:016x}", fastrand::u64(..)));
        let beside = self.path.with_file_name(beside);
        // What stands there already, or leads elsewhere, is not ours and not written to.
        let mut file = owned(OpenOptions::new().write(true).create_new(true)).open(&beside)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        let replaced = written.and_then(|()| std::fs::rename(&beside, &self.path));
        if replaced.is_err() {
            let _ = std::fs::remove_file(&beside);
        }
        replaced
    }

    /// The content; `None` if there is no file yet.
    fn read(&self) -> Result<Option<Vec<u8>>, Cause> {
        let file = match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(Cause::Unreadable)?,
        };
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(Cause::Unreadable)?;
        if bytes.len() as u64 > MAX_BYTES { Err(Cause::TooLarge) } else { Ok(Some(bytes)) }
    }
}

/// For its owner alone, whatever the process's mask says.
#[cfg(unix)]
fn owned(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600)
}

#[cfg(not(unix))]
fn owned(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Where a file is or will be, without detours: as far as there are folders, and the rest as it is written.
fn place(path: &Path) -> PathBuf {
    if let Ok(place) = path.canonicalize() {
        return place;
    }
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (path.parent(), path.components().next_back()) {
        (Some(folder), Some(Component::ParentDir)) => place(folder).parent().map(Path::to_owned).unwrap_or_default(),
        (Some(folder), Some(last)) => place(folder).join(last),
        _ => path,
    }
}

/// What is written.
pub(crate) fn content(
    rotation: &mut Rotation,
    members: Members<'_>,
    salt: &str,
    now: Instant,
    wall: SystemTime,
) -> Vec<u8> {
    let cursor = rotation.cursor();
    let after = |instant: Instant| epoch(wall + instant.saturating_duration_since(now));
    let before = |instant: Instant| epoch(wall.checked_sub(now.saturating_duration_since(instant)).unwrap_or(wall));
    let out = |out: Out| {
        let reason = match out.why {
            Why::Limited => RowReason::RateLimited,
            Why::Exhausted => RowReason::Exhausted,
            Why::Refused | Why::ByHand => return None,
        };
        Some(RowOut { reason, until: after(out.until?) })
    };
    let Members { provider, ids, secrets } = members;
    let rows = rotation.slots(now).iter().zip(ids).zip(secrets).map(|((slot, id), secret)| Row {
        id: (**id).into(),
        mark: mark(salt, secret).into(),
        usage_count: slot.usage,
        picked_count: slot.picked,
        rate_limit_count: slot.rate_limits,
        last_used_at: slot.last_used.map(before),
        out: slot.out.and_then(out),
    });
    let content = Content {
        version: VERSION,
        provider: provider.into(),
        salt: salt.into(),
        next: Some((*ids[cursor]).into()),
        credentials: rows.collect(),
    };
    let mut bytes = serde_json::to_vec_pretty(&content).expect("plain numbers and text");
    bytes.push(b'\n');
    bytes
}

/// Gives a new rotation what the file says.
pub(crate) fn restore(
    rotation: &mut Rotation,
    members: Members<'_>,
    file: &mut StateFile,
    now: Instant,
    wall: SystemTime,
) -> Restored {
    let read = file.read().and_then(|bytes| {
        let Some(bytes) = bytes else { return Ok(Restored::Nothing) };
        let (known, salt) = take_over(rotation, members, &bytes, now, wall)?;
        // The same from file to file, so that many files tell no more of a key than one.
        if !salt.is_empty() {
            file.salt = salt;
        }
        Ok(Restored::Credentials(known))
    });
    file.is_foreign = read.is_err();
    read.unwrap_or_else(|cause| Restored::Ignored(StateError { path: file.path.clone(), cause }))
}

/// How many credentials the bytes know something of, and their salt.
fn take_over(
    rotation: &mut Rotation,
    members: Members<'_>,
    bytes: &[u8],
    now: Instant,
    wall: SystemTime,
) -> Result<(usize, Box<str>), Cause> {
    let content: Content<Value> = serde_json::from_slice(bytes).map_err(|_| Cause::Corrupt)?;
    if content.version != VERSION {
        return Err(Cause::Corrupt);
    }
    if *content.provider != *members.provider {
        return Err(Cause::Foreign);
    }
    let (mut known, mut floor) = (0, u64::MAX);
    for row in content.credentials {
        // A row that cannot be read is one credential's that starts afresh.
        let Ok(row) = serde_json::from_value::<Row>(row) else { continue };
        let Some(index) = members.place(&row, &content.salt) else { continue };
        let out = row.out.and_then(|RowOut { reason, until }| {
            let why = match reason {
                RowReason::RateLimited => Why::Limited,
                RowReason::Exhausted => Why::Exhausted,
            };
            // A wall clock that was wrong, then or now, must not keep a credential out for years.
            let left = Duration::from_millis(until.saturating_sub(epoch(wall))).min(rotation.longest(why));
            (!left.is_zero()).then(|| Out { why, until: Some(now + left) })
        });
        let ago = |at: u64| now.checked_sub(Duration::from_millis(epoch(wall).saturating_sub(at)));
        let picked = row.picked_count.max(row.usage_count);
        floor = floor.min(picked);
        rotation.restore(
            index,
            Slot {
                usage: row.usage_count,
                picked,
                rate_limits: row.rate_limit_count,
                last_used: row.last_used_at.and_then(ago),
                out,
                ..Slot::default()
            },
        );
        known += 1;
    }
    if known > 0 {
        rotation.restore_floor(floor);
    }
    if let Some(index) = content.next.and_then(|id| members.named(&id)) {
        rotation.restore_cursor(index);
    }
    Ok((known, content.salt))
}

fn epoch(wall: SystemTime) -> u64 {
    wall.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
