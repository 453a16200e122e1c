// The sizes of the stores: entries, disk, memory, and the lag of standbys.
"use strict";
import {h, setText, setClass, count, bytes, brief, plural} from "./dom.js";
import {Table} from "./table.js";
import {live} from "./stream.js";

const sum = (rows, name) => rows.some(row => row[name] != null) ? rows.reduce((total, row) => total + (row[name] || 0), 0) : null;

export class StateView {
  constructor() {
    const tile = title => { const value = h("b"), note = h("span", {class: "soft"}); return {value, note, element: h("div", {class: "card tile"}, h("span", {class: "soft"}, title), value, note)}; };
    this.tiles = {stores: tile("Stores"), entries: tile("Entries"), disk: tile("On disk"), memory: tile("In memory"), lag: tile("Behind changelogs")};
    this.search = h("input", {type: "search", placeholder: "store or task", "data-search": true, "aria-label": "Search stores", oninput: () => { this.parts.first(); this.update(live.document); }});
    const columns = [
      {title: "Entries", number: true, text: r => count(r.entries), sort: r => r.entries},
      {title: "On disk", number: true, text: r => bytes(r.disk), sort: r => r.disk},
      {title: "In memory", number: true, text: r => bytes(r.memory), sort: r => r.memory},
      {title: "Changelog lag", number: true, sort: r => r.changelog_lag, fill: (cell, r) => { setText(cell, r.changelog_lag == null ? "–" : count(r.changelog_lag)); setClass(cell, "number " + (r.changelog_lag > 1000 ? "warn" : "")); }},
    ];
    this.stores = new Table([
      {title: "Store", sort: r => r.store, fill: (cell, r) => { if (cell.dataset.name !== r.store) { cell.dataset.name = r.store; cell.replaceChildren(h("a", {href: `#/queries?store=${encodeURIComponent(r.store)}`}, r.store)); } }},
      {title: "Partitions here", number: true, text: r => count(r.active) + (r.copies ? ` + ${plural(r.copies, "standby", "standbys")}` : ""), sort: r => r.active},
      ...columns, {title: "Changelog", text: r => r.changelog, mono: true, long: true},
    ], {label: "Stores", key: r => r.store, size: 25, none: "The application keeps no state here."});
    this.parts = new Table([
      {title: "Store", text: r => r.store}, {title: "Task", text: r => r.task, mono: true}, {title: "Role", text: r => r.role},
      {title: "State", sort: r => r.state, fill: (cell, r) => { setText(cell, r.state); setClass(cell, r.state === "restoring" ? "warn" : ""); }}, ...columns,
    ], {label: "Stores by task", key: r => `${r.store} ${r.task}`, size: 25, none: "No store matches."});
    this.counted = h("span", {class: "soft"});
    this.element = h("div", {}, h("div", {class: "tiles five"}, Object.values(this.tiles).map(t => t.element)),
      h("section", {class: "card"}, h("h2", {}, "Stores"), h("p", {class: "soft"}, "On this instance, measured once a second. Stores on disk show their sizes, and stores in memory the number of their entries: RocksDB knows no exact number."), this.stores.element),
      h("section", {class: "card"}, h("div", {class: "head"}, h("h2", {}, "By task"), this.counted, h("div", {class: "filters"}, this.search)), this.parts.element));
  }
  update(document) {
    const rows = Object.values(document.stores || {}), byStore = new Map();
    for (const row of rows) byStore.set(row.store, [...(byStore.get(row.store) || []), row]);
    const stores = [...byStore].map(([store, parts]) => ({store, active: parts.filter(p => p.role === "active").length, copies: parts.filter(p => p.role !== "active").length, entries: sum(parts, "entries"), disk: sum(parts, "disk"), memory: sum(parts, "memory"), changelog_lag: sum(parts, "changelog_lag"), changelog: parts[0].changelog}));
    setText(this.tiles.stores.value, count(stores.length)); setText(this.tiles.stores.note, plural(rows.length, "partition"));
    const counted = rows.filter(row => row.entries != null);
    this.tiles.entries.element.hidden = !counted.length;
    setText(this.tiles.entries.value, count(sum(rows, "entries"))); setText(this.tiles.entries.note, counted.length < rows.length ? "in stores in memory" : "");
    setText(this.tiles.disk.value, bytes(sum(rows, "disk"))); setText(this.tiles.disk.note, "files of RocksDB");
    setText(this.tiles.memory.value, bytes(sum(rows, "memory"))); setText(this.tiles.memory.note, "caches and tables of RocksDB");
    setText(this.tiles.lag.value, brief(sum(rows, "changelog_lag"))); setText(this.tiles.lag.note, "records that active stores and standbys have not read");
    this.stores.update(stores);
    const words = this.search.value.toLowerCase();
    const shown = rows.filter(r => !words || r.store.toLowerCase().includes(words) || r.task.includes(words));
    setText(this.counted, `${count(shown.length)} of ${count(rows.length)}`);
    this.parts.update(shown);
  }
}
