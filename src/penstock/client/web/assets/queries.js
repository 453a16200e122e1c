// Queries of state: a key, a range of keys, windows of a time. An address fills in the form; only the reader's own click sends a query.
"use strict";
import {h, setText, when, copyButton, plural} from "./dom.js";
import {ask} from "./stream.js";

const MODES = [["find", "Look up a key"], ["browse", "Browse"]];
const shown = value => value == null ? "" : typeof value === "string" ? value : JSON.stringify(value);
const toMillis = text => text ? new Date(text).getTime() : null;
const toField = ms => { const date = new Date(Number(ms)); return Number.isNaN(date.getTime()) ? "" : new Date(date.getTime() - date.getTimezoneOffset() * 60000).toISOString().slice(0, 19); };

export class Queries {
  constructor() {
    const field = (label, input, hint) => h("label", {class: "field"}, h("span", {}, label), input, hint ? h("small", {class: "soft"}, hint) : null);
    const text = (attributes = {}) => h("input", {type: "text", autocomplete: "off", spellcheck: "false", ...attributes});
    const time = label => h("input", {type: "datetime-local", step: "1", "aria-label": label});
    this.mode = "find"; this.stores = []; this.trail = [];
    this.modes = MODES.map(([name, title]) => h("button", {type: "button", onclick: () => { location.hash = this.address(name); }}, title));
    this.store = h("select", {id: "store", onchange: () => { this.trail = []; this.fit(); }});
    this.key = text({id: "key", "data-search": true}); this.from = text(); this.to = text();
    this.after = time("Windows from"); this.before = time("Windows to"); this.asOf = time("As of");
    this.limit = h("select", {}, [25, 50, 100, 500].map(n => h("option", {value: n}, String(n)))); this.limit.value = "50";
    this.stale = h("input", {type: "checkbox"});
    this.fields = {
      store: field("Store", this.store), key: field("Key", this.key, "text; JSON if keys are not strings"), from: field("From key", this.from, "empty: from the first"), to: field("To key", this.to, "empty: to the last"),
      after: field("From time", this.after), before: field("To time", this.before), asOf: field("As of", this.asOf, "empty: the latest"), limit: field("Rows", this.limit),
      stale: h("label", {class: "check", title: "If the task of the key cannot be read now, a standby answers"}, this.stale, "allow older answers from standbys"),
    };
    this.form = h("form", {class: "query", onsubmit: event => { event.preventDefault(); this.submit(); }}, Object.values(this.fields), h("button", {class: "main", type: "submit"}, "Run query"));
    this.hint = h("p", {class: "soft", hidden: true, id: "hint"}, "The form is filled in from the address. Press Run query.");
    this.told = h("p", {class: "soft", role: "status", id: "told"});
    this.answer = h("div", {class: "scroll", id: "answer", tabindex: "0", role: "region", "aria-label": "Answer"});
    this.back = h("button", {class: "small", type: "button", hidden: true, onclick: () => { this.trail.pop(); this.run(); }}, "Previous page");
    this.more = h("button", {class: "small", type: "button", hidden: true, onclick: () => { this.trail.push(this.next); this.run(); }}, "Next page");
    this.copy = copyButton(() => JSON.stringify(this.found, null, 2), "Copy as JSON"); this.copy.hidden = true;
    this.element = h("div", {}, h("section", {class: "card"}, h("div", {class: "head"}, h("h2", {}, "Queries"), h("div", {class: "buttons", role: "group", "aria-label": "Kind of query"}, this.modes)), this.form, this.hint),
      this.result = h("section", {class: "card", hidden: true}, h("div", {class: "head"}, h("h2", {}, "Answer"), this.told), this.answer, h("div", {class: "pager"}, this.copy, this.back, this.more)));
    this.load();
  }
  async load() {
    try {
      this.stores = (await ask("/api/stores")).stores;
      this.store.replaceChildren(...this.stores.map(store => h("option", {value: store.name}, `${store.name} (${store.kind})`)));
      this.take();
    } catch (error) { this.fail(error); }
  }
  kind() { return this.stores.find(store => store.name === this.store.value)?.kind || "key-value"; }
  address(mode) {
    const parameters = new URLSearchParams({mode});
    for (const [name, input] of [["store", this.store], ["key", this.key], ["from", this.from], ["to", this.to]]) if (input.value) parameters.set(name, input.value);
    for (const [name, input] of [["after", this.after], ["before", this.before], ["asOf", this.asOf]]) if (input.value) parameters.set(name, toMillis(input.value));
    if (this.limit.value !== "50") parameters.set("limit", this.limit.value);
    if (this.stale.checked) parameters.set("stale", "true");
    return `#/queries?${parameters}`;
  }
  submit() {
    const target = this.address(this.mode);
    if (location.hash !== target) { history.pushState(null, "", target); this.taken = null; }  // fires no hashchange: the form stays as it is
    this.trail = []; this.hint.hidden = true;
    this.run();
  }
  go(parameters) { this.parameters = parameters; if (this.stores.length) this.take(); else this.fit(); }
  take() {
    const given = this.parameters;
    if (!given) { this.fit(); return; }
    this.parameters = null;
    if (String(given) === this.taken) return;  // a second event of the same address must not hide the answer of a query that has begun
    this.taken = String(given);
    this.mode = MODES.some(([name]) => name === given.get("mode")) ? given.get("mode") : "find";
    if (given.has("store") && this.stores.some(store => store.name === given.get("store"))) this.store.value = given.get("store");
    if (given.has("mode") || given.has("store")) {
      for (const [name, input] of [["key", this.key], ["from", this.from], ["to", this.to]]) input.value = given.get(name) || "";
      for (const [name, input] of [["after", this.after], ["before", this.before], ["asOf", this.asOf]]) input.value = given.has(name) ? toField(given.get(name)) : "";
      this.limit.value = given.get("limit") || "50"; this.stale.checked = given.get("stale") === "true";
    }
    this.trail = []; this.asked = (this.asked || 0) + 1;  // an answer that is on its way belongs to another query
    this.result.hidden = true;
    this.hint.hidden = !["key", "from", "to", "after", "before", "asOf", "run"].some(name => given.has(name));
    this.fit();
  }
  fit() {
    const kind = this.kind(), windows = kind === "window" || kind === "session", find = this.mode === "find";
    this.modes.forEach((button, index) => button.setAttribute("aria-pressed", MODES[index][0] === this.mode));
    const show = {key: find, from: !find && kind === "key-value", to: !find && kind === "key-value", after: windows, before: windows, asOf: find && kind === "versioned", limit: !find || windows, stale: find};
    for (const [name, there] of Object.entries(show)) this.fields[name].hidden = !there;
    this.key.required = find;
  }
  path() {
    const store = `/api/stores/${encodeURIComponent(this.store.value)}`, kind = this.kind(), windows = kind === "window" || kind === "session";
    const asked = new URLSearchParams(), next = this.trail[this.trail.length - 1];
    const times = () => { for (const [name, input] of [["from", this.after], ["to", this.before]]) if (input.value) asked.set(name, toMillis(input.value)); if (next !== undefined) asked.set("from", next); };
    if (this.mode === "find") {
      if (this.stale.checked) asked.set("stale", "true");
      if (windows) { times(); asked.set("limit", this.limit.value); return `${store}/windows/${encodeURIComponent(this.key.value)}?${asked}`; }
      if (kind === "versioned" && this.asOf.value) asked.set("as_of", toMillis(this.asOf.value));
      return `${store}/keys/${encodeURIComponent(this.key.value)}?${asked}`;
    }
    asked.set("limit", this.limit.value);
    if (windows) { times(); return `${store}/windows?${asked}`; }
    if (this.from.value) asked.set("from", this.from.value);
    if (this.to.value) asked.set("to", this.to.value);
    if (next !== undefined) asked.set("from", typeof next === "string" && this.stores.find(s => s.name === this.store.value)?.key_type === "string" ? next : JSON.stringify(next));
    return `${store}/range?${asked}`;
  }
  async run() {
    const number = this.asked = (this.asked || 0) + 1;
    this.result.hidden = false; this.more.hidden = this.back.hidden = true;
    setText(this.told, "Reading …");
    const started = performance.now();
    try {
      const found = await ask(this.path());
      if (number !== this.asked) return;
      this.found = found; this.copy.hidden = false;
      const took = `${Math.round(performance.now() - started)} ms`;
      this.showEntries(found.entries || [found], found, took);
    } catch (error) { if (number === this.asked) this.fail(error); }
  }
  fail(error) { this.result.hidden = false; this.copy.hidden = true; setText(this.told, ""); this.answer.replaceChildren(h("p", {class: "bad", role: "alert"}, error.message)); }
  showEntries(entries, found, took) {
    const windows = entries.some(entry => entry.start != null), stamped = entries.some(entry => entry.timestamp != null), placed = entries.some(entry => entry.partition != null);
    const heads = ["Key", ...(windows ? ["Window from", "to"] : []), "Value", ...(stamped ? ["Timestamp"] : []), ...(placed ? ["Partition"] : [])];
    const rows = entries.map(entry => [cell(entry.key), ...(windows ? [time(entry.start), time(entry.end)] : []), cell(entry.value), ...(stamped ? [time(entry.timestamp)] : []), ...(placed ? [h("td", {class: "number"}, String(entry.partition))] : [])]);
    this.table(heads, rows, entries.map(entry => entry.value));
    const partly = found.here != null && found.here < found.partitions ? `; ${found.here} of ${found.partitions} partitions are on this instance, the others are not read` : "";
    setText(this.told, `${plural(entries.length, "entry", "entries")} in ${took}${found.stale ? "; from a standby, which may be older" : ""}${partly}`);
    this.next = found.next;
    this.more.hidden = found.next == null; this.back.hidden = !this.trail.length;
  }
  table(heads, rows, values) {
    const numeric = new Set(["Partition", ...(values.every(value => typeof value === "number") ? ["Value"] : [])]);
    for (const cells of rows) heads.forEach((head, at) => { if (numeric.has(head)) numberCell(cells[at]); });
    this.answer.replaceChildren(rows.length ? h("table", {}, h("thead", {}, h("tr", {}, heads.map(text => h("th", {scope: "col", class: numeric.has(text) ? "number" : null}, text)))), h("tbody", {}, rows.map(cells => h("tr", {}, cells)))) : h("p", {class: "soft"}, "Nothing was found."));
  }
  update() {}
}
const time = ms => h("td", {title: ms == null ? null : `${ms} ms`, class: "time"}, ms == null ? "–" : when(ms));
const exact = new Intl.NumberFormat("en", {maximumFractionDigits: 20});
function numberCell(cell) {
  cell.className = "number"; cell.title = cell.textContent;
  cell.textContent = exact.format(Number(cell.textContent));
}
function cell(value) {
  const text = shown(value), long = text.length > 300;
  if (!long) return h("td", {class: "long mono"}, value === null ? h("i", {class: "soft"}, "null") : text);
  return h("td", {class: "long mono"}, h("details", {}, h("summary", {}, text.slice(0, 200) + " …"), h("pre", {}, typeof value === "string" ? value : JSON.stringify(value, null, 2))));
}
