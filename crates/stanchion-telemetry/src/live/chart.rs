//! Numbers of the last five minutes, second by second, as plain data. No clock of its own.

use std::{collections::HashMap, sync::Arc, time::Duration};

use serde::Serialize;
use stanchion_core::UsageEvent;

use crate::RequestBegan;

/// How many seconds are kept.
const SECONDS: usize = 300;

/// Up to how many milliseconds each bucket of times to first output reaches; one more bucket holds what took longer.
const BOUNDS: [u64; 23] = [
    25, 50, 100, 150, 200, 300, 400, 600, 800, 1_000, 1_500, 2_000, 3_000, 4_000, 6_000, 8_000, 12_000, 16_000, 24_000,
    32_000, 48_000, 64_000, 120_000,
];

type Buckets = [u32; BOUNDS.len() + 1];

/// How it went with one candidate or one model in the last five minutes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chart {
    /// `provider/model`, or the configured name of the model.
    pub name: Arc<str>,
    /// All five minutes together.
    pub total: ChartSecond,
    /// The seconds in which there was anything, the oldest first.
    pub seconds: Vec<ChartSecond>,
}

/// How it went in one second. In a total, the second is the present one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ChartSecond {
    /// The second, in seconds of the epoch.
    pub second: u64,
    /// How many requests there were.
    pub requests: u64,
    /// How many failed.
    pub errors: u64,
    /// The median time to first output in milliseconds, as far as buckets tell; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_output_p50_ms: Option<u64>,
    /// The time in which nineteen of twenty came to their first output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_output_p95_ms: Option<u64>,
    /// Which part of the input was read from the prompt cache, from 0 to 1; absent if no provider has told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_hit_rate: Option<f64>,
    /// What it cost, in billionths of a US dollar, as far as it is known.
    pub cost_nanodollars: u64,
}

/// The same five minutes in steps and in minutes, for a page that draws them. See [`Live::curves`](super::Live::curves).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curves {
    /// The present second, in seconds of the epoch.
    pub now: u64,
    /// All models together.
    pub all: Curve,
    /// Each candidate: its requests are physical attempts.
    pub candidates: Vec<Curve>,
    /// Each model: its requests are logical ones, counted when they end.
    pub models: Vec<Curve>,
}

/// How it went with one candidate or one model, in equal steps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// `provider/model`, or the configured name of the model; empty for all models together.
    pub name: Arc<str>,
    /// The last five times 60 s, up to the present second, the newest first. Their seconds are those of their ends.
    pub minutes: Vec<ChartSecond>,
    /// The steps in which there was anything, the oldest first. Their seconds are those of their beginnings, and whole multiples of
    /// [`STEP`](Self::STEP). The last one grows.
    pub steps: Vec<ChartSecond>,
}

impl Curve {
    /// The length of a step, in seconds.
    pub const STEP: u64 = 5;
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slot {
    second: u64,
    pub(super) requests: u32,
    pub(super) errors: u32,
    outputs: Buckets,
    cache_read: u64,
    input: u64,
    nanodollars: u64,
}

impl Slot {
    pub(super) fn first_output(&mut self, after: Duration) {
        let after = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        self.outputs[BOUNDS.partition_point(|bound| *bound < after)] += 1;
    }

    pub(super) fn used(&mut self, usage: &UsageEvent) {
        self.nanodollars = self.nanodollars.saturating_add(usage.cost_nanodollars.unwrap_or(0));
        // What is not told is not zero.
        if let (Some(read), Some(input)) = (usage.tokens.cache_read, usage.tokens.input_total()) {
            self.cache_read = self.cache_read.saturating_add(read);
            self.input = self.input.saturating_add(input);
        }
    }

