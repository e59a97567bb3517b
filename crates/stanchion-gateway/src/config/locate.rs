//! Where something stands: its line and its key. Only keys are ever shown, never values: they may be secrets.

use std::{collections::HashMap, ops::Range};

use toml::de::{DeTable, DeValue};

use super::Complaint;

/// Where the parts of a configuration stand: in the file's text, or behind it, in the values of variables that go over it.
#[derive(Debug)]
pub(super) struct Places<'a> {
    text: &'a str,
    variables: Vec<(Range<usize>, String)>,
    keys: HashMap<Range<usize>, String>,
}

impl<'a> Places<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, variables: Vec::new(), keys: HashMap::new() }
    }

    /// A place behind the text for the value of a variable.
    pub(super) fn reserve(&mut self, variable: &str, length: usize) -> Range<usize> {
        let start = self.variables.last().map_or(self.text.len(), |(span, _)| span.end) + 1;
        let span = start..start + length.max(1);
        self.variables.push((span.clone(), variable.to_owned()));
        span
    }

    /// Notes the keys of all that stands in a table.
    pub(super) fn note(&mut self, table: &DeTable<'_>) {
        self.note_table(table, "");
    }

    fn note_table(&mut self, table: &DeTable<'_>, above: &str) {
        for (key, value) in table {
            let path = joined(above, key.get_ref());
            self.keys.insert(key.span(), path.clone());
            self.note_value(value, path);
        }
    }

    fn note_value(&mut self, value: &toml::Spanned<DeValue<'_>>, path: String) {
        match value.get_ref() {
            DeValue::Table(table) => self.note_table(table, &path),
            DeValue::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.note_value(item, format!("{path}[{index}]"));
                }
            }
            _ => {}
        }
        // What a header opens has its place; the table nearest to it is meant.
        self.keys.entry(value.span()).or_insert(path);
    }

    /// Whether what stands at a place is the value of a variable.
    pub(super) fn is_variable(&self, span: &Range<usize>) -> bool {
        span.start > self.text.len()
    }

    /// A complaint about what stands at a place.
    pub(super) fn complaint(&self, span: &Range<usize>, reason: impl Into<String>) -> Complaint {
        let reason = reason.into();
        let known = self.keys.get(span).cloned();
        if self.is_variable(span) {
            let variable = self.variables.iter().find(|(own, _)| own.contains(&span.start));
            let variable = variable.map(|(_, variable)| variable.clone());
            return Complaint { line: None, variable, key: known.unwrap_or_default(), reason };
        }
        let (line, nearby) = locate(self.text, span.start);
        Complaint { line: Some(line), variable: None, key: known.unwrap_or(nearby), reason }
    }
}

/// A key under others, as TOML writes it.
pub(super) fn joined(above: &str, key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    let key = if bare { key.to_owned() } else { format!("{key:?}") };
    if above.is_empty() { key } else { format!("{above}.{key}") }
}

/// The line of an offset, and the key that it belongs to by the look of the lines: for text that is no TOML.
fn locate(text: &str, at: usize) -> (usize, String) {
    let before = &text[..floor_char_boundary(text, at.min(text.len()))];
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
    (line, key)
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

    const TEXT: &str = "a = 1\n[server]\nlisten = \"x\"\n\n[models.main]\ncandidates = [\n  { provider = \"p\" },\n]\n[models.\"gpt 5\".retry]\nmax_retries = -1\n";

    fn at(needle: &str) -> usize {
        TEXT.find(needle).unwrap()
    }

    #[test]
    fn a_place_is_a_line_and_a_key_with_its_tables() {
        for (needle, line, key) in [
            ("1", 1, "a"),
            ("\"x\"", 3, "server.listen"),
            ("{ provider", 7, "models.main.candidates"),
            ("-1", 10, "models.\"gpt 5\".retry.max_retries"),
            ("[models.\"gpt", 9, "models.\"gpt 5\".retry"),
        ] {
            assert_eq!(locate(TEXT, at(needle)), (line, key.to_owned()), "{needle}");
        }
    }

    #[test]
    fn what_was_read_is_known_to_the_place_in_a_list() {
        let table = DeTable::parse(TEXT).unwrap().into_inner();
        let mut places = Places::new(TEXT);
        places.note(&table);
        let provider = at("\"p\"");
        let complaint = places.complaint(&(provider..provider + 3), "no");
        assert_eq!((complaint.line, &*complaint.key), (Some(7), "models.main.candidates[0].provider"));
        let first = places.reserve("FIRST", 3);
        let second = places.reserve("SECOND", 0);
        assert!(first.start > TEXT.len() && second.start >= first.end);
        assert_eq!(places.complaint(&second, "no").variable.as_deref(), Some("SECOND"));
        assert_eq!(places.complaint(&first, "no").variable.as_deref(), Some("FIRST"));
    }
}
