//! What is known of models, and how a name leads to it.

mod file;
mod index;

use std::sync::OnceLock;

use http::Uri;
use stanchion_core::{Candidate, Family, Usage};

pub use self::file::CatalogueError;
use self::index::Index;
use crate::{CacheBilling, Money, Price, Rates};

/// The catalogue that comes with the crate.
const BUILT_IN: &str = include_str!("../catalogue.toml");

/// Models, what they can do and what they cost.
///
/// # The file
///
/// A catalogue is a TOML file of three lists, each of which may be left out:
///
/// ```
/// let text = r#"
/// [[models]]
/// id = "house-model-2"                     # the exact name; case does not count
/// name = "House Model 2"                   # for people; the id if it is left out
/// provider = "house"
/// aliases = ["house"]
/// context_window = 200_000                 # tokens
/// max_output = 16_384                      # tokens
/// capabilities = ["vision", "tools", "streaming", "structured_output", "reasoning"]
///
/// [models.price]                           # US dollars for a million tokens
/// input = 3
/// output = 15
/// cache_read = 0.30                        # these three may be left out
/// cache_write_5m = 3.75
/// cache_write_1h = 6
/// date = "2026-09-01"                      # of which day the price is
/// source = "https://house.example/prices"  # where it was found
///
/// [[families]]                             # what models cost that are not listed; the first that fits counts
/// contains = ["house-"]
/// starts_with = ["hm"]
/// except = ["housecat"]
/// price = { input = 1, output = 2, date = "2026-09-01", source = "https://house.example/prices" }
///
/// [[providers]]                            # whose models these are; the first that fits counts
/// name = "house"
/// contains = ["house-"]
/// hosts = ["api.house.example"]            # where it is reached; hosts below them, too
/// "#;
///
/// let catalogue = stanchion_usage::Catalogue::parse("prices.toml", text).unwrap();
/// assert_eq!(catalogue.model("HOUSE").unwrap().id, "house-model-2");
/// ```
///
/// A price has up to seven decimals. All patterns are lower-case parts of a name; what a name starts with is looked for
/// behind its last `/`.
///
/// # Lookups
///
/// [`model`](Self::model) knows exact names and aliases and nothing else: a limit that is guessed is worse than none.
/// [`price`](Self::price) goes further, since an estimate is better than nothing; see there.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    models: Vec<Model>,
    families: Vec<ModelFamily>,
    providers: Vec<Provider>,
    index: Index,
}

/// A model.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Model {
    /// Its exact name, as the provider takes it.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// Who serves it.
    pub provider: String,
    /// Other names for it.
    pub aliases: Vec<String>,
    /// The most tokens of input and output together.
    pub context_window: Option<u64>,
    /// The most tokens of output.
    pub max_output: Option<u64>,
    /// What it can do.
    pub capabilities: Vec<Capability>,
    /// What it costs.
    pub price: Option<Prices>,
}

impl Model {
    /// Whether it can do that.
    pub fn can(&self, capability: Capability) -> bool {
        self.capabilities.contains(&capability)
    }

    /// The context window that counts, in tokens: what an operator says, else what the server itself was found to say,
    /// else what the catalogue says.
    pub fn window(&self, configured: Option<u64>, probed: Option<u64>) -> Option<u64> {
        configured.or(probed).or(self.context_window)
    }
}

/// What a model can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Capability {
    /// It sees images.
    Vision,
    /// It calls tools.
    Tools,
    /// It streams its replies.
    Streaming,
    /// It keeps to a schema.
    StructuredOutput,
    /// It reasons before it answers.
    Reasoning,
}

/// What a model costs, in US dollars for a million tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prices {
    /// Fresh input.
    pub input: Price,
    /// Output, reasoning included.
    pub output: Price,
    /// Input read from the prompt cache, where it is not what [`CacheBilling`] says.
    pub cache_read: Option<Price>,
    /// Input written to the prompt cache for five minutes, likewise.
    pub cache_write_5m: Option<Price>,
    /// Input written to the prompt cache for an hour, likewise.
    pub cache_write_1h: Option<Price>,
    /// Of which day the price is, as `YYYY-MM-DD`.
    pub date: String,
    /// Where it was found.
    pub source: String,
}