    /// Whether nothing happened in it.
    fn is_empty(&self) -> bool {
        let Self { second: _, requests, errors, outputs, cache_read, input, nanodollars } = self;
        *requests == 0
            && *errors == 0
            && outputs.iter().all(|count| *count == 0)
            && [*cache_read, *input, *nanodollars] == [0; 3]
    }

    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        for (bucket, more) in self.outputs.iter_mut().zip(other.outputs) {
            *bucket += more;
        }
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.input = self.input.saturating_add(other.input);
        self.nanodollars = self.nanodollars.saturating_add(other.nanodollars);
    }

    fn show(&self, second: u64) -> ChartSecond {
        ChartSecond {
            second,
            requests: self.requests.into(),
            errors: self.errors.into(),
            first_output_p50_ms: quantile(&self.outputs, 50),
            first_output_p95_ms: quantile(&self.outputs, 95),
            cache_hit_rate: (self.input > 0).then(|| self.cache_read as f64 / self.input as f64),
            cost_nanodollars: self.nanodollars,
        }
    }
}

/// The time that so many of a hundred do not exceed, as if they lay evenly within their bucket.
fn quantile(buckets: &Buckets, percent: u64) -> Option<u64> {
    let count: u64 = buckets.iter().copied().map(u64::from).sum();
    if count == 0 {
        return None;
    }
    let rank = (count * percent).div_ceil(100).max(1);
    let mut below = 0;
    for (at, bucket) in buckets.iter().enumerate() {
        let bucket = u64::from(*bucket);
        if below + bucket >= rank {
            let from = if at == 0 { 0 } else { BOUNDS[at - 1] };
            // Nobody knows how long the longest took.
            let to = BOUNDS.get(at).copied().unwrap_or(from);
            return Some(from + (to - from) * (rank - below) / bucket);
        }
        below += bucket;
    }
    None
}

/// A ring of seconds. What lies further back is overwritten as its place is needed.
struct Series(Box<[Slot]>);

impl Series {
    fn new() -> Self {
        Self(vec![Slot::default(); SECONDS].into())
    }

    fn at(&mut self, second: u64) -> &mut Slot {
        let slot = &mut self.0[second as usize % SECONDS];
        if slot.second != second {
            *slot = Slot { second, ..Slot::default() };
        }
        slot
    }

    /// Adds what lies within five minutes to the sums of minutes and steps.
    fn sum(&self, now: u64, offset: u64, sums: &mut Sums) {
        for slot in &self.0 {
            if slot.second + (SECONDS as u64) > now && slot.second <= now {
                sums.minutes[((now - slot.second) / 60) as usize].add(slot);
                let ago = (now + offset) / Curve::STEP - (slot.second + offset) / Curve::STEP;
                if let Some(step) = sums.steps.get_mut(ago as usize) {
                    step.add(slot);
                }
            }
        }
    }

    fn show(&self, name: &Arc<str>, now: u64, unix: &impl Fn(u64) -> u64) -> Chart {
        let lately = |slot: &&Slot| slot.second + (SECONDS as u64) > now && slot.second <= now;
        let mut slots: Vec<_> = self.0.iter().filter(lately).collect();
        slots.sort_by_key(|slot| slot.second);
        let mut total = Slot::default();
        for slot in &slots {
            total.add(slot);
        }
        let seconds = slots.iter().map(|slot| slot.show(unix(slot.second)));
        let nothing = Slot::default().show(0);
        let seconds = seconds.filter(|second| ChartSecond { second: 0, ..*second } != nothing).collect();
        Chart { name: name.clone(), total: total.show(unix(now)), seconds }
    }
}

/// The sums of one curve, the newest first.
struct Sums {
    minutes: [Slot; SECONDS / 60],
    steps: Vec<Slot>,
}

impl Sums {
    fn new(steps: usize) -> Self {
        Self { minutes: [Slot::default(); SECONDS / 60], steps: vec![Slot::default(); steps] }
    }

    /// `now` is in seconds of the epoch.
    fn show(&self, name: Arc<str>, now: u64) -> Curve {
        let minutes = self.minutes.iter().zip(0..).map(|(slot, ago)| slot.show(now - 60 * ago)).collect();
        let last = now / Curve::STEP;
        let steps = self.steps.iter().zip(0..).filter(|(slot, _)| !slot.is_empty());
        let mut steps: Vec<_> = steps.map(|(slot, ago)| slot.show((last - ago) * Curve::STEP)).collect();
        steps.reverse();
        Curve { name, minutes, steps }
    }
}

