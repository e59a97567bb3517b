//! What is joined, and that nothing else is touched.

use super::*;

pub(super) const HEAD: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

/// One connection.
#[derive(Default)]
struct Wire(ChunkJoin);

impl Wire {
    /// One on which a request was just written.
    fn asked() -> Self {
        let mut wire = Self::default();
        wire.ask("POST / HTTP/1.1\r\n");
        wire
    }

    fn ask(&mut self, request: &str) {
        self.0.write(request.as_bytes());
    }

    /// What becomes of these bytes.
    fn read(&mut self, read: &str) -> String {
        let mut bytes = read.as_bytes().to_vec();
        let kept = self.0.read(&mut bytes);
        String::from_utf8(bytes[..kept].to_vec()).unwrap()
    }
}

#[test]
fn chunks_of_one_read_become_one() {
    let table = [
        // Two, and many with their end.
        (&["1\r\na\r\n1\r\nb\r\n"] as &[&str], &["2\r\nab\r\n"] as &[&str]),
        (&["3\r\nabc\r\n2\r\nde\r\nA\r\n0123456789\r\n0\r\n\r\n"], &["0f\r\nabcde0123456789\r\n0\r\n\r\n"]),
        // One alone stays as it came.
        (&["3\r\nabc\r\n0\r\n\r\n"], &["3\r\nabc\r\n0\r\n\r\n"]),
        (&["0003\r\nabc\r\n", "1\r\na\r\n"], &["0003\r\nabc\r\n", "1\r\na\r\n"]),
        // The last one may go on in later reads, where it is passed on as it comes, and joined with nothing.
        (&["1\r\na\r\n4\r\nbc", "d", "e\r\n1\r\nf\r\n1\r\ng\r\n"], &["5\r\nabc", "d", "e\r\n2\r\nfg\r\n"]),
        (&["1\r\na\r\n4\r\n", "bcde\r\n"], &["5\r\na", "bcde\r\n"]),
        // What is cut within its border goes as it came.
        (&["1\r\na\r\n1\r\nb", "\r", "\n1", "\r", "\nc\r\n"], &["2\r\nab", "\r", "\n1", "\r", "\nc\r\n"]),
        (&["1\r\na\r\n1\r\nb\r\n1", "\r\nc\r\n"], &["2\r\nab\r\n1", "\r\nc\r\n"]),
        (&["1\r\na\r\n1\r", "\nb\r\n1\r\nc\r\n1\r\nd\r\n"], &["1\r\na\r\n1\r", "\nb\r\n2\r\ncd\r\n"]),
        // One whose size is out of all proportion stays by itself.
        (&["1\r\na\r\n1\r\nb\r\nfffff\r\nc"], &["02\r\nab\r\nfffff\r\nc"]),
        (&["1\r\na\r\nfffffffffffffff\r\nb"], &["1\r\na\r\nfffffffffffffff\r\nb"]),
    ];
    for (reads, expected) in table {
        let mut wire = Wire::asked();
        assert_eq!(wire.read(HEAD), HEAD);
        let joined: Vec<_> = reads.iter().map(|read| wire.read(read)).collect();
        assert_eq!(joined, expected);
        // The same with the head in the same read.
        let first = Wire::asked().read(&[HEAD, reads[0]].concat());
        assert_eq!(first.strip_prefix(HEAD), Some(expected[0]));
    }
}

#[test]
fn a_wider_size_needs_room() {
    // More than one read ever brings: the size of all of it is as wide as the border between two small chunks, and more.
    let large = "x".repeat(0x100_0000);
    let body = format!("1\r\na\r\n1\r\nb\r\n1000000\r\n{large}\r\n");
    let mut wire = Wire::asked();
    wire.read(HEAD);
    assert!(wire.read(&body) == format!("1\r\na\r\n1000001\r\nb{large}\r\n"));
}

/// Two chunks that would be joined if the head allowed it.
const CHUNKS: &str = "1\r\na\r\n1\r\nb\r\n";
const JOINED: &str = "2\r\nab\r\n";

