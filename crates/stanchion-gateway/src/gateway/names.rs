//! What the models' names lead to: names, aliases, patterns, and providers that take any name.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use crate::{config::Config, keys::AllowedModels};

/// A longer name is no name: it is not held against the patterns.
const LONGEST: usize = 256;

/// The names that clients can ask for.
///
/// | order | what | what the providers are asked for, where a candidate names no model |
/// |---|---|---|
/// | 1 | a model's own name | the same |
/// | 2 | an alias | the model's own name |
/// | 3 | a pattern: the one with the most characters besides `*`, of equals the first by its text | what the client asked for |
/// | 4 | `provider/model`, if the provider lets any name through | what stands behind the slash |
///
/// The first two take one look into a table, however many models there are; the patterns are gone through for other
/// names only.
#[derive(Debug, Clone, Default)]
pub struct ModelNames {
    known: HashMap<String, String>,
    patterns: Vec<(Glob, String)>,
    providers: BTreeSet<String>,
}

/// What a name leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<'a> {
    /// Who serves it.
    pub route: Route<'a>,
    /// What the providers are asked for, where a candidate names no model.
    pub asks_for: &'a str,
}

/// Who serves a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route<'a> {
    /// The model of this name.
    Model(&'a str),
    /// The provider of this name, whatever the model.
    Provider(&'a str),
}

impl ModelNames {
    /// The names of a configuration.
    pub fn new(config: &Config) -> Self {
        let mut names = Self { providers: config.passthrough.keys().cloned().collect(), ..Self::default() };
        for (name, model) in &config.models {
            names.known.insert(name.clone(), name.clone());
            names.known.extend(model.aliases.iter().map(|alias| (alias.clone(), name.clone())));
            names.patterns.extend(model.patterns.iter().map(|pattern| (Glob::new(pattern), name.clone())));
        }
        names.patterns.sort_by(|(a, _), (b, _)| (Reverse(a.literals()), &a.0).cmp(&(Reverse(b.literals()), &b.0)));
        names
    }

    /// Providers that take any name.
    pub fn of_providers(providers: impl IntoIterator<Item = String>) -> Self {
        Self { providers: providers.into_iter().collect(), ..Self::default() }
    }

    /// What a name leads to; `None` if to nothing.
    pub fn find<'a>(&'a self, asked: &'a str) -> Option<Found<'a>> {
        if let Some(name) = self.known.get(asked) {
            return Some(Found { route: Route::Model(name), asks_for: name });
        }
        if asked.len() <= LONGEST
            && let Some((_, name)) = self.patterns.iter().find(|(glob, _)| glob.matches(asked))
        {
            return Some(Found { route: Route::Model(name), asks_for: asked });
        }
        let (provider, model) = asked.split_once('/').filter(|(_, model)| !model.is_empty())?;
        let provider = self.providers.get(provider)?;
        Some(Found { route: Route::Provider(provider), asks_for: model })
    }

    /// Whether a client may ask for a model by this name: its own list has the name, or that of the model which it leads to.
    pub fn is_allowed(&self, asked: &str, allowed: Option<&AllowedModels>) -> bool {
        let Some(allowed) = allowed else { return true };
        let by_model = |name: Found<'_>| matches!(name.route, Route::Model(model) if allowed.allow(model));
        asked.len() <= LONGEST && (allowed.allow(asked) || self.find(asked).is_some_and(by_model))
    }

    /// What stands in the configuration for a client's name: the name of its model, or `provider/*`. However many names
    /// clients think of, there are no more of these than models and providers.
    pub fn configured(&self, asked: &str) -> Option<Arc<str>> {
        match self.find(asked)?.route {
            Route::Model(name) => Some(name.into()),
            Route::Provider(name) => Some(format!("{name}/*").into()),
        }
    }

    /// Every name, alias, pattern and `provider/*`, for who asked for something else: the first twenty in their order,
    /// and how many more there are.
    pub fn told(&self, allowed: Option<&AllowedModels>) -> String {
        let names: BTreeSet<&str> = self.known.keys().map(String::as_str).collect();
        let names = names.into_iter().map(str::to_owned).chain(self.wide());
        let names: Vec<String> = names.filter(|name| self.is_allowed(name, allowed)).collect();
        let more = names.len().saturating_sub(20);
        let told = names[..names.len() - more].join(", ");
        if more == 0 { told } else { format!("{told} and {more} more") }
    }

    /// What stands for many names.
    fn wide(&self) -> impl Iterator<Item = String> {
        let patterns = self.patterns.iter().map(|(glob, _)| glob.0.clone());
        patterns.chain(self.providers.iter().map(|provider| format!("{provider}/*")))
    }

    /// The list of models in the form of OpenAI. An alias has its model as `root`; what stands for many names is no model
    /// to choose, and is listed beside.
    pub fn list(&self, allowed: Option<&AllowedModels>) -> serde_json::Value {
        let known: BTreeMap<&String, &String> =
            self.known.iter().filter(|(name, _)| self.is_allowed(name, allowed)).collect();
        let data: Vec<_> = known
            .into_iter()
            .map(|(id, root)| {
                serde_json::json!({ "id": id, "object": "model", "created": 0, "owned_by": "stanchion", "root": root })
            })
            .collect();
        let wide: Vec<String> = self.wide().filter(|name| self.is_allowed(name, allowed)).collect();
        serde_json::json!({ "object": "list", "data": data, "patterns": wide })
    }
}

/// A pattern in which each `*` stands for any characters, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    /// The pattern of this text.
    pub fn new(pattern: &str) -> Self {
        Self(pattern.to_owned())
    }

    /// How many characters are given.
    fn literals(&self) -> usize {
        self.0.chars().filter(|character| *character != '*').count()
    }

    /// Whether a name fits. Takes time that grows with the name and the number of parts, whatever they are.
    pub fn matches(&self, name: &str) -> bool {
        let Some((first, rest)) = self.0.split_once('*') else { return self.0 == name };
        let Some(mut name) = name.strip_prefix(first) else { return false };
        let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
        for part in middle.split('*') {
            // The first place is the best: it leaves the most to what follows.
            let Some(at) = name.find(part) else { return false };
            name = &name[at + part.len()..];
        }
        name.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(text: &str) -> ModelNames {
        let providers = "[providers.p]\ndialect = \"openai\"\nbase_url = \"http://h/v1\"\npassthrough = true\n\
            [providers.closed]\ndialect = \"openai\"\nbase_url = \"http://h/v1\"\n";
        let text = text.replace("CANDIDATES", "candidates = [{ provider = \"p\" }]\n");
        ModelNames::new(&Config::parse("f", &format!("{providers}{text}"), &|_| None).unwrap())
    }

    const MODELS: &str = "[models.main]\naliases = [\"latest\", \"p/special\"]\nCANDIDATES\
        [models.\"gpt-4o\"]\nCANDIDATES\
        [models.four]\nmatch = [\"gpt-4*\", \"*-4-*\"]\nCANDIDATES\
        [models.fours]\nmatch = [\"gpt-4o*\", \"p/gpt*\"]\nCANDIDATES\
        [models.any]\nmatch = [\"gpt*\"]\nCANDIDATES";

    #[test]
    fn names_come_before_aliases_patterns_and_providers() {
        let names = names(MODELS);
        for (asked, route, asks_for) in [
            ("main", Route::Model("main"), "main"),
            ("latest", Route::Model("main"), "main"),
            ("gpt-4o", Route::Model("gpt-4o"), "gpt-4o"),
            // The most specific pattern, wherever it stands in the file.
            ("gpt-4o-mini", Route::Model("fours"), "gpt-4o-mini"),
            ("gpt-4.1", Route::Model("four"), "gpt-4.1"),
            ("gpt-5", Route::Model("any"), "gpt-5"),
            ("gpt", Route::Model("any"), "gpt"),
            ("claude-4-x", Route::Model("four"), "claude-4-x"),
            ("p/special", Route::Model("main"), "main"),
            ("p/gpt-x", Route::Model("fours"), "p/gpt-x"),
            ("p/other", Route::Provider("p"), "other"),
            ("p/vendor/other", Route::Provider("p"), "vendor/other"),
        ] {
            assert_eq!(names.find(asked), Some(Found { route, asks_for }), "{asked}");
        }
        let long = format!("gpt-{}", "x".repeat(LONGEST));
        for asked in ["", "Main", "nobody", "closed/x", "p/", "/x", "q/x", "xgpt-", long.as_str()] {
            assert_eq!(names.find(asked), None, "{asked}");
        }
    }

    #[test]
    fn what_clients_think_of_is_told_by_what_is_configured() {
        let names = names(MODELS);
        for (asked, told) in [
            ("main", Some("main")),
            ("latest", Some("main")),
            ("gpt-4o-anything", Some("fours")),
            ("p/anything", Some("p/*")),
            ("anything", None),
        ] {
            assert_eq!(names.configured(asked).as_deref(), told, "{asked}");
        }
    }

    #[test]
    fn equally_specific_patterns_are_taken_in_the_order_of_their_text() {
        let names = names("[models.b]\nmatch = [\"*bb\"]\nCANDIDATES[models.a]\nmatch = [\"bb*\"]\nCANDIDATES");
        assert_eq!(names.find("bb").unwrap().route, Route::Model("b"));
    }

    #[test]
    fn all_that_can_be_asked_for_is_told() {
        let told = names(MODELS).told(None);
        assert_eq!(
            told,
            "any, four, fours, gpt-4o, latest, main, p/special, gpt-4o*, gpt-4*, p/gpt*, *-4-*, gpt*, p/*"
        );
        let many: Vec<_> = (10..40).map(|number| format!("[models.m{number}]\nCANDIDATES")).collect();
        let told = names(&many.concat()).told(None);
        assert!(told.starts_with("m10, m11,") && told.ends_with("m29 and 11 more"), "{told}");

        let list = names(MODELS).list(None);
        let ids: Vec<_> = list["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["any", "four", "fours", "gpt-4o", "latest", "main", "p/special"]);
        assert_eq!((&list["data"][4]["root"], &list["data"][5]["root"]), (&"main".into(), &"main".into()));
        assert_eq!(list["patterns"], serde_json::json!(["gpt-4o*", "gpt-4*", "p/gpt*", "*-4-*", "gpt*", "p/*"]));
        assert_eq!(ModelNames::of_providers(["x".to_owned()]).list(None)["patterns"], serde_json::json!(["x/*"]));
    }

    /// The same, said plainly.
    fn matches_plainly(pattern: &[char], name: &[char]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (Some(('*', rest)), _) => {
                matches_plainly(rest, name) || !name.is_empty() && matches_plainly(pattern, &name[1..])
            }
            (Some((wanted, rest)), Some((character, others))) => wanted == character && matches_plainly(rest, others),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn patterns_match_as_globs_do(pattern in "[ab*é]{0,8}", name in "[abé]{0,10}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = matches_plainly(&chars(&pattern), &chars(&name));
            prop_assert_eq!(Glob::new(&pattern).matches(&name), expected);
        }
    }

    #[test]
    fn a_client_sees_and_may_ask_for_its_own_models_by_any_of_their_names() {
        let names = names(MODELS);
        let allowed = AllowedModels::new(&["main".to_owned(), "gpt-4o*".to_owned(), "p/other".to_owned()]);
        for (asked, expected) in [
            ("main", true),
            ("latest", true),
            ("p/special", true),
            ("gpt-4o", true),
            ("gpt-4o-mini", true),
            ("gpt-5", false),
            ("gpt-4.1", false),
            ("p/other", true),
            ("p/another", false),
            ("nobody", false),
        ] {
            assert_eq!(names.is_allowed(asked, Some(&allowed)), expected, "{asked}");
            assert!(names.is_allowed(asked, None));
        }
        assert_eq!(names.told(Some(&allowed)), "gpt-4o, latest, main, p/special, gpt-4o*");
        let list = names.list(Some(&allowed));
        let ids: Vec<&str> =
            list["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["gpt-4o", "latest", "main", "p/special"]);
        assert_eq!(list["patterns"], serde_json::json!(["gpt-4o*"]));
    }
}
