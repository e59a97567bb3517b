// Words and numbers, as a person reads them.

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const NONE = "–";

/** Milliseconds, in the unit that fits: 320 ms, 1.4 s, 12 s, 3 min 05 s, 2 h 10 min, 3 d 4 h. */
function span(ms) {
  if (ms == null) return NONE;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  return long(ms);
}

/** The same without fractions, for what ticks by the second. */
function long(ms) {
  const seconds = Math.round(Math.max(ms, 0) / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${String(seconds % 60).padStart(2, "0")} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h ${String(minutes % 60).padStart(2, "0")} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

function count(number) {
  return number == null ? NONE : whole.format(number);
}

/** A share of one. Small ones keep a decimal; a failure never reads as 0 %, nor a miss as 100 %. */
function percent(share) {
  if (share == null) return NONE;
  const value = share * 100;
  if (value === 0) return "0 %";
  if (value < 0.1) return "<0.1 %";
  if (value < 9.95) return `${value.toFixed(1)} %`;
  return `${Math.min(Math.round(value), share < 1 ? 99 : 100)} %`;
}

/** Billionths of a dollar. */
function money(nano) {
  if (nano == null) return NONE;
  const dollars = nano / 1e9;
  if (dollars === 0) return "$0";
  if (dollars < 0.0001) return "<$0.0001";
  if (dollars < 0.01) return `$${dollars.toFixed(4)}`;
  if (dollars < 1000) return `$${dollars.toFixed(2)}`;
  return `$${whole.format(dollars)}`;
}

function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** A name of the machine's as words: `rate_limit` is "rate limit". */
function words(name) {
  return String(name ?? "").replaceAll("_", " ");
}

function list(names) {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

const PHASES = ["streaming", "first_output_pending", "waiting", "queued", "stalled"];
/** The name of a phase; of one that waits, with what for. */
function phaseName(phase, wait) {
  return phase === "waiting" && wait === "circuit" ? "Waiting for a circuit" : PHASE_NAMES[phase] ?? words(phase);
}

const PHASE_NAMES = {
  queued: "Queued", waiting: "Waiting to retry", first_output_pending: "First output pending", streaming: "Streaming", stalled: "Stalled",
};

/** What an event is about, for the feed: its kind, its tone, its picture and one sentence. `null` for what is not worth a line. */
function describe(event) {
  const who = event.candidate ?? "the provider";
  const cause = (reason) => `${words(reason)}${event.status_code ? ` (${event.status_code})` : ""}`;
  switch (event.type) {
    case "provider_attempt":
      if (event.phase !== "failed") return null;
      return line("failed", "bad", "failed", `Attempt ${event.attempt} at ${who} failed after ${span(event.elapsed_ms)}: ${cause(event.failure ?? "unknown")}`,
        `failed ${who} ${event.attempt} ${event.failure} ${event.status_code}`);
    case "provider_retry":
      switch (event.phase) {
        case "scheduled":
          return line("retry", "warn", "retry", `Retry ${event.attempt} of ${event.max_retries} of ${who} in ${span(event.delay_ms ?? 0)}: ${cause(event.reason)}`,
            `retry ${who} ${event.attempt} ${event.reason}`);
        case "recovered":
          return line("retry", "good", "retry", `${who} answered after ${plural(event.attempt, "retry", "retries")}`);
        case "exhausted":
          // Where none was made, the failure itself says all.
          if (!event.attempt && !event.exhausted_by) return null;
          return line("retry", "bad", "retry", `No further retry of ${who}: ${cause(event.reason)}${event.exhausted_by ? `, ${words(event.exhausted_by)} used up` : ""}`);
        default: return null;
      }
    case "model_fallback":
      return line("fallback", "warn", "fallback", `Fallback from ${event.from} to ${event.to}`);
    case "provider_circuit":
      switch (event.phase) {
        case "opened": case "reopened":
          return line("circuit", "bad", "open", `Circuit of ${who} ${event.phase}: ${event.failure_count} of ${event.sample_count} failed, ${cause(event.reason)}` +
            (event.retry_after_ms == null ? "" : `; next probe in ${span(event.retry_after_ms)}`));
        case "probe": return line("circuit", "warn", "half_open", `Probing ${who}`);
        case "closed": return line("circuit", "good", "closed", `Circuit of ${who} closed`);
        case "rejected": return line("circuit", "warn", "open", `A request was turned away from ${who}: its circuit is open`);
        case "waiting": return line("circuit", "warn", "stall", `A request waits for the circuit of ${who}`);
        default: return null;
      }
    case "provider_admission": {
      const limit = event.limit > 1e15 ? "" : ` of ${count(event.limit)}`;
      switch (event.phase) {
        case "queued":
          return line("queue", "", "queue", `A ${event.request_class} request queues for ${who}: ${count(event.in_flight)}${limit} running, ${count(event.queue_depth)} waiting`, `queued ${event.request_class} ${who}`);
        case "rejected":
          return line("queue", "bad", "queue", `A ${event.request_class} request was turned away: ${words(event.reason ?? "capacity")} (${words(event.scope)})`);
        default: return null;
      }
    }
    case "provider_stall":
      return event.phase === "detected"
        ? line("stall", "bad", "stall", `${who} has shown no progress for ${span(event.duration_ms)}`, `stalls ${who}`)
        : line("stall", "good", "stall", `${who} goes on after ${span(event.duration_ms)} without progress`, `goes on ${who}`);
    case "credential_rotation":
      return line("key", event.cooldown_ms == null && event.reason !== "auth_failure" ? "" : "warn", "key",
        `Key ${event.credential_id} of ${event.provider}: ${words(event.reason)}` +
        (event.cooldown_ms == null ? "" : `, back in ${span(event.cooldown_ms)}`) + `; ${event.ready_count} ready`);
    case "prompt_cache_break":
      return line("cache", "warn", "cache", `Prompt cache broken at ${who}: ${words(event.reason)}; ${count(event.lost_tokens)} tokens paid anew` +
        (event.lost_nanodollars == null ? "" : ` (${money(event.lost_nanodollars)})`));
    case "prompt_cache_volatile":
      return line("cache", "warn", "cache", `A session changes its system prompt with every call: no prompt cache can help it`);
    case "stream_frame":
      return line("failed", "warn", "failed", `A frame was ${words(event.fault)} (${count(event.bytes)} bytes)`);
    case "commit_hold":
      return line("failed", "warn", "failed", `A reply outgrew what is held back (${count(event.bytes)} bytes)`);
    default: return null;
  }
}

/** One line of the feed. Lines that fold alike become one with a count. */
function line(kind, tone, icon, text, fold = text) {
  return { kind, tone, icon, text, fold };
}
