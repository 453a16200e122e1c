// The log of the driver and of its workers.
"use strict";
import {h, setText, setClass, count, when, zone, copyButton} from "./dom.js";
import {Table} from "./table.js";
import {live} from "./stream.js";

const LEVELS = {DEBUG: 10, INFO: 20, WARNING: 30, ERROR: 40, CRITICAL: 50};

export class Logs {
  constructor() {
    const again = () => { this.table.first(); this.update(live.document, null); };
    this.search = h("input", {type: "search", placeholder: "search the text", "data-search": true, "aria-label": "Search the log", oninput: again});
    this.level = h("select", {"aria-label": "Level", onchange: again}, [["0", "all levels"], ["20", "INFO and above"], ["30", "WARNING and above"], ["40", "ERROR and above"]].map(([value, text]) => h("option", {value}, text)));
    this.who = h("select", {"aria-label": "Process", onchange: again}, h("option", {value: ""}, "driver and workers"));
    this.counted = h("span", {class: "soft"});
    this.table = new Table([
      {title: "Time", text: l => when(l.time), sort: l => l.number, mono: true},
      {title: "Level", sort: l => LEVELS[l.level], fill: (cell, l) => { setText(cell, l.level); setClass(cell, "level " + (l.level === "WARNING" ? "warn" : LEVELS[l.level] >= 40 ? "bad" : "soft")); }},
      {title: "Process", text: l => l.who.replace(/^.*-(StreamThread-\d+)$/, "$1")},
      {title: "Text", sort: l => l.text, fill: text},
      {title: "Logger", text: l => l.logger.replace(/^penstock\./, ""), mono: true},
    ], {label: "Lines of the log", key: l => l.number, sort: 0, down: true, size: 50, none: "No line matches."});
    this.element = h("section", {class: "card"}, h("div", {class: "head"}, h("h2", {}, "Log"), this.counted, h("div", {class: "filters"}, this.search, this.level, this.who, copyButton(() => this.shown.map(l => `${when(l.time)} ${l.level} ${l.who} ${l.logger}: ${l.text}`).join("\n"), "Copy these lines"))),
      h("p", {class: "soft"}, "The latest lines of penstock's loggers: warnings and errors by default. logging.getLogger(\"penstock\").setLevel(\"INFO\") shows more. Workers report once a second."), this.table.element);
  }
  go(parameters) { if (parameters.has("level")) this.level.value = String(LEVELS[parameters.get("level")] || 0); if (parameters.has("q")) this.search.value = parameters.get("q"); }
  update(document, changed) {
    if (changed && !changed.has("log")) return;
    const lines = Object.values(document.log || {}), all = [...new Set(lines.map(l => l.who))].sort(), key = all.join("\n");
    if (this.known !== key) {
      this.known = key;
      const chosen = this.who.value;
      this.who.replaceChildren(h("option", {value: ""}, "driver and workers"), ...all.map(who => h("option", {value: who}, who.replace(/^.*-(StreamThread-\d+)$/, "$1"))));
      this.who.value = all.includes(chosen) ? chosen : "";
    }
    const words = this.search.value.toLowerCase(), least = Number(this.level.value), who = this.who.value;
    this.shown = lines.filter(l => (LEVELS[l.level] || 0) >= least && (!who || l.who === who) && (!words || l.text.toLowerCase().includes(words) || l.logger.includes(words)));
    setText(this.counted, `${count(this.shown.length)} of ${count(lines.length)} lines, ${zone()}`);
    this.table.update(this.shown);
  }
}
function text(cell, line) {
  if (cell.dataset.number === String(line.number)) return;
  cell.dataset.number = line.number; cell.className = "long";
  const [first, ...rest] = line.text.split("\n");
  cell.replaceChildren(rest.length ? h("details", {}, h("summary", {}, first), h("pre", {class: "traceback"}, rest.join("\n"))) : first);
}
