//! Many phrases, looked for in one pass.

use std::sync::OnceLock;

use aho_corasick::AhoCorasick;

/// How far apart the parts of a phrase may stand.
const GAP: usize = 96;

/// Lists of phrases, of which a text says those whose bit is set: any phrase of the list stands in it.
///
/// In a phrase `*` stands for a short gap, `#` for a number, `^` for the beginning.
pub(super) struct Phrases {
    lists: &'static [&'static [&'static str]],
    search: OnceLock<Search>,
}

/// How they are looked for: made once.
struct Search {
    /// Finds what each phrase but the anchored ones begins with, as far as it has neither gap nor number.
    beginnings: AhoCorasick,
    /// The list of each of them, and the rest of it.
    rests: Vec<(u32, &'static [u8])>,
    /// The phrases that only count at the beginning, and their lists.
    anchored: Vec<(u32, &'static [u8])>,
}

impl Phrases {
    /// At most 32 lists.
    pub(super) const fn new(lists: &'static [&'static [&'static str]]) -> Self {
        assert!(lists.len() <= u32::BITS as usize);
        Self { lists, search: OnceLock::new() }
    }

    /// A bit for each list, the lowest for the first.
    pub(super) fn said(&self, text: &[u8]) -> u32 {
        let Search { beginnings, rests, anchored } = self.search.get_or_init(|| Search::of(self.lists));
        let at_the_beginning = anchored.iter().filter(|(_, phrase)| matches(text, 0, phrase).is_some());
        let mut said = at_the_beginning.fold(0, |said, (list, _)| said | list);
        for found in beginnings.find_overlapping_iter(text) {
            let (list, rest) = rests[found.pattern()];
            if said & list == 0 && matches(text, found.end(), rest).is_some() {
                said |= list;
            }
        }
        said
    }
}

impl Search {
    fn of(lists: &'static [&'static [&'static str]]) -> Self {
        let (mut beginnings, mut rests, mut anchored) = (Vec::new(), Vec::new(), Vec::new());
        for (place, list) in lists.iter().enumerate() {
            for phrase in list.iter().map(|phrase| phrase.as_bytes()) {
                if let Some(phrase) = phrase.strip_prefix(b"^") {
                    anchored.push((1 << place, phrase));
                } else {
                    let (beginning, rest) = phrase.split_at(beginning(phrase));
                    beginnings.push(beginning);
                    rests.push((1 << place, rest));
                }
            }
        }
        let beginnings = AhoCorasick::new(beginnings).expect("they are few and short");
        Self { beginnings, rests, anchored }
    }
}

/// How much of a phrase stands before its first gap or number.
fn beginning(phrase: &[u8]) -> usize {
    phrase.iter().position(|byte| matches!(byte, b'*' | b'#')).unwrap_or(phrase.len())
}

/// Where the first match of `pattern` ends.
pub(super) fn find(text: &[u8], pattern: &[u8]) -> Option<usize> {
    if let Some(anchored) = pattern.strip_prefix(b"^") {
        return matches(text, 0, anchored);
    }
    let literal = beginning(pattern);
    memchr::memmem::find_iter(text, &pattern[..literal]).find_map(|at| matches(text, at + literal, &pattern[literal..]))
}

/// Where a match of `pattern` at `at` ends.
fn matches(text: &[u8], at: usize, pattern: &[u8]) -> Option<usize> {
    let Some((&first, rest)) = pattern.split_first() else {
        return Some(at);
    };
    match first {
        b'*' => (at..=text.len().min(at + GAP)).find_map(|from| matches(text, from, rest)),
        b'#' => {
            let digits = text[at..].iter().take_while(|byte| is_number(**byte)).count();
            (digits > 0).then(|| matches(text, at + digits, rest)).flatten()
        }
        literal => (text.get(at) == Some(&literal)).then(|| matches(text, at + 1, rest)).flatten(),
    }
}

pub(super) fn is_number(byte: u8) -> bool {
    byte.is_ascii_digit() || byte == b','
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::select};

    use super::*;

    const LISTS: &[&[&str]] = &[
        &["rate limit", "rate-limit"],
        &["^rate limit", "^#"],
        &["limit of #", "no_*_package"],
        &["limit", "prompt*exceeds the limit of #"],
        &["(#) of (#)"],
    ];
    static PHRASES: Phrases = Phrases::new(LISTS);

    /// Each list looked for by itself.
    fn one_by_one(text: &[u8]) -> u32 {
        let says = |list: &[&str]| list.iter().any(|phrase| find(text, phrase.as_bytes()).is_some());
        LISTS.iter().enumerate().map(|(place, list)| u32::from(says(list)) << place).sum()
    }

    #[test]
    fn what_is_said_is_what_stands_there() {
        for (text, said) in [
            ("", 0),
            ("rate limit", 0b0_1011),
            ("a rate limit", 0b0_1001),
            ("429: slow down", 0b0_0010),
            ("the limit of 4,096", 0b0_1100),
            ("the limit of it", 0b0_1000),
            ("no_active_package", 0b0_0100),
            ("(1) of (x) of (2) of (3)", 0b1_0000),
        ] {
            assert_eq!(PHRASES.said(text.as_bytes()), said, "{text}");
        }
        // As far apart as the parts may stand, and one byte further.
        for (gap, said) in [(GAP, 0b0_0100), (GAP + 1, 0)] {
            assert_eq!(PHRASES.said(format!("no_{}_package", "x".repeat(gap)).as_bytes()), said);
        }
    }

    proptest! {
        #[test]
        fn in_one_pass_the_same_is_found_as_one_by_one(
            pieces in vec(select(vec!["rate", " ", "-", "limit", " of ", "7", "no_", "_package", "prompt", "exceeds the", "(", ")", "é"]), 0..24),
        ) {
            let text = pieces.concat();
            prop_assert_eq!(PHRASES.said(text.as_bytes()), one_by_one(text.as_bytes()));
        }
    }
}
