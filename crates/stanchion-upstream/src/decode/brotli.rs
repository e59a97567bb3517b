use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};

use super::{Corrupt, Step};

/// The `br` coding (RFC 7932). What follows its end is ignored.
pub(super) struct Brotli {
    state: Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>,
    total: usize,
    ended: bool,
}

impl Brotli {
    pub(super) fn new() -> Self {
        let alloc = StandardAlloc::default;
        Self { state: Box::new(BrotliState::new(alloc(), alloc(), alloc())), total: 0, ended: false }
    }

    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Corrupt> {
        if self.ended {
            return Ok(Step { read: input.len(), written: 0 });
        }
        let mut step = Step::default();
        let (mut available_in, mut available_out) = (input.len(), output.len());
        let result = BrotliDecompressStream(
            &mut available_in,
            &mut step.read,
            input,
            &mut available_out,
            &mut step.written,
            output,
            &mut self.total,
            &mut self.state,
        );
        match result {
            BrotliResult::ResultFailure => return Err(Corrupt),
            BrotliResult::ResultSuccess => self.ended = true,
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
        }
        Ok(step)
    }

    pub(super) fn at_end(&self) -> bool {
        self.ended
    }
}
