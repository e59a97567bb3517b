//! From a scrape to metrics of OTLP: whoever scrapes and whoever is sent to see the same numbers.

use std::{collections::HashMap, time::SystemTime};

use super::{
    message::{Data, Gauge, Histogram, HistogramDataPoint, KeyValue, Metric, NumberDataPoint, Sum, Temporality},
    span::nanoseconds,
};
use crate::metrics::{MetricInfo, MetricKind, Metrics, MetricsFormat};

/// All metrics that have a value, counted since `start`.
pub(super) fn metrics(metrics: &Metrics, start: SystemTime, now: SystemTime) -> Vec<Metric> {
    let text = metrics.encode(MetricsFormat::Prometheus);
    let mut samples: HashMap<&str, Vec<Sample<'_>>> = HashMap::new();
    for sample in text.lines().filter_map(sample) {
        samples.entry(sample.name).or_default().push(sample);
    }
    let times = (nanoseconds(start), nanoseconds(now));
    let metric = |info: &MetricInfo| {
        let data = match info.kind {
            MetricKind::Counter => Data::Sum(Sum {
                data_points: numbers(samples.get(info.name)?, times),
                aggregation_temporality: Temporality::Cumulative.into(),
                is_monotonic: true,
            }),
            MetricKind::Gauge => Data::Gauge(Gauge { data_points: numbers(samples.get(info.name)?, times) }),
            MetricKind::Histogram => {
                let part = |suffix: &str| samples.get(&*format!("{}_{suffix}", info.name)).map(Vec::as_slice);
                let parts = [part("bucket")?, part("sum")?, part("count")?];
                Data::Histogram(Histogram {
                    data_points: histograms(parts, info.buckets, times),
                    aggregation_temporality: Temporality::Cumulative.into(),
                })
            }
        };
        let (name, description) = (name(info).to_owned(), info.help.to_owned());
        Some(Metric { name, description, unit: unit(info.unit), data: Some(data) })
    };
    Metrics::list().iter().filter_map(metric).collect()
}

/// One line of a scrape.
struct Sample<'a> {
    name: &'a str,
    labels: Vec<(&'a str, String)>,
    value: f64,
}

fn sample(line: &str) -> Option<Sample<'_>> {
    if line.starts_with('#') {
        return None;
    }
    let (series, value) = line.rsplit_once(' ')?;
    let value = value.parse().ok()?;
    let Some((name, rest)) = series.split_once('{') else {
        return Some(Sample { name: series, labels: Vec::new(), value });
    };
    let (mut labels, mut rest) = (Vec::new(), rest.strip_suffix('}')?);
    while let Some((key, quoted)) = rest.split_once("=\"") {
        let (text, after) = unquoted(quoted)?;
        labels.push((key, text));
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    Some(Sample { name, labels, value })
}

/// The text up to its closing quote, and what follows.
fn unquoted(quoted: &str) -> Option<(String, &str)> {
    let (mut text, mut characters) = (String::new(), quoted.char_indices());
    loop {
        match characters.next()? {
            (at, '"') => return Some((text, &quoted[at + 1..])),
            (_, '\\') => match characters.next()?.1 {
                'n' => text.push('\n'),
                other => text.push(other),
            },
            (_, other) => text.push(other),
        }
    }
}

fn attributes(labels: &[(&str, String)]) -> Vec<KeyValue> {
    labels.iter().map(|(key, value)| KeyValue::new(dotted(key), value.as_str().into())).collect()
}

fn numbers(samples: &[Sample<'_>], (start, now): (u64, u64)) -> Vec<NumberDataPoint> {
    let point = |sample: &Sample<'_>| NumberDataPoint {
        start_time_unix_nano: start,
        time_unix_nano: now,
        as_double: Some(sample.value),
        attributes: attributes(&sample.labels),
    };
    samples.iter().map(point).collect()
}

/// The parts of a histogram stand in the same order of series; each has a bucket more than bounds.
fn histograms(parts: [&[Sample<'_>]; 3], bounds: &[f64], (start, now): (u64, u64)) -> Vec<HistogramDataPoint> {
    let [buckets, sums, counts] = parts;
    let point = |((buckets, sum), count): ((&[Sample<'_>], &Sample<'_>), &Sample<'_>)| {
        let mut below = 0;
        let bucket_counts = buckets.iter().map(|bucket| {
            let upto = bucket.value as u64;
            upto - std::mem::replace(&mut below, upto).min(upto)
        });
        HistogramDataPoint {
            start_time_unix_nano: start,
            time_unix_nano: now,
            count: count.value as u64,
            sum: Some(sum.value),
            bucket_counts: bucket_counts.collect(),
            explicit_bounds: bounds.to_vec(),
            attributes: attributes(&count.labels),
        }
    };
    buckets.chunks(bounds.len() + 1).zip(sums).zip(counts).map(point).collect()
}

/// Those of the conventions as they are spelt there, ours as a scrape shows them.
fn name(info: &MetricInfo) -> &'static str {
    match info.name {
        "gen_ai_client_operation_duration_seconds" => "gen_ai.client.operation.duration",
        "gen_ai_client_operation_time_to_first_chunk_seconds" => "gen_ai.client.operation.time_to_first_chunk",
        "gen_ai_server_time_to_first_token_seconds" => "gen_ai.server.time_to_first_token",
        "gen_ai_client_token_usage" => "gen_ai.client.token.usage",
        ours => ours,
    }
}

/// The same of a label.
fn dotted(label: &str) -> &str {
    match label {
        "gen_ai_operation_name" => "gen_ai.operation.name",
        "gen_ai_provider_name" => "gen_ai.provider.name",
        "gen_ai_request_model" => "gen_ai.request.model",
        "gen_ai_token_type" => "gen_ai.token.type",
        "error_type" => "error.type",
        ours => ours,
    }
}

/// As UCUM has it.
fn unit(unit: &str) -> String {
    match unit {
        "seconds" => "s".to_owned(),
        "bytes" => "By".to_owned(),
        "US dollars" => "{USD}".to_owned(),
        "1" => "1".to_owned(),
        counted => format!("{{{}}}", counted.strip_suffix('s').unwrap_or(counted)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_scrape_is_read_whatever_its_labels_hold() {
        let read = |line: &str| {
            let sample = sample(line)?;
            let labels = sample.labels.into_iter().map(|(key, value)| format!("{key}:{value}")).collect::<Vec<_>>();
            Some((sample.name.to_owned(), labels.join("|"), sample.value))
        };
        assert_eq!(read("# HELP a b"), None);
        assert_eq!(read("a_total 3.0"), Some(("a_total".into(), String::new(), 3.0)));
        assert_eq!(read(r#"a{b="c",d="e"} 1.5"#), Some(("a".into(), "b:c|d:e".into(), 1.5)));
        assert_eq!(read(r#"a{b="}\" ,c=\"\\\n"} 1e-3"#), Some(("a".into(), "b:}\" ,c=\"\\\n".into(), 0.001)));
        assert_eq!(read(r#"a{b="c} 1"#), None);
    }

    #[test]
    fn names_of_the_conventions_are_spelt_as_there() {
        for info in Metrics::list() {
            let name = name(info);
            assert!(name.starts_with("gen_ai.") != name.starts_with("stanchion_"), "{name}");
            assert!(info.labels.iter().all(|label| !dotted(label).starts_with("gen_ai_")), "{:?}", info.labels);
        }
        assert_eq!(dotted("gen_ai_request_model"), "gen_ai.request.model");
        assert_eq!(["seconds", "bytes", "tokens", "US dollars"].map(unit), ["s", "By", "{token}", "{USD}"]);
    }
}
