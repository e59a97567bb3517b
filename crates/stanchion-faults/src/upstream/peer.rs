//! The other side of a connection, watched while something else is being done.

use std::future::pending;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use crate::http1::Incoming;

/// How much a client may send ahead before it is no longer watched.
const MAX_AHEAD: usize = 64 << 10;

/// The other side closed its connection, or broke it.
#[derive(Debug)]
pub(super) struct Left;

/// The other side of a connection.
#[derive(Debug)]
pub(super) struct Peer<'a> {
    pub(super) incoming: &'a mut Incoming<OwnedReadHalf>,
    pub(super) writer: &'a mut OwnedWriteHalf,
}

/// Ends when the other side closes; what it sends meanwhile belongs to its next request.
async fn leaves(incoming: &mut Incoming<OwnedReadHalf>) {
    while incoming.buffered() < MAX_AHEAD {
        if !matches!(incoming.more().await, Ok(1..)) {
            return;
        }
    }
    pending::<()>().await;
}

impl Peer<'_> {
    /// Waits, unless the other side leaves first.
    pub(super) async fn nap(&mut self, wait: Duration) -> Result<(), Left> {
        tokio::select! {
            biased;
            () = leaves(self.incoming) => Err(Left),
            () = tokio::time::sleep(wait) => Ok(()),
        }
    }

    /// Writes, unless the other side leaves first.
    pub(super) async fn write(&mut self, bytes: Bytes) -> Result<(), Left> {
        tokio::select! {
            biased;
            () = leaves(self.incoming) => Err(Left),
            written = self.writer.write_all(&bytes) => written.map_err(|_| Left),
        }
    }
}
