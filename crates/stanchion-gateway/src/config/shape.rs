//! Whether the file has the shape of a configuration: known keys, values of the right kind, within their ranges. Tells all that does not fit,
//! and leaves it out, so that the rest can be read.

use std::ops::Range;

use serde_json::Value;
use toml::{
    Spanned,
    de::{DeArray, DeInteger, DeTable, DeValue},
};

use super::{
    nearest::{nearest, suggestion},
    schema::Part,
    value::{Bytes, Span},
};

/// What does not fit, and where.
#[derive(Debug)]
pub(super) struct Misfit {
    pub(super) span: Range<usize>,
    pub(super) reason: String,
}

/// All that does not fit. It is taken out of the table.
pub(super) fn misfits(table: &mut DeTable<'_>) -> Vec<Misfit> {
    let mut check = Check { misfits: Vec::new() };
    check.table(table, &(0..0), Part::root());
    check.misfits
}

struct Check {
    misfits: Vec<Misfit>,
}

impl Check {
    fn tell(&mut self, span: &Range<usize>, reason: impl Into<String>) {
        self.misfits.push(Misfit { span: span.clone(), reason: reason.into() });
    }

    /// Whether what is left of the table can be read.
    fn table(&mut self, table: &mut DeTable<'_>, span: &Range<usize>, part: Part) -> bool {
        let mut is_whole = true;
        for key in part.required() {
            if !table.contains_key(key) {
                self.tell(span, format!("`{key}` is missing"));
                is_whole = false;
            }
        }
        let entries = std::mem::replace(table, DeTable::new()).into_iter().filter_map(|(key, mut value)| {
            let name: &str = key.get_ref();
            let fits = match (part.property(name), part.entries()) {
                (Some(property), _) => self.value(&mut value, property.part, property.own.is_secret()),
                (None, Some(entries)) => self.value(&mut value, entries, false),
                (None, None) => {
                    self.tell(&key.span(), unknown(name, part));
                    false
                }
            };
            is_whole &= fits || !part.required().contains(&name);
            fits.then_some((key, value))
        });
        *table = entries.collect();
        is_whole
    }

    /// Whether the value, or what is left of it, can be read.
    fn value(&mut self, value: &mut Spanned<DeValue<'_>>, part: Part, secret: bool) -> bool {
        let span = value.span();
        let types = part.types();
        let takes = |name: &str| types.contains(&name);
        let complaint = match value.get_mut() {
            DeValue::Table(table) if takes("object") => return self.table(table, &span, part),
            DeValue::Array(items) if takes("array") => return self.list(items, &span, part),
            DeValue::String(text) if takes("string") => text_complaint(text, part, secret),
            DeValue::Integer(number) if takes("integer") => integer_complaint(number, part),
            DeValue::Integer(number) if takes("number") => range_complaint(number.as_str().parse().ok(), part),
            DeValue::Float(number) if takes("number") => {
                range_complaint(number.as_str().replace('_', "").parse().ok(), part)
            }
            DeValue::Boolean(_) if takes("boolean") => None,
            found => Some(format!("must be {}, not {}", wanted(part, &types), kind(found))),
        };
        match complaint {
            Some(reason) => {
                self.tell(&span, reason);
                false
            }
            None => true,
        }
    }

    fn list(&mut self, items: &mut DeArray<'_>, span: &Range<usize>, part: Part) -> bool {
        let places = |keyword: &str| part.get(keyword).and_then(Value::as_u64);
        let (least, most) = (places("minItems"), places("maxItems"));
        let length = items.len() as u64;
        if least.is_some_and(|least| length < least) || most.is_some_and(|most| length > most) {
            self.tell(span, format!("must be {}", wanted(part, &["array"])));
            return false;
        }
        let mut left = DeArray::new();
        let mut all_fit = true;
        for (index, mut item) in std::mem::replace(items, DeArray::new()).into_iter().enumerate() {
            match part.item(index) {
                Some(item_part) if !self.value(&mut item, item_part, false) => all_fit = false,
                _ => left.push(item),
            }
        }
        *items = left;
        // A pair without one of the two is none.
        all_fit || least.is_none()
    }
}

