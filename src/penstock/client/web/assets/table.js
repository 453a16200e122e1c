// Tables that are updated each second: rows are kept by their key and cells by their text, so that a selection stays.
"use strict";
import {h, setText, count} from "./dom.js";

export class Table {
  // columns: {title, text(row), key?, number?, sort?(row), long?, fill?(cell, row), title_of?(row)}
  constructor(columns, {label, key, size = 25, sort = null, down = false, none = "No rows", row = null, group = null} = {}) {
    this.columns = columns; this.key = key; this.size = size; this.sort = sort; this.down = down; this.none = none;
    this.decorate = row; this.group = group; this.page = 0; this.rows = []; this.kept = new Map();
    this.heads = columns.map((column, index) => {
      const head = h("th", {scope: "col", class: column.number ? "number" : null});
      if (column.sort || column.text) {
        head.append(h("button", {class: "sort", type: "button", onclick: () => this.sortBy(index)}, column.title));
      } else head.textContent = column.title;
      return head;
    });
    this.body = h("tbody");
    this.table = h("table", {}, h("caption", {class: "hidden-text"}, label), h("thead", {}, h("tr", {}, this.heads)), this.body);
    this.told = h("span", {class: "soft", role: "status"});
    this.previous = h("button", {class: "small", type: "button", onclick: () => this.turn(-1)}, "Previous");
    this.next = h("button", {class: "small", type: "button", onclick: () => this.turn(1)}, "Next");
    this.pager = h("div", {class: "pager"}, this.told, this.previous, this.next);
    this.element = h("div", {}, h("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": label}, this.table), this.pager);
  }
  sortBy(index) {
    if (this.sort === index) this.down = !this.down;
    else { this.sort = index; this.down = Boolean(this.columns[index].number); }
    this.page = 0;
    this.show();
  }
  turn(step) { this.page += step; this.show(); }
  first() { this.page = 0; }
  update(rows) { this.rows = rows; this.show(); }
  ordered() {
    if (this.sort == null) return this.rows;
    const column = this.columns[this.sort], value = column.sort || column.text, way = this.down ? -1 : 1;
    return [...this.rows].sort((one, other) => {
      const a = value(one), b = value(other);
      if (a == null || b == null) return (a == null) - (b == null);
      return (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", {numeric: true})) * way;
    });
  }
  show() {
    const rows = this.ordered(), pages = Math.max(1, Math.ceil(rows.length / this.size));
    this.page = Math.min(Math.max(0, this.page), pages - 1);
    const from = this.page * this.size, shown = rows.slice(from, from + this.size), wanted = [];
    for (const row of shown) {
      const key = this.key(row);
      let line = this.kept.get(key);
      if (!line) { line = h("tr", {}, this.columns.map(column => h("td", {class: [column.number && "number", column.long && "long", column.mono && "mono"].filter(Boolean).join(" ") || null}))); this.kept.set(key, line); }
      this.columns.forEach((column, index) => {
        const cell = line.children[index];
        if (column.fill) column.fill(cell, row);
        else { const text = column.text(row); setText(cell, text == null || text === "" ? "–" : text); }
      });
      if (this.decorate) this.decorate(line, row);
      wanted.push(line);
    }
    if (!shown.length) wanted.push(this.empty ||= h("tr", {}, h("td", {class: "soft", colspan: this.columns.length}, this.none)));
    if (wanted.some((line, index) => this.body.children[index] !== line) || this.body.children.length !== wanted.length) {
      const focused = document.activeElement;
      this.body.replaceChildren(...wanted);
      if (focused && this.body.contains(focused)) focused.focus();
    }
    if (this.kept.size > 4 * this.size + 100) {
      const here = new Set(shown.map(this.key));
      for (const key of this.kept.keys()) if (!here.has(key)) this.kept.delete(key);
    }
    this.heads.forEach((head, index) => this.sort === index
      ? head.setAttribute("aria-sort", this.down ? "descending" : "ascending") : head.removeAttribute("aria-sort"));
    this.pager.hidden = rows.length <= this.size;
    setText(this.told, `${count(from + 1)}–${count(from + shown.length)} of ${count(rows.length)}`);
    this.previous.disabled = this.page === 0;
    this.next.disabled = this.page >= pages - 1;
  }
}
