//! The real binary as a child process.

use std::{
    env, fs, io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Output, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    net::TcpStream,
    process::{Child, Command},
    sync::{OnceCell, oneshot},
    task::JoinHandle,
    time::{sleep, timeout},
};

/// Longer than a start takes on a busy machine.
const START: Duration = Duration::from_secs(20);
const LISTENING: &str = "listening on http://";
const TOLD_BY_CARGO: [&str; 4] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_"];

/// A gateway that serves. Dropping it kills the process.
#[derive(Debug)]
pub struct Gateway {
    child: Child,
    address: SocketAddr,
    printed: Printed,
    readers: Vec<JoinHandle<()>>,
    folder: Folder,
}

/// What a process has printed, on both of its streams.
#[derive(Debug, Clone, Default)]
struct Printed(Arc<Mutex<String>>);

impl Printed {
    fn text(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, line: &str) {
        let mut text = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        text.push_str(line);
        text.push('\n');
    }
}

impl Gateway {
    /// Builds the binary if need be, and starts it with what `config` writes for the address to listen at.
    ///
    /// The process chooses its port itself, and tells it: so no two tests can want the same.
    pub async fn start(config: impl FnOnce(SocketAddr) -> String) -> io::Result<Self> {
        Self::start_under(&[], config).await
    }

    /// The same, with variables in its environment.
    pub async fn start_under(
        environment: &[(&str, &str)],
        config: impl FnOnce(SocketAddr) -> String,
    ) -> io::Result<Self> {
        let binary = binary().await?;
        let folder = Folder::new()?;
        let file = folder.0.join("stanchion.toml");
        fs::write(&file, config((Ipv4Addr::LOCALHOST, 0).into()))?;
        let mut child = Command::new(binary)
            .args(["serve", "--config"])
            .arg(&file)
            .env("STANCHION_LOG", "debug")
            .env("NO_COLOR", "1")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let printed = Printed::default();
        let (told, address) = oneshot::channel();
        let mut readers = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            readers.push(tokio::spawn(read(stdout, printed.clone(), None)));
        }
        if let Some(stderr) = child.stderr.take() {
            readers.push(tokio::spawn(read(stderr, printed.clone(), Some(told))));
        }
        let Ok(Ok(address)) = timeout(START, address).await else {
            return Err(io::Error::other(format!("the gateway does not listen. It printed:\n{}", printed.text())));
        };
        TcpStream::connect(address).await?;
        Ok(Self { child, address, printed, readers, folder })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has printed so far.
    pub fn printed(&self) -> String {
        self.printed.text()
    }

    /// The last lines of what it has printed.
    pub fn tail(&self, lines: usize) -> String {
        let text = self.printed();
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// The file with its configuration.
    pub fn config(&self) -> PathBuf {
        self.folder.0.join("stanchion.toml")
    }

    /// Sends it a signal, by its name without `SIG`.
    pub async fn signal(&self, name: &str) -> io::Result<()> {
        let command = format!("kill -{name} {}", self.id());
        let sent = Command::new("sh").args(["-c", &command]).status().await?;
        if sent.success() { Ok(()) } else { Err(io::Error::other(format!("{command} fails"))) }
    }

    /// Waits until it has printed a text.
    pub async fn prints(&self, text: &str) -> io::Result<()> {
        let printed = async {
            while !self.printed().contains(text) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        let late = || io::Error::other(format!("{text:?} is not printed, but:\n{}", self.tail(40)));
        timeout(START, printed).await.map_err(|_| late())
    }

    /// Waits until the process has ended by itself, and all that it printed is read; its exit code.
    pub async fn exits(&mut self) -> io::Result<Option<i32>> {
        let status = timeout(START, self.child.wait()).await;
        let status = status.map_err(|_| io::Error::other(format!("it does not end:\n{}", self.tail(40))))??;
        // Its last words may still be on their way.
        for reader in self.readers.drain(..) {
            reader.await?;
        }
        Ok(status.code())
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> io::Result<bool> {
        self.child.try_wait().map(|status| status.is_none())
    }

    /// Ends the process; all that it has printed.
    pub async fn end(mut self) -> io::Result<String> {
        self.child.kill().await?;
        for reader in self.readers.drain(..) {
            reader.await?;
        }
        Ok(self.printed())
    }
}

/// Keeps what comes, line by line, and tells the address once it is there.
async fn read(source: impl AsyncRead + Unpin, printed: Printed, mut told: Option<oneshot::Sender<SocketAddr>>) {
    let mut lines = BufReader::new(source).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(address) = line.split(LISTENING).nth(1).and_then(|rest| rest.trim().parse().ok())
            && let Some(told) = told.take()
        {
            // Nobody waits any more if the start took too long.
            let _ = told.send(address);
        }
        printed.add(&line);
    }
}

/// The gateway's binary, of the same profile and in the same target folder as the test that asks.
///
/// It is built anew where its sources have changed: a test of yesterday's binary proves nothing.
async fn binary() -> io::Result<&'static Path> {
    static BINARY: OnceCell<PathBuf> = OnceCell::const_new();
    BINARY.get_or_try_init(build).await.map(PathBuf::as_path)
}

async fn build() -> io::Result<PathBuf> {
    let test = env::current_exe()?;
    // target/PROFILE/deps/TEST
    let mut above = test.ancestors().skip(2);
    let (Some(profile), Some(target)) = (above.next(), above.next()) else {
        return Err(io::Error::other(format!("{} lies in no target folder", test.display())));
    };
    let profile = match profile.file_name().and_then(|name| name.to_str()) {
        // The folder of the profile `dev` has the name of its ancestor.
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let mut cargo = Command::new(env!("CARGO"));
    // What cargo tells a test of its package would look to build scripts like a change of their own.
    for (name, _) in env::vars_os() {
        let told = name.to_str().is_some_and(|name| TOLD_BY_CARGO.iter().any(|prefix| name.starts_with(prefix)));
        if told {
            cargo.env_remove(name);
        }
    }
    let output = cargo
        .args(["build", "--package", "stanchion-gateway", "--bin", "stanchion", "--message-format", "json"])
        .args(["--profile", profile, "--target-dir"])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .await?;
    if !output.status.success() {
        return Err(io::Error::other(format!(
            "the gateway does not build:\n{}",
            String::from_utf8_lossy(&output.stderr)
        )));
    }
    executable(&output).ok_or_else(|| io::Error::other("cargo tells of no executable"))
}

/// The last executable of which cargo tells.
fn executable(output: &Output) -> Option<PathBuf> {
    let messages = output.stdout.split(|&byte| byte == b'\n');
    let mut executables = messages.filter_map(|line| {
        let message: serde_json::Value = serde_json::from_slice(line).ok()?;
        message.get("executable")?.as_str().map(PathBuf::from)
    });
    executables.next_back()
}

/// A folder that goes with its owner.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Self> {
        static NUMBER: Mutex<u32> = Mutex::new(0);
        let number = {
            let mut number = NUMBER.lock().unwrap_or_else(PoisonError::into_inner);
            *number += 1;
            *number
        };
        let path = env::temp_dir().join(format!("stanchion-tests-{}-{number}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left behind is a small file in the folder for temporary things.
        let _ = fs::remove_dir_all(&self.0);
    }
}
