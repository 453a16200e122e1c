// Line charts with axes, time and the value under the pointer: two hundred lines instead of a library to keep up to date.
"use strict";
import {h, s, setText, clock} from "./dom.js";

const HEIGHT = 190, TOP = 10, BOTTOM = 24, LEFT = 64, RIGHT = 12;
// A line connects values that are no further apart: where few records come, some five seconds have none.
const GAP = 60;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800];

function ticks(most, bytes) {
  if (!(most > 0)) return [0, 1];
  const base = bytes ? 1024 : 10;
  const unit = bytes ? base ** Math.floor(Math.log(most) / Math.log(base)) : 1;
  const rough = most / unit / 3, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map(n => n * power).find(n => n >= rough) * unit;
  const found = [];
  for (let at = 0; at < most + step * 0.999; at += step) found.push(at);
  return found;
}

export class Chart {
  // lines: [{name, at: index into a point, css}]
  constructor({title, lines, format, bytes = false, note = ""}) {
    this.title = title; this.lines = lines; this.format = format; this.bytes = bytes;
    this.points = []; this.span = 900; this.chosen = null;
    this.svg = s("svg", {class: "chart", height: HEIGHT, tabindex: "0", role: "img"});
    this.grid = s("g", {class: "grid"}); this.drawn = s("g"); this.cross = s("g", {class: "cross", visibility: "hidden"});
    this.svg.append(this.grid, this.drawn, this.cross);
    this.values = lines.map(() => h("b", {class: "value"}));
    this.legend = h("div", {class: "legend"}, lines.map((line, index) => h("span", {class: `key ${line.css}`}, h("i", {"aria-hidden": "true"}), line.name, " ", this.values[index])));
    this.time = h("span", {class: "soft at"});
    this.none = h("p", {class: "soft none", hidden: true}, "Nothing measured in this time yet.");
    this.element = h("section", {class: "card chart-card"}, h("div", {class: "head"}, h("h2", {}, title), this.time), note ? h("p", {class: "soft note"}, note) : null, this.legend, h("div", {class: "plot"}, this.svg, this.none));
    this.svg.addEventListener("pointermove", event => this.choose(event.clientX - this.svg.getBoundingClientRect().left));
    this.svg.addEventListener("pointerleave", () => { this.chosen = null; this.mark(); });
    this.svg.addEventListener("blur", () => { this.chosen = null; this.mark(); });
    this.svg.addEventListener("keydown", event => {
      const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
      if (!step || !this.shown?.length) return;
      event.preventDefault();
      const at = this.chosen == null ? this.shown.length : this.shown.findIndex(p => p[0] === this.chosen);
      this.chosen = this.shown[Math.min(this.shown.length - 1, Math.max(0, at + step))][0];
      this.mark();
    });
    this.watch = new ResizeObserver(() => this.draw());
    this.watch.observe(this.element);
  }
  close() { this.watch.disconnect(); }
  update(points, span, end) {
    if (points === this.points && span === this.span && end === this.end) return;
    this.points = points; this.span = span; this.end = end; this.draw();
  }
  choose(x) {
    if (!this.shown?.length) return;
    const at = this.from + (x - LEFT) / (this.width - LEFT - RIGHT) * this.shownSpan;
    this.chosen = this.shown.reduce((best, p) => Math.abs(p[0] - at) < Math.abs(best - at) ? p[0] : best, this.shown[0][0]);
    this.mark();
  }
  x(time) { return LEFT + (time - this.from) / this.shownSpan * (this.width - LEFT - RIGHT); }
  y(value) { return HEIGHT - BOTTOM - value / this.most * (HEIGHT - TOP - BOTTOM); }
  draw() {
    const width = Math.round(this.svg.parentElement?.clientWidth || 0);
    if (!width) return;
    this.width = width; this.svg.setAttribute("width", width); this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const last = this.points.length ? this.points[this.points.length - 1][0] : Date.now() / 1000;
    this.to = Math.max(last, this.end || 0);
    // An application that has just begun fills the width, too.
    this.shownSpan = Math.min(this.span, Math.max(120, this.to - (this.points.length ? this.points[0][0] : this.to)));
    this.from = this.to - this.shownSpan;
    this.shown = this.points.filter(p => p[0] >= this.from);
    const values = this.shown.flatMap(p => this.lines.map(line => p[1][line.at]).filter(v => v != null));
    this.none.hidden = values.length > 0;
    const marks = ticks(Math.max(0, ...values), this.bytes);
    this.most = marks[marks.length - 1] || 1;
    this.grid.replaceChildren();
    for (const mark of marks) {
      const y = Math.round(this.y(mark)) + 0.5;
      this.grid.append(s("line", {x1: LEFT, x2: width - RIGHT, y1: y, y2: y}), s("text", {x: LEFT - 8, y: y + 4, class: "y"}, this.format(mark)));
    }
    const step = STEPS.find(n => this.shownSpan / n <= Math.max(2, (width - LEFT) / 90)) || 1800;
    for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) {
      const x = Math.round(this.x(at)) + 0.5, text = clock(at * 1000).slice(0, step < 60 ? 8 : 5);
      this.grid.append(s("line", {x1: x, x2: x, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM + 4}), s("text", {x: Math.min(x, width - (step < 60 ? 26 : 17)), y: HEIGHT - 6, class: "x"}, text));
    }
    this.drawn.replaceChildren(...this.lines.flatMap((line, index) => this.path(line, index === 0 && this.lines.length < 3)));
    const latest = this.lines.map(line => `${line.name} ${this.format(this.latest(line.at))}`).join(", ");
    this.svg.setAttribute("aria-label", `${this.title}, last ${Math.round(this.shownSpan / 60)} minutes. Now: ${latest}. Arrow keys go from value to value.`);
    this.mark();
  }
  latest(at) {
    for (let i = this.shown.length - 1; i >= 0; i--) if (this.shown[i][1][at] != null) return this.shown[i][1][at];
    return null;
  }
  path(line, area) {
    const runs = []; let run = [], before = null;
    for (const [time, point] of this.shown) {
      const value = point[line.at];
      if (value == null) continue;
      if (before != null && time - before > GAP) { if (run.length) runs.push(run); run = []; }
      run.push([this.x(time), this.y(value)]);
      before = time;
    }
    if (run.length) runs.push(run);
    const floor = HEIGHT - BOTTOM, found = [];
    for (const points of runs) {
      const d = points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");
      if (area && points.length > 1) found.push(s("path", {class: `area ${line.css}`, d: `M${points[0][0].toFixed(1)} ${floor}L${d}L${points[points.length - 1][0].toFixed(1)} ${floor}Z`}));
      found.push(points.length > 1 ? s("path", {class: `line ${line.css}`, d: "M" + d}) : s("circle", {class: `dot ${line.css}`, cx: points[0][0], cy: points[0][1], r: 2.5}));
    }
    return found;
  }
  mark() {
    const point = this.chosen == null ? null : this.shown?.find(p => p[0] === this.chosen);
    this.cross.setAttribute("visibility", point ? "visible" : "hidden");
    this.lines.forEach((line, index) => setText(this.values[index], this.format(point ? point[1][line.at] : this.latest(line.at))));
    setText(this.time, point ? clock(point[0] * 1000) : "");
    if (!point) return;
    const x = this.x(point[0]);
    this.cross.replaceChildren(s("line", {x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM}), ...this.lines.filter(line => point[1][line.at] != null).map(line => s("circle", {class: `dot ${line.css}`, cx: x, cy: this.y(point[1][line.at]), r: 3.5})));
  }
}
