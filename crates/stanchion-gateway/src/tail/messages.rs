//! Server-Sent Events, as far as the admin listener makes use of them.

/// No message of the listener is larger.
const MAX: usize = 1024 * 1024;

/// Puts pieces together to messages: name and data.
#[derive(Debug, Default)]
pub(super) struct Messages(Vec<u8>);

impl Messages {
    /// Takes a piece in. Says whether it can go on: not if a message has no end.
    pub(super) fn feed(&mut self, piece: &[u8]) -> bool {
        self.0.extend_from_slice(piece);
        self.0.len() <= MAX || self.0.windows(2).any(|two| two == b"\n\n")
    }

    /// The next whole message. Comments are none.
    pub(super) fn next(&mut self) -> Option<(String, String)> {
        loop {
            let end = self.0.windows(2).position(|two| two == b"\n\n")?;
            let message: Vec<u8> = self.0.drain(..end + 2).collect();
            let text = String::from_utf8_lossy(&message[..end]);
            let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            if let (Some(name), Some(data)) = (field("event"), field("data")) {
                return Some((name.to_owned(), data.to_owned()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_whole_however_they_were_cut() {
        let text = ":\n\nevent: hello\ndata: {}\n\n:\n\nevent: event\ndata: {\"a\":\"ü\"}\n\nevent: en";
        for size in 1..text.len() {
            let (mut messages, mut found) = (Messages::default(), Vec::new());
            for piece in text.as_bytes().chunks(size) {
                assert!(messages.feed(piece));
                found.extend(std::iter::from_fn(|| messages.next()));
            }
            let expected = [("hello", "{}"), ("event", "{\"a\":\"ü\"}")];
            assert_eq!(found, expected.map(|(name, data)| (name.to_owned(), data.to_owned())), "{size}");
        }
    }

    #[test]
    fn what_has_no_end_is_given_up() {
        let mut messages = Messages::default();
        assert!(messages.feed(&vec![b'x'; MAX]));
        assert!(!messages.feed(b"x"));
    }
}
