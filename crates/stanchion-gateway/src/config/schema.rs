//! What the file may hold, as a JSON Schema: for editors, for the page of settings, and for the check of the file itself.

use std::sync::OnceLock;

use schemars::{
    Schema,
    generate::SchemaSettings,
    transform::{Transform, transform_subschemas},
};
use serde_json::{Map, Value};

use super::file::File;

/// The JSON Schema (draft 7, which editors read) of the configuration file.
pub fn json_schema() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| settings.transforms.insert(0, Box::new(WithoutNull)));
    let settings = settings.with_transform(ForReaders);
    settings.into_generator().into_root_schema_for::<File>().to_value()
}

/// The same for ourselves: with the notes on kinds, orders and ranges that are no part of the standard.
pub(super) fn annotated() -> &'static Value {
    static SCHEMA: OnceLock<Value> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let settings = SchemaSettings::draft2020_12().with_transform(WithoutNull);
        settings.into_generator().into_root_schema_for::<File>().to_value()
    })
}

/// A part of the schema, with references followed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part(&'static Value);

impl Part {
    pub(super) fn root() -> Self {
        Self(annotated())
    }

    /// A table's own part, by the name of its type.
    pub(super) fn definition(name: &str) -> Option<Self> {
        annotated()["$defs"].get(name).map(Self)
    }

    fn new(value: &'static Value) -> Self {
        let name = value.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix("#/$defs/"));
        name.and_then(Self::definition).unwrap_or(Self(value))
    }

    pub(super) fn get(self, keyword: &str) -> Option<&'static Value> {
        self.0.get(keyword)
    }

    pub(super) fn text(self, keyword: &str) -> Option<&'static str> {
        self.get(keyword)?.as_str()
    }

    /// The keys of a table whose keys are known; `None` for a map or no table.
    pub(super) fn properties(self) -> Option<&'static Map<String, Value>> {
        self.get("properties")?.as_object()
    }

    /// What stands at a key of a table whose keys are known, with the notes of the key itself.
    pub(super) fn property(self, key: &str) -> Option<Property> {
        let value = self.properties()?.get(key)?;
        Some(Property { own: Self(value), part: Self::new(value) })
    }

    /// What stands at each key of a map.
    pub(super) fn entries(self) -> Option<Self> {
        self.get("additionalProperties").filter(|entries| entries.is_object()).map(Self::new)
    }

    /// What stands in each place of a list; the places may differ.
    pub(super) fn item(self, index: usize) -> Option<Self> {
        match self.get("prefixItems").and_then(Value::as_array) {
            Some(places) => places.get(index).map(Self::new),
            None => self.get("items").map(Self::new),
        }
    }

    /// The keys of a table, as they are declared.
    pub(super) fn order(self) -> Vec<&'static str> {
        strings(self.get("x-order"))
    }

    pub(super) fn required(self) -> Vec<&'static str> {
        strings(self.get("required"))
    }

    /// The words that it takes, if it takes only some.
    pub(super) fn words(self) -> Option<Vec<&'static str>> {
        self.get("enum").map(|words| strings(Some(words)))
    }

    /// The types of JSON that it takes.
    pub(super) fn types(self) -> Vec<&'static str> {
        match self.get("type") {
            Some(Value::String(one)) => vec![one],
            several => strings(several),
        }
    }

    /// Whether it holds what must not be shown.
    pub(super) fn is_secret(self) -> bool {
        self.get("writeOnly").and_then(Value::as_bool) == Some(true)
    }
}

/// A key's part of the schema: what is said of the key, and what is said of its type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Property {
    pub(super) own: Part,
    pub(super) part: Part,
}

fn strings(list: Option<&'static Value>) -> Vec<&'static str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// TOML has no null: what may be left out is left out.
#[derive(Debug, Clone)]
struct WithoutNull;

impl Transform for WithoutNull {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(object) = schema.as_object_mut() else { return };
        if let Some(Value::Array(types)) = object.get_mut("type") {
            types.retain(|name| name != "null");
            if let [only] = &types[..] {
                let only = only.clone();
                object.insert("type".to_owned(), only);
            }
        }
        if let Some(Value::Array(words)) = object.get_mut("enum") {
            words.retain(|word| !word.is_null());
        }
        if let Some(Value::Array(forms)) = object.get("anyOf") {
            let mut left = forms.iter().filter(|form| form.get("type").is_none_or(|name| name != "null"));
            if let (Some(Value::Object(only)), None) = (left.next(), left.next()) {
                let only = only.clone();
                object.remove("anyOf");
                object.extend(only);
            }
        }
    }
}

/// Says in the descriptions, as sentences, what the standard's keywords cannot.
#[derive(Debug, Clone)]
struct ForReaders;

impl Transform for ForReaders {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(object) = schema.as_object_mut() else { return };
        object.remove("x-order");
        object.remove("x-kind");
        // Such as `uint32`, which are Rust's and not the standard's.
        object.remove("format");
        let range = object.remove("x-range");
        let default = object.remove("x-default");
        let Some(Value::String(description)) = object.get_mut("description") else { return };
        let mut said = description.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(first) = said.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        for (name, note) in [("Range", range), ("Default", default)] {
            if let Some(note) = note.as_ref().and_then(Value::as_str) {
                if !said.ends_with('.') {
                    said.push('.');
                }
                said.extend([" ", name, ": ", note, "."]);
            }
        }
        *description = said;
    }
}

#[cfg(test)]
mod tests;
