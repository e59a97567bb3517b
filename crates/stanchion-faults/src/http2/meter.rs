//! A socket that knows which frames have gone out.
//!
//! The protocol's own machine forgets what is queued when a stream is reset, and cannot say goodbye with any last
//! stream but its own. So the frames are counted as they pass: a script waits until its bytes are out, and a goodbye
//! can then be written by hand between two frames.

use std::collections::HashMap;
use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;

const FRAME_HEAD: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;

/// What has gone out on one stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) head: bool,
    pub(super) bytes: usize,
    pub(super) ended: bool,
}

#[derive(Debug, Default)]
struct Frames {
    streams: HashMap<u32, Sent>,
    /// The head of the frame that is going out, as far as it has come.
    head: Vec<u8>,
    /// How much of its payload is still to come.
    left: usize,
}

impl Frames {
    fn count(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.head.len() < FRAME_HEAD {
                let (more, rest) = bytes.split_at(bytes.len().min(FRAME_HEAD - self.head.len()));
                self.head.extend_from_slice(more);
                bytes = rest;
                if self.head.len() < FRAME_HEAD {
                    return;
                }
                self.left = self.length();
            }
            let now = self.left.min(bytes.len());
            bytes = &bytes[now..];
            self.left -= now;
            if self.left == 0 {
                self.note();
                self.head.clear();
            }
        }
    }

    fn length(&self) -> usize {
        self.head[..3].iter().fold(0, |length, &byte| length << 8 | usize::from(byte))
    }

    /// Notes a frame that has gone out whole.
    fn note(&mut self) {
        let (kind, flags) = (self.head[3], self.head[4]);
        if kind != DATA && kind != HEADERS {
            return;
        }
        let stream = self.head[5..FRAME_HEAD].iter().fold(0, |stream, &byte| stream << 8 | u32::from(byte));
        let length = self.length();
        let sent = self.streams.entry(stream).or_default();
        sent.head |= kind == HEADERS;
        // This side never pads.
        sent.bytes += if kind == DATA { length } else { 0 };
        sent.ended |= flags & END_STREAM != 0;
    }
}

/// What has gone out on one connection.
#[derive(Debug, Default)]
pub(super) struct Meter {
    frames: Mutex<Frames>,
    more: Notify,
}

impl Meter {
    fn frames(&self) -> MutexGuard<'_, Frames> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, bytes: &[u8]) {
        self.frames().count(bytes);
        self.more.notify_waiters();
    }

    async fn until(&self, done: impl Fn(&Frames) -> bool) {
        loop {
            // Registered before looking: what goes out in between is not missed.
            let more = self.more.notified();
            if done(&self.frames()) {
                return;
            }
            more.await;
        }
    }

    /// Waits until so much has gone out on a stream.
    pub(super) async fn sent(&self, stream: u32, wanted: Sent) {
        self.until(|frames| {
            let sent = frames.streams.get(&stream).copied().unwrap_or_default();
            sent.head >= wanted.head && sent.bytes >= wanted.bytes && sent.ended >= wanted.ended
        })
        .await;
    }

    /// Waits until no frame is half out.
    pub(super) async fn between_frames(&self) {
        self.until(|frames| frames.head.is_empty()).await;
    }
}

/// A socket whose frames are counted.
#[derive(Debug)]
pub(super) struct Metered {
    pub(super) socket: Arc<TcpStream>,
    pub(super) meter: Arc<Meter>,
}

impl AsyncRead for Metered {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.socket.poll_read_ready(context))?;
            match self.socket.try_read(buffer.initialize_unfilled()) {
                Ok(length) => {
                    buffer.advance(length);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Metered {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.socket.poll_write_ready(context))?;
            match self.socket.try_write(bytes) {
                Ok(length) => {
                    self.meter.count(&bytes[..length]);
                    return Poll::Ready(Ok(length));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&*self.socket).shutdown(Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use super::{Frames, Sent};

    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        [&[0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream], payload].concat()
    }

    #[test]
    fn frames_are_counted_however_they_are_packed() {
        let wire = [
            frame(4, 0, 0, &[0; 6]),
            frame(1, 4, 1, b"head"),
            frame(0, 0, 1, b"abc"),
            frame(1, 4, 3, b"h"),
            frame(0, 1, 1, b""),
        ]
        .concat();
        for length in 1..=wire.len() {
            let mut frames = Frames::default();
            wire.chunks(length).for_each(|piece| frames.count(piece));
            assert_eq!(frames.streams[&1], Sent { head: true, bytes: 3, ended: true });
            assert_eq!(frames.streams[&3], Sent { head: true, bytes: 0, ended: false });
            assert!(frames.head.is_empty());
            frames.count(&frame(0, 0, 3, b"abc")[..length.min(11)]);
            assert_eq!((frames.head.is_empty(), frames.streams[&3].bytes), (false, 0));
        }
    }
}
