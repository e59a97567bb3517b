use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::{HeaderValue, Uri, uri::Port};
use tokio::{
    runtime::Handle,
    sync::oneshot,
    task::AbortHandle,
    time::{Instant, sleep_until},
};

use super::{connect::ConnectError, connection::Connection, stream::History};

/// How long, and how many, connections are kept that serve nobody.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keep {
    pub(super) timeout: Duration,
    /// Of HTTP/1.1: of HTTP/2 one is enough.
    pub(super) max: usize,
}

/// What comes to one who waits for a connection.
pub(super) type Arrival = Result<Connection, ConnectError>;

/// One scheme, host and port, and the connections to it that can take a request.
pub(super) struct Origin {
    uri: Uri,
    host: HeaderValue,
    keep: Keep,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Of HTTP/1.1, those that were given back last at the end.
    idle: Vec<Idle>,
    /// Of HTTP/2.
    shared: Option<Idle>,
    /// Who waits, those first who came first. They who went are still here.
    waiting: VecDeque<oneshot::Sender<Arrival>>,
    /// Somebody opens the one connection that all others wait for.
    opening: bool,
    /// Looks after what has been kept for too long.
    sweeper: Option<AbortHandle>,
}

struct Idle {
    connection: Connection,
    since: Instant,
}

impl Origin {
    /// `uri`: with a scheme and an authority.
    pub(super) fn new(uri: Uri, keep: Keep) -> Self {
        let host = host_of(&uri);
        Self { uri, host, keep, state: Mutex::default() }
    }

    pub(super) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// The `host` header of a request to it.
    pub(super) fn host(&self) -> &HeaderValue {
        &self.host
    }

    /// Whether it can be forgotten.
    pub(super) fn is_empty(&self) -> bool {
        let state = self.state();
        state.idle.is_empty() && state.shared.is_none()
    }

    /// A connection that can take a request now, if there is one.
    pub(super) fn take(&self) -> Option<Connection> {
        self.state().take(self.keep.timeout)
    }

    /// A connection that can take a request now, or a place among those who wait for one, of whom only the first is to
    /// open one if all can share it.
    pub(super) fn take_or_wait(self: &Arc<Self>, all_share_one: bool) -> Result<Connection, Waiting> {
        let mut state = self.state();
        if let Some(connection) = state.take(self.keep.timeout) {
            return Ok(connection);
        }
        while state.waiting.front().is_some_and(oneshot::Sender::is_closed) {
            state.waiting.pop_front();
        }
        let (sender, arrival) = oneshot::channel();
        state.waiting.push_back(sender);
        // What is kept and cannot be taken is about to be ready, sooner than one that is opened now.
        if let Some(Idle { connection, .. }) = state.idle.pop() {
            self.settle(&mut state, connection);
        }
        let part = if !all_share_one || self.keep.max == 0 {
            Part::OpensItsOwn
        } else if std::mem::replace(&mut state.opening, true) {
            Part::Waits
        } else {
            Part::OpensForAll(Opening(self.clone()))
        };
        Err(Waiting { arrival, part })
    }

    /// Takes back a connection whose reply has ended: for one who waits, or to be kept.
    pub(super) fn put(self: &Arc<Self>, connection: Connection) {
        // One that is shared has been kept since it was opened.
        if connection.is_http2() || connection.is_closed() || self.keep.max == 0 {
            return;
        }
        let mut connection = connection.kept();
        let mut state = self.state();
        state.waiting.retain(|waiting| !waiting.is_closed());
        if !state.waiting.is_empty() && !connection.is_ready() {
            return self.settle(&mut state, connection);
        }
        while let Some(waiting) = state.waiting.pop_front() {
            let Err(Ok(back)) = waiting.send(Ok(connection)) else { return };
            connection = back;
        }
        self.keep(&mut state, connection);
    }

    /// Puts a connection back once it is ready.
    fn settle(self: &Arc<Self>, state: &mut State, mut connection: Connection) {
        let Ok(runtime) = Handle::try_current() else { return self.keep(state, connection) };
        let origin = self.clone();
        runtime.spawn(async move {
            if connection.ready().await.is_ok() {
                origin.put(connection);
            }
        });
    }

    fn keep(self: &Arc<Self>, state: &mut State, connection: Connection) {
        if state.idle.len() >= self.keep.max {
            state.idle.retain(|idle| !idle.connection.is_closed());
        }
        if state.idle.len() < self.keep.max {
            state.idle.push(Idle { connection, since: Instant::now() });
            self.sweep(state);
        }
    }

    /// Another handle of the connection that all can share, if there is one.
    pub(super) fn shared(&self) -> Option<Connection> {
        self.state().share()
    }

