use flate2::{Decompress, FlushDecompress, Status};

use super::{Corrupt, Step};

/// The `deflate` coding: a zlib stream by its standard (RFC 9110, 8.4.1.2), bare deflate by some senders. The first
/// byte tells.
pub(super) struct Deflate {
    inflate: Option<Decompress>,
    ended: bool,
}

impl Deflate {
    pub(super) fn new() -> Self {
        Self { inflate: None, ended: false }
    }

    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Corrupt> {
        if self.ended {
            return Ok(Step { read: input.len(), written: 0 });
        }
        let Some(first) = input.first().copied().or(self.inflate.is_some().then_some(0)) else {
            return Ok(Step::default());
        };
        // Compression method 8 in a window of at most 32 KiB. Bare deflate would begin like that only with bits that no
        // encoder sets.
        let zlib = first & 0x0f == 8 && first >> 4 <= 7;
        let inflate = self.inflate.get_or_insert_with(|| Decompress::new(zlib));
        let (step, ended) = inflated(inflate, input, output)?;
        self.ended = ended;
        Ok(step)
    }

    pub(super) fn at_end(&self) -> bool {
        self.ended
    }
}

/// One step of deflate itself, and whether its stream ended with it.
pub(super) fn inflated(inflate: &mut Decompress, input: &[u8], output: &mut [u8]) -> Result<(Step, bool), Corrupt> {
    let (read, written) = (inflate.total_in(), inflate.total_out());
    let status = inflate.decompress(input, output, FlushDecompress::None).map_err(|_| Corrupt)?;
    let step = Step { read: (inflate.total_in() - read) as usize, written: (inflate.total_out() - written) as usize };
    Ok((step, status == Status::StreamEnd))
}
