//! Where in the file a span lies: its line, and the key that it belongs to. Only keys are ever shown, never values: they may be secrets.

use std::ops::Range;

pub(super) struct Place {
    pub(super) line: usize,
    pub(super) key: String,
}

pub(super) fn locate(text: &str, span: Range<usize>) -> Place {
    let at = span.start.min(text.len());
    let before = &text[..floor_char_boundary(text, at)];
    let line = before.matches('\n').count() + 1;
    let lines: Vec<&str> = text.lines().take(line).collect();
    // A value may go over several lines: its key stands on the last line before that has one at its start.
    let table_line = (0..line).rev().find(|&number| {
        lines.get(number).is_some_and(|line| line.trim_start().starts_with('[') && table_of(line).is_some())
    });
    let table = table_line.and_then(|number| table_of(lines[number])).unwrap_or_default();
    let first = table_line.map_or(0, |number| number + 1);
    let key = (first..line).rev().find_map(|number| key_of(lines.get(number)?));
    let key = match (table.is_empty(), key) {
        (false, Some(key)) => format!("{table}.{key}"),
        (true, Some(key)) => key,
        (_, None) => table,
    };
    Place { line, key }
}

fn floor_char_boundary(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// `[models.main]` and `[[x]]`, without the brackets.
fn table_of(line: &str) -> Option<String> {
    let inner = line.trim().strip_prefix('[')?;
    let inner = inner.strip_prefix('[').unwrap_or(inner);
    let name = &inner[..inner.find(']')?];
    let plain = |c: char| c.is_alphanumeric() || "_-.\"' /:@".contains(c);
    (!name.trim().is_empty() && name.chars().all(plain)).then(|| name.trim().to_owned())
}

/// The key of `key = value`.
fn key_of(line: &str) -> Option<String> {
    let (key, _) = line.split_once('=')?;
    let key = key.trim();
    let plain = |c: char| c.is_alphanumeric() || "_-.\"' ".contains(c);
    (!key.is_empty() && key.chars().all(plain)).then(|| key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_line_and_a_key_with_its_tables() {
        let text = "a = 1\n[server]\nlisten = \"x\"\n\n[models.main]\ncandidates = [\n  { provider = \"p\" },\n]\n[models.main.retry]\nmax_retries = -1\n";
        for (needle, line, key) in [
            ("1", 1, "a"),
            ("\"x\"", 3, "server.listen"),
            ("{ provider", 7, "models.main.candidates"),
            ("-1", 10, "models.main.retry.max_retries"),
            ("[models.main.retry]", 9, "models.main.retry"),
        ] {
            let at = text.find(needle).unwrap();
            let place = locate(text, at..at + 1);
            assert_eq!((place.line, place.key.as_str()), (line, key), "{needle}");
        }
    }
}