/// All series, at most so many of each kind and one for the rest.
pub(super) struct Charts {
    most: usize,
    candidates: HashMap<Arc<str>, Series>,
    models: HashMap<Arc<str>, Series>,
    other: Arc<str>,
}

impl Charts {
    pub(super) fn new(most: usize) -> Self {
        Self { most, candidates: HashMap::new(), models: HashMap::new(), other: RequestBegan::OTHER.into() }
    }

    pub(super) fn candidate(&mut self, name: &Arc<str>, second: u64, change: impl FnOnce(&mut Slot)) {
        change(series(&mut self.candidates, name, &self.other, self.most).at(second));
    }

    pub(super) fn model(&mut self, name: &Arc<str>, second: u64, change: impl FnOnce(&mut Slot)) {
        change(series(&mut self.models, name, &self.other, self.most).at(second));
    }

    /// All curves with so many of their newest steps. `offset` is the second of the epoch at which seconds began to count.
    pub(super) fn curves(&self, now: u64, offset: u64, steps: usize) -> Curves {
        let steps = steps.min(SECONDS / Curve::STEP as usize);
        let curve = |series: &[&Series], name: Arc<str>| {
            let mut sums = Sums::new(steps);
            for series in series {
                series.sum(now, offset, &mut sums);
            }
            sums.show(name, now + offset)
        };
        let each = |all: &HashMap<Arc<str>, Series>| {
            let mut curves: Vec<_> = all.iter().map(|(name, series)| curve(&[series], name.clone())).collect();
            curves.sort_by(|a, b| a.name.cmp(&b.name));
            curves
        };
        Curves {
            now: now + offset,
            all: curve(&self.models.values().collect::<Vec<_>>(), "".into()),
            candidates: each(&self.candidates),
            models: each(&self.models),
        }
    }

    /// Candidates and models, each in the order of their names.
    pub(super) fn show(&self, now: u64, unix: impl Fn(u64) -> u64) -> (Vec<Chart>, Vec<Chart>) {
        let show = |all: &HashMap<Arc<str>, Series>| {
            let mut charts: Vec<_> = all.iter().map(|(name, series)| series.show(name, now, &unix)).collect();
            charts.sort_by(|a, b| a.name.cmp(&b.name));
            charts
        };
        (show(&self.candidates), show(&self.models))
    }
}

fn series<'a>(
    all: &'a mut HashMap<Arc<str>, Series>,
    name: &Arc<str>,
    other: &Arc<str>,
    most: usize,
) -> &'a mut Series {
    let name = if all.len() < most || all.contains_key(name) { name } else { other };
    if !all.contains_key(name) {
        all.insert(name.clone(), Series::new());
    }
    all.get_mut(name).expect("just put there")
}

#[cfg(test)]
mod tests {
    use stanchion_core::{RequestClass, Usage, UsageQuality};

    use super::*;

    fn shown(charts: &Charts, now: u64) -> Chart {
        charts.show(now, |second| 1_000 + second).0.remove(0)
    }

    #[test]
    fn five_minutes_are_kept_and_no_more() {
        let mut charts = Charts::new(4);
        let name: Arc<str> = "a/x".into();
        for second in [0, 1, 299, 300, 301, 900] {
            charts.candidate(&name, second, |slot| slot.requests += 1);
        }
        let seconds = |now| shown(&charts, now).seconds.iter().map(|shown| shown.second).collect::<Vec<_>>();
        assert_eq!(seconds(900), [1_900]);
        // Second 900 has taken the place of 300 and of 0.
        assert_eq!(seconds(301), [1_299, 1_301]);
        assert_eq!(shown(&charts, 900).total.requests, 1);
        assert_eq!((shown(&charts, 1_200).total.requests, seconds(1_200)), (0, vec![]));
    }

