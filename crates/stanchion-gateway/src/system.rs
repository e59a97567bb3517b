//! What the system's service manager is told, where there is one that listens: systemd, by `Type=notify-reload`. And the signals that it sends.

#[cfg(unix)]
use std::sync::{
    OnceLock,
    mpsc::{SyncSender, sync_channel},
};

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

/// Clients are served, by a configuration that is in order.
pub fn ready() {
    tell(Told::Ready);
}

/// The configuration is read anew.
pub fn reloading() {
    tell(Told::Reloading);
}

/// No new clients are served.
pub fn stopping() {
    tell(Told::Stopping);
}

enum Told {
    Ready,
    Reloading,
    Stopping,
    Alive,
}

/// A manager that does not listen must hold up nobody: a thread of its own writes, and what is too much for it is lost.
#[cfg(unix)]
fn tell(told: Told) {
    static WRITER: OnceLock<Option<SyncSender<Told>>> = OnceLock::new();
    let writer = WRITER.get_or_init(|| {
        std::env::var_os("NOTIFY_SOCKET")?;
        let (writer, reader) = sync_channel(16);
        let write = move || reader.into_iter().for_each(write);
        std::thread::Builder::new().name("notify".to_owned()).spawn(write).ok().map(|_| writer)
    });
    if let Some(writer) = writer {
        let _ = writer.try_send(told);
    }
}

#[cfg(unix)]
fn write(told: Told) {
    use sd_notify::NotifyState;
    let result = match told {
        Told::Ready => sd_notify::notify(&[NotifyState::Ready]),
        Told::Stopping => sd_notify::notify(&[NotifyState::Stopping]),
        Told::Alive => sd_notify::notify(&[NotifyState::Watchdog]),
        // When it began, so that the manager knows which `READY=1` answers it.
        Told::Reloading => {
            NotifyState::monotonic_usec_now().and_then(|now| sd_notify::notify(&[NotifyState::Reloading, now]))
        }
    };
    if let Err(error) = result {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}

#[cfg(not(unix))]
fn tell(_: Told) {}

/// Tells the service manager that the process lives, twice as often as it wants to hear it, if it does.
pub async fn keep_alive() {
    #[cfg(unix)]
    if let Some(every) = sd_notify::watchdog_enabled().map(|within| within / 2).filter(|every| !every.is_zero()) {
        let mut interval = tokio::time::interval(every);
        loop {
            interval.tick().await;
            tell(Told::Alive);
        }
    }
    std::future::pending::<()>().await;
}

/// The two calls to end, as signals bring them.
#[derive(Debug)]
pub struct Ends {
    /// Is done with the first interrupt or termination signal.
    pub first: oneshot::Receiver<()>,
    /// Is done with the next, and says with which exit code a process ends that was killed by it.
    pub second: oneshot::Receiver<u8>,
}

/// Listens for the signals that end the process. To be called within a runtime, before anything is served.
pub fn ends() -> Ends {
    let ((tell_first, first), (tell_second, second)) = (oneshot::channel(), oneshot::channel());
    let mut signals = Signals::listen();
    tokio::spawn(async move {
        signals.next().await;
        let _ = tell_first.send(());
        let code = signals.next().await;
        let _ = tell_second.send(code);
    });
    Ends { first, second }
}

/// Asks once for each SIGHUP. From now on it does not end the process.
#[cfg(unix)]
pub fn ask_on_hang_up(ask: mpsc::Sender<()>) {
    let mut hang_up = listen(SignalKind::hangup());
    tokio::spawn(async move {
        loop {
            next(&mut hang_up).await;
            if ask.send(()).await.is_err() {
                return;
            }
        }
    });
}

/// There is no such signal here.
#[cfg(not(unix))]
pub fn ask_on_hang_up(ask: mpsc::Sender<()>) {
    tokio::spawn(async move { ask.closed().await });
}

#[cfg(unix)]
struct Signals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> Self {
        Self { interrupt: listen(SignalKind::interrupt()), terminate: listen(SignalKind::terminate()) }
    }

    /// Waits for one, and gives 128 and its number.
    async fn next(&mut self) -> u8 {
        tokio::select! {
            () = next(&mut self.interrupt) => 130,
            () = next(&mut self.terminate) => 143,
        }
    }
}

#[cfg(unix)]
fn listen(kind: SignalKind) -> Option<Signal> {
    signal(kind).inspect_err(|error| tracing::warn!(%error, ?kind, "a signal cannot be listened for")).ok()
}

#[cfg(unix)]
async fn next(signal: &mut Option<Signal>) {
    if let Some(signal) = signal
        && signal.recv().await.is_some()
    {
        return;
    }
    std::future::pending::<()>().await;
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen() -> Self {
        Self
    }

    async fn next(&mut self) -> u8 {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        130
    }
}
