//! What outlives a restart.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use serde_json::{Value, json};
use stanchion_core::{CredentialStrategy, FailureKind, Secret};
use stanchion_credentials::CredentialState::{Exhausted, RateLimited, Ready};
use stanchion_credentials::{CredentialPool, CredentialPoolBuilder, CredentialPools, Restored};

use super::{Stage, builder, exhausted, failure, limited, pools, refused, seconds};

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("stanchion-credentials-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("state.json")
    }

    fn names(&self) -> Vec<String> {
        fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn kept(file: &Path, ids: [&'static str; 4]) -> CredentialPoolBuilder {
    builder(ids).strategy(CredentialStrategy::RoundRobin).state_file(file)
}

fn restored(pools: &CredentialPools) -> &Restored {
    pools.get("primary").unwrap().restored()
}

#[tokio::test(start_paused = true)]
async fn cooldowns_counts_and_turns_outlive_a_restart() {
    let folder = Folder::new();
    let mut stage = Stage::new(kept(&folder.file(), ["a", "b", "c", "d"]));
    assert!(matches!(restored(&stage.pools), Restored::Nothing));
    assert!(!stage.pools.get("primary").unwrap().save().unwrap(), "nothing has happened yet");
    assert!(folder.names().is_empty());
    stage.fail(limited(Some(1000))).await;
    stage.fail(exhausted()).await;
    stage.fail(refused()).await;
    stage.serve().await;
    assert!(folder.names().is_empty(), "no file is written while requests wait");
    assert!(stage.pools.save().is_empty());
    assert!(!stage.pools.get("primary").unwrap().save().unwrap(), "once is enough");
    assert_eq!(folder.names(), ["state.json"]);

    let text = fs::read_to_string(folder.file()).unwrap();
    assert!(text.contains("\"provider\": \"primary\"") && text.contains("\"id\": \"a\""), "{text}");
    assert!(!text.contains("key-"), "{text}");

    // Of another order, with one that is new and without one that was there.
    let again = Stage::new(kept(&folder.file(), ["new", "c", "b", "a"]));
    assert!(matches!(restored(&again.pools), Restored::Credentials(3)));
    // What was refused may have been replaced.
    assert_eq!(again.states(), [Ready, Ready, Exhausted, RateLimited]);
    let status = &again.pools.status()[0].credentials;
    assert_eq!((status[3].rate_limit_count, status[3].usage_count), (1, 0));
    let left = status[3].back_in.unwrap();
    assert!(left <= seconds(1000) && left > seconds(900), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn the_turn_goes_on_where_it_was() {
    let folder = Folder::new();
    let mut stage = Stage::new(kept(&folder.file(), ["a", "b", "c", "d"]));
    stage.serve().await;
    stage.serve().await;
    drop(stage);
    // The end of the pool has written the file.
    let mut stage = Stage::new(kept(&folder.file(), ["a", "b", "c", "d"]));
    assert_eq!(stage.usage(), [1, 1, 0, 0]);
    assert_eq!(stage.serve().await, 'c');
    assert!(stage.pools.status()[0].credentials[0].last_used_ago.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_file_that_cannot_be_used_is_reported_and_left_alone() {
    let folder = Folder::new();
    let foreign = r#"{"version":1,"provider":"other","credentials":[]}"#;
    let newer = r#"{"version":2,"provider":"primary","credentials":[]}"#;
    let large = " ".repeat(256 * 1024 + 1);
    for (content, expected) in [
        ("", "is no state file of this version"),
        ("{\"version\":1,", "is no state file of this version"),
        ("\u{0}\u{1}", "is no state file of this version"),
        (newer, "is no state file of this version"),
        (foreign, "is that of another provider"),
        (&large, "is larger than any that a pool writes"),
    ] {
        fs::write(folder.file(), content).unwrap();
        let mut stage = Stage::new(kept(&folder.file(), ["a", "b", "c", "d"]));
        let Restored::Ignored(error) = restored(&stage.pools) else { panic!("{content:?}") };
        assert_eq!(error.to_string(), format!("the state file {} {expected}", folder.file().display()));
        assert_eq!(error.path(), folder.file());
        assert_eq!(stage.serve().await, 'a');
        assert!(stage.pools.save().is_empty());
        drop(stage);
        assert_eq!(fs::read_to_string(folder.file()).unwrap(), content, "it may be somebody else's");

        // Once it is gone the pool has the place, and keeps it.
        let mut stage = Stage::new(kept(&folder.file(), ["a", "b", "c", "d"]));
        fs::remove_file(folder.file()).unwrap();
        for served in ['a', 'b'] {
            assert_eq!(stage.serve().await, served);
            assert!(stage.pools.get("primary").unwrap().save().unwrap());
        }
        let again = Stage::new(kept(&folder.file(), ["a", "b", "c", "d"]));
        assert!(matches!(restored(&again.pools), Restored::Credentials(4)));
        assert_eq!(again.usage(), [1, 1, 0, 0]);
    }
    // What is no file is no place for one.
    fs::remove_file(folder.file()).unwrap();
    fs::create_dir(folder.file()).unwrap();
    let mut stage = Stage::new(kept(&folder.file(), ["a", "b", "c", "d"]));
    assert!(matches!(restored(&stage.pools), Restored::Ignored(_)));
    stage.serve().await;
    assert!(stage.pools.save().is_empty() && folder.file().is_dir());
}

/// Changes the rows of a file that a pool has written, and says how many they are.
fn rewrite(folder: &Folder, change: impl FnOnce(&mut Vec<Value>)) -> usize {
    let pool = kept(&folder.file(), ["a", "b", "c", "d"]).build().unwrap();
    assert!(pool.park("a") && pool.put_back("a") && pool.save().unwrap());
    let mut content: Value = serde_json::from_str(&fs::read_to_string(folder.file()).unwrap()).unwrap();
    let rows = content["credentials"].as_array_mut().unwrap();
    change(rows);
    let count = rows.len();
    fs::write(folder.file(), content.to_string()).unwrap();
    pool.retire();
    count
}

#[tokio::test(start_paused = true)]
async fn a_new_key_under_an_old_id_begins_anew() {
    let folder = Folder::new();
    let pool = |keys: [&str; 2]| {
        let builder = CredentialPool::builder("primary").strategy(CredentialStrategy::FillFirst);
        let add = |builder: CredentialPoolBuilder, (id, key): (usize, &str)| {
            builder.credential(id.to_string(), Secret::new(key))
        };
        Stage::new(keys.into_iter().enumerate().fold(builder, add).state_file(folder.file()))
    };
    let mut stage = pool(["sk-one-a", "sk-two-b"]);
    stage.fail(limited(Some(1000))).await;
    stage.serve().await;
    drop(stage);
    let kept = fs::read_to_string(folder.file()).unwrap();
    assert!(!kept.contains("sk-"), "{kept}");
    // The first was replaced; its id is but its place in the list.
    let stage = pool(["sk-new-c", "sk-two-b"]);
    assert!(matches!(restored(&stage.pools), Restored::Credentials(1)));
    assert_eq!((stage.states(), stage.usage()), (vec![Ready, Ready], vec![0, 1]));
    drop(stage);
    let stage = pool(["sk-one-a", "sk-two-b"]);
    assert_eq!(stage.states(), [RateLimited, Ready]);
    // Of a key a few bits are kept, and others in another file.
    let marks = || {
        let content: Value = serde_json::from_str(&fs::read_to_string(folder.file()).unwrap()).unwrap();
        let mark = content["credentials"][1]["mark"].as_str().unwrap().to_owned();
        (mark, content["salt"].clone())
    };
    let (mark, salt) = marks();
    assert_eq!(mark.len(), 4);
    fs::remove_file(folder.file()).unwrap();
    let mut stage = pool(["sk-one-a", "sk-two-b"]);
    stage.serve().await;
    drop(stage);
    assert_ne!(marks().1, salt);
}

#[tokio::test(start_paused = true)]
async fn the_least_used_key_after_a_restart_is_the_one_before_it() {
    let folder = Folder::new();
    let kept = || kept(&folder.file(), ["a", "b", "c", "d"]).strategy(CredentialStrategy::LeastUsed);
    let mut stage = Stage::new(kept());
    // The first never serves.
    for _ in 0..2 {
        stage.fail(failure(FailureKind::NotFound, 404)).await;
        for _ in 0..3 {
            stage.serve().await;
        }
    }
    drop(stage);
    let mut stage = Stage::new(kept());
    assert_eq!(stage.usage(), [0, 2, 2, 2]);
    let mut served = Vec::new();
    for _ in 0..4 {
        served.push(stage.serve().await);
    }
    served.sort_unstable();
    assert_eq!(served, ['a', 'b', 'c', 'd']);
}

#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn a_file_is_for_its_owner_and_nothing_else_is_written_to() {
    use std::os::unix::fs::{MetadataExt, symlink};
    let folder = Folder::new();
    let mut stage = Stage::new(kept(&folder.file(), ["a", "b", "c", "d"]));
    // What another has put where this used to write first.
    let trap = folder.0.join(format!(".state.json.{}", std::process::id()));
    let target = folder.0.join("target");
    fs::write(&target, "mine").unwrap();
    symlink(&target, &trap).unwrap();
    stage.serve().await;
    assert!(stage.pools.save().is_empty());
    assert_eq!(fs::read_to_string(&target).unwrap(), "mine");
    assert_eq!(fs::metadata(folder.file()).unwrap().mode() & 0o777, 0o600);
    fs::remove_file(trap).unwrap();
    fs::remove_file(target).unwrap();
    assert_eq!(folder.names(), ["state.json"]);
}

#[tokio::test(start_paused = true)]
async fn a_row_that_cannot_be_read_is_one_key_that_starts_afresh() {
    let folder = Folder::new();
    let rows = rewrite(&folder, |rows| {
        for row in &mut *rows {
            row["usage_count"] = 7.into();
        }
        rows[0]["last_used_at"] = 1.into();
        rows[1]["out"] = json!({ "reason": "bored", "until": 1 });
        rows[2]["out"] = json!({ "reason": "exhausted", "until": u64::MAX });
        rows[3]["out"] = json!({ "reason": "rate_limited", "until": 1 });
        rows.extend([json!({ "id": "elsewhere", "mark": "0000", "usage_count": 7, "rate_limit_count": 0 }), 7.into()]);
    });
    assert_eq!(rows, 6);
    let pools = pools(kept(&folder.file(), ["a", "b", "c", "d"]));
    assert!(matches!(restored(&pools), Restored::Credentials(3)));
    let status = &pools.status()[0].credentials;
    assert_eq!(status.iter().map(|status| status.usage_count).collect::<Vec<_>>(), [7, 0, 7, 7]);
    assert_eq!(status.iter().map(|status| status.state).collect::<Vec<_>>(), [Ready, Ready, Exhausted, Ready]);
    assert_eq!(status[2].back_in, Some(seconds(24 * 3600)), "a wrong clock does not keep it out for ever");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_cannot_be_written_is_an_error_and_is_tried_again() {
    let folder = Folder::new();
    let file = folder.0.join("missing").join("state.json");
    let mut stage = Stage::new(kept(&file, ["a", "b", "c", "d"]));
    stage.serve().await;
    let errors = stage.pools.save();
    let [(provider, error)] = &errors[..] else { panic!("{errors:?}") };
    assert_eq!((&**provider, error.path()), ("primary", &*file));
    assert!(error.to_string().ends_with("cannot be written") && std::error::Error::source(error).is_some());
    fs::create_dir(folder.0.join("missing")).unwrap();
    assert!(stage.pools.get("primary").unwrap().save().unwrap());
    assert!(file.exists());
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_another_has_replaced_writes_no_more() {
    let folder = Folder::new();
    let pool = kept(&folder.file(), ["a", "b", "c", "d"]).build().unwrap();
    let like = kept(&folder.file(), ["a", "b", "c", "d"]).build().unwrap();
    assert!(pool.is_like(&like) && like.is_like(&pool));
    let renamed = kept(&folder.file(), ["a", "b", "c", "e"]).build().unwrap();
    let cooler = kept(&folder.file(), ["a", "b", "c", "d"]).cooldown(seconds(9)).build().unwrap();
    let elsewhere = kept(&folder.0.join("other.json"), ["a", "b", "c", "d"]).build().unwrap();
    for other in [&renamed, &cooler, &elsewhere] {
        assert!(!pool.is_like(other));
    }
    assert!(pool.park("a") && pool.put_back("a"), "something to write");
    pool.retire();
    assert!(!pool.save().unwrap());
    drop(pool);
    assert!(folder.names().is_empty(), "{:?}", folder.names());
    assert!(like.park("a") && like.put_back("a") && like.save().unwrap());
}
