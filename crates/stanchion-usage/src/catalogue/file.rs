//! The file, and what is wrong with one.

use std::{error::Error, fmt, ops::Range};

use serde::{Deserialize, Deserializer, de};
use toml::Spanned;

use super::{Capability, Model, ModelFamily, Patterns, Prices, Provider};
use crate::Price;

/// Why a file is no catalogue: where, which key, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogueError {
    /// What the file was called.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The key with its table, such as `models.price.input`; empty where the text is no TOML.
    pub key: String,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for CatalogueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file, self.line)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.reason)
    }
}

impl Error for CatalogueError {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    models: Vec<Spanned<ModelRow>>,
    #[serde(default)]
    families: Vec<Spanned<FamilyRow>>,
    #[serde(default)]
    providers: Vec<Spanned<ProviderRow>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelRow {
    id: Spanned<Name>,
    name: Option<Name>,
    provider: Name,
    #[serde(default)]
    aliases: Vec<Name>,
    context_window: Option<Tokens>,
    max_output: Option<Tokens>,
    #[serde(default)]
    capabilities: Vec<Capability>,
    price: Option<PriceRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceRow {
    input: Price,
    output: Price,
    cache_read: Option<Price>,
    cache_write_5m: Option<Price>,
    cache_write_1h: Option<Price>,
    date: Day,
    source: Name,
}

impl From<PriceRow> for Prices {
    fn from(row: PriceRow) -> Self {
        Self {
            input: row.input,
            output: row.output,
            cache_read: row.cache_read,
            cache_write_5m: row.cache_write_5m,
            cache_write_1h: row.cache_write_1h,
            date: row.date.0,
            source: row.source.0,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FamilyRow {
    #[serde(default)]
    contains: Vec<Name>,
    #[serde(default)]
    starts_with: Vec<Name>,
    #[serde(default)]
    except: Vec<Name>,
    price: PriceRow,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderRow {
    name: Spanned<Name>,
    #[serde(default)]
    contains: Vec<Name>,
    #[serde(default)]
    starts_with: Vec<Name>,
    #[serde(default)]
    hosts: Vec<Name>,
}

/// A text with something in it.
struct Name(String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?.trim().to_owned();
        if text.is_empty() { Err(de::Error::custom("this must not be empty")) } else { Ok(Self(text)) }
    }
}

/// A number of tokens, above zero.
struct Tokens(u64);

impl<'de> Deserialize<'de> for Tokens {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match i64::deserialize(deserializer)? {
            tokens @ 1.. => Ok(Self(tokens.unsigned_abs())),
            _ => Err(de::Error::custom("this is a number of tokens, above zero")),
        }
    }
}

/// A day, as `YYYY-MM-DD`.
struct Day(String);

impl<'de> Deserialize<'de> for Day {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if is_day(&text) { Ok(Self(text)) } else { Err(de::Error::custom("a date is written as \"2026-09-01\"")) }
    }
}

fn is_day(text: &str) -> bool {
    let shaped = text.len() == 10
        && text
            .bytes()
            .enumerate()
            .all(|(at, byte)| if at == 4 || at == 7 { byte == b'-' } else { byte.is_ascii_digit() });
    shaped && ("01"..="12").contains(&&text[5..7]) && ("01"..="31").contains(&&text[8..])
}

fn names(names: Vec<Name>) -> Vec<String> {
    names.into_iter().map(|name| name.0).collect()
}

fn parts(names: Vec<Name>) -> Vec<String> {
    names.into_iter().map(|name| name.0.to_ascii_lowercase()).collect()
}

pub(super) type Rows = (Vec<Model>, Vec<ModelFamily>, Vec<Provider>);

pub(super) fn read(file: &str, text: &str) -> Result<Rows, CatalogueError> {
    let error = |span: Range<usize>, reason: &str| {
        let (line, key) = place(text, span.start);
        // The first line says what is wrong; others only repeat the text.
        let reason = reason.lines().next().unwrap_or_default().to_owned();
        CatalogueError { file: file.to_owned(), line, key, reason }
    };
    let rows: File = toml::from_str(text).map_err(|wrong| error(wrong.span().unwrap_or_default(), wrong.message()))?;

    let mut models: Vec<Model> = Vec::with_capacity(rows.models.len());
    for row in rows.models {
        let ModelRow { id, name, provider, aliases, context_window, max_output, capabilities, price } =
            row.into_inner();
        let twin = |model: &Model| super::same(&model.id, &id.get_ref().0) && super::same(&model.provider, &provider.0);
        if models.iter().any(twin) {
            return Err(error(id.span(), "this model of this provider is listed twice"));
        }
        let id = id.into_inner().0;
        models.push(Model {
            name: name.map_or_else(|| id.clone(), |name| name.0),
            id,
            provider: provider.0,
            aliases: names(aliases),
            context_window: context_window.map(|tokens| tokens.0),
            max_output: max_output.map(|tokens| tokens.0),
            capabilities,
            price: price.map(Into::into),
        });
    }

    let mut families = Vec::with_capacity(rows.families.len());
    for row in rows.families {
        let span = row.span();
        let FamilyRow { contains, starts_with, except, price } = row.into_inner();
        if contains.is_empty() && starts_with.is_empty() {
            return Err(error(span, "a family needs a pattern: contains or starts_with"));
        }
        let patterns = Patterns { contains: parts(contains), starts_with: parts(starts_with), except: parts(except) };
        families.push(ModelFamily { patterns, price: price.into() });
    }

    let mut providers: Vec<Provider> = Vec::with_capacity(rows.providers.len());
    for row in rows.providers {
        let ProviderRow { name, contains, starts_with, hosts } = row.into_inner();
        if providers.iter().any(|provider| super::same(&provider.name, &name.get_ref().0)) {
            return Err(error(name.span(), "this provider is listed twice"));
        }
        let patterns = Patterns { contains: parts(contains), starts_with: parts(starts_with), except: Vec::new() };
        providers.push(Provider { name: name.into_inner().0, patterns, hosts: parts(hosts) });
    }
    Ok((models, families, providers))
}

/// The line of a place in a file, and the key that it belongs to, with its tables.
fn place(text: &str, at: usize) -> (usize, String) {
    let at = at.min(text.len());
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let mut keys = Vec::new();
    let here = text.lines().nth(line - 1).unwrap_or_default();
    if let Some(table) = table_of(here) {
        return (line, table.to_owned());
    }
    keys.extend(before.lines().take(line - 1).filter_map(table_of).last());
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    // The line's own key, then the one within its braces, which is either before the place or at it.
    let own = here.split_once('=').map(|(key, _)| key.trim());
    keys.extend(own.filter(|key| !key.is_empty()));
    let column = &text[start..at];
    let within = match column.trim_end().strip_suffix('=') {
        Some(key) => key.rsplit(['{', ',']).next().map(str::trim),
        None => text[at..].split(|letter: char| !is_key(letter)).next().filter(|_| column.contains('{')),
    };
    keys.extend(within.filter(|key| !key.is_empty() && Some(*key) != own));
    (line, keys.join("."))
}

fn is_key(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == '-'
}

/// The name in a table's head.
fn table_of(line: &str) -> Option<&str> {
    let inner = line.trim_start().strip_prefix('[')?;
    let inner = inner.strip_prefix('[').unwrap_or(inner);
    inner.split_once(']').map(|(name, _)| name.trim())
}
