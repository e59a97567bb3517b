// One state, drawn at most once a frame, and the wiring of the few controls.

const page = { status: null, heardAt: 0, awaySince: null, retryAt: 0, instance: null, model: "", kind: "", drawn: false };

function draw() {
  if (page.drawn) return;
  page.drawn = true;
  requestAnimationFrame(() => {
    page.drawn = false;
    if (page.status) show();
  });
}

function show() {
  const { status, model } = page;
  // While the gateway is away its clocks stand still.
  const elapsed = (page.awaySince ?? performance.now()) - page.heardAt;
  const scope = model ? `model:${model}` : "all";
  showAbout(status, elapsed);
  showHeadline(status);
  showTiles(scope);
  showFigures(scope);
  showModels(status, elapsed, model);
  showRequests(status.requests, elapsed, model);
  showQueue(status.admission);
  showKeys(status.credentials, elapsed);
  showFeed(page.kind);
  showAway();
  showRefused(status.gateway.config?.refused);
  $("ending").hidden = status.gateway.state !== "draining";
  put($("ending-text"), `It takes no new requests; ${plural(status.requests.total, "request")} may still end.`);
}

function showAbout(status, elapsed) {
  const { version, started_at_ms: started, now_ms: now } = status.gateway;
  put($("about"), `${version}, up for ${long(now - started + elapsed)}`);
}

/** What is wrong with a configuration that was read and is not served. */
function showRefused(refused) {
  const banner = $("refused");
  if (refused && banner.hidden) say("A new configuration is wrong, and is not served");
  banner.hidden = !refused;
  if (!refused) return;
  const more = refused.total - 1;
  put($("refused-text"), `At ${clock.format(refused.at_ms)}: ${refused.complaints[0]}${more > 0 ? `, and ${plural(more, "more complaint")}` : ""}. What was served before still is.`);
}

function showAway() {
  const away = page.awaySince != null;
  $("away").hidden = !away;
  $("board").classList.toggle("stale", away);
  if (!away) return;
  const left = Math.max(0, page.retryAt - performance.now());
  const since = Date.now() - (performance.now() - page.awaySince);
  put($("away-title"), `No connection to the gateway since ${clock.format(since)}.`);
  put($("away-text"), `What is shown is as it was then. ${left ? `Trying again in ${long(Math.ceil(left / 1000) * 1000)}.` : "Trying again now."}`);
}

function link(state, text) {
  mark($("link"), "data-state", state);
  put($("link-text"), text);
}

/** For screen readers: what matters, at most one sentence every few seconds. */
const speech = { waiting: [], timer: 0 };
function say(text) {
  if (!speech.waiting.includes(text)) speech.waiting.push(text);
  if (speech.timer) return;
  const speak = () => {
    const told = speech.waiting.splice(0);
    speech.timer = told.length ? setTimeout(speak, 4000) : 0;
    if (told.length) put($("say"), told.length > 3 ? `${told.slice(0, 2).join(". ")}. And ${told.length - 2} more changes.` : `${told.join(". ")}.`);
  };
  speech.timer = setTimeout(speak, 300);
}

/** Tells what has become of the candidates since the last message. */
function announce(before, after) {
  const states = new Map(before.models.flatMap((model) => model.candidates.map((each) => [`${model.name}\n${each.name}`, standing(each, 0).text])));
  for (const model of after.models) {
    for (const candidate of model.candidates) {
      const was = states.get(`${model.name}\n${candidate.name}`);
      const { text } = standing(candidate, 0);
      // A probe comes and goes; what comes of it is told.
      if (was && was !== text && text !== "Probing" && !(was === "Probing" && text === "Open")) say(`${candidate.name}: ${text.toLowerCase()}`);
    }
  }
}