#[test]
fn each_response_is_followed_to_the_next_head() {
    let responses = [
        "HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n1\r\na\r\n1\r\nb\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 204 No Content\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n000\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\na: 1\r\nb: \n2\r\n\r\n",
    ];
    for response in responses {
        for cut in 0..=response.len() {
            let mut wire = Wire::asked();
            let (first, second) = response.split_at(cut);
            assert_eq!([wire.read(first), wire.read(second)].concat(), response);
            assert_eq!(wire.0.state, State::Idle);
            wire.ask("GET /next HTTP/1.1\r\n");
            assert_eq!(wire.read(&[HEAD, CHUNKS].concat()), [HEAD, JOINED].concat(), "{first:?}, {second:?}");
        }
        // Byte by byte.
        let mut wire = Wire::asked();
        let joined: String = response.split_inclusive(|_| true).map(|byte| wire.read(byte)).collect();
        assert_eq!(joined, response);
        assert_eq!(wire.0.begun.capacity(), 0);
        wire.ask("POST /next HTTP/1.1\r\n");
        assert_eq!(wire.read(&[HEAD, CHUNKS].concat()), [HEAD, JOINED].concat());
    }
}

#[test]
fn what_is_unusual_is_left_as_it_came_and_so_is_all_that_follows() {
    // Each is followed by chunks that would be joined.
    let bodies = [
        "1;x=y\r\na\r\n",
        "1 \r\na\r\n",
        "1\t\r\na\r\n",
        " 1\r\na\r\n",
        "+1\r\na\r\n",
        "0x1\r\na\r\n",
        "1\na\r\n",
        "1\r\ra\r\n",
        "1\r\na\n",
        "1\r\na\r\r",
        "1\r\nab\r\n",
        "\r\n",
        "0000000000000001\r\na\r\n",
        "ffffffffffffffffffff\r\na\r\n",
        "0\r\nx: y\r.\r\n\r\n",
        "0\r\n\r.",
        // Nobody asked for what follows.
        "0\r\n\r\n",
        "0\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
    ];
    for body in bodies {
        for cut in 0..=body.len() {
            let mut wire = Wire::asked();
            let (first, second) = body.split_at(cut);
            let all = [HEAD, body, CHUNKS].concat();
            let passed = [wire.read(&[HEAD, first].concat()), wire.read(&[second, CHUNKS].concat())].concat();
            assert_eq!(passed, all, "{first:?}, {second:?}");
            assert_eq!(wire.0.state, State::Other, "{body:?}");
            wire.ask("POST /next HTTP/1.1\r\n");
            let next = [HEAD, CHUNKS].concat();
            assert_eq!(wire.read(&next), next);
        }
    }
    // What precedes it in the same read is joined.
    assert_eq!(
        Wire::asked().read(&[HEAD, CHUNKS, CHUNKS, "1;\r\na"].concat()),
        [HEAD, "04\r\nabab\r\n1;\r\na"].concat()
    );
}

#[test]
fn only_the_answers_to_plain_requests_are_followed() {
    let answer = [HEAD, CHUNKS].concat();
    for request in ["HEAD / HTTP/1.1\r\n", "CONNECT a:1 HTTP/1.1\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "POS"] {
        let mut wire = Wire::default();
        wire.ask(request);
        wire.ask("POST / HTTP/1.1\r\n");
        assert_eq!(wire.read(&answer), answer, "{request}");
    }
    // Unasked.
    let mut wire = Wire::default();
    assert_eq!(wire.read(&answer), answer);
    wire.ask("POST / HTTP/1.1\r\n");
    assert_eq!(wire.read(&answer), answer);
    // The rest of a request is not taken for another; nothing is one neither.
    let mut wire = Wire::default();
    wire.ask("");
    wire.ask("POST / HTTP/1.1\r\n");
    wire.ask("HEAD / and more of a body");
    assert_eq!(wire.read(&answer), [HEAD, JOINED].concat());
}

#[test]
fn a_head_without_end_is_kept_up_to_a_bound() {
    let long = |length: usize| format!("HTTP/1.1 200 OK\r\nx: {}\r\n", "y".repeat(length - 22));
    let rest = ["transfer-encoding: chunked\r\n\r\n", CHUNKS].concat();
    for (length, step, followed) in
        [(MAX_HEAD - 31, 1000, true), (MAX_HEAD, 1000, false), (MAX_HEAD, MAX_HEAD, false), (MAX_HEAD + 9, 99, false)]
    {
        let mut wire = Wire::asked();
        for piece in long(length).as_bytes().chunks(step) {
            assert_eq!(wire.read(str::from_utf8(piece).unwrap()).len(), piece.len());
            assert!(wire.0.begun.len() <= MAX_HEAD);
        }
        assert_eq!(wire.read(&rest) != rest, followed, "{length}");
        assert_eq!(wire.0.begun.capacity(), 0);
    }
    // One that is all there needs not be kept, and may be longer.
    let whole = [&long(2 * MAX_HEAD), &*rest].concat();
    assert_ne!(Wire::asked().read(&whole), whole);
}
