//! Small exact steps over JSON text: enough to know a plain delta, and to give up on everything else.

use memchr::memchr2;

/// A position in JSON text that only moves over what it understands.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a [u8], at: usize) -> Self {
        Self { text, at }
    }

    pub(super) fn at(self) -> usize {
        self.at
    }

    fn skip_space(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Moves over `token` and the space before it.
    pub(super) fn eat(&mut self, token: &[u8]) -> Option<()> {
        self.skip_space();
        self.text[self.at..].starts_with(token).then(|| self.at += token.len())
    }

    /// Moves over a string and the space before it. Returns its raw inside and whether it holds escapes.
    pub(super) fn string(&mut self) -> Option<(&'a [u8], bool)> {
        self.eat(b"\"")?;
        let begin = self.at;
        let mut escapes = false;
        loop {
            let found = memchr2(b'"', b'\\', self.text.get(self.at..)?)?;
            self.at += found;
            if self.text[self.at] == b'"' {
                let inside = &self.text[begin..self.at];
                self.at += 1;
                return Some((inside, escapes));
            }
            escapes = true;
            self.at += 2;
        }
    }

    /// Moves over a plain whole number and the space before it.
    pub(super) fn number(&mut self) -> Option<u64> {
        self.skip_space();
        let digits = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = std::str::from_utf8(&self.text[self.at..self.at + digits]).ok()?.parse().ok()?;
        self.at += digits;
        Some(number)
    }

    /// The key of the next member, if it is plain.
    pub(super) fn key(&mut self) -> Option<&'a [u8]> {
        let (key, escapes) = self.string()?;
        self.eat(b":")?;
        (!escapes).then_some(key)
    }
}
