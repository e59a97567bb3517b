// The numbers of the last five minutes, by scope ("all", "model:…", "candidate:…"), and how they are drawn.

const STEP = 5;
const STEPS = 60;
const NOTHING = { requests: 0, errors: 0, cost_nanodollars: 0 };

const figures = {
  /** Scope → its steps by the second at which they begin, and its last minutes, the newest first. */
  scopes: new Map(),
  /** The newest second, by the gateway's clock. */
  now: 0,

  clear() {
    this.scopes.clear();
    this.now = 0;
  },

  /** Takes over what is new. A scope that is no longer told is gone. */
  take(charts) {
    this.now = charts.now;
    for (const name of this.scopes.keys()) if (!(name in charts.scopes)) this.scopes.delete(name);
    for (const [name, { minutes, steps }] of Object.entries(charts.scopes)) {
      let scope = this.scopes.get(name);
      if (!scope) this.scopes.set(name, (scope = { steps: new Map(), minutes: [] }));
      scope.minutes = minutes;
      for (const step of steps) scope.steps.set(step.second, step);
      for (const second of scope.steps.keys()) if (second <= this.now - STEP * STEPS) scope.steps.delete(second);
    }
  },

  /** One of the last minutes; 0 is the one that ends now. */
  minute(scope, back = 0) {
    return this.scopes.get(scope)?.minutes[back] ?? NOTHING;
  },

  /** Five minutes in steps that stand still: the last one grows until it is full. */
  steps(scope) {
    const steps = this.scopes.get(scope)?.steps;
    const last = Math.floor(this.now / STEP) * STEP;
    return Array.from({ length: STEPS }, (_, index) => steps?.get(last - (STEPS - 1 - index) * STEP) ?? NOTHING);
  },
};

const errorRate = (numbers) => (numbers.requests ? numbers.errors / numbers.requests : null);

/** The tiles: what each says about the last minute, and what its chart shows. */
const TILES = [
  {
    label: "Requests", chart: "bars", unit: (value) => plural(value, "request"), axis: (value) => `${count(value)} in 5 s`,
    value: (last) => `${count(last.requests)} / min`, sub: (last) => (last.errors ? plural(last.errors, "error") : "no errors"),
    of: (step) => step.requests, failed: (step) => step.errors,
  },
  {
    label: "Error rate", chart: "rate", unit: percent, ceiling: 0.05, most: 1, tone: (last) => (errorRate(last) >= 0.05 ? "bad" : ""),
    value: (last) => percent(errorRate(last)), sub: (last) => (last.requests ? `${count(last.errors)} of ${count(last.requests)}` : "no requests"),
    of: errorRate,
  },
  {
    label: "First output", chart: "line", unit: span,
    value: (last) => span(last.first_output_p50_ms), sub: (last) => (last.first_output_p95_ms == null ? "none yet" : `95 % within ${span(last.first_output_p95_ms)}`),
    of: (step) => step.first_output_p50_ms,
  },
  {
    label: "Cache hits", chart: "line", unit: percent, ceiling: 1, most: 1,
    value: (last) => percent(last.cache_hit_rate), sub: (last) => (last.cache_hit_rate == null ? "nothing told" : "of input tokens"),
    of: (step) => step.cache_hit_rate,
  },
  {
    label: "Cost", chart: "bars", unit: money, axis: (value) => `${money(value)} in 5 s`,
    value: (last) => money(last.cost_nanodollars), sub: (last) => (last.requests && last.cost_nanodollars ? `${money(last.cost_nanodollars / last.requests)} a request` : "in the last minute"),
    of: (step) => step.cost_nanodollars,
  },
];

/** The next pleasant number: 1, 2 or 5 times a power of ten. */
function ceiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999);
}

/** The height of a value in a chart, from the top. */
function level(value, top, height) {
  return round(height - (Math.min(value, top) / top) * height);
}

/** A line through the known values; where one is not known there is a gap, and a lonely one is a short dash. */
function linePath(values, top, width, height) {
  const step = width / values.length;
  let path = "";
  values.forEach((value, index) => {
    if (value == null) return;
    const starts = values[index - 1] == null;
    const alone = starts && values[index + 1] == null;
    const x = alone ? index * step : (index + 0.5) * step;
    path += `${starts ? "M" : "L"}${round(x)} ${level(value, top, height)}`;
    if (alone) path += `h${round(step)}`;
  });
  return path;
}

/** What lies below that line. */
function areaPath(values, top, width, height) {
  const step = width / values.length;
  let path = "";
  values.forEach((value, index) => {
    if (value == null) return;
    const starts = values[index - 1] == null;
    const ends = values[index + 1] == null;
    const x = starts && ends ? index * step : (index + 0.5) * step;
    const y = level(value, top, height);
    path += starts ? `M${round(x)} ${height}V${y}` : `L${round(x)} ${y}`;
    if (ends) path += `${starts ? `h${round(step)}` : ""}V${height}z`;
  });
  return path;
}

/** Bars from `from[i]`, or from the ground, up to `to[i]`. */
function barPath(from, to, top, width, height) {
  const step = width / to.length;
  let path = "";
  to.forEach((value, index) => {
    const low = from ? from[index] : 0;
    if (!(value > low)) return;
    const base = level(low, top, height);
    path += `M${round((index + 0.12) * step)} ${base}V${level(value, top, height)}h${round(step * 0.76)}V${base}z`;
  });
  return path;
}

function round(number) {
  return Math.round(number * 100) / 100;
}
