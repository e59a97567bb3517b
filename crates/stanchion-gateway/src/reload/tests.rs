use std::{
    fs,
    sync::atomic::{AtomicU32, Ordering},
};

use super::*;

/// A folder that goes with its owner.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("stanchion-reload-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// As editors write: another file, and then the old name for it.
    fn replace(&self, name: &str, text: &str) {
        let other = self.write("written-beside", text);
        fs::rename(other, self.0.join(name)).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const ONE: &str = "[providers.p]\ndialect = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\n[models.one]\ncandidates = [{ provider = \"p\" }]\n";

fn two() -> String {
    format!("{ONE}[models.two]\ncandidates = [{{ provider = \"p\" }}]\n")
}

fn begin(path: &Path) -> Reloader {
    Reloader::begin(path, Config::load(path).unwrap(), Parts::new(), None, false)
}

fn models(current: &Current) -> Vec<String> {
    let list = current.get().gateway.names.list(None).to_string();
    ["one", "two"].into_iter().filter(|name| list.contains(&format!("\"{name}\""))).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_file_that_is_wrong_changes_nothing_and_says_why() {
    let folder = Folder::new();
    let path = folder.write("stanchion.toml", ONE);
    let mut reloader = begin(&path);
    let current = reloader.current().clone();
    let before = current.get().origin.clone();
    folder.write(
        "stanchion.toml",
        &two().replace("dialect =", "dialct =").replace("[models.two]\n", "[models.two]\nheartbeat = \"1\"\n"),
    );
    assert_eq!(reloader.reload().await, Reloaded::Refused);
    assert_eq!((current.get().origin.clone(), models(&current)), (before.clone(), vec!["one".to_owned()]));
    let complaints = current.refusal().unwrap().complaints;
    let told: Vec<(Option<usize>, &str)> =
        complaints.iter().map(|complaint| (complaint.line, &*complaint.key)).collect();
    assert_eq!(told, [(Some(1), "providers.p"), (Some(2), "providers.p.dialct"), (Some(7), "models.two.heartbeat")]);

    fs::remove_file(&path).unwrap();
    assert_eq!(reloader.reload().await, Reloaded::Refused);
    assert!(current.refusal().unwrap().complaints[0].reason.starts_with("cannot be read"));

    folder.write("stanchion.toml", ONE);
    assert_eq!(reloader.reload().await, Reloaded::Unchanged);
    assert!(current.refusal().is_none(), "the file is as it is served again");
    folder.write("stanchion.toml", &two());
    assert_eq!(reloader.reload().await, Reloaded::Taken);
    let served = current.get();
    assert_eq!((served.origin.generation, served.origin.file.as_deref()), (2, Some(&*path)));
    assert!(served.origin.hash != before.hash && served.origin.hash.len() == 12);
    assert_eq!(models(&current), ["one", "two"]);
    assert!(current.refusal().is_none(), "what was wrong once is right again");
}

#[tokio::test]
async fn whoever_began_goes_on_with_what_was_served_then() {
    let folder = Folder::new();
    let mut reloader = begin(&folder.write("stanchion.toml", ONE));
    let began = reloader.current().get();
    folder.write("stanchion.toml", &two());
    assert_eq!(reloader.reload().await, Reloaded::Taken);
    assert_eq!(began.origin.generation, 1);
    assert!(!began.gateway.names.list(None).to_string().contains("\"two\""));
}

#[tokio::test]
async fn an_address_beyond_loopback_is_never_left_without_a_key() {
    let folder = Folder::new();
    let hash = crate::keys::hash_of("a key");
    let with_key = format!("[server]\nlisten = \"0.0.0.0:0\"\n[clients.me]\nkey_sha256 = \"{hash}\"\n{ONE}");
    let path = folder.write("stanchion.toml", &with_key);
    for (open, expected) in [(false, Reloaded::Refused), (true, Reloaded::Taken)] {
        folder.write("stanchion.toml", &with_key);
        let mut reloader = Reloader::begin(&path, Config::load(&path).unwrap(), Parts::new(), None, open);
        folder.write("stanchion.toml", &format!("[server]\nlisten = \"0.0.0.0:0\"\n{ONE}"));
        assert_eq!(reloader.reload().await, expected);
        let refusal = reloader.current().refusal();
        assert_eq!(refusal.is_some_and(|refusal| refusal.complaints[0].key == "clients"), !open);
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_changes_is_taken_however_it_is_written() {
    let folder = Folder::new();
    let key = folder.write("key", "first");
    let with = |models: &str, key: &Path| {
        models.replace("[models.one]", &format!("api_key_file = {:?}\n[models.one]", key.display().to_string()))
    };
    let path = folder.write("stanchion.toml", &with(ONE, &key));
    let reloader = begin(&path);
    let current = reloader.current().clone();
    let (ask, asked) = mpsc::channel(1);
    let running = tokio::spawn(reloader.run(asked));
    let generation = async |expected: u64| {
        for _ in 0..100 {
            if current.get().origin.generation == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        panic!("generation {} is served, not {expected}", current.get().origin.generation);
    };
    folder.replace("stanchion.toml", &with(&two(), &key));
    generation(2).await;
    assert_eq!(models(&current), ["one", "two"]);
    // A file that the configuration names counts as well.
    folder.replace("key", "another");
    generation(3).await;
    // What is only touched, or wrong, does not.
    folder.replace("stanchion.toml", &with(&two(), &key));
    folder.replace("stanchion.toml", "[server");
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(current.refusal().is_some());
    generation(3).await;
    // And it can be asked for, at once.
    folder.replace("stanchion.toml", &with(ONE, &key));
    ask.send(()).await.unwrap();
    generation(4).await;
    drop(ask);
    running.await.unwrap();
}

#[tokio::test]
async fn call_records_that_cannot_be_written_refuse_a_configuration() {
    let folder = Folder::new();
    let path = folder.write("stanchion.toml", ONE);
    let mut reloader = begin(&path);
    let current = reloader.current().clone();
    let records = |name: &str| format!("{}[telemetry.records]\npath = '{}'\n", two(), folder.0.join(name).display());
    folder.write("stanchion.toml", &records(&"long".repeat(100)));
    assert_eq!(reloader.reload().await, Reloaded::Refused);
    assert_eq!(current.refusal().unwrap().complaints[0].key, "telemetry.records.path");
    assert_eq!(models(&current), ["one"]);

    folder.write("stanchion.toml", &records("calls.jsonl"));
    assert_eq!(reloader.reload().await, Reloaded::Taken);
    assert_eq!(models(&current), ["one", "two"]);
    assert!(folder.0.join("calls.jsonl").exists());
}