fn unknown(name: &str, part: Part) -> String {
    let known = part.order();
    if nearest(name, known.iter().copied()).is_none() {
        // A key of a table within is often written one level too high.
        let inner = known.iter().find(|inner| {
            let properties = part.property(inner).and_then(|property| property.part.properties());
            properties.is_some_and(|properties| properties.contains_key(name))
        });
        if let Some(inner) = inner {
            return format!("unknown key `{name}`; did you mean `{inner}.{name}`?");
        }
    }
    format!("unknown key `{name}`{}", suggestion(name, &known, '`'))
}

fn text_complaint(text: &str, part: Part, secret: bool) -> Option<String> {
    match part.text("x-kind") {
        Some("duration") => Span::parse(text).err(),
        Some("size") => Bytes::parse(text).err(),
        _ => {
            let words = part.words()?;
            (!words.contains(&text)).then(|| {
                if secret {
                    return "is none of the words that are known here".to_owned();
                }
                format!("there is no {text:?} here{}", suggestion(text, &words, '"'))
            })
        }
    }
}

fn integer_complaint(number: &DeInteger<'_>, part: Part) -> Option<String> {
    match i64::from_str_radix(number.as_str(), number.radix()) {
        Ok(number) => range_complaint(Some(number as f64), part),
        Err(_) => Some("is too large a number".to_owned()),
    }
}

fn range_complaint(number: Option<f64>, part: Part) -> Option<String> {
    let Some(number) = number else { return Some("is no number".to_owned()) };
    let bound = |keyword: &str| part.get(keyword).and_then(Value::as_f64);
    let fits = number.is_finite()
        && bound("minimum").is_none_or(|least| number >= least)
        && bound("exclusiveMinimum").is_none_or(|least| number > least)
        && bound("maximum").is_none_or(|most| number <= most);
    let range = range_of(part).unwrap_or_else(|| "a number".to_owned());
    (!fits).then(|| format!("must be {range}; it is {number}"))
}

/// The range of a number, in words.
pub(super) fn range_of(part: Part) -> Option<String> {
    let bound = |keyword: &str| part.get(keyword).and_then(Value::as_f64);
    let (least, above, most) = (bound("minimum"), bound("exclusiveMinimum"), bound("maximum"));
    let whole = part.types().contains(&"integer");
    match (least, above, most) {
        (Some(least), _, Some(most)) => Some(format!("{} to {}", grouped(least), grouped(most))),
        (_, Some(above), Some(most)) => Some(format!("above {}, at most {}", grouped(above), grouped(most))),
        (Some(1.0), _, None) if whole => Some("above 0".to_owned()),
        (Some(least), _, None) => Some(format!("at least {}", grouped(least))),
        _ => None,
    }
}

/// A number with its thousands apart.
fn grouped(number: f64) -> String {
    let text = number.to_string();
    if text.contains('.') || text.len() < 4 {
        return text;
    }
    let digits = text.len();
    let mut grouped = String::new();
    for (index, digit) in text.chars().enumerate() {
        if index > 0 && (digits - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

fn wanted(part: Part, types: &[&str]) -> String {
    match part.text("x-kind") {
        Some("duration") => return "a duration in quotes, such as \"500ms\" or \"3s\"".to_owned(),
        Some("size") => return "a size, such as \"64KiB\" or \"32MiB\"".to_owned(),
        _ => {}
    }
    match types.first().copied() {
        Some("object") => "a table".to_owned(),
        Some("array") => match part.get("minItems").and_then(Value::as_u64) {
            Some(length) => format!("a list of {length}"),
            None => "a list".to_owned(),
        },
        Some("integer") => "a whole number".to_owned(),
        Some("number") => "a number".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        _ => match part.words() {
            Some(words) => words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(" or "),
            None => "text in quotes".to_owned(),
        },
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
