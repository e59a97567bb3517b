//! `docs/configuration.md`, from the schema: the prose around the tables stands in `page.md`.

use serde_json::Value;

use super::{
    schema::{Part, Property},
    shape::range_of,
};

const PROSE: &str = include_str!("page.md");

/// The page of all settings, in Markdown.
pub fn page() -> String {
    let mut page = String::new();
    for line in PROSE.split_inclusive('\n') {
        match line.trim_end().strip_prefix("{{").and_then(|line| line.strip_suffix("}}")) {
            Some(name) => match Part::definition(name) {
                Some(part) => section(&mut page, name, part),
                None => page.push_str(line),
            },
            None => page.push_str(line),
        }
    }
    page
}

/// What is said of a table, and its keys.
fn section(page: &mut String, name: &str, part: Part) {
    if let Some(description) = part.text("description") {
        page.push_str(&wrapped(description));
        page.push_str("\n\n");
    }
    let rows: Vec<[String; 4]> = part
        .order()
        .into_iter()
        .filter_map(|key| Some((key, part.property(key)?)))
        .filter(|(_, property)| property.part.properties().is_none())
        .map(|(key, property)| row(name, part, key, property))
        .collect();
    let head = ["key", "default", "range", "meaning"].map(str::to_owned);
    let shown: Vec<usize> =
        (0..4).filter(|&column| rows.iter().any(|row| !matches!(&*row[column], "" | "none"))).collect();
    let mut line = |cells: &[String; 4], between: &str| {
        page.push('|');
        for cell in shown.iter().map(|&column| &cells[column]) {
            page.push_str(between);
            page.push_str(cell);
            page.push_str(if cell.is_empty() { "" } else { between });
            page.push('|');
        }
        page.push('\n');
    };
    line(&head, " ");
    line(&head.clone().map(|_| "---".to_owned()), "");
    for row in &rows {
        line(row, " ");
    }
}

fn row(name: &str, part: Part, key: &str, property: Property) -> [String; 4] {
    let mut default = if part.required().contains(&key) {
        "required".to_owned()
    } else {
        match (property.own.text("x-default"), property.own.get("default")) {
            (Some(words), _) => words.to_owned(),
            (None, Some(value)) if value.is_object() => "none".to_owned(),
            (None, Some(value)) => shown(value),
            (None, None) => "none".to_owned(),
        }
    };
    let is_shared = Part::definition("Defaults").is_some_and(|defaults| defaults.property(key).is_some());
    if name == "Model" && !is_shared {
        default.push_str(" (models only)");
    }
    let listed = property.part.item(0).and_then(Part::words);
    let several = if listed.is_some() { "any of " } else { "" };
    let range = match (property.own.text("x-range"), property.part.words().or(listed)) {
        (Some(range), _) => range.to_owned(),
        (None, Some(words)) => {
            let words: Vec<String> = words.iter().map(|word| format!("`\"{word}\"`")).collect();
            format!("{several}{}", words.join(", "))
        }
        (None, None) => range_of(property.own).filter(|range| range != "at least 0").unwrap_or_default(),
    };
    let meaning = property.own.text("description").unwrap_or_default();
    let meaning = meaning.split_whitespace().collect::<Vec<_>>().join(" ");
    [format!("`{key}`"), default, range, meaning]
}

fn shown(value: &Value) -> String {
    if value.is_number() { value.to_string() } else { format!("`{}`", value.to_string().replace(',', ", ")) }
}

/// Words on lines of at most 140 characters.
fn wrapped(text: &str) -> String {
    let mut wrapped = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        if length > 0 {
            let breaks = length + 1 + word.len() > 140;
            wrapped.push(if breaks { '\n' } else { ' ' });
            length = if breaks { 0 } else { length + 1 };
        }
        wrapped.push_str(word);
        length += word.len();
    }
    wrapped
}
