//! Cutting a body into frames, however its bytes were packed.

use bytes::{Bytes, BytesMut};

use super::ReceivedEvent;

/// How a body is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// Server-sent events.
    Events,
    /// One JSON document a line.
    Lines,
    /// The body is one document.
    Whole,
}

/// The bytes that are not yet a whole frame.
#[derive(Debug)]
pub(super) struct Frames {
    framing: Framing,
    pending: BytesMut,
    /// So many of them hold no frame's end.
    searched: usize,
}

impl Frames {
    pub(super) fn new(framing: Framing) -> Self {
        Self { framing, pending: BytesMut::new(), searched: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.framing != Framing::Whole {
            self.pending.extend_from_slice(bytes);
        }
    }

    /// The next whole event; frames without data are passed over.
    pub(super) fn next_event(&mut self) -> Option<ReceivedEvent> {
        while let Some((end, mark)) = self.find_end() {
            let frame = self.pending.split_to(end + mark);
            self.searched = 0;
            if let Some(event) = self.read(&frame[..end]) {
                return Some(event);
            }
        }
        None
    }

    /// The event that the body's end has ended.
    pub(super) fn last_event(&mut self) -> Option<ReceivedEvent> {
        let rest: Bytes = std::mem::take(&mut self.pending).freeze();
        self.read(&rest)
    }

    fn find_end(&mut self) -> Option<(usize, usize)> {
        let marks: &[&[u8]] = match self.framing {
            Framing::Events => &[b"\n\n", b"\r\n\r\n", b"\r\r"],
            Framing::Lines => &[b"\n"],
            Framing::Whole => return None,
        };
        for at in memchr::memchr2_iter(b'\n', b'\r', &self.pending[self.searched..]) {
            let at = self.searched + at;
            if let Some(mark) = marks.iter().find(|mark| self.pending[at..].starts_with(mark)) {
                return Some((at, mark.len()));
            }
        }
        // The longest mark may have begun within the last three bytes.
        self.searched = self.pending.len().saturating_sub(3);
        None
    }

    fn read(&self, frame: &[u8]) -> Option<ReceivedEvent> {
        let text = String::from_utf8_lossy(frame);
        match self.framing {
            Framing::Events => read_event(&text),
            Framing::Lines => {
                let data = text.trim();
                (!data.is_empty()).then(|| ReceivedEvent { name: None, data: data.to_owned() })
            }
            Framing::Whole => None,
        }
    }
}

fn read_event(frame: &str) -> Option<ReceivedEvent> {
    let mut name = None;
    let mut data: Vec<&str> = Vec::new();
    for line in frame.split(['\n', '\r']) {
        if let Some(value) = line.strip_prefix("event:") {
            name = Some(value.trim().to_owned());
        } else if let Some(value) = line.strip_prefix("data:") {
            data.push(value.trim_start_matches(' '));
        }
    }
    (!data.is_empty()).then(|| ReceivedEvent { name, data: data.join("\n") })
}

#[cfg(test)]
mod tests {
    use super::{Frames, Framing};

    /// The events of `wire`, handed over `length` bytes at a time; a name stands before a colon.
    fn cut(framing: Framing, wire: &[u8], length: usize) -> Vec<String> {
        let mut frames = Frames::new(framing);
        let mut events = Vec::new();
        for piece in wire.chunks(length) {
            frames.push(piece);
            events.extend(std::iter::from_fn(|| frames.next_event()));
        }
        events.extend(frames.last_event());
        let told = |event: super::ReceivedEvent| match event.name {
            Some(name) => format!("{name}: {}", event.data),
            None => event.data,
        };
        events.into_iter().map(told).collect()
    }

    #[test]
    fn events_are_the_same_however_their_bytes_are_packed() {
        let table: [(&[u8], &[&str]); 8] = [
            (b"data: a\n\ndata:b\n\n", &["a", "b"]),
            (b"data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"]),
            (b"data: a\r\rdata: b\r\r", &["a", "b"]),
            (b"event: ping\r\ndata: {}\r\n\r\n", &["ping: {}"]),
            (b": comment\n\nid: 7\n\ndata: a\n\n", &["a"]),
            (b"data: a\ndata:   b\n\n", &["a\nb"]),
            (b"data: a\n\ndata: cut", &["a", "cut"]),
            ("data: \u{5b8c}\u{2713}\n\n".as_bytes(), &["\u{5b8c}\u{2713}"]),
        ];
        for (wire, events) in table {
            for length in 1..=wire.len() {
                assert_eq!(cut(Framing::Events, wire, length), events, "{wire:?} by {length}");
            }
        }
    }

    #[test]
    fn lines_are_documents_and_a_whole_body_has_none() {
        for length in 1..9 {
            assert_eq!(cut(Framing::Lines, b"{\"a\":1}\r\n\n{}\n[]", length), ["{\"a\":1}", "{}", "[]"]);
            assert_eq!(cut(Framing::Whole, b"data: a\n\n", length), [""; 0]);
        }
    }
}