    #[test]
    fn quantiles_come_from_buckets() {
        let mut slot = Slot::default();
        assert_eq!(slot.show(0).first_output_p50_ms, None);
        for after in [90, 90, 90, 90, 90, 90, 90, 90, 90, 5_000] {
            slot.first_output(Duration::from_millis(after));
        }
        let shown = slot.show(0);
        assert_eq!((shown.first_output_p50_ms, shown.first_output_p95_ms), (Some(77), Some(6_000)));
        slot = Slot::default();
        slot.first_output(Duration::from_secs(3_600));
        assert_eq!(slot.show(0).first_output_p50_ms, Some(120_000));
        slot = Slot::default();
        slot.first_output(Duration::ZERO);
        assert_eq!(slot.show(0).first_output_p95_ms, Some(25));
    }

    #[test]
    fn what_nobody_tells_is_no_miss() {
        let mut slot = Slot::default();
        assert!(slot.is_empty());
        let usage = |tokens| UsageEvent {
            candidate: None,
            model: None,
            request_class: RequestClass::default(),
            quality: UsageQuality::Measured,
            tokens,
            cost_nanodollars: Some(5),
        };
        slot.used(&usage(Usage { input: Some(100), ..Usage::default() }));
        assert_eq!((slot.show(0).cache_hit_rate, slot.show(0).cost_nanodollars), (None, 5));
        slot.used(&usage(Usage { input: Some(100), cache_read: Some(300), ..Usage::default() }));
        assert_eq!((slot.show(0).cache_hit_rate, slot.show(0).cost_nanodollars), (Some(0.75), 10));
        slot.used(&usage(Usage { input: Some(400), cache_read: Some(0), ..Usage::default() }));
        assert_eq!(slot.show(0).cache_hit_rate, Some(0.375));
        // However much a provider claims.
        let claimed = Usage { input: Some(u64::MAX), cache_read: Some(u64::MAX), ..Usage::default() };
        slot.used(&usage(claimed));
        assert!(!slot.is_empty());
    }

    #[test]
    fn curves_are_in_steps_of_the_wall_clock_and_in_minutes_up_to_now() {
        let mut charts = Charts::new(4);
        // The clock began at second 1,003 of the epoch: the step at 1,005 begins with second 2.
        for second in [0, 1, 2, 6, 7, 239, 240, 299] {
            charts.model(&"m".into(), second, |slot| slot.requests += 1);
        }
        charts.model(&"n".into(), 299, |slot| slot.errors += 1);
        let steps = |curve: &Curve| curve.steps.iter().map(|step| (step.second, step.requests)).collect::<Vec<_>>();
        let curves = charts.curves(299, 1_003, 60);
        assert_eq!(curves.now, 1_302);
        assert_eq!(steps(&curves.models[0]), [(1_005, 2), (1_010, 1), (1_240, 2), (1_300, 1)]);
        let minutes: Vec<_> = curves.models[0].minutes.iter().map(|minute| (minute.second, minute.requests)).collect();
        assert_eq!(minutes, [(1_302, 2), (1_242, 1), (1_182, 0), (1_122, 0), (1_062, 5)]);
        assert_eq!((curves.all.minutes[0].requests, curves.all.minutes[0].errors), (2, 1));
        assert_eq!(steps(&charts.curves(299, 1_003, 2).all), [(1_300, 1)]);
        assert_eq!(charts.curves(2_000, 1_003, 60).all.steps, []);
    }

    #[test]
    fn too_many_names_share_a_chart() {
        let mut charts = Charts::new(2);
        for name in ["a", "b", "c", "d", "a"] {
            charts.model(&name.into(), 0, |slot| slot.requests += 1);
        }
        let models = charts.show(0, |second| second).1;
        let shown: Vec<_> = models.iter().map(|chart| (&*chart.name, chart.total.requests)).collect();
        assert_eq!(shown, [("a", 2), ("b", 1), ("other", 2)]);
    }
}
