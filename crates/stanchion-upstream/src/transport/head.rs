//! What comes after a response head, where that is beyond doubt.

/// What the bytes after a head are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// Another head: this one was provisional.
    Head,
    /// Nothing of this response.
    Nothing,
    /// So many bytes.
    Length(u64),
    /// Chunks.
    Chunks,
}

/// What there is of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    Unfinished,
    Whole {
        length: usize,
        after: After,
    },
    /// Not of the plain form, or not of one that we follow.
    Other,
}

/// Reads the head at the beginning of `bytes`.
///
/// Where hyper takes these bytes as a head, it takes a [`Whole`](Head::Whole) one to be of the same length, and to have
/// the same after it: whatever it would tolerate, or judge by more than these lines, is none.
pub(super) fn read(bytes: &[u8]) -> Head {
    const START: &[u8; 9] = b"HTTP/1.1 ";
    let plain = match bytes.first_chunk() {
        Some(start) => start == START,
        None => START.starts_with(bytes),
    };
    if !plain {
        return Head::Other;
    }
    let (mut begin, mut status, mut body) = (0, None, None);
    for end in memchr::memchr_iter(b'\n', bytes) {
        // A line feed alone ends a line for hyper, too.
        let Some(line) = bytes[begin..end].strip_suffix(b"\r") else {
            return Head::Other;
        };
        begin = end + 1;
        match (status, line) {
            (None, _) => match self::status(line) {
                Some(code) => status = Some(code),
                None => return Head::Other,
            },
            (Some(status), []) => {
                return match after(status, body) {
                    Some(after) => Head::Whole { length: begin, after },
                    None => Head::Other,
                };
            }
            (Some(_), [b' ' | b'\t', ..]) => return Head::Other,
            (Some(_), _) => {
                let found = if let Some(value) = value(line, b"content-length") {
                    length(value).map(After::Length)
                } else if let Some(value) = value(line, b"transfer-encoding") {
                    value.eq_ignore_ascii_case(b"chunked").then_some(After::Chunks)
                } else {
                    continue;
                };
                if found.is_none() || body.is_some() {
                    return Head::Other;
                }
                body = found;
            }
        }
    }
    Head::Unfinished
}

fn status(line: &[u8]) -> Option<u16> {
    let (code, rest) = line.get(9..)?.split_first_chunk::<3>()?;
    let plain = code.iter().all(u8::is_ascii_digit) && matches!(rest, [] | [b' ', ..]);
    plain.then(|| code.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0')))
}

/// The value, if the line is of this field.
fn value<'a, const N: usize>(line: &'a [u8], name: &[u8; N]) -> Option<&'a [u8]> {
    let (found, rest) = line.split_first_chunk::<N>()?;
    let value = rest.strip_prefix(b":")?;
    // Most servers write it so, and that is compared in a few words.
    (found == name || found.eq_ignore_ascii_case(name)).then(|| value.trim_ascii())
}

fn length(value: &[u8]) -> Option<u64> {
    // Eighteen digits always fit.
    let plain = (1..=18).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    plain.then(|| value.iter().fold(0, |length, digit| length * 10 + u64::from(digit - b'0')))
}

fn after(status: u16, body: Option<After>) -> Option<After> {
    match status {
        // What comes after it is no HTTP.
        101 => None,
        100..=199 => Some(After::Head),
        204 | 304 => Some(After::Nothing),
        // Without a length the body ends with the connection.
        _ => body,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(head: &str, after: After) {
        for more in ["", "HTTP/1.1 ", "\r\n\r\n"] {
            let length = head.len();
            assert_eq!(read(format!("{head}{more}").as_bytes()), Head::Whole { length, after }, "{head}");
        }
        for length in 0..head.len() {
            assert_eq!(read(&head.as_bytes()[..length]), Head::Unfinished, "{}", &head[..length]);
        }
    }

    #[test]
    fn plain_heads_tell_what_comes_after_them() {
        whole("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", After::Chunks);
        whole("HTTP/1.1 200 \r\nServer: x:y\r\nTransfer-Encoding:Chunked \t\r\nx:\r\n\r\n", After::Chunks);
        whole("HTTP/1.1 503\r\nCONTENT-LENGTH:\t 17\r\n\r\n", After::Length(17));
        whole("HTTP/1.1 200 OK\r\ncontent-length: 999999999999999999\r\n\r\n", After::Length(999_999_999_999_999_999));
        whole("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", After::Length(0));
        whole("HTTP/1.1 204 No Content\r\ntransfer-encoding: chunked\r\n\r\n", After::Nothing);
        whole("HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n", After::Nothing);
        whole("HTTP/1.1 100 Continue\r\n\r\n", After::Head);
        whole("HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n", After::Head);
    }

    #[test]
    fn heads_that_leave_a_doubt_are_others() {
        let heads = [
            // No HTTP/1.1, or not at its beginning.
            "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1\t200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            "http/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            "\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            "\0\0\u{6}\u{4}\0\0\0\0\0",
            // No status that is one.
            "HTTP/1.1 20\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1 2000\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1 2x0 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1  200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            // An upgrade.
            "HTTP/1.1 101 Switching Protocols\r\ntransfer-encoding: chunked\r\n\r\n",
            // Until the connection is closed.
            "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n",
            // Line ends and folds.
            "HTTP/1.1 200 OK\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\n",
            "HTTP/1.1 200 OK\r\nx: y\r\n z\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nx: y\r\n\tz\r\ntransfer-encoding: chunked\r\n\r\n",
            // Lengths and codings that are none, more than one, or others.
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: -3\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked, gzip\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked;q=1\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding:\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: identity\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 3\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 3, 3\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: +3\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 0x3\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length:\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 1000000000000000000\r\n\r\n",
        ];
        for head in heads {
            assert_eq!(read(head.as_bytes()), Head::Other, "{head}");
        }
    }

    #[test]
    fn fields_that_look_alike_are_passed_over() {
        let head = "HTTP/1.1 200 OK\r\nx-content-length: 3\r\ntransfer-encodings: gzip\r\nx: transfer-encoding: gzip\r\n\
                    content-length: 7\r\n\r\n";
        whole(head, After::Length(7));
    }
}
