use std::io;

use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

use super::{Corrupt, Step};

/// The largest window that the coding allows (RFC 9659): 8 MiB.
const WINDOW_LOG: u32 = 23;

/// The `zstd` coding (RFC 8878): one frame after the other.
pub(super) struct Zstd {
    decoder: Decoder<'static>,
    at_end: bool,
}

impl Zstd {
    pub(super) fn new() -> io::Result<Self> {
        let mut decoder = Decoder::new()?;
        decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG))?;
        Ok(Self { decoder, at_end: false })
    }

    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Corrupt> {
        let mut output = OutBuffer::around(output);
        let mut input = InBuffer::around(input);
        let wanted = self.decoder.run(&mut input, &mut output).map_err(|_| Corrupt)?;
        let step = Step { read: input.pos(), written: output.pos() };
        // Without progress it asks for the next frame, which need not come.
        if step != Step::default() {
            self.at_end = wanted == 0;
        }
        Ok(step)
    }

    pub(super) fn at_end(&self) -> bool {
        self.at_end
    }
}