impl Prices {
    /// What a token costs with whoever bills so, from the prices of input and output alone.
    pub const fn rates(&self, billing: CacheBilling) -> Rates {
        Rates::new(self.input, self.output, billing)
    }

    /// The same with the prices of the cache that are listed.
    fn listed_rates(&self, billing: CacheBilling) -> Rates {
        let rates = self.rates(billing);
        Rates {
            cache_read: self.cache_read.unwrap_or(rates.cache_read),
            cache_write: self.cache_write_5m.unwrap_or(rates.cache_write),
            cache_write_1h: self.cache_write_1h.unwrap_or(rates.cache_write_1h),
            ..rates
        }
    }
}

/// What models cost whose names look alike.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ModelFamily {
    patterns: Patterns,
    price: Prices,
}

/// Whose models these are.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Provider {
    name: String,
    patterns: Patterns,
    hosts: Vec<String>,
}

impl Provider {
    /// Whether this host is the provider's, or below one of its.
    fn is_at(&self, host: &str) -> bool {
        self.hosts.iter().any(|own| host.strip_suffix(&**own).is_some_and(|sub| sub.is_empty() || sub.ends_with('.')))
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Patterns {
    contains: Vec<String>,
    starts_with: Vec<String>,
    except: Vec<String>,
}

impl Patterns {
    fn fit(&self, id: &str) -> bool {
        let any = |parts: &[String]| parts.iter().any(|part| id.contains(&**part));
        let starts = self.starts_with.iter().any(|start| bare(id).starts_with(&**start));
        (any(&self.contains) || starts) && !any(&self.except)
    }
}

/// How a price was found. From the surest to a guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Match {
    /// The model of this provider has the name.
    Provider,
    /// A model has the name, whoever serves it.
    Exact,
    /// It is an alias, or the name without what stands before its last `/`.
    Alias,
    /// The name contains that of the model.
    Contained,
    /// The name is part of that of the model.
    Containing,
    /// The name looks like those of a family.
    Family,
}

/// A price that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found<'a> {
    /// The price.
    pub prices: &'a Prices,
    /// How it was found.
    pub how: Match,
    /// The model that has it; `None` if a family has it.
    pub model: Option<&'a Model>,
    /// Whether the model's own provider was asked.
    by_own_provider: bool,
}

impl Found<'_> {
    /// What a token costs with whoever bills so.
    ///
    /// Listed prices of the cache are those of the model's own provider: they count where that is who was asked, and
    /// where whoever answered bills as that one does for all models, as Anthropic and Gemini do. An address that passes
    /// a model on need not pass on what it gets taken off.
    pub fn rates(&self, billing: CacheBilling) -> Rates {
        if self.is_own(billing) { self.prices.listed_rates(billing) } else { self.prices.rates(billing) }
    }

    /// What a token costs that is read from the cache, where that is known: it is listed, or whoever bills so takes the
    /// same off for all models. [`rates`](Self::rates) assumes full price elsewhere, so as not to understate a cost.
    pub fn cache_read(&self, billing: CacheBilling) -> Option<Price> {
        let listed = self.prices.cache_read.filter(|_| self.is_own(billing));
        listed.or_else(|| (billing != CacheBilling::Other).then(|| self.prices.rates(billing).cache_read))
    }

    /// What tokens cost that were not read from the cache, above what it would have cost to read them. `None` if it is
    /// not [known](Self::cache_read) what that is.
    ///
    /// As many of them as the reply wrote to the cache were written anew; the rest was fresh input.
    pub fn loss(&self, billing: CacheBilling, lost_tokens: u64, usage: &Usage) -> Option<Money> {
        let read = self.cache_read(billing)?.of(lost_tokens);
        let written = lost_tokens.min(usage.cache_write.unwrap_or(0));
        let paid = self.rates(billing).cost(&Usage {
            input: Some(lost_tokens - written),
            output: Some(0),
            cache_write: Some(written),
            cache_write_1h: usage.cache_write_1h,
            ..Usage::default()
        })?;
        Some(Money::from_femtodollars(paid.femtodollars().saturating_sub(read.femtodollars())))
    }

    /// Whether what is listed counts with whoever bills so.
    fn is_own(&self, billing: CacheBilling) -> bool {
        let Some(model) = self.model.filter(|_| !self.by_own_provider) else { return true };
        billing != CacheBilling::Other && CacheBilling::named(&model.provider, &model.id) == billing
    }
}

