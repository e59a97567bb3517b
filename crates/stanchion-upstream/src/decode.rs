//! Content codings that a provider sends although it was asked for none.
//!
//! Decoding is incremental and bounded: whatever of the reply can be decoded is passed on at once, in frames of at most
//! 16 KiB, and the next bytes are read only when those are gone. So an event is not held back, and a small reply that
//! unpacks to a huge one costs no memory.

mod body;
mod brotli;
mod deflate;
mod gzip;
mod zstd;

use std::{error::Error, fmt};

use http::{
    HeaderMap,
    header::{CONTENT_ENCODING, CONTENT_LENGTH},
};
use stanchion_core::{Failure, FailureKind};

pub(crate) use self::body::Decoded;
use self::{brotli::Brotli, deflate::Deflate, gzip::Gzip, zstd::Zstd};
use crate::headers::tokens;

/// How a reply is coded, as its head tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    /// Passed on as it is: it is not coded, or in a way that is not known here.
    Untouched,
    /// The head does not tell: gzip if it begins like that, else not coded.
    Untold,
    /// `gzip`, `x-gzip`.
    Gzip,
    /// `deflate`.
    Deflate,
    /// `br`.
    Brotli,
    /// `zstd`.
    Zstd,
}

impl Coding {
    /// Reads the coding of a reply, and removes the headers that will not be true of the decoded one.
    ///
    /// Where the head tells no coding, its content length goes as well: it would be wrong if the body turned out to be
    /// coded. The body itself knows its length as soon as it is known not to be.
    pub(crate) fn take(headers: &mut HeaderMap) -> Self {
        let coding = Self::read(headers);
        if coding != Self::Untouched {
            headers.remove(CONTENT_ENCODING);
            headers.remove(CONTENT_LENGTH);
        }
        coding
    }

    fn read(headers: &HeaderMap) -> Self {
        let mut codings = headers.get_all(CONTENT_ENCODING).iter().flat_map(tokens);
        let Some(coding) = codings.next() else {
            return Self::Untold;
        };
        if codings.next().is_some() {
            return Self::Untouched;
        }
        let is = |name: &str| coding.eq_ignore_ascii_case(name);
        match () {
            () if is("gzip") || is("x-gzip") => Self::Gzip,
            () if is("deflate") => Self::Deflate,
            () if is("br") => Self::Brotli,
            () if is("zstd") => Self::Zstd,
            () => Self::Untouched,
        }
    }
}

/// What one step of a decoder did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Step {
    /// Bytes of the input that were taken.
    read: usize,
    /// Bytes of the output that were filled. Less than all of it means that everything decodable was written.
    written: usize,
}

/// The coded bytes are not what they claim to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Corrupt;

enum Decoder {
    Gzip(Gzip),
    Deflate(Deflate),
    Brotli(Brotli),
    Zstd(Zstd),
}

impl Decoder {
    fn new(coding: Coding) -> Option<Self> {
        Some(match coding {
            Coding::Untouched | Coding::Untold => return None,
            Coding::Gzip => Self::gzip(),
            Coding::Deflate => Self::Deflate(Deflate::new()),
            Coding::Brotli => Self::Brotli(Brotli::new()),
            Coding::Zstd => Self::Zstd(Zstd::new().ok()?),
        })
    }

    fn gzip() -> Self {
        Self::Gzip(Gzip::new())
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Corrupt> {
        match self {
            Self::Gzip(decoder) => decoder.step(input, output),
            Self::Deflate(decoder) => decoder.step(input, output),
            Self::Brotli(decoder) => decoder.step(input, output),
            Self::Zstd(decoder) => decoder.step(input, output),
        }
    }

    /// Whether the input may end here.
    fn at_end(&self) -> bool {
        match self {
            Self::Gzip(decoder) => decoder.at_end(),
            Self::Deflate(decoder) => decoder.at_end(),
            Self::Brotli(decoder) => decoder.at_end(),
            Self::Zstd(decoder) => decoder.at_end(),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Gzip(_) => "gzip",
            Self::Deflate(_) => "deflate",
            Self::Brotli(_) => "br",
            Self::Zstd(_) => "zstd",
        }
    }
}

/// What went wrong with a content coding: the source of a [`FailureKind::Transport`] or [`FailureKind::MalformedReply`]
/// failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The reply ended inside the coding: it was interrupted.
    Interrupted {
        /// The coding, as `content-encoding` names it.
        coding: &'static str,
    },
    /// The bytes are not what the coding allows.
    Corrupt {
        /// The coding, as `content-encoding` names it.
        coding: &'static str,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted { coding } => write!(f, "the reply ended inside its {coding} coding"),
            Self::Corrupt { coding } => write!(f, "the reply's {coding} coding is corrupt"),
        }
    }
}

impl Error for DecodeError {}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        let kind = match error {
            DecodeError::Interrupted { .. } => FailureKind::Transport,
            DecodeError::Corrupt { .. } => FailureKind::MalformedReply,
        };
        Self::new(kind).with_source(error)
    }
}

#[cfg(test)]
mod tests;
