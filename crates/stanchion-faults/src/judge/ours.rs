//! What a gateway adds to a stream of its own.

const WAITING: &[u8] = b": waiting\n\n";
const EVENT: &[u8] = b"event: stanchion.";
const BORDERS: [&[u8]; 3] = [b"\n\n", b"\r\n\r\n", b"\r\r"];

/// The bytes of a stream without the heartbeat before it and without the control events between its events.
///
/// What stands elsewhere stays: it is in the way of the reply.
pub(super) fn without_ours(mut raw: &[u8]) -> Vec<u8> {
    let mut reply = Vec::with_capacity(raw.len());
    while !raw.is_empty() {
        if reply.is_empty() && raw.starts_with(WAITING) {
            raw = &raw[WAITING.len()..];
            continue;
        }
        let event_end = memchr::memmem::find(raw, b"\n\n").filter(|_| raw.starts_with(EVENT));
        let at_border = reply.is_empty() || BORDERS.iter().any(|border| reply.ends_with(border));
        if let Some(end) = event_end.filter(|_| at_border) {
            raw = &raw[end + 2..];
            continue;
        }
        // On to where the next of them may begin.
        let next = memchr::memmem::find(&raw[1..], EVENT).map_or(raw.len(), |at| at + 1);
        reply.extend_from_slice(&raw[..next]);
        raw = &raw[next..];
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::without_ours;

    #[test]
    fn only_what_stands_at_its_place_is_taken_out() {
        let event = "event: stanchion.provider_retry\ndata: {}\n\n";
        for (raw, reply) in [
            (String::new(), ""),
            ("data: a\n\n".to_owned(), "data: a\n\n"),
            (": waiting\n\n".repeat(2), ""),
            (format!(": waiting\n\n{event}: waiting\n\ndata: a\n\n"), "data: a\n\n"),
            (format!("{event}{event}data: a\n\n{event}data: b\n\n{event}"), "data: a\n\ndata: b\n\n"),
            (format!("data: a\r\n\r\n{event}data: b\r\n\r\n"), "data: a\r\n\r\ndata: b\r\n\r\n"),
            // A comment after the beginning is the provider's, whatever it says.
            ("data: a\n\n: waiting\n\n".to_owned(), "data: a\n\n: waiting\n\n"),
            ("event: stanchion.cut\n".to_owned(), "event: stanchion.cut\n"),
        ] {
            assert_eq!(String::from_utf8_lossy(&without_ours(raw.as_bytes())), reply, "{raw}");
        }
        let within = format!("event: x\n{event}data: a\n\n");
        assert_eq!(String::from_utf8_lossy(&without_ours(within.as_bytes())), within);
    }
}
