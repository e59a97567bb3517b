//! The names that clients can ask for: what must not stand in two places, and what is no name.

use std::{collections::BTreeMap, ops::Range};

use super::{check::Checker, file, value::Spanned};

impl Checker<'_> {
    /// Complains of aliases and patterns that lead to two models, or to none.
    pub(super) fn names(&mut self, file: &file::File) {
        let (mut aliases, mut patterns) = (BTreeMap::new(), BTreeMap::new());
        for model in file.models.values().map(Spanned::get_ref) {
            for alias in &model.aliases {
                let name = alias.get_ref().as_str();
                if name.contains('*') || name.trim().is_empty() {
                    self.complain(alias.span(), format!("{name:?} is no name: write a pattern under match"));
                } else if let Some(other) = file.models.get(name) {
                    self.taken(alias, "the name of a model", other.span());
                } else if let Some(first) = aliases.insert(name, alias.span()) {
                    self.taken(alias, "an alias already", first);
                }
            }
            for pattern in &model.patterns {
                let name = pattern.get_ref().as_str();
                if !name.contains('*') || name.contains("**") {
                    let rule = "a pattern has a * for any characters, and no two in a row; one name is an alias";
                    self.complain(pattern.span(), format!("{name:?}: {rule}"));
                } else if let Some(first) = patterns.insert(name, pattern.span()) {
                    self.taken(pattern, "a pattern already", first);
                }
            }
        }
        for (name, provider) in &file.providers {
            if let Some(passthrough) = &provider.get_ref().passthrough
                && *passthrough.get_ref()
                && name.contains('/')
            {
                self.complain(passthrough.span(), "provider/model cannot name a provider with a slash in its name");
            }
        }
    }

    /// Complains of the later of two places, and names the other.
    fn taken(&mut self, name: &Spanned<String>, what: &str, other: Range<usize>) {
        let other = self.places.complaint(&other, "");
        let place = other.line.map_or_else(|| other.variable.unwrap_or_default(), |line| format!("line {line}"));
        self.complain(name.span(), format!("{:?} is {what}: {}, {place}", name.get_ref(), other.key));
    }
}
