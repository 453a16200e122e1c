// The settings of the application and the defaults of the others. The server sends no secrets.
"use strict";
import {h, setText, count} from "./dom.js";
import {Table} from "./table.js";
import {ask} from "./stream.js";

export class Settings {
  constructor() {
    this.rows = [];
    this.search = h("input", {type: "search", placeholder: "name, value, meaning", "data-search": true, "aria-label": "Search settings", oninput: () => this.show()});
    this.given = h("input", {type: "checkbox", onchange: () => this.show()});
    this.counted = h("span", {class: "soft"});
    this.table = new Table([
      {title: "Setting", text: r => r.key, mono: true},
      {title: "Value", fill: (cell, r) => { cell.className = r.set ? "long mono strong" : "long mono"; setText(cell, r.value ?? "–"); }, sort: r => r.value},
      {title: "Source", text: r => r.set ? "set" : "default", sort: r => r.set ? 0 : 1},
      {title: "Meaning", text: r => r.doc, long: true},
    ], {label: "Settings", key: r => r.key, size: 40, none: "No setting matches."});
    this.facts = h("dl", {class: "facts"});
    this.element = h("div", {}, h("section", {class: "card"}, h("h2", {}, "Application"), this.facts),
      h("section", {class: "card"}, h("div", {class: "head"}, h("h2", {}, "Settings"), this.counted, h("div", {class: "filters"}, this.search, h("label", {class: "check"}, this.given, "only settings that are set"))), this.table.element));
    ask("/api/settings").then(found => { this.rows = found.settings; this.show(); }).catch(error => setText(this.counted, error.message));
  }
  go(parameters) { if (parameters.has("q")) { this.search.value = parameters.get("q"); this.show(); } }
  show() {
    const words = this.search.value.toLowerCase();
    const shown = this.rows.filter(r => (!this.given.checked || r.set) && (!words || [r.key, r.value, r.doc].some(text => text && text.toLowerCase().includes(words))));
    setText(this.counted, this.rows.length ? `${count(shown.length)} of ${count(this.rows.length)}` : "");
    this.table.update(shown);
  }
  update(document) {
    const app = document.app || {}, facts = [["Application", app.id], ["This instance", app.host], ["Processing guarantee", app.guarantee], ["penstock", app.version], ["Python", app.python]];
    const key = JSON.stringify(facts);
    if (this.told === key) return;
    this.told = key;
    this.facts.replaceChildren(...facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value || "–")]));
  }
}
