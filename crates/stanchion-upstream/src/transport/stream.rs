use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::chunks::ChunkJoin;

/// A connection as the client takes it, tracked. Tokio's side of it shows what was read, which hyper's does not.
pub(super) type TrackedIo<S> = TokioIo<Tracked<TokioIo<S>>>;

/// What is known of one connection. Clones are of the same one.
#[derive(Debug, Clone, Default)]
pub(super) struct History(Arc<Marks>);

#[derive(Debug, Default)]
struct Marks {
    answered: AtomicBool,
    silent: AtomicBool,
}

impl History {
    /// A response head came on this connection.
    pub(super) fn answer(&self) {
        self.0.answered.store(true, Relaxed);
    }

    /// Whether any response head ever came.
    pub(super) fn answered(&self) -> bool {
        self.0.answered.load(Relaxed)
    }

    /// Whether both are of one connection.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether no byte has come since the last one was written.
    pub(super) fn silent(&self) -> bool {
        self.0.silent.load(Relaxed)
    }
}

pin_project! {
    /// A connection that keeps its [`History`], and on which the transfer chunks that come together are joined.
    pub(super) struct Tracked<S> {
        #[pin]
        stream: S,
        history: History,
        chunks: ChunkJoin,
    }
}

impl<S> Tracked<TokioIo<S>> {
    pub(super) fn wrap(stream: S) -> TrackedIo<S> {
        let stream = TokioIo::new(stream);
        TokioIo::new(Self { stream, history: History::default(), chunks: ChunkJoin::default() })
    }
}

impl<S> Tracked<S> {
    pub(super) fn history(&self) -> &History {
        &self.history
    }
}

impl<S: Connection> Connection for Tracked<S> {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

impl<S: AsyncRead> AsyncRead for Tracked<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let before = buf.filled().len();
        let polled = this.stream.poll_read(cx, buf);
        if buf.filled().len() > before {
            this.history.0.silent.store(false, Relaxed);
            let joined = this.chunks.read(&mut buf.filled_mut()[before..]);
            buf.set_filled(before + joined);
        }
        polled
    }
}

impl<S: AsyncWrite> AsyncWrite for Tracked<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.project();
        this.history.0.silent.store(true, Relaxed);
        this.chunks.write(buf);
        this.stream.poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().stream.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().stream.poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        this.history.0.silent.store(true, Relaxed);
        if let Some(first) = bufs.iter().find(|buf| !buf.is_empty()) {
            this.chunks.write(first);
        }
        this.stream.poll_write_vectored(cx, bufs)
    }
}
