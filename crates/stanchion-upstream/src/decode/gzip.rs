use flate2::{Crc, Decompress};

use super::{Corrupt, Step, deflate::inflated};

/// The `gzip` coding (RFC 1952): one member after the other. What follows the last member and is none is ignored, as
/// gzip itself does.
pub(super) struct Gzip {
    part: Part,
    inflate: Decompress,
    crc: Crc,
}

enum Part {
    Header(Header),
    Data,
    Trailer { bytes: [u8; 8], read: usize },
    Between,
    Rubbish,
}

impl Gzip {
    pub(super) fn new() -> Self {
        Self { part: Part::Header(Header::default()), inflate: Decompress::new(false), crc: Crc::new() }
    }

    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Corrupt> {
        let mut read = 0;
        loop {
            let rest = &input[read..];
            match &mut self.part {
                Part::Data => {
                    let (step, ended) = inflated(&mut self.inflate, rest, output)?;
                    self.crc.update(&output[..step.written]);
                    if ended {
                        self.part = Part::Trailer { bytes: [0; 8], read: 0 };
                    }
                    return Ok(Step { read: read + step.read, written: step.written });
                }
                Part::Rubbish => {
                    return Ok(Step { read: input.len(), written: 0 });
                }
                Part::Header(header) => {
                    let Some(byte) = rest.first() else { break };
                    read += 1;
                    if header.push(*byte)? {
                        self.part = Part::Data;
                    }
                }
                Part::Trailer { bytes, read: filled } => {
                    let Some(byte) = rest.first() else { break };
                    read += 1;
                    bytes[*filled] = *byte;
                    *filled += 1;
                    if *filled == bytes.len() {
                        if *bytes != [self.crc.sum().to_le_bytes(), self.crc.amount().to_le_bytes()].as_flattened() {
                            return Err(Corrupt);
                        }
                        self.part = Part::Between;
                    }
                }
                Part::Between => match rest.first() {
                    None => break,
                    Some(0x1f) => {
                        self.inflate.reset(false);
                        self.crc.reset();
                        self.part = Part::Header(Header::default());
                    }
                    Some(_) => self.part = Part::Rubbish,
                },
            }
        }
        Ok(Step { read, written: 0 })
    }

    pub(super) fn at_end(&self) -> bool {
        matches!(self.part, Part::Between | Part::Rubbish)
    }
}

const HEADER_CRC: u8 = 1 << 1;
const EXTRA: u8 = 1 << 2;
const NAME: u8 = 1 << 3;
const COMMENT: u8 = 1 << 4;
const RESERVED: u8 = 0b1110_0000;

/// A member's header, read byte by byte: it may be split anywhere.
#[derive(Default)]
struct Header {
    /// Bytes read of the fixed part.
    fixed: u8,
    /// The fields that are still to come.
    fields: u8,
    /// Bytes read of the current field.
    read: u16,
    /// The length of the extra field.
    extra: u16,
}

impl Header {
    /// Whether the header ends with this byte.
    fn push(&mut self, byte: u8) -> Result<bool, Corrupt> {
        if self.fixed < 10 {
            match (self.fixed, byte) {
                (0, 0x1f) | (1, 0x8b) | (2, 8) | (4.., _) => {}
                (3, flags) if flags & RESERVED == 0 => self.fields = flags & (HEADER_CRC | EXTRA | NAME | COMMENT),
                _ => return Err(Corrupt),
            }
            self.fixed += 1;
            return Ok(self.fixed == 10 && self.fields == 0);
        }
        let (field, ended) = if self.fields & EXTRA != 0 {
            match self.read {
                0 => self.extra = u16::from(byte),
                1 => self.extra |= u16::from(byte) << 8,
                _ => {}
            }
            (EXTRA, self.read >= 1 && u32::from(self.read) + 1 == u32::from(self.extra) + 2)
        } else if self.fields & NAME != 0 {
            (NAME, byte == 0)
        } else if self.fields & COMMENT != 0 {
            (COMMENT, byte == 0)
        } else {
            (HEADER_CRC, self.read == 1)
        };
        self.read = self.read.saturating_add(1);
        if ended {
            self.fields &= !field;
            self.read = 0;
        }
        Ok(self.fields == 0)
    }
}
