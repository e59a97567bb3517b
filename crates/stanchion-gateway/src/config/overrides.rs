//! Variables of the environment that go over the file: `STANCHION__MODELS__MAIN__RETRY__MAX_RETRIES=3`.

use std::{collections::BTreeMap, ops::Range};

use toml::{
    Spanned,
    de::{DeArray, DeTable, DeValue},
};

use super::{
    locate::{Places, joined},
    nearest::suggestion,
    schema::Part,
};

/// What every such variable begins with.
pub const PREFIX: &str = "STANCHION__";

/// The variables that go over a configuration file, by name.
///
/// The name of a variable is [`PREFIX`] and the keys on the way to the value, with two underscores between them. Case does not matter; an underscore
/// also stands for a dash, a dot or whatever else a name of the file's has and a variable's cannot. A number is a place in a list.
/// A value is read as TOML where it is TOML, and as text where it is not, or where only text can stand.
#[derive(Clone, Default)]
pub struct Overrides(BTreeMap<String, String>);

impl Overrides {
    /// Those of the process's environment.
    pub fn of_process() -> Self {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their names and values, by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Puts them over a table. What fits nothing is told with the name of its variable.
    pub(super) fn apply<'a>(&'a self, table: &mut DeTable<'a>, places: &mut Places<'_>) -> Vec<(Range<usize>, String)> {
        let mut set: BTreeMap<String, &str> = BTreeMap::new();
        let mut misfits = Vec::new();
        for (variable, text) in &self.0 {
            let keys: Vec<&str> = variable[PREFIX.len()..].split("__").collect();
            // Room for the value, and for each table that has to be made on the way to it.
            let span = places.reserve(variable, text.len() + 1 + keys.len());
            let written = Over { text, start: span.start }.table(table, Part::root(), &keys, String::new());
            match written {
                Ok(path) => {
                    if let Some(other) = set.insert(path, variable) {
                        misfits.push((span, format!("sets what {other} sets too")));
                    }
                }
                Err(reason) => misfits.push((span, reason)),
            }
        }
        misfits
    }
}

impl FromIterator<(String, String)> for Overrides {
    /// Those of these variables that are meant for a configuration.
    fn from_iter<T: IntoIterator<Item = (String, String)>>(variables: T) -> Self {
        Self(variables.into_iter().filter(|(name, _)| name.starts_with(PREFIX)).collect())
    }
}

impl std::fmt::Debug for Overrides {
    /// Without the values, which may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// One value on its way to its place.
struct Over<'a> {
    text: &'a str,
    /// Where its text stands, behind that of the file.
    start: usize,
}

type Written = Result<String, String>;

impl<'a> Over<'a> {
    fn span(&self) -> Range<usize> {
        self.start..self.start + self.text.len().max(1)
    }

    /// The place of a table that is made because there is none, so many keys before the value.
    fn made(&self, keys_left: usize) -> Range<usize> {
        let at = self.span().end + keys_left;
        at..at + 1
    }

    fn table(&self, table: &mut DeTable<'a>, part: Part, keys: &[&str], above: String) -> Written {
        let Some((first, rest)) = keys.split_first() else {
            return Err(format!("{} is a table: name a key of it", named(&above)));
        };
        let (key, part) = match part.entries() {
            Some(entries) => (entry(table, first)?, entries),
            None => {
                let key = first.to_lowercase();
                let Some(property) = part.property(&key) else {
                    let hint = suggestion(&key, &part.order(), '`');
                    return Err(format!("fits nothing: there is no `{key}` in {}{hint}", named(&above)));
                };
                (key, property.part)
            }
        };
        let path = joined(&above, &key);
        if rest.is_empty() {
            table.insert(Spanned::new(self.span(), key.into()), Spanned::new(self.span(), self.value(part)));
            return Ok(path);
        }
        if !table.contains_key(key.as_str()) {
            let empty =
                if part.item(0).is_some() { DeValue::Array(DeArray::new()) } else { DeValue::Table(DeTable::new()) };
            let span = self.made(rest.len());
            table.insert(Spanned::new(span.clone(), key.clone().into()), Spanned::new(span, empty));
        }
        let value = table.get_mut(key.as_str()).expect("just put there");
        self.within(value, part, rest, path)
    }

    fn within(&self, value: &mut Spanned<DeValue<'a>>, part: Part, keys: &[&str], path: String) -> Written {
        match value.get_mut() {
            DeValue::Table(table) if part.types().contains(&"object") => self.table(table, part, keys, path),
            DeValue::Array(items) => {
                let place = keys[0].parse::<usize>().ok().filter(|place| *place <= items.len());
                let (Some(place), Some(item)) = (place, part.item(0)) else {
                    return Err(format!(
                        "fits nothing: {path} is a list of {}, and {:?} no place in it",
                        items.len(),
                        keys[0]
                    ));
                };
                let path = format!("{path}[{place}]");
                if place == items.len() {
                    items.push(Spanned::new(self.made(keys.len() - 1), DeValue::Table(DeTable::new())));
                }
                let slot = items.get_mut(place).expect("looked up");
                if keys.len() == 1 {
                    *slot = Spanned::new(self.span(), self.value(item));
                    return Ok(path);
                }
                self.within(slot, item, &keys[1..], path)
            }
            _ => Err(format!("fits nothing: {path} is no table")),
        }
    }

    fn value(&self, part: Part) -> DeValue<'a> {
        let as_text = || DeValue::String(self.text.into());
        match DeValue::parse(self.text) {
            Ok(value) => {
                let value = value.into_inner();
                if part.types() == ["string"] && !value.is_str() {
                    return as_text();
                }
                moved(value, self.start)
            }
            Err(_) => as_text(),
        }
    }
}

/// Everything in a value has its place behind the text of the file.
fn moved(value: DeValue<'_>, by: usize) -> DeValue<'_> {
    let place = |span: Range<usize>| span.start + by..span.end + by;
    match value {
        DeValue::Array(items) => {
            let mut all = DeArray::new();
            for item in items {
                all.push(Spanned::new(place(item.span()), moved(item.into_inner(), by)));
            }
            DeValue::Array(all)
        }
        DeValue::Table(table) => {
            let entries = table.into_iter().map(|(key, value)| {
                let key = Spanned::new(place(key.span()), key.into_inner());
                (key, Spanned::new(place(value.span()), moved(value.into_inner(), by)))
            });
            DeValue::Table(entries.collect())
        }
        plain => plain,
    }
}

/// The name in a map that a part of a variable's name means: one that is there, or a new one.
fn entry(table: &DeTable<'_>, meant: &str) -> Result<String, String> {
    let plain = |name: &str| -> String {
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect()
    };
    let wanted = plain(meant);
    let mut known = table.keys().map(|key| &**key.get_ref()).filter(|name| plain(name) == wanted);
    match (known.next(), known.next()) {
        (Some(one), Some(other)) => Err(format!("may mean {one:?} as well as {other:?}")),
        (Some(one), None) => Ok(one.to_owned()),
        _ if meant.is_empty() => Err("fits nothing: a name is empty".to_owned()),
        _ => Ok(meant.to_lowercase()),
    }
}

fn named(path: &str) -> String {
    if path.is_empty() { "the configuration".to_owned() } else { format!("`{path}`") }
}

#[cfg(test)]
mod tests;
