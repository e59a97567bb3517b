//! From a name to a model without a look at all of them: it is asked for every reply.

use std::{cmp::Reverse, collections::HashMap, ops::Range};

use aho_corasick::AhoCorasick;
use memchr::memmem;

use super::{Model, bare};

/// Of how many letters a part of a model's name is at least.
const SHORTEST_PART: usize = 4;
/// Between two names. No name that is looked for has one within.
const BORDER: char = '\n';

/// Lower-case names, and the places of their models.
#[derive(Debug, Clone, Default)]
pub(super) struct Index {
    /// Of several models of a name the first one comes first.
    ids: HashMap<String, Vec<usize>>,
    /// Of several models the last one has the alias.
    aliases: HashMap<String, usize>,
    /// What stands behind the last `/` of an id.
    bare: HashMap<String, usize>,
    parts: Option<Parts>,
}

/// The names of models that have a price, to be found as parts of others and by parts of theirs.
#[derive(Debug, Clone)]
struct Parts {
    within: AhoCorasick,
    /// By the number of the pattern: how long names go first, then as the alphabet has it.
    longest_first: Vec<usize>,
    /// All names, the shortest first, then as the alphabet has it.
    around: String,
    /// Where each of them begins, and whose it is.
    shortest_first: Vec<(usize, usize)>,
}

impl Index {
    pub(super) fn of(models: &[Model]) -> Self {
        let lower = |name: &str| name.to_ascii_lowercase();
        let mut index = Self::default();
        let mut pathed = Vec::new();
        for (place, model) in models.iter().enumerate() {
            let id = lower(&model.id);
            index.aliases.extend(model.aliases.iter().map(|alias| (lower(alias), place)));
            if id.contains('/') {
                pathed.push((id.clone(), place));
            }
            index.ids.entry(id).or_default().push(place);
        }
        // A bare name is the model's with the shortest way to it.
        pathed.sort_by_cached_key(|(id, _)| {
            let prefix = id.split('/').next().unwrap_or_default().to_owned();
            (id.matches('/').count(), prefix, id.clone())
        });
        for (id, place) in pathed {
            index.bare.entry(bare(&id).to_owned()).or_insert(place);
        }
        let priced = models.iter().enumerate().filter(|(_, model)| model.price.is_some());
        index.parts = Parts::of(priced.map(|(place, model)| (lower(&model.id), place)).collect());
        index
    }

    /// Takes the aliases of another index, whose models stand at the same places.
    pub(super) fn take_aliases(&mut self, other: Self) {
        self.aliases.extend(other.aliases);
    }

    /// The models of exactly this name.
    pub(super) fn named(&self, id: &str) -> &[usize] {
        self.ids.get(id).map_or(&[], Vec::as_slice)
    }

    pub(super) fn alias(&self, id: &str) -> Option<usize> {
        self.aliases.get(id).copied()
    }

    /// The model whose name has this behind its last `/`.
    pub(super) fn bare(&self, id: &str) -> Option<usize> {
        self.bare.get(id).copied()
    }

    /// The model with a price whose name is the longest that this name contains.
    pub(super) fn longest_within(&self, id: &str) -> Option<usize> {
        let parts = self.parts.as_ref()?;
        let whole = parts.within.find_overlapping_iter(id).filter(|found| is_whole(id, found.range()));
        let first = whole.map(|found| found.pattern().as_usize()).min()?;
        Some(parts.longest_first[first])
    }

    /// The model with a price whose name is the shortest that contains this name.
    pub(super) fn shortest_around(&self, id: &str) -> Option<usize> {
        let parts = self.parts.as_ref()?;
        if id.len() < SHORTEST_PART || id.contains(BORDER) {
            return None;
        }
        let (finder, around) = (memmem::Finder::new(id), parts.around.as_bytes());
        // One that is no name of its own may reach into one that is.
        let mut from = 0;
        let at = loop {
            let at = from + finder.find(&around[from..])?;
            if is_whole(&parts.around, at..at + id.len()) {
                break at;
            }
            from = at + 1;
        };
        let next = parts.shortest_first.partition_point(|(start, _)| *start <= at);
        Some(parts.shortest_first[next - 1].1)
    }
}

/// Whether this part of a text is a name of its own, and no part of a longer word or number: `gpt-4` is none in `gpt-4o`
/// or `gpt-4.1`, and is one in `gpt-4-0613`.
fn is_whole(text: &str, part: Range<usize>) -> bool {
    let is_letter = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || !byte.is_ascii());
    let (before, after) = (&text.as_bytes()[..part.start], &text.as_bytes()[part.end..]);
    let goes_on =
        is_letter(after.first()) || after.first() == Some(&b'.') && after.get(1).is_some_and(u8::is_ascii_digit);
    !is_letter(before.last()) && !goes_on
}

impl Parts {
    fn of(mut names: Vec<(String, usize)>) -> Option<Self> {
        names.sort_by(|(a, _), (b, _)| (Reverse(a.len()), a).cmp(&(Reverse(b.len()), b)));
        // Too many names for one would not fit the memory that holds them.
        let within = AhoCorasick::new(names.iter().map(|(name, _)| name)).ok()?;
        let longest_first = names.iter().map(|(_, place)| *place).collect();
        names.sort_by(|(a, _), (b, _)| (a.len(), a).cmp(&(b.len(), b)));
        let (mut around, mut shortest_first) = (String::new(), Vec::with_capacity(names.len()));
        for (name, place) in names {
            shortest_first.push((around.len(), place));
            around.push_str(&name);
            around.push(BORDER);
        }
        Some(Self { within, longest_first, around, shortest_first })
    }
}
