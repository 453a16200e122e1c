// What the server tells: server-sent events over fetch, since EventSource cannot send the token.
"use strict";

export const token = {
  get: () => { try { return sessionStorage.getItem("penstock-token") || ""; } catch { return kept; } },
  set: text => { kept = text; try { text ? sessionStorage.setItem("penstock-token", text) : sessionStorage.removeItem("penstock-token"); } catch { /* this page only */ } },
};
let kept = "";
const headers = more => ({...(token.get() ? {Authorization: "Bearer " + token.get()} : {}), ...more});

export class Refused extends Error {
  constructor(status, message) { super(message); this.status = status; }
}
export async function ask(path, body) {
  const options = body === undefined ? {} : {method: "POST", body: JSON.stringify(body)};
  const response = await fetch(path, {cache: "no-store", ...options, headers: headers(body === undefined ? {} : {"Content-Type": "application/json"})});
  let found = null;
  try { found = await response.json(); } catch { /* told by the status */ }
  if (response.status === 401) { live.unknown(); throw new Refused(401, "Sign in first."); }
  if (!response.ok) throw new Refused(response.status, found?.error || `${response.status} ${response.statusText}`);
  return found;
}

function merge(target, patch) {
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete target[name];
    else if (typeof value === "object" && !Array.isArray(value)) {
      const known = target[name];
      target[name] = merge(known && typeof known === "object" && !Array.isArray(known) ? known : {}, value);
    } else target[name] = value;
  }
  return target;
}

const SILENCE = 25000, HIDDEN = 20000;

class Live {
  constructor() {
    this.document = {}; this.listeners = new Set(); this.lostSince = null; this.signedOut = false; this.wrong = false;
    this.heard = null; this.skew = 0; this.trouble = ""; this.tries = 0; this.version = 0;
  }
  now() { return Date.now() + this.skew; }
  listen(listener) { this.listeners.add(listener); }
  tell(changed) { this.version++; for (const listener of this.listeners) listener(changed); }
  unknown() { this.signedOut = true; this.wrong = Boolean(token.get()); this.stop(); this.tell(new Set()); }
  start() {
    this.signedOut = false; this.stopped = false;
    this.run();
    document.addEventListener("visibilitychange", () => {
      clearTimeout(this.sleep);
      // Nobody looks: the server has nothing to do for this page.
      if (document.hidden) this.sleep = setTimeout(() => { this.asleep = true; this.stop(); }, HIDDEN);
      else if (this.asleep) { this.asleep = false; this.again(); }
    });
  }
  stop() { this.stopped = true; this.abort?.abort(); clearTimeout(this.retry); }
  again() { this.stop(); this.stopped = false; this.signedOut = false; this.run(); }
  async run() {
    const abort = this.abort = new AbortController();
    let silence;
    const alive = () => { clearTimeout(silence); silence = setTimeout(() => abort.abort(), SILENCE); };
    try {
      alive();
      const response = await fetch("/api/events", {headers: headers({Accept: "text/event-stream"}), cache: "no-store", signal: abort.signal});
      if (response.status === 401) { this.unknown(); return; }
      if (!response.ok) { let why = null; try { why = (await response.json()).error; } catch { /* none */ } throw new Error(why || `the server answers ${response.status}`); }
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const {value, done} = await reader.read();
        if (done) break;
        alive();
        const parts = (rest + value).split("\n\n");
        rest = parts.pop();
        for (const part of parts) this.take(part);
      }
      throw new Error("the server has closed the connection");
    } catch (error) {
      if (abort !== this.abort || this.stopped) return;
      this.lostSince ??= Date.now();
      this.trouble = error.name === "AbortError" ? "nothing was heard for a while" : error.message;
      this.tries++;
      this.retry = setTimeout(() => this.run(), Math.min(5000, 500 * this.tries));
      this.tell(new Set());
    } finally { clearTimeout(silence); }
  }
  take(text) {
    let kind = "", data = "";
    for (const line of text.split("\n")) {
      if (line.startsWith("event: ")) kind = line.slice(7);
      else if (line.startsWith("data: ")) data += line.slice(6);
    }
    this.lostSince = null; this.tries = 0; this.heard = Date.now();
    if (kind === "whole" || kind === "change") {
      const {time, patch} = JSON.parse(data);
      this.skew = time - Date.now();
      if (kind === "whole") this.document = {};
      merge(this.document, patch);
      this.tell(new Set(Object.keys(patch)));
    } else if (kind === "time") { this.skew = Number(data) - Date.now(); this.tell(new Set()); }
    else if (kind === "trouble") this.trouble = JSON.parse(data);
  }
}
export const live = new Live();
