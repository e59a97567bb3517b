// The connection to the gateway: Server-Sent Events over fetch, since EventSource cannot send a key.

/** Nothing for so long, although the gateway speaks every second: the connection is dead. */
const SILENCE_MS = 6000;
const BACKOFF_MS = [300, 700, 1500, 3000, 5000, 8000];
/** No message is larger. More without an end is no feed of ours. */
const MAX_MESSAGE = 8 * 1024 * 1024;
const KEY = "stanchion-admin-key";

class Feed {
  /** `on` has `message(name, data)`, `live()`, `away(retryInMs)` and `refused(hadKey)`. */
  constructor(on) {
    this.on = on;
    this.failures = 0;
    this.timer = 0;
    this.watch = 0;
    this.running = null;
  }

  get key() {
    return sessionStorage.getItem(KEY);
  }

  set key(key) {
    if (key == null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, key);
  }

  headers(more = {}) {
    return this.key == null ? more : { ...more, authorization: `Bearer ${this.key}` };
  }

  /** Connects now, whatever was planned. */
  start() {
    this.stop();
    this.running = new AbortController();
    this.run(this.running).catch(() => {});
  }

  stop() {
    clearTimeout(this.timer);
    clearTimeout(this.watch);
    this.timer = 0;
    this.running?.abort();
    this.running = null;
  }

  async run(mine) {
    let refused = false;
    try {
      this.heard(mine);
      const response = await fetch("events", { headers: this.headers({ accept: "text/event-stream" }), signal: mine.signal, cache: "no-store" });
      refused = response.status === 401;
      if (response.ok && response.body) await this.read(response.body.getReader(), mine);
    } catch {
      // However it ended: it is begun again.
    }
    if (mine !== this.running) return;
    clearTimeout(this.watch);
    mine.abort();
    if (refused) {
      this.stop();
      const had = this.key != null;
      this.key = null;
      this.on.refused(had);
      return;
    }
    const wait = BACKOFF_MS[Math.min(this.failures, BACKOFF_MS.length - 1)] * (0.8 + 0.4 * Math.random());
    this.failures += 1;
    this.timer = setTimeout(() => this.start(), wait);
    this.on.away(wait);
  }

  async read(reader, mine) {
    const decoder = new TextDecoder();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done || mine !== this.running) return;
      this.heard(mine);
      text += decoder.decode(value, { stream: true });
      let end;
      while ((end = text.indexOf("\n\n")) >= 0) {
        this.tell(text.slice(0, end));
        text = text.slice(end + 2);
      }
      if (text.length > MAX_MESSAGE) return;
    }
  }

  tell(message) {
    let name = "message";
    let data = "";
    for (const row of message.split("\n")) {
      if (row.startsWith("event: ")) name = row.slice(7);
      else if (row.startsWith("data: ")) data += row.slice(6);
    }
    if (!data) return;
    if (name === "snapshot") {
      this.failures = 0;
      this.on.live();
    }
    this.on.message(name, JSON.parse(data));
  }

  heard(mine) {
    clearTimeout(this.watch);
    this.watch = setTimeout(() => mine.abort(), SILENCE_MS);
  }

  /** Asks for an action. Resolves to what went wrong, or to nothing. */
  async ask(path) {
    try {
      const response = await fetch(path, { method: "POST", headers: this.headers({ "x-stanchion-admin": "1" }), cache: "no-store", signal: AbortSignal.timeout(10_000) });
      if (response.ok) return null;
      const told = await response.json().catch(() => null);
      return told?.error?.message ?? `The gateway answered ${response.status}.`;
    } catch {
      return "The gateway does not answer.";
    }
  }
}
