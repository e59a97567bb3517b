//! Families of series that differ in their labels, in bounded numbers.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
};

use prometheus_client::{
    encoding::{EncodeLabel, EncodeLabelSet, EncodeMetric, LabelSetEncoder, MetricEncoder},
    metrics::{counter::Counter, family::Family, family::MetricConstructor, gauge::Gauge, histogram::Histogram},
};

use super::list::{MetricInfo, MetricKind};

/// The most labels that a metric has.
pub(super) const LABELS: usize = 4;

/// The value of a label.
#[derive(Clone, Default)]
pub(super) enum Label {
    /// Not shown.
    #[default]
    Absent,
    Static(&'static str),
    Shared(Arc<str>),
}

impl Label {
    fn text(&self) -> &str {
        match self {
            Self::Absent => "",
            Self::Static(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl From<&'static str> for Label {
    fn from(text: &'static str) -> Self {
        Self::Static(text)
    }
}

impl From<&Arc<str>> for Label {
    fn from(text: &Arc<str>) -> Self {
        Self::Shared(text.clone())
    }
}

impl From<Option<&Arc<str>>> for Label {
    fn from(text: Option<&Arc<str>>) -> Self {
        text.map_or(Self::Static("none"), Into::into)
    }
}

impl PartialEq for Label {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Label {}

impl Hash for Label {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text().hash(state);
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(f)
    }
}

/// The labels of one series. An array: no update allocates. Their names are those of the metric, so only values tell them apart.
#[derive(Debug, Clone)]
pub(super) struct Labels {
    names: &'static [&'static str],
    values: [Label; LABELS],
}

impl Labels {
    pub(super) fn new<const N: usize>(info: &'static MetricInfo, values: [Label; N]) -> Self {
        debug_assert_eq!(info.labels.len(), N, "{}", info.name);
        let mut labels = Self { names: info.labels, values: Default::default() };
        for (label, value) in labels.values.iter_mut().zip(values) {
            *label = value;
        }
        labels
    }
}

impl PartialEq for Labels {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

impl Eq for Labels {}

impl Hash for Labels {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for value in &self.values[..self.names.len()] {
            value.hash(state);
        }
    }
}

impl EncodeLabelSet for Labels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        for (name, value) in self.names.iter().zip(&self.values).filter(|(_, value)| **value != Label::Absent) {
            EncodeLabel::encode(&(*name, value.text()), encoder.encode_label())?;
        }
        Ok(())
    }
}

/// Makes histograms with these bounds.
#[derive(Debug, Clone)]
pub(super) struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// The series of one metric.
#[derive(Debug)]
pub(super) enum Series {
    Counter(Bounded<Counter<f64, AtomicU64>>),
    Gauge(Bounded<Gauge<f64, AtomicU64>>),
    Histogram(Bounded<Histogram, Buckets>),
}

impl Series {
    pub(super) fn new(info: &'static MetricInfo, most: usize) -> Self {
        match info.kind {
            MetricKind::Counter => Self::Counter(Bounded::new(Counter::default, most)),
            MetricKind::Gauge => Self::Gauge(Bounded::new(Gauge::default, most)),
            MetricKind::Histogram => Self::Histogram(Bounded::new(Buckets(info.buckets), most)),
        }
    }

    /// Adds to a counter or a gauge, or observes. `false` if there is no room for another series.
    pub(super) fn update(&self, labels: &Labels, value: f64) -> bool {
        match self {
            Self::Counter(family) => family.with(labels, |counter| {
                counter.inc_by(value);
            }),
            Self::Gauge(family) => family.with(labels, |gauge| {
                gauge.inc_by(value);
            }),
            Self::Histogram(family) => family.with(labels, |histogram| histogram.observe(value)),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Counter(family) => family.is_empty(),
            Self::Gauge(family) => family.is_empty(),
            Self::Histogram(family) => family.is_empty(),
        }
    }

    pub(super) fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        match self {
            Self::Counter(family) => family.family.encode(encoder),
            Self::Gauge(family) => family.family.encode(encoder),
            Self::Histogram(family) => family.family.encode(encoder),
        }
    }
}

/// A family with room for so many series.
#[derive(Debug)]
pub(super) struct Bounded<M, C = fn() -> M> {
    family: Family<Labels, M, C>,
    most: usize,
    /// How many there are. Held while one is made: two at once must not both be the last.
    made: Mutex<usize>,
}

impl<M, C: MetricConstructor<M>> Bounded<M, C> {
    fn new(constructor: C, most: usize) -> Self {
        Self { family: Family::new_with_constructor(constructor), most, made: Mutex::new(0) }
    }

    fn made(&self) -> MutexGuard<'_, usize> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_empty(&self) -> bool {
        *self.made() == 0
    }

    fn with(&self, labels: &Labels, change: impl FnOnce(&M)) -> bool {
        if let Some(series) = self.family.get(labels) {
            change(&series);
            return true;
        }
        let mut made = self.made();
        if self.family.get(labels).is_none() {
            if *made >= self.most {
                return false;
            }
            *made += 1;
        }
        change(&self.family.get_or_create(labels));
        true
    }
}