const feed = new Feed({
  live() {
    if (page.awaySince != null) {
      const gone = performance.now() - page.awaySince;
      addLine(Date.now(), line("note", "good", "note", `Connected again after ${span(gone)}`));
      say("Connected again");
    }
    page.awaySince = null;
    link("live", "Live");
    $("login").hidden = true;
    $("board").hidden = false;
    $("leave").hidden = feed.key == null;
  },
  away(wait) {
    const first = page.awaySince == null;
    page.awaySince ??= performance.now();
    page.retryAt = performance.now() + wait;
    link("away", "Disconnected");
    if (first && page.status) say("The connection to the gateway is lost");
    draw();
  },
  refused(had) {
    page.status = null;
    page.awaySince = null;
    link("connecting", "Not signed in");
    $("board").hidden = true;
    put($("about"), "");
    $("leave").hidden = true;
    $("login").hidden = false;
    put($("login-error"), had ? "The gateway does not know this key." : "");
    $("key").focus();
  },
  message(name, data) {
    if (name === "snapshot") {
      figures.clear();
      if (page.instance && page.instance !== data.gateway.instance) addLine(Date.now(), line("note", "", "note", "The gateway was started anew"));
      page.instance = data.gateway.instance;
    }
    if (name === "snapshot" || name === "update") {
      if (page.status) announce(page.status, data);
      page.status = data;
      page.heardAt = performance.now();
      figures.take(data.charts);
      showChoices(data.models);
    } else if (name === "event") {
      const told = describe(data.event);
      if (told) addLine(Date.parse(data.time), told);
    } else if (name === "action") {
      addLine(data.at_ms, line("circuit", "hand", "held", `By hand: ${ACTIONS[data.action]?.done ?? data.action} ${data.candidate}`));
    } else if (name === "lost") {
      addLine(Date.now(), line("note", "warn", "note", `${plural(data.count, "event")} came too fast to be shown`));
    } else if (name === "end") {
      addLine(Date.now(), line("note", "warn", "note", "The gateway is ending"));
    }
    draw();
  },
});

/** The models to choose from; the choice stays while its model is there. */
function showChoices(models) {
  const select = $("model");
  const names = models.map((model) => model.name).slice(0, MAX_CANDIDATES);
  if (select.options.length === names.length + 1 && names.every((name, index) => select.options[index + 1].value === name)) return;
  select.replaceChildren(select.options[0], ...names.map((name) => new Option(name, name)));
  if (!names.includes(page.model)) page.model = "";
  select.value = page.model;
}

$("model").addEventListener("change", (event) => {
  page.model = event.target.value;
  draw();
});
$("kind").addEventListener("change", (event) => {
  page.kind = event.target.value;
  draw();
});
$("pause").addEventListener("click", () => {
  lines.paused = lines.paused ? null : lines.all.map((each) => ({ ...each }));
  lines.pausedAt = lines.next;
  mark($("pause"), "aria-pressed", String(lines.paused != null));
  draw();
});
$("figures").closest("details").addEventListener("toggle", draw);
$("again").addEventListener("click", () => feed.start());
$("models").addEventListener("click", (event) => {
  const button = event.target.closest("button.act");
  if (!button || !page.status) return;
  actions.open(page.status, button.dataset.model, button.dataset.candidate, (path) => feed.ask(path), say);
});
$("act-choices").addEventListener("change", () => actions.choose());
$("act-cancel").addEventListener("click", () => $("act").close());
$("act-form").addEventListener("submit", (event) => {
  event.preventDefault();
  actions.confirm();
});
$("login-form").addEventListener("submit", (event) => {
  event.preventDefault();
  feed.key = $("key").value;
  $("key").value = "";
  put($("login-error"), "");
  link("connecting", "Connecting");
  feed.start();
});
$("leave").addEventListener("click", () => {
  feed.stop();
  feed.key = null;
  feed.on.refused(false);
});

const theme = {
  apply(name) {
    mark(document.documentElement, "data-theme", name === "auto" ? "" : name);
    $("theme").value = name;
  },
};
theme.apply(localStorage.getItem("stanchion-theme") ?? "auto");
$("theme").addEventListener("change", (event) => {
  localStorage.setItem("stanchion-theme", event.target.value);
  theme.apply(event.target.value);
});

addEventListener("online", () => page.awaySince != null && feed.start());
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  if (page.awaySince != null) feed.start();
  draw();
});
// Ages and countdowns.
setInterval(draw, 1000);
feed.start();
