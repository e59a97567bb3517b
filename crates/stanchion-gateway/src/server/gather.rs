//! Pieces of a reply that are ready together leave in one write.
//!
//! A provider's connection hands its pieces over one by one, each with a turn of its own on the runtime: those of HTTP/2 as it frames them,
//! those of HTTP/1.1 one for each read. Written as they come, each would cost a system call, whoever waits for them. So a piece in the
//! midst of a reply is kept until the tasks that are ready have had their turn: if another piece came in the meantime, both go on together.
//! Nobody waits for a time: a piece that came alone leaves with the next turn of its task. Where two did, those that follow are not kept
//! for a while: a model that writes a token at a time would pay that turn for each.

use std::{
    future::Future,
    io::{self, IoSlice},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use http::Version;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    task::yield_now,
};

/// How many bytes are kept at most.
const MOST: usize = 16 * 1024;
/// How much memory is left to a connection on which nothing is kept, in bytes.
const IDLE: usize = 1024;
/// How many turns of its task a piece waits for at most.
const TURNS: u8 = 8;
/// How many writes are let through once two pieces running came alone, until one is kept again.
const ALONE: u8 = 32;

/// Whether a connection is in the midst of a reply. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Midst(Arc<AtomicBool>);

impl Midst {
    fn set(&self, midst: bool) {
        self.0.store(midst, Ordering::Relaxed);
    }

    fn is(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The same for a reply of this version. HTTP/2 gathers what is ready of all its streams by itself.
    pub(super) fn of(&self, version: Version) -> Option<Self> {
        (version < Version::HTTP_2).then(|| self.clone())
    }
}

pin_project! {
    /// A reply that says of its connection that it is in the midst of it: from its second piece on, so that the first is not kept waiting.
    pub struct Pieces<B>
    where
        B: Body,
    {
        #[pin]
        body: B,
        midst: Option<Midst>,
        begun: bool,
        // It is told one turn later, so that what came before it is written.
        error: Option<B::Error>,
    }

    // A reply whose length is known is not asked for its end.
    impl<B: Body> PinnedDrop for Pieces<B> {
        fn drop(this: Pin<&mut Self>) {
            if let Some(midst) = this.project().midst {
                midst.set(false);
            }
        }
    }
}

impl<B: Body> Pieces<B> {
    pub(super) fn new(body: B, midst: Option<Midst>) -> Self {
        Self { body, midst, begun: false, error: None }
    }
}

impl<B: Body> Body for Pieces<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let Some(midst) = this.midst else { return this.body.poll_frame(cx) };
        if let Some(error) = this.error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        match ready!(this.body.poll_frame(cx)) {
            Some(Err(error)) if *this.begun => {
                midst.set(false);
                *this.error = Some(error);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            frame => {
                midst.set(*this.begun && matches!(&frame, Some(Ok(frame)) if frame.is_data()));
                *this.begun = true;
                Poll::Ready(frame)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let ends = self.error.is_none() && self.body.is_end_stream();
        if let Some(midst) = self.midst.as_ref().filter(|_| ends) {
            midst.set(false);
        }
        ends
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

pin_project! {
    /// A connection on which pieces of a reply are gathered.
    pub(super) struct Gathered<S> {
        #[pin]
        stream: S,
        midst: Midst,
        kept: Vec<u8>,
        written: usize,
        // Whether anything was added since the last look.
        added: bool,
        turns: u8,
        // Whether the last piece that was kept came alone.
        came_alone: bool,
        // How many more writes are let through.
        let_through: u8,
    }
}

impl<S> Gathered<S> {
    pub(super) fn new(stream: S, midst: Midst) -> Self {
        Self { stream, midst, kept: Vec::new(), written: 0, added: false, turns: 0, came_alone: false, let_through: 0 }
    }
}

impl<S: AsyncWrite> Gathered<S> {
    /// Writes all that is kept.
    fn poll_release(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut this = self.project();
        while *this.written < this.kept.len() {
            let written = ready!(this.stream.as_mut().poll_write(cx, &this.kept[*this.written..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            *this.written += written;
        }
        (*this.written, *this.added, *this.turns) = (0, false, 0);
        this.kept.clear();
        this.kept.shrink_to(IDLE);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead> AsyncRead for Gathered<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.project().stream.poll_read(cx, buf)
    }
}

impl<S: AsyncWrite> AsyncWrite for Gathered<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length: usize = bufs.iter().map(|buf| buf.len()).sum();
        if self.kept.len() + length > MOST {
            ready!(self.as_mut().poll_release(cx))?;
        }
        let this = self.project();
        // The end of a reply leaves with what is kept of it.
        let keep = !this.kept.is_empty() || (this.midst.is() && *this.let_through == 0);
        if !keep || length > MOST {
            *this.let_through = this.let_through.saturating_sub(1);
            return this.stream.poll_write_vectored(cx, bufs);
        }
        for buf in bufs {
            this.kept.extend_from_slice(buf);
        }
        *this.added = true;
        Poll::Ready(Ok(length))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.as_mut().project();
        if *this.added && *this.turns < TURNS && this.midst.is() {
            *this.added = false;
            *this.turns += 1;
            // Tasks that are ready have their turn first. A bare wake would call another worker for this one.
            return pin!(yield_now()).poll(cx).map(Ok);
        }
        if *this.turns > 0 {
            let alone = !*this.added && *this.turns == 1;
            if alone && *this.came_alone {
                *this.let_through = ALONE;
            }
            *this.came_alone = alone;
        }
        ready!(self.as_mut().poll_release(cx))?;
        self.project().stream.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_release(cx))?;
        self.project().stream.poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