impl Catalogue {
    /// The catalogue that comes with the crate: a few models, the prices of many families, and nineteen providers.
    pub fn built_in() -> &'static Self {
        static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
        CATALOGUE.get_or_init(|| Self::parse("catalogue.toml", BUILT_IN).expect("the built-in catalogue is sound"))
    }

    /// Reads a catalogue. `file` is what an error calls it.
    pub fn parse(file: &str, text: &str) -> Result<Self, CatalogueError> {
        let (models, families, providers) = file::read(file, text)?;
        Ok(Self::of(models, families, providers))
    }

    /// Lays another catalogue over this one: its models come first and those of the same provider and name go, its
    /// aliases take the places of those of the same name, and its families and providers come first.
    #[must_use]
    pub fn with(&self, over: Self) -> Self {
        let Self { models: old, mut families, mut providers, .. } = self.clone();
        let mut models = over.models;
        let is_replaced =
            |old: &Model| models.iter().any(|new| same(&old.provider, &new.provider) && same(&old.id, &new.id));
        let kept: Vec<_> = old.into_iter().filter(|old| !is_replaced(old)).collect();
        models.extend(kept);
        families.splice(0..0, over.families);
        providers.retain(|old| !over.providers.iter().any(|new| same(&new.name, &old.name)));
        providers.splice(0..0, over.providers);
        let mut laid = Self::of(models, families, providers);
        laid.index.take_aliases(over.index);
        laid
    }

    fn of(models: Vec<Model>, families: Vec<ModelFamily>, providers: Vec<Provider>) -> Self {
        let index = Index::of(&models);
        Self { models, families, providers, index }
    }

    /// All models, in the order of the file; those of one that was laid over come first.
    pub fn models(&self) -> impl Iterator<Item = &Model> {
        self.models.iter()
    }

    /// The model of exactly this name or alias. The case does not count.
    pub fn model(&self, id: &str) -> Option<&Model> {
        let id = id.trim().to_ascii_lowercase();
        let place = self.index.named(&id).first().copied().or_else(|| self.index.alias(&id))?;
        Some(&self.models[place])
    }

    /// Whose model a name is: the first provider whose patterns fit.
    pub fn provider_of(&self, id: &str) -> Option<&str> {
        let id = id.trim().to_ascii_lowercase();
        self.providers.iter().find(|provider| provider.patterns.fit(&id)).map(|provider| &*provider.name)
    }

    /// Who is reached at this address: the first provider with its host, or one above it.
    ///
    /// ```
    /// let catalogue = stanchion_usage::Catalogue::built_in();
    /// assert_eq!(catalogue.provider_at("https://eu.api.openai.com/v1"), Some("openai"));
    /// assert_eq!(catalogue.provider_at("https://openai.example/v1"), None);
    /// ```
    pub fn provider_at(&self, url: &str) -> Option<&str> {
        let host = url.parse::<Uri>().ok()?.host()?.to_ascii_lowercase();
        self.providers.iter().find(|provider| provider.is_at(&host)).map(|provider| &*provider.name)
    }

    /// The names of all providers, in the order in which they are tried.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.providers.iter().map(|provider| &*provider.name)
    }

    /// What a model costs. The case of the name does not count. The first that has a price, of:
    ///
    /// 1. the model of this provider and exactly this name, if a provider is given;
    /// 2. the model of exactly this name; then of this alias; then the one whose name has this behind its last `/`. Of
    ///    several of those: the one with the fewest `/`, then the first by what stands before its first `/`, then by
    ///    its whole name;
    /// 3. the model whose name is the longest that this name contains as a whole: no letter, digit or `.5` next to it;
    /// 4. the model whose name is the shortest that contains this name as a whole, if that has four letters or more:
    ///    fewer are in every other name;
    /// 5. the first family that fits.
    ///
    /// Of equals in 3 and 4 the alphabet decides. `None` if nothing fits: a price that is not known is not zero.
    pub fn price(&self, provider: Option<&str>, id: &str) -> Option<Found<'_>> {
        self.price_of([provider, None], id)
    }

    /// What a model costs with this candidate. Who that is tells the name that it was given, and else its address: what
    /// is called `primary` and is reached at `api.openai.com` is OpenAI.
    pub fn price_with(&self, candidate: &Candidate, id: &str) -> Option<Found<'_>> {
        self.price_of([Some(candidate.provider()), self.provider_at(candidate.base_url())], id)
    }

    /// The same of one who goes by these names, the surer first.
    fn price_of(&self, providers: [Option<&str>; 2], id: &str) -> Option<Found<'_>> {
        let id = id.trim().to_ascii_lowercase();
        if id.is_empty() {
            return None;
        }
        let (index, at) = (&self.index, |place: usize| &self.models[place]);
        let is_asked = |model: &Model| providers.iter().flatten().any(|provider| same(&model.provider, provider));
        let named = index.named(&id);
        let own = providers.iter().flatten().find_map(|provider| {
            let place = named.iter().find(|place| same(&at(**place).provider, provider))?;
            listed(at(*place), Match::Provider)
        });
        let found = own
            .or_else(|| named.iter().find_map(|place| listed(at(*place), Match::Exact)))
            .or_else(|| index.alias(&id).and_then(|place| listed(at(place), Match::Alias)))
            .or_else(|| index.bare(&id).and_then(|place| listed(at(place), Match::Alias)))
            .or_else(|| index.longest_within(&id).and_then(|place| listed(at(place), Match::Contained)))
            .or_else(|| index.shortest_around(&id).and_then(|place| listed(at(place), Match::Containing)))
            .or_else(|| {
                let family = self.families.iter().find(|family| family.patterns.fit(&id))?;
                Some(Found { prices: &family.price, how: Match::Family, model: None, by_own_provider: false })
            })?;
        Some(Found { by_own_provider: found.model.is_some_and(is_asked), ..found })
    }

    /// What a reply of this candidate costs. `None` if the price is not known, or the input or output.
    pub fn cost_with(&self, candidate: &Candidate, model: &str, usage: &Usage) -> Option<Money> {
        self.price_with(candidate, model)?.rates(billing(candidate, model)).cost(usage)
    }

    /// What a broken cache cost with this candidate: see [`Found::loss`].
    pub fn loss_with(&self, candidate: &Candidate, model: &str, lost_tokens: u64, usage: &Usage) -> Option<Money> {
        self.price_with(candidate, model)?.loss(billing(candidate, model), lost_tokens, usage)
    }

    /// The same as [`cost_with`](Self::cost_with) of a provider of this name that speaks `family`.
    pub fn cost(&self, family: Family, provider: &str, model: &str, usage: &Usage) -> Option<Money> {
        let found = self.price(Some(provider), model)?;
        found.rates(CacheBilling::of(family, provider, model)).cost(usage)
    }

    /// The same as [`loss_with`](Self::loss_with) of a provider of this name that speaks `family`.
    ///
    /// ```
    /// use stanchion_core::{Family, Usage};
    /// use stanchion_usage::Catalogue;
    ///
    /// let (catalogue, usage) = (Catalogue::built_in(), Usage::default());
    /// let loss = |family, provider, model| catalogue.loss(family, provider, model, 1_000_000, &usage);
    /// // 2.50 dollars for fresh input, less 1.25 for what is read.
    /// assert_eq!(loss(Family::OpenAi, "openai", "gpt-4o").unwrap().to_string(), "1.25");
    /// // What others take off is not known, which is not the same as nothing.
    /// assert_eq!(loss(Family::OpenAi, "groq", "llama-4-scout"), None);
    /// ```
    pub fn loss(&self, family: Family, provider: &str, model: &str, lost_tokens: u64, usage: &Usage) -> Option<Money> {
        let found = self.price(Some(provider), model)?;
        found.loss(CacheBilling::of(family, provider, model), lost_tokens, usage)
    }
}

fn billing(candidate: &Candidate, model: &str) -> CacheBilling {
    CacheBilling::of(candidate.family(), candidate.provider(), model)
}

/// The price of a model, if it has one.
fn listed(model: &Model, how: Match) -> Option<Found<'_>> {
    model.price.as_ref().map(|prices| Found { prices, how, model: Some(model), by_own_provider: false })
}

fn same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

/// What stands behind the last `/`.
fn bare(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or(id)
}
