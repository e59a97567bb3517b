//! Prints `docs/metrics.md`.

fn main() {
    print!("{}", stanchion_telemetry::Metrics::page());
}
