use std::fmt::Write;

use super::list::ALL;

const HEAD: &str = "# Metrics

This page is written by `cargo run -p stanchion-telemetry --example metrics_page > docs/metrics.md`; a test holds it to the code.

Labels are names from the configuration and words of a fixed list. There is no session, owner or credential among them, and of what clients send
nothing but the model's name if that is configured; every other is `other`. Each metric has at most 1,000 label sets; what would need another is not
counted, and `stanchion_metrics_overflow_total` says so.

Names that begin with `gen_ai_` are those of the OpenTelemetry semantic conventions for generative AI (in development there), spelt as Prometheus
spells them; their buckets are the recommended ones, and two more for times to a first token. `gen_ai_request_model` is the name under which the model is configured here, and
`gen_ai_provider_name` what the provider speaks.

The rate at which prompt caches are hit is
`rate(stanchion_prompt_cache_read_tokens_total[5m]) / rate(stanchion_prompt_cache_input_tokens_total[5m])`.
A provider that does not tell what it read counts in neither.

";

pub(super) fn page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str("| metric | type | unit | labels | meaning |\n|---|---|---|---|---|\n");
    for info in ALL {
        let labels: Vec<_> = info.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, unit, labels, help) = (info.name, info.kind.as_str(), info.unit, labels.join(", "), info.help);
        writeln!(page, "| `{name}` | {kind} | {unit} | {labels} | {help} |").expect("a string takes all");
    }
    page.push_str("\n## Buckets\n\n| metric | upper bounds |\n|---|---|\n");
    for info in ALL.iter().filter(|info| !info.buckets.is_empty()) {
        let bounds: Vec<_> = info.buckets.iter().map(ToString::to_string).collect();
        writeln!(page, "| `{}` | {} |", info.name, bounds.join(", ")).expect("a string takes all");
    }
    page
}
