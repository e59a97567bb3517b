use memchr::{memchr, memchr2, memmem, memrchr2};

/// What a picture, a sound or another attachment counts as.
const ATTACHMENT_TOKENS: usize = 1_600;

/// A string without a blank that is longer than this is no text.
const LONGEST_WORD: usize = 4_096;

/// About how many tokens a request's body holds, in one pass over its bytes.
///
/// ASCII counts a token for every four bytes, everything else one for every three, which is one for each character of
/// the scripts of East Asia. A string of more than 4 KiB without a blank is an attachment in base64 and counts as 1,600
/// tokens, whatever its size; so do data URLs.
///
/// **The error.** Against the tokenisers of OpenAI and Anthropic: English prose comes out some 10 to 20 % too high, since
/// the body's own syntax counts too; source code and JSON up to 30 % too low; East Asian text between 30 % too low and
/// 40 % too high, after the model's vocabulary. Attachments may be off by a factor of three either way. Good enough to
/// tell what cannot fit, and to scale a time limit; not for a bill.
#[must_use]
pub fn estimate_tokens(body: &[u8]) -> usize {
    let (mut ascii, mut other, mut attachments) = (0, 0, 0);
    let mut count = |bytes: &[u8]| {
        let wide = bytes_beyond_ascii(bytes);
        other += wide;
        ascii += bytes.len() - wide;
    };
    let mut rest = body;
    while let Some(string) = next_long_string(rest) {
        count(&rest[..string.start]);
        attachments += 1;
        rest = &rest[string.end..];
    }
    count(rest);
    ascii.div_ceil(4) + other.div_ceil(3) + attachments * ATTACHMENT_TOKENS
}

fn bytes_beyond_ascii(bytes: &[u8]) -> usize {
    // Sums of so few fit into a byte, and many bytes are summed at once.
    bytes.chunks(255).map(|chunk| usize::from(chunk.iter().map(|byte| byte >> 7).sum::<u8>())).sum()
}

/// The next string that is too long for a word.
///
/// It begins with a quote, and neither a quote nor an escape follows for longer than a word is: so of all bytes that lie
/// closer together, only the last of so many need be looked at.
fn next_long_string(bytes: &[u8]) -> Option<std::ops::Range<usize>> {
    let mut start = memchr2(b'"', b'\\', bytes)?;
    loop {
        let within = bytes.get(start + 1..start + 1 + LONGEST_WORD + 1)?;
        if let Some(last) = memrchr2(b'"', b'\\', within) {
            start += 1 + last;
            continue;
        }
        let end = start + 1 + memchr2(b'"', b'\\', &bytes[start + 1..])?;
        let string = &bytes[start + 1..end];
        // Opening or closing: what lies between two strings is never this long without a blank, either.
        if is_unescaped_quote(&bytes[..=start]) && is_no_text(string) {
            return Some(start + 1..end);
        }
        start = end;
    }
}

/// Whether bytes end in a quote that is not one of the text.
fn is_unescaped_quote(bytes: &[u8]) -> bool {
    let Some(before) = bytes.strip_suffix(b"\"") else { return false };
    before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 0
}

fn is_no_text(string: &[u8]) -> bool {
    memmem::find(&string[..64], b";base64,").is_some()
        || string[..LONGEST_WORD].is_ascii() && memchr(b' ', string).is_none()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The long strings of a body, by looking at every byte.
    fn long_strings(body: &[u8]) -> Vec<std::ops::Range<usize>> {
        let (mut found, mut at) = (Vec::new(), 0);
        while at < body.len() {
            at += match body[at] {
                b'\\' => 2,
                b'"' => {
                    let string = body[at + 1..].split(|byte| matches!(byte, b'"' | b'\\')).next().unwrap_or_default();
                    let ends = at + 1 + string.len() < body.len();
                    if ends && string.len() > LONGEST_WORD && is_no_text(string) {
                        found.push(at + 1..at + 1 + string.len());
                    }
                    1 + string.len()
                }
                _ => 1,
            };
        }
        found
    }

    fn piece() -> impl Strategy<Value = Vec<u8>> {
        let exact = |length| Just(vec![b'a'; length]);
        prop_oneof![
            exact(LONGEST_WORD - 1),
            exact(LONGEST_WORD),
            exact(LONGEST_WORD + 1),
            exact(LONGEST_WORD + 2),
            exact(2 * LONGEST_WORD + 3),
            Just("a b".repeat(2_000).into_bytes()),
            Just("é".repeat(3_000).into_bytes()),
            proptest::collection::vec(prop_oneof![Just(b'"'), Just(b'\\'), Just(b'a'), Just(b' ')], 0..6),
        ]
    }

    proptest! {
        #[test]
        fn no_long_string_is_passed_over(pieces in proptest::collection::vec(piece(), 0..8)) {
            let body = pieces.concat();
            let (mut found, mut from) = (Vec::new(), 0);
            while let Some(string) = next_long_string(&body[from..]) {
                found.push(string.start + from..string.end + from);
                from += string.end;
            }
            prop_assert_eq!(found, long_strings(&body));
        }

        #[test]
        fn every_byte_beyond_ascii_is_counted(bytes in proptest::collection::vec(any::<u8>(), 0..1_000)) {
            prop_assert_eq!(bytes_beyond_ascii(&bytes), bytes.iter().filter(|byte| !byte.is_ascii()).count());
        }
    }

    #[test]
    fn text_counts_by_its_bytes_and_attachments_by_their_number() {
        let prose = "The quick brown fox jumps over the lazy dog. ".repeat(400);
        let picture = "iVBORw0KGgo".repeat(30_000);
        for (body, least, most) in [
            (String::new(), 0, 0),
            (format!(r#"{{"messages":[{{"content":"{prose}"}}]}}"#), 4_500, 4_530),
            (format!(r#"{{"content":"{}"}}"#, "語".repeat(1_000)), 1_000, 1_010),
            (format!(r#"{{"image":"{picture}"}}"#), 1_600, 1_610),
            (format!(r#"{{"a":"data:image/png;base64,{picture}","b":"{picture}","c":"\"x\""}}"#), 3_200, 3_220),
            (format!(r#"{{"content":"{}"}}"#, "a b".repeat(3_000)), 2_250, 2_260),
            (format!(r#"{{"content":"{} and {prose}"}}"#, "x".repeat(5_000)), 5_750, 5_780),
            (format!(r#"{{"content":"{}\n{}"}}"#, "x".repeat(3_000), "y".repeat(3_000)), 1_500, 1_510),
        ] {
            let tokens = estimate_tokens(body.as_bytes());
            assert!((least..=most).contains(&tokens), "{tokens} of {least} to {most}");
        }
    }

    #[test]
    fn anything_at_all_is_counted() {
        for body in
            [&b"\""[..], b"\\", b"\"\\", b"\\\"", b"\"\"\"\"", b"\xff\xfe\"\\\\\"", &[b'"'; 9_000], &[b'\\'; 9_001]]
        {
            let _ = estimate_tokens(body);
        }
        let unclosed = [b"\"", &[b'a'; 9_000][..]].concat();
        assert_eq!(estimate_tokens(&unclosed), 2_251);
    }
}