    /// Keeps a new connection for all, and gives it to those who wait, or another that was faster.
    pub(super) fn put_shared(self: &Arc<Self>, connection: Connection) -> Connection {
        if self.keep.max == 0 {
            return connection;
        }
        let mut state = self.state();
        if let Some(faster) = state.share() {
            return faster;
        }
        for waiting in std::mem::take(&mut state.waiting) {
            if let Some(handle) = connection.share() {
                // Who is gone needs none.
                let _ = waiting.send(Ok(handle));
            }
        }
        if let Some(kept) = connection.share() {
            state.shared = Some(Idle { connection: kept, since: Instant::now() });
            self.sweep(&mut state);
        }
        connection
    }

    /// Keeps no longer a shared connection that has turned out to be dead.
    pub(super) fn forget(&self, history: &History) {
        let mut state = self.state();
        if state.shared.as_ref().is_some_and(|shared| shared.connection.history().is(history)) {
            state.shared = None;
        }
    }

    /// Tells all who wait for the one connection that there is none.
    pub(super) fn refuse(&self, error: &ConnectError) {
        let all = std::mem::take(&mut self.state().waiting);
        for waiting in all {
            let _ = waiting.send(Err(error.clone()));
        }
    }

    /// Sees to it that what has been kept for too long is let go, as long as anything is kept.
    fn sweep(self: &Arc<Self>, state: &mut State) {
        // It is finished, too, where its runtime has ended.
        if state.sweeper.as_ref().is_some_and(|sweeper| !sweeper.is_finished()) {
            return;
        }
        // A body may be dropped anywhere: then the next one sees to it.
        let Ok(runtime) = Handle::try_current() else { return };
        let origin = Arc::downgrade(self);
        let mut next = Instant::now() + self.keep.timeout;
        let sweeper = runtime.spawn(async move {
            loop {
                sleep_until(next).await;
                match origin.upgrade().and_then(|origin| origin.let_go()) {
                    Some(oldest) => next = oldest,
                    None => break,
                }
            }
        });
        state.sweeper = Some(sweeper.abort_handle());
    }

    /// Lets go what is closed or has been kept for too long, and tells when there will be more, if anything is left.
    fn let_go(&self) -> Option<Instant> {
        let now = Instant::now();
        let stays = |idle: &Idle| !idle.connection.is_closed() && now < idle.since + self.keep.timeout;
        let mut state = self.state();
        state.idle.retain(stays);
        state.shared.take_if(|shared| !stays(shared));
        let oldest = state.idle.first().into_iter().chain(&state.shared).map(|idle| idle.since).min();
        if oldest.is_none() {
            state.sweeper = None;
        }
        oldest.map(|since| since + self.keep.timeout)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        if let Some(sweeper) = self.state().sweeper.take() {
            sweeper.abort();
        }
    }
}

impl State {
    fn take(&mut self, timeout: Duration) -> Option<Connection> {
        if let Some(shared) = self.share() {
            return Some(shared);
        }
        if self.idle.last()?.connection.is_closed() {
            self.idle.retain(|idle| !idle.connection.is_closed());
        }
        // The last that was given back has the warmest caches, on both sides.
        let at = self.idle.iter().rposition(|idle| idle.connection.is_ready())?;
        let idle = self.idle.remove(at);
        if idle.since.elapsed() < timeout {
            return Some(idle.connection);
        }
        // So are all before it.
        self.idle.drain(..at);
        None
    }

    fn share(&mut self) -> Option<Connection> {
        let shared = self.shared.as_mut().filter(|shared| !shared.connection.is_closed());
        let Some(shared) = shared else {
            self.shared = None;
            return None;
        };
        shared.since = Instant::now();
        shared.connection.share()
    }
}

/// A place among those who wait for a connection.
pub(super) struct Waiting {
    /// Comes to an end without anything where the task that opened a connection for all has died: take again.
    pub(super) arrival: oneshot::Receiver<Arrival>,
    pub(super) part: Part,
}

/// What one who waits has to do besides.
pub(super) enum Part {
    /// Opens a connection, and takes what comes first.
    OpensItsOwn,
    /// Sees to it that the one connection is opened that all will share.
    OpensForAll(Opening),
    /// Nothing: it is being opened.
    Waits,
}

/// Until it is dropped, nobody else opens the connection that all will share.
pub(super) struct Opening(Arc<Origin>);

impl Drop for Opening {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.opening = false;
        // Who is left asks again, and one of them opens it.
        state.waiting.clear();
    }
}

/// The value of a `host` header: the port only where it is not the scheme's own.
fn host_of(uri: &Uri) -> HeaderValue {
    let host = uri.host().unwrap_or_default();
    let own = if uri.scheme_str() == Some("https") { 443 } else { 80 };
    match uri.port().as_ref().map(Port::as_u16).filter(|port| *port != own) {
        Some(port) => HeaderValue::try_from(format!("{host}:{port}")),
        None => HeaderValue::from_str(host),
    }
    .expect("what may stand in a URI's authority may stand in a header")
}

#[cfg(test)]
mod tests;
