//! One event as one line of a terminal: when, what kind of thing, of which model, with which candidate, and the rest in words.

use serde_json::Value;

/// The widest that a column of names becomes; what is longer is cut.
const WIDEST: usize = 32;

/// Makes lines whose columns grow with the names that come.
#[derive(Debug)]
pub(super) struct Lines {
    colors: bool,
    model: usize,
    candidate: usize,
}

/// How a line is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tone {
    Good,
    Warn,
    Bad,
    Plain,
}

impl Tone {
    const fn code(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Warn => "33",
            Self::Bad => "31",
            Self::Plain => "36",
        }
    }
}

/// What a line says.
struct Told<'a> {
    kind: &'static str,
    tone: Tone,
    candidate: &'a str,
    text: String,
}

impl Lines {
    pub(super) fn new(colors: bool) -> Self {
        Self { colors, model: 8, candidate: 16 }
    }

    /// The line of a message; `None` for what is not worth one.
    pub(super) fn of(&mut self, name: &str, data: &Value) -> Option<String> {
        match name {
            "event" => {
                let told = match text(data, "kind") {
                    "event" => event(data.get("event")?)?,
                    "ended" => ended(data),
                    _ => return None,
                };
                let time = match text(data, "kind") {
                    // A record tells when its request came, and how long it took.
                    "ended" => after(text(data, "time"), number(data, "duration_ms").unwrap_or(0)),
                    _ => text(data, "time").to_owned(),
                };
                Some(self.line(&time, text(data, "model"), &told))
            }
            "action" => {
                let at = std::time::UNIX_EPOCH + std::time::Duration::from_millis(number(data, "at_ms")?);
                let time = humantime::format_rfc3339_millis(at).to_string();
                let told = Told {
                    kind: "by hand",
                    tone: Tone::Plain,
                    candidate: text(data, "candidate"),
                    text: words(text(data, "action")),
                };
                Some(self.line(&time, "", &told))
            }
            "lost" => {
                let count = number(data, "count")?;
                Some(self.painted("2", &format!("             {count} events came too fast to be shown")))
            }
            "end" => Some(self.painted("2", "             the gateway is ending")),
            _ => None,
        }
    }

    fn line(&mut self, time: &str, model: &str, told: &Told<'_>) -> String {
        let (model, candidate) = (clean(model), clean(told.candidate));
        self.model = self.model.max(model.chars().count()).min(WIDEST);
        self.candidate = self.candidate.max(candidate.chars().count()).min(WIDEST);
        // The date is that of today.
        let time = time.get(11..23).unwrap_or("            ");
        let line = format!(
            "{}  {}  {}  {}  {}",
            self.painted("2", time),
            self.painted(told.tone.code(), &format!("{:<8}", told.kind)),
            self.painted("1", &fitted(&model, self.model)),
            fitted(&candidate, self.candidate),
            clean(&told.text),
        );
        line.trim_end().to_owned()
    }

