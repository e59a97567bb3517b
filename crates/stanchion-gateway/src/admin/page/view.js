// What is shown. All text goes in as text; nothing that comes from the gateway is ever read as markup.

/** How many requests are shown: on a phone fewer, since each takes two lines. */
const narrow = matchMedia("(max-width: 45rem)");
const maxRequests = () => (narrow.matches ? 12 : 24);
const MAX_FEED = 100;
const MAX_CANDIDATES = 256;
/** Equal lines within this time are one line with a count. */
const FOLD_MS = 5000;

const $ = (id) => document.getElementById(id);

/** Sets text only where it differs, so that nothing is laid out, or read out, anew for nothing. */
function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function mark(node, name, value) {
  if (value == null || value === "") node.removeAttribute(name);
  else if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/** A copy of a template's one element. */
function copy(id) {
  return $(id).content.firstElementChild.cloneNode(true);
}

/** Makes the children of `parent` (after `skip` fixed ones) those of `items`, in order; elements are kept by key. */
function keyed(parent, items, keyOf, make, fill, skip = 0) {
  const known = new Map();
  for (const node of [...parent.children].slice(skip)) known.set(node.dataset.key, node);
  let place = parent.children[skip] ?? null;
  for (const item of items) {
    const key = keyOf(item);
    let node = known.get(key);
    known.delete(key);
    if (!node) {
      node = make(item);
      node.dataset.key = key;
    }
    if (node === place) place = place.nextElementSibling;
    else parent.insertBefore(node, place);
    fill(node, item);
  }
  for (const node of known.values()) node.remove();
}

/** How a candidate stands: what the chip shows, and what stands beside it. */
function standing(candidate, elapsed) {
  const circuit = candidate.circuit;
  if (candidate.drained) return { state: "drained", text: "Drained", sub: candidate.in_flight ? `${plural(candidate.in_flight, "request")} still running` : "takes no requests" };
  if (!circuit) return { state: "none", text: "No circuit", sub: "" };
  if (circuit.by_hand) return { state: "held", text: "Held open", sub: "until a hand closes it" };
  const cause = `${words(circuit.reason)}${circuit.status_code ? ` (${circuit.status_code})` : ""}`;
  if (circuit.state === "half_open") return { state: "half_open", text: "Probing", sub: cause };
  if (circuit.state === "open") {
    const left = Math.max(0, (circuit.next_probe_ms ?? 0) - elapsed);
    return { state: "open", text: "Open", sub: `${left ? `probe in ${long(Math.ceil(left / 1000) * 1000)}` : "probe with the next request"} · ${cause}` };
  }
  if (circuit.open_keys) return { state: "closed", text: "Closed", sub: `open for ${circuit.open_keys} of ${plural(circuit.keys, "key")}` };
  return { state: "closed", text: "Closed", sub: circuit.failure_count ? `${circuit.failure_count} of ${circuit.sample_count} failed` : "" };
}

const isAvailable = (candidate) => ["closed", "none", "half_open"].includes(standing(candidate, 0).state);

function showHeadline(status) {
  const models = status.models;
  const all = models.flatMap((model) => model.candidates.map((candidate) => ({ model, candidate })));
  const out = all.filter(({ candidate }) => !isAvailable(candidate));
  const dead = models.filter((model) => model.candidates.length && !model.candidates.some(isAvailable));
  const names = [...new Set(out.map(({ candidate }) => candidate.name))];
  const running = plural(status.requests.total, "request");
  let title = all.length ? "All candidates take requests" : "No candidates are configured";
  if (dead.length) title = dead.length === 1 ? `${dead[0].name} has no candidate left` : `${dead.length} models have no candidate left`;
  else if (names.length) title = `${names.length} of ${plural(new Set(all.map(({ candidate }) => candidate.name)).size, "candidate")} ${names.length === 1 ? "takes" : "take"} no requests`;
  const listed = names.length > 4 ? [...names.slice(0, 3), `${names.length - 3} more`] : names;
  put($("headline-title"), title);
  put($("headline-text"), `${listed.length ? `${list(listed)}. ` : ""}${running} in flight, ${count(status.admission.queued)} queued.`);
  const page = names.length ? `(${names.length}) Stanchion` : "Stanchion";
  if (document.title !== page) document.title = page;
}

function showTiles(scope) {
  const last = figures.minute(scope);
  const steps = figures.steps(scope);
  keyed($("tiles"), TILES, (tile) => tile.label, makeTile, (node, tile) => {
    const values = steps.map(tile.of);
    const known = values.filter((value) => value != null);
    const peak = Math.max(0, ...known);
    const top = Math.min(ceiling(Math.max(peak, tile.ceiling ?? 0)), tile.most ?? Infinity);
    put(node.querySelector(".value"), tile.value(last));
    put(node.querySelector(".sub"), tile.sub(last));
    mark(node, "data-tone", tile.tone?.(last));
    put(node.querySelector(".top"), known.length && peak ? (tile.axis ?? tile.unit)(top) : "");
    const chart = node.querySelector(".chart");
    const [, area, err, stroke] = chart.children;
    if (tile.chart === "bars") {
      const failed = tile.failed ? steps.map(tile.failed) : null;
      mark(area, "d", barPath(failed, values, top, 240, 56));
      mark(err, "d", failed ? barPath(null, failed, top, 240, 56) : "");
    } else {
      mark(area, "d", areaPath(values, top, 240, 56));
      mark(stroke, "d", linePath(values, top, 240, 56));
    }
    const told = (value) => tile.unit(value);
    mark(chart, "aria-label", known.length
      ? `${tile.label} in the last five minutes, in steps of 5 seconds: lowest ${told(Math.min(...known))}, highest ${told(peak)}, latest ${told(known.at(-1))}`
      : `${tile.label} in the last five minutes: nothing yet`);
  });
}

function makeTile(tile) {
  const node = copy("t-tile");
  node.querySelector(".label").textContent = tile.label;
  node.querySelector(".chart").classList.add(tile.chart);
  return node;
}

/** The same figures as text: five minutes, newest first. */
function showFigures(scope) {
  if (!$("figures").closest("details").open) return;
  keyed($("figures"), [0, 1, 2, 3, 4], String, () => {
    const row = document.createElement("tr");
    const head = Object.assign(document.createElement("th"), { scope: "row" });
    row.append(head, ...Array.from({ length: 6 }, () => Object.assign(document.createElement("td"), { className: "num" })));
    return row;
  }, (row, back) => {
    const sum = figures.minute(scope, back);
    const end = (figures.now + 1 - back * 60) * 1000;
    const cells = [`${clock.format(end - 60_000)} to ${clock.format(end)}`, count(sum.requests), count(sum.errors), percent(errorRate(sum)), span(sum.first_output_p50_ms), percent(sum.cache_hit_rate), money(sum.cost_nanodollars)];
    cells.forEach((text, index) => put(row.children[index], text));
  });
}

function showModels(status, elapsed, only) {
  let room = MAX_CANDIDATES;
  let left = 0;
  const models = [];
  for (const model of status.models) {
    if (only && model.name !== only) continue;
    const candidates = model.candidates.slice(0, room);
    room -= candidates.length;
    left += model.candidates.length - candidates.length;
    if (candidates.length) models.push({ ...model, candidates });
  }
  put($("models-note"), left ? `and ${left} more` : "");
  keyed($("models"), models, (model) => model.name, () => copy("t-model"), (body, model) => {
    const head = body.firstElementChild;
    put(head.querySelector(".name"), model.name);
    put(head.querySelector(".sub"), model.candidates.some(isAvailable) ? "" : "no candidate left: requests fail");
    keyed(body, model.candidates, (candidate) => candidate.id, () => copy("t-candidate"), (row, candidate) => {
      showCandidate(row, model, candidate, elapsed);
    }, 1);
  }, 1);
}

function showCandidate(row, model, candidate, elapsed) {
  const { state, text, sub } = standing(candidate, elapsed);
  const scope = `candidate:${candidate.name}`;
  const last = figures.minute(scope);
  const rate = errorRate(last);
  mark(row, "data-state", state);
  const [name, circuit, running, queued, first, errors, wide, act] = row.children;
  put(name.firstElementChild, candidate.name);
  mark(circuit.querySelector("use"), "href", `#i-${state}`);
  put(circuit.querySelector(".chip-text"), text);
  put(circuit.querySelector(".sub"), sub);
  number(running, candidate.in_flight);
  number(queued, candidate.queued);
  put(first, span(last.first_output_p50_ms));
  put(errors, percent(rate));
  mark(errors, "class", rate >= 0.05 ? "num high" : "num");
  const steps = figures.steps(scope);
  const requests = steps.map((step) => step.requests);
  const failed = steps.map((step) => step.errors);
  const top = Math.max(4, ...requests);
  const trend = wide.firstElementChild;
  mark(trend.children[0], "d", barPath(failed, requests, top, 120, 24));
  mark(trend.children[1], "d", barPath(null, failed, top, 120, 24));
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  trend.classList.toggle("blank", !sum(requests));
  mark(trend, "aria-label", `${plural(sum(requests), "request")} in the last five minutes, ${plural(sum(failed), "error")}`);
  const button = act.firstElementChild;
  mark(button, "data-model", model.name);
  mark(button, "data-candidate", candidate.id);
  mark(button, "aria-label", `Actions for ${candidate.name} of ${model.name}`);
}

function number(cell, value) {
  put(cell, count(value ?? 0));
  cell.classList.toggle("zero", !value);
}

function showRequests(requests, elapsed, only) {
  const rows = only ? requests.rows.filter((row) => row.model === only) : requests.rows;
  const shown = rows.slice(0, maxRequests());
  put($("requests-note"), requests.total ? plural(requests.total, "request") : "");
  keyed($("phases"), PHASES, (phase) => phase, (phase) => {
    const node = document.createElement("span");
    node.dataset.phase = phase;
    const pip = Object.assign(document.createElement("i"), { className: "pip" });
    node.append(pip, `${PHASE_NAMES[phase]} `, document.createElement("b"));
    return node;
  }, (node, phase) => put(node.lastElementChild, count(requests.phases[phase] ?? 0)));
  keyed($("requests").tBodies[0], shown, (row) => String(row.id), () => copy("t-request"), (node, row) => {
    const [age, phase, model, candidate, group, attempt] = node.children;
    mark(node, "data-phase", row.phase);
    put(age, long(row.age_ms + elapsed));
    put(phase.querySelector(".chip-text"), phaseName(row.phase, row.wait));
    put(model, row.model ?? NONE);
    put(candidate, row.candidate ?? NONE);
    put(group, row.class);
    put(attempt, String(row.attempt));
  });
  const more = only ? rows.length - shown.length : requests.total - shown.length;
  put($("requests-more"), requests.total ? (more > 0 ? `and ${count(more)} more` : "") : "No request is in flight.");
}

function showQueue(admission) {
  put($("queue-note"), admission.closed ? "closed: nobody is let in" : admission.limit == null ? "no common limit" : "");
  keyed($("queue").tBodies[0], admission.classes, (row) => row.class, () => copy("t-class"), (node, row) => {
    const [name, running, waiting, longest] = node.children;
    put(name, row.class);
    number(running, row.in_flight);
    number(waiting, row.queued);
    put(longest, row.oldest_wait_ms == null ? NONE : span(row.oldest_wait_ms));
  });
  const limits = [{ label: "May wait", used: admission.queued, limit: admission.max_pending, full: "bad" }];
  // To run as many as may run is what a queue is for.
  if (admission.limit != null) limits.unshift({ label: "May run", used: admission.in_flight, limit: admission.limit, full: "" });
  keyed($("limits"), limits, (row) => row.label, () => copy("t-limit"), (node, { label, used, limit, full }) => {
    put(node.querySelector(".label"), label);
    put(node.querySelector(".value"), `${count(used)} of ${count(limit)}`);
    const share = limit ? Math.min(used / limit, 1) : 0;
    mark(node, "data-tone", share >= 1 ? full : share >= 0.8 && full ? "warn" : "");
    const meter = node.querySelector(".meter");
    mark(meter, "aria-label", label);
    mark(meter, "aria-valuenow", String(used));
    mark(meter, "aria-valuemin", "0");
    mark(meter, "aria-valuemax", String(limit));
    meter.firstElementChild.style.transform = `scaleX(${round(share)})`;
  });
}

function showKeys(pools, elapsed) {
  $("keys-card").hidden = !pools?.length;
  keyed($("keys"), (pools ?? []).slice(0, 64), (pool) => pool.provider, () => {
    const node = document.createElement("li");
    node.append(document.createElement("span"), Object.assign(document.createElement("span"), { className: "sub" }));
    return node;
  }, (node, pool) => {
    put(node.firstElementChild, `${pool.provider}: ${pool.ready_count} of ${pool.credentials.length} ready`);
    const out = pool.credentials.filter((key) => !["ready", "passed_over"].includes(key.state));
    const told = out.slice(0, 4).map((key) => `${key.id} ${words(key.state)}${key.back_in_ms == null ? "" : `, back in ${long(key.back_in_ms - elapsed)}`}`);
    put(node.lastElementChild, told.join("; ") + (out.length > 4 ? ` and ${out.length - 4} more` : ""));
  });
}

/** The feed's lines, newest first; bounded whatever comes. */
const lines = { all: [], paused: null, next: 0 };

function addLine(at, told) {
  const newest = lines.all.slice(0, 8).find((line) => line.fold === told.fold && at - line.at < FOLD_MS);
  if (newest) {
    newest.times += 1;
    newest.text = told.text;
    newest.at = at;
    return;
  }
  lines.next += 1;
  lines.all.unshift({ ...told, at, times: 1, key: String(lines.next) });
  if (lines.all.length > 2 * MAX_FEED) lines.all.length = 2 * MAX_FEED;
}

function showFeed(kind) {
  const source = lines.paused ?? lines.all;
  const shown = (kind ? source.filter((line) => line.kind === kind) : source).slice(0, MAX_FEED);
  $("feed-empty").hidden = shown.length > 0;
  put($("feed-empty"), kind ? "Nothing of this kind since this page was opened." : "Nothing has gone wrong since this page was opened.");
  const old = $("feed").childElementCount > 0;
  keyed($("feed"), shown, (line) => line.key, () => {
    const node = copy("t-feed");
    node.classList.toggle("fresh", old);
    return node;
  }, (node, told) => {
    const [time, icon, text] = node.children;
    mark(node, "data-tone", told.tone);
    put(time, clock.format(told.at));
    mark(icon.firstElementChild, "href", `#i-${told.icon}`);
    put(text.firstElementChild, told.text);
    put(text.lastElementChild, told.times > 1 ? `× ${count(told.times)}` : "");
  });
  const behind = lines.paused ? lines.next - Number(lines.paused[0]?.key ?? lines.pausedAt) : 0;
  put($("pause"), lines.paused ? `Resume${behind ? ` (${count(behind)} new)` : ""}` : "Pause");
}
