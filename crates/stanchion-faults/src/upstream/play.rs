//! Playing one script.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};

use super::peer::{Left, Peer};
use crate::scenario::{Before, End, Script};

/// The pause between the pieces of a step that is split: enough for each to be a packet of its own.
const BETWEEN_PIECES: Duration = Duration::from_millis(2);

/// What becomes of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    KeepAlive,
    Close,
    Reset,
}

fn framed(piece: Bytes, chunked: bool) -> Bytes {
    if !chunked {
        return piece;
    }
    let mut chunk = BytesMut::with_capacity(piece.len() + 16);
    chunk.put_slice(format!("{:x}\r\n", piece.len()).as_bytes());
    chunk.put_slice(&piece);
    chunk.put_slice(b"\r\n");
    chunk.freeze()
}

/// Plays a script to its end, or until the other side leaves.
pub(super) async fn play(script: &Script, peer: &mut Peer<'_>) -> Result<After, Left> {
    if let Some(delay) = script.delay {
        peer.nap(delay).await?;
    }
    match script.before {
        Some(Before::Reset) => return Ok(After::Reset),
        Some(Before::Close) => return Ok(After::Close),
        Some(Before::Hang) => return peer.nap(script.hang).await.map(|()| After::Close),
        None => {}
    }
    let chunked = script.chunked();
    peer.write(script.head().into()).await?;
    for step in &script.body {
        for _ in 0..step.times {
            if let Some(wait) = step.wait {
                peer.nap(wait).await?;
            }
            for piece in step.pieces() {
                peer.write(framed(piece, chunked)).await?;
                if step.split.is_some() {
                    peer.nap(BETWEEN_PIECES).await?;
                }
            }
        }
    }
    match script.end {
        End::Fin => {
            if chunked {
                peer.write(Bytes::from_static(b"0\r\n\r\n")).await?;
            }
            Ok(After::KeepAlive)
        }
        End::Close | End::Truncate => Ok(After::Close),
        End::Reset => Ok(After::Reset),
        End::Hang => peer.nap(script.hang).await.map(|()| After::Close),
    }
}
