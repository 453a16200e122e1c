// The latest records of the application's topics, read through its serdes.
"use strict";
import {h, setText, count, when, zone, plural} from "./dom.js";
import {ask} from "./stream.js";

const KINDS = {input: "input", output: "output", repartition: "repartition", changelog: "changelog"};

export class Topics {
  constructor() {
    this.topic = h("select", {"aria-label": "Topic", onchange: () => this.open()});
    this.limit = h("select", {"aria-label": "Records"}, [20, 50, 100].map(n => h("option", {value: n}, `${n} records`)));
    this.limit.addEventListener("change", () => this.load());
    this.again = h("button", {class: "small", type: "button", onclick: () => this.load()}, "Read again");
    this.status = h("p", {class: "soft", role: "status"});
    this.body = h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Latest records"});
    this.element = h("section", {class: "card"}, h("div", {class: "head"}, h("h2", {}, "Latest records"), h("div", {class: "filters"}, this.topic, this.limit, this.again)), this.status, this.body);
    this.wanted = ""; this.asked = 0;
    this.begin();
  }
  go(parameters) { this.wanted = parameters.get("topic") || ""; if (this.known) this.choose(); }
  async begin() {
    try {
      this.known = (await ask("/api/topics")).topics;
      this.topic.replaceChildren(...this.known.map(({name, kind}) => h("option", {value: name}, `${name} (${KINDS[kind] || kind})`)));
      this.choose();
    } catch (error) { setText(this.status, error.message); }
  }
  choose() {
    if (this.known.some(topic => topic.name === this.wanted)) this.topic.value = this.wanted;
    this.load();
  }
  open() { location.hash = `#/topics?topic=${encodeURIComponent(this.topic.value)}`; }
  async load() {
    const number = ++this.asked;
    if (!this.topic.value) { setText(this.status, "The application has no topics."); return; }
    setText(this.status, "Reading …");
    try {
      const found = await ask(`/api/topics/${encodeURIComponent(this.topic.value)}/latest?limit=${this.limit.value}`);
      if (number !== this.asked) return;
      setText(this.status, found.records.length ? `${plural(found.records.length, "record")}, the newest first, ${zone()}` : "The topic has no records.");
      this.body.replaceChildren(found.records.length ? h("table", {}, h("thead", {}, h("tr", {}, ["Partition", "Offset"].map(text => h("th", {scope: "col", class: "number"}, text)), ["Time", "Key", "Value"].map(text => h("th", {scope: "col"}, text)))),
        h("tbody", {}, found.records.map(record => h("tr", {}, h("td", {class: "number"}, count(record.partition)), h("td", {class: "number"}, count(record.offset)), h("td", {}, when(record.timestamp)), content(record.key), content(record.value))))) : "");
    } catch (error) { if (number === this.asked) { setText(this.status, error.message); this.body.replaceChildren(); } }
  }
  update() {}
}
function content(data) {
  if (data == null) return h("td", {}, h("i", {class: "soft"}, "null"));
  const text = data.text ?? data.hex, notes = [data.text == null ? "bytes, hexadecimal" : "", data.cut ? "the beginning" : "", data.error || ""].filter(Boolean).join("; ");
  const shown = text.length > 300 ? h("details", {}, h("summary", {}, text.slice(0, 200) + " …"), h("pre", {}, text)) : text;
  return h("td", {class: "long mono"}, shown, notes ? h("small", {class: data.error ? "bad" : "soft"}, ` (${notes})`) : null);
}
