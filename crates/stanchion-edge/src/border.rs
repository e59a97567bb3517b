//! Where lines of our own may stand in a stream of Server-Sent Events.

/// Follows the bytes of a stream, and knows whether an event has just ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Border {
    /// After a blank line, or at the start of the stream.
    Open,
    /// After the CR of a blank line, whose LF may be yet to come.
    OpenSplit,
    /// Within a line.
    Line,
    /// After the end of a line that was not blank.
    LineEnd,
    /// After its CR, whose LF may be yet to come.
    LineEndSplit,
}

impl Border {
    /// Takes the next bytes of the stream.
    pub(crate) fn pass(&mut self, bytes: &[u8]) {
        // Four bytes tell all: one that ends no line decides, and four that do hold a blank line.
        let tail = if bytes.len() > 4 {
            *self = Self::Line;
            &bytes[bytes.len() - 4..]
        } else {
            bytes
        };
        for byte in tail {
            *self = match (*self, byte) {
                (Self::Open | Self::OpenSplit | Self::LineEnd, b'\n') => Self::Open,
                (Self::Line | Self::LineEndSplit, b'\n') => Self::LineEnd,
                (Self::Line, b'\r') => Self::LineEndSplit,
                (_, b'\r') => Self::OpenSplit,
                _ => Self::Line,
            };
        }
    }

    /// Whether something may stand between what has come and what follows. Not within the CRLF of a blank line: what is
    /// left of it would be one more blank line, which is an event of its own to some clients.
    pub(crate) fn is_open(self) -> bool {
        self == Self::Open
    }

    /// Whether something may follow if nothing else does.
    pub(crate) fn may_end(self) -> bool {
        matches!(self, Self::Open | Self::OpenSplit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(pieces: &[&[u8]]) -> Border {
        let mut border = Border::Open;
        for piece in pieces {
            border.pass(piece);
        }
        border
    }

    #[test]
    fn a_blank_line_is_a_border_however_it_is_written_and_cut() {
        for (text, open, may_end) in [
            ("", true, true),
            ("data: x\n\n", true, true),
            ("data: x\r\n\r\n", true, true),
            ("data: x\r\r\n", true, true),
            ("data: x\n\r\n", true, true),
            ("data: x\r\r", false, true),
            ("data: x\r\n\r", false, true),
            ("data: x\n\n\n\n\n", true, true),
            ("\n", true, true),
            ("data: x\r\n", false, false),
            ("data: x\n", false, false),
            ("data: x\r", false, false),
            ("data: x", false, false),
            ("data: x\n\n:", false, false),
            ("data: x\n\n: ping\n", false, false),
        ] {
            for cut in 0..=text.len() {
                let (a, b) = text.as_bytes().split_at(cut);
                for border in [after(&[a, b]), after(&text.as_bytes().chunks(1).collect::<Vec<_>>())] {
                    assert_eq!((border.is_open(), border.may_end()), (open, may_end), "{text:?} cut at {cut}");
                }
            }
        }
    }
}