    fn painted(&self, code: &str, text: &str) -> String {
        if self.colors { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// What came of a request.
fn ended(record: &Value) -> Told<'_> {
    let mut parts = vec![span(number(record, "duration_ms").unwrap_or(0))];
    let mut tell = |count: Option<u64>, one: &str, many: &str| {
        if let Some(count) = count.filter(|count| *count > 0) {
            parts.push(format!("{count} {}", if count == 1 { one } else { many }));
        }
    };
    tell(number(record, "retries"), "retry", "retries");
    tell(number(record, "fallbacks"), "fallback", "fallbacks");
    tell(number(record, "stalls"), "stall", "stalls");
    if let Some(first) = number(record, "first_output_ms") {
        parts.insert(1, format!("first output {}", span(first)));
    }
    if let Some(usage) = record.get("usage") {
        if let (Some(input), Some(output)) = (number(usage, "input"), number(usage, "output")) {
            let cached = number(usage, "cache_read").unwrap_or(0);
            parts.push(format!("{} in, {output} out", input + cached));
        }
        if let Some(cost) = number(usage, "cost_nanodollars") {
            parts.push(format!("${:.4}", cost as f64 / 1e9));
        }
    }
    let (kind, tone) = match text(record, "ending") {
        "complete" => ("done", Tone::Good),
        "cancelled" => ("left", Tone::Plain),
        "truncated" => ("cut", Tone::Bad),
        _ => ("failed", Tone::Bad),
    };
    if let Some(failure) = record.get("failure").and_then(Value::as_str) {
        parts.insert(0, because(failure, record));
    }
    Told { kind, tone, candidate: text(record, "candidate"), text: parts.join(", ") }
}

/// One event of a request. What goes as it should is no line: its end will say so.
fn event(event: &Value) -> Option<Told<'_>> {
    let phase = text(event, "phase");
    let reason = || because(text(event, "reason"), event);
    let milliseconds = |name: &str| span(number(event, name).unwrap_or(0));
    let count = |name: &str| number(event, name).unwrap_or(0);
    let (kind, tone, text) = match (text(event, "type"), phase) {
        ("provider_attempt", "failed") => {
            let failure = because(self::text(event, "failure"), event);
            (
                "attempt",
                Tone::Bad,
                format!("attempt {} failed after {}: {failure}", count("attempt"), milliseconds("elapsed_ms")),
            )
        }
        ("provider_retry", "scheduled") => (
            "retry",
            Tone::Warn,
            format!("{} of {} in {}: {}", count("attempt"), count("max_retries"), milliseconds("delay_ms"), reason()),
        ),
        ("provider_retry", "recovered") => ("retry", Tone::Good, format!("answered after {}", count("attempt"))),
        ("provider_retry", "exhausted") if count("attempt") > 0 || event.get("exhausted_by").is_some() => {
            ("retry", Tone::Bad, format!("no more: {}", reason()))
        }
        ("provider_circuit", "opened" | "reopened") => (
            "circuit",
            Tone::Bad,
            format!(
                "{phase}: {} of {} failed, {}; probe in {}",
                count("failure_count"),
                count("sample_count"),
                reason(),
                milliseconds("retry_after_ms")
            ),
        ),
        ("provider_circuit", "closed") => ("circuit", Tone::Good, phase.to_owned()),
        ("provider_circuit", "probe" | "rejected" | "waiting") => ("circuit", Tone::Warn, phase.to_owned()),
        ("provider_admission", "queued") => (
            "queue",
            Tone::Plain,
            format!(
                "{}, place {} of {}",
                self::text(event, "request_class"),
                count("queue_position"),
                count("queue_depth")
            ),
        ),
        ("provider_admission", "rejected") => (
            "queue",
            Tone::Bad,
            format!("{}: {}", self::text(event, "request_class"), words(self::text(event, "reason"))),
        ),
        ("provider_stall", "detected") => {
            ("stall", Tone::Bad, format!("no progress for {}", milliseconds("duration_ms")))
        }
        ("provider_stall", _) => ("stall", Tone::Good, format!("goes on after {}", milliseconds("duration_ms"))),
        ("model_fallback", _) => ("fallback", Tone::Warn, format!("to {}", self::text(event, "to"))),
        ("credential_rotation", _) => (
            "key",
            Tone::Warn,
            format!("{}: {}", self::text(event, "credential_id"), words(self::text(event, "reason"))),
        ),
        ("prompt_cache_break", _) => (
            "cache",
            Tone::Warn,
            format!("broken: {}, {} tokens paid anew", words(self::text(event, "reason")), count("lost_tokens")),
        ),
        ("prompt_cache_volatile", _) => ("cache", Tone::Warn, "the system prompt is another on every call".to_owned()),
        ("stream_frame", _) => ("frame", Tone::Warn, words(self::text(event, "fault"))),
        ("commit_hold", _) => ("hold", Tone::Warn, format!("let go at {} bytes", count("bytes"))),
        _ => return None,
    };
    let from = self::text(event, "from");
    let candidate = if from.is_empty() { self::text(event, "candidate") } else { from };
    Some(Told { kind, tone, candidate, text })
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn number(value: &Value, name: &str) -> Option<u64> {
    value.get(name).and_then(Value::as_u64)
}

fn words(name: &str) -> String {
    name.replace('_', " ")
}

fn because(reason: &str, event: &Value) -> String {
    match number(event, "status_code") {
        Some(status) => format!("{} ({status})", words(reason)),
        None => words(reason),
    }
}

/// Milliseconds in the unit that fits.
fn span(milliseconds: u64) -> String {
    match milliseconds {
        0..1_000 => format!("{milliseconds} ms"),
        1_000..60_000 => format!("{:.1} s", milliseconds as f64 / 1e3),
        _ => format!("{} min {:02} s", milliseconds / 60_000, milliseconds / 1_000 % 60),
    }
}

/// A time so much later.
fn after(time: &str, milliseconds: u64) -> String {
    let at = humantime::parse_rfc3339(time).ok();
    let at = at.and_then(|at| at.checked_add(std::time::Duration::from_millis(milliseconds)));
    at.map_or_else(|| time.to_owned(), |at| humantime::format_rfc3339_millis(at).to_string())
}

/// No name may move the cursor or paint the terminal.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Exactly so wide: cut or filled.
fn fitted(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return format!("{text}{}", " ".repeat(width - length));
    }
    text.chars().take(width - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(event: Value) -> Value {
        json!({ "kind": "event", "id": "00", "time": "2026-01-02T03:04:05.678Z", "model": "main", "class": "foreground", "event": event })
    }

    fn shown(event: Value) -> Option<String> {
        Lines::new(false).of("event", &told(event))
    }

    #[test]
    fn lines_stand_in_columns() {
        let retry = json!({
            "type": "provider_retry", "phase": "scheduled", "candidate": "primary/gpt-x", "attempt": 1, "max_retries": 2,
            "reason": "server_error", "status_code": 503, "delay_ms": 500,
        });
        assert_eq!(
            shown(retry).unwrap(),
            "03:04:05.678  retry     main      primary/gpt-x     1 of 2 in 500 ms: server error (503)"
        );
        let fallback = json!({ "type": "model_fallback", "from": "a/x", "to": "b/y" });
        assert_eq!(shown(fallback).unwrap(), "03:04:05.678  fallback  main      a/x               to b/y");
        let ended = json!({
            "kind": "ended", "time": "2026-01-02T03:04:05.678Z", "model": "main", "ending": "complete", "candidate": "b/y",
            "duration_ms": 1_900, "first_output_ms": 260, "retries": 1, "fallbacks": 0, "stalls": 0,
            "usage": { "quality": "measured", "input": 300, "cache_read": 700, "output": 12, "cost_nanodollars": 1_200_000 },
        });
        assert_eq!(
            Lines::new(false).of("event", &ended).unwrap(),
            "03:04:07.578  done      main      b/y               1.9 s, first output 260 ms, 1 retry, 1000 in, 12 out, $0.0012"
        );
    }

    #[test]
    fn what_goes_as_it_should_is_no_line_before_its_end() {
        for event in [
            json!({ "type": "provider_attempt", "phase": "started", "candidate": "a/x", "attempt": 1 }),
            json!({ "type": "provider_attempt", "phase": "committed", "candidate": "a/x", "attempt": 1 }),
            json!({ "type": "provider_admission", "phase": "admitted", "candidate": "a/x" }),
            json!({ "type": "usage", "candidate": "a/x" }),
            json!({ "type": "of_a_later_version" }),
        ] {
            assert_eq!(shown(event.clone()), None, "{event}");
        }
        assert_eq!(Lines::new(false).of("event", &json!({ "kind": "began", "model": "main" })), None);
        assert_eq!(Lines::new(false).of("hello", &json!({})), None);
    }

    #[test]
    fn no_name_reaches_the_terminal_as_a_command() {
        let event = json!({ "type": "model_fallback", "from": "a/\u{1b}[2J\u{7}", "to": "b\r\ny" });
        let line = Lines::new(true).of("event", &told(event)).unwrap();
        let bare = line.replace("\x1b[0m", "").replace("\x1b[2m", "").replace("\x1b[33m", "").replace("\x1b[1m", "");
        assert!(!bare.chars().any(char::is_control), "{bare:?}");
    }

    #[test]
    fn columns_grow_up_to_a_width_and_longer_names_are_cut() {
        let mut lines = Lines::new(false);
        let long = "provider/".to_owned() + &"m".repeat(60);
        let event = |from: &str| told(json!({ "type": "model_fallback", "from": from, "to": "b" }));
        let first = lines.of("event", &event(&long)).unwrap();
        let second = lines.of("event", &event("a/x")).unwrap();
        let column = |line: &str| line.chars().position(|c| c == '…').unwrap_or_default();
        assert_eq!(column(&first), 12 + 2 + 8 + 2 + 8 + 2 + WIDEST - 1);
        let place = |line: &str| line.chars().count() - "to b".len();
        assert_eq!(place(&first), place(&second));
    }
}
