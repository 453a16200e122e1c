// The overview: state, throughput, latency and lag.
"use strict";
import {h, setText, setClass, zone, count, number, brief, bytes, millis, duration, plural} from "./dom.js";
import {Chart} from "./chart.js";
import {Table} from "./table.js";
import {live} from "./stream.js";

const SPANS = [[300, "5 min"], [900, "15 min"], [3600, "1 h"]];
let span = 900;

export function pointsOf(document) {
  return Object.entries(document.points || {}).map(([time, point]) => [Number(time), point]).sort((a, b) => a[0] - b[0]);
}
function latest(points, at) {
  for (let i = points.length - 1; i >= 0 && i > points.length - 13; i--) if (points[i][1][at] != null) return points[i][1][at];
  return null;
}
const percent = n => n == null ? "–" : `${Math.round(n * 100)} %`;

export class Overview {
  constructor() {
    const tile = (title, hint) => {
      const value = h("b"), note = h("span", {class: "soft"});
      return {element: h("div", {class: "card tile", title: hint}, h("span", {class: "soft"}, title), value, note), value, note};
    };
    this.tiles = {
      in: tile("Records in", "Records read from input topics, per second, over the last ten seconds"),
      out: tile("Records out", "Records written to output and changelog topics, per second"),
      age: tile("End-to-end latency", "The age of records when their results are committed: median and 99th percentile"),
      lag: tile("Lag", "The ends of the input topics minus the committed offsets"),
      turn: tile("Average batch time", "A batch reads, processes and commits the records that have come"),
      tasks: tile("Tasks", "Tasks that run on this instance"),
      total: tile("Total records", "Since this instance was started"),
      dead: tile("Dead letters", "Failed records since this instance was started"),
    };
    for (const [name, link] of [["tasks", "#/tasks"], ["dead", "#/dead-letters"]]) this.tiles[name].note.append(h("a", {href: link}));
    const line = (name, at, css) => ({name, at, css});
    this.charts = [
      new Chart({title: "Records per second", format: brief, lines: [line("in", 0, "one"), line("out", 1, "two")]}),
      new Chart({title: "End-to-end latency", format: millis, lines: [line("median", 2, "one"), line("99th percentile", 3, "two")]}),
      new Chart({title: "Lag", format: brief, lines: [line("records waiting", 4, "one")]}),
      new Chart({title: "Batch and commit", format: millis, lines: [line("batch", 5, "one"), line("longest batch", 6, "two"), line("commit", 7, "three")]}),
      new Chart({title: "CPU", format: percent, lines: [line("driver", 8, "one"), line("JVM", 9, "two"), line("workers", 10, "three")]}),
      new Chart({title: "Memory", format: bytes, bytes: true, lines: [line("driver", 11, "one"), line("JVM", 12, "two"), line("workers", 13, "three")]}),
    ];
    this.spans = SPANS.map(([seconds, title]) => h("button", {class: "small", type: "button", onclick: () => { span = seconds; this.update(live.document, null); }}, title));
    this.partitions = new Table([
      {title: "Partition", text: p => `${p.topic}-${p.partition}`, mono: true},
      {title: "Committed", number: true, text: p => count(p.committed), sort: p => p.committed},
      {title: "End", number: true, text: p => count(p.end), sort: p => p.end},
      {title: "Lag", number: true, text: p => count(p.lag), sort: p => p.lag},
      {title: "Trend", number: true, sort: p => p.trend, fill: (cell, p) => { setText(cell, trend(p)); setClass(cell, "number " + (p.trend > 0.5 && p.lag && !keepsUp(p) ? "warn" : "")); }},
      {title: "Read / s", number: true, text: p => number(p.read), sort: p => p.read},
      {title: "Caught up in", number: true, text: left, sort: p => p.seconds_left},
    ], {label: "Lag of each input partition", key: p => `${p.topic}-${p.partition}`, sort: 3, down: true, size: 12, none: "No partition is read here yet."});
    this.partitionCount = h("span", {class: "soft"});
    this.instances = new Table([
      {title: "Instance", fill: (cell, i) => { if (cell.dataset.url !== i.url) { cell.dataset.url = i.url; cell.replaceChildren(i.here ? h("b", {}, i.host) : h("a", {href: i.url, rel: "noreferrer"}, i.host), i.here ? h("span", {class: "tag"}, "this one") : null); } }, sort: i => i.host},
      {title: "Partitions", number: true, text: i => count(i.partitions), sort: i => i.partitions},
      {title: "Stores", text: i => i.stores.join(", "), long: true},
    ], {label: "Instances of the application", key: i => i.host, size: 10, none: "No other instance is known."});
    this.instanceCount = h("span", {class: "soft"});
    this.element = h("div", {},
      h("div", {class: "tiles"}, Object.values(this.tiles).map(tile => tile.element)),
      h("div", {class: "head section"}, h("h2", {}, "Charts"), h("span", {class: "soft"}, zone()), h("div", {class: "buttons", role: "group", "aria-label": "How much time the charts show"}, this.spans)),
      h("div", {class: "charts"}, this.charts.map(chart => chart.element)),
      h("section", {class: "card"}, h("div", {class: "head"}, h("h2", {}, "Lag of input partitions"), this.partitionCount), this.partitions.element),
      h("section", {class: "card"}, h("div", {class: "head"}, h("h2", {}, "Instances"), this.instanceCount), this.instances.element));
  }
  close() { for (const chart of this.charts) chart.close(); }
  update(document, changed) {
    const {now = {}, app = {}, tasks = {}} = document, tiles = this.tiles;
    if (!this.points || !changed || changed.has("points")) this.points = pointsOf(document);
    const points = this.points, totals = now.totals || {};
    setText(tiles.in.value, brief(now.records) + "/s");
    setText(tiles.out.value, brief(now.produced) + "/s");
    for (const [tile, at] of [[tiles.in, 0], [tiles.out, 1]]) setText(tile.note, points.length ? `highest ${brief(Math.max(...points.map(p => p[1][at] || 0)))}/s in the last hour` : "");
    const p50 = latest(points, 2), p99 = latest(points, 3);
    setText(tiles.age.value, millis(p50));
    setText(tiles.age.note, p99 == null ? "no records yet" : `99 of 100 within ${millis(p99)}`);
    setText(tiles.lag.value, brief(now.lag));
    setText(tiles.lag.note, overall(Object.values(document.partitions || {}), now.lag));
    setText(tiles.turn.value, millis(latest(points, 5)));
    setText(tiles.turn.note, latest(points, 7) == null ? "no batch in the last minute" : `${millis(latest(points, 7))} of it to commit`);
    const mine = Object.values(tasks).filter(task => task.role === "active"), running = mine.filter(task => task.state === "RUNNING");
    setText(tiles.tasks.value, mine.length === running.length ? count(running.length) : `${count(running.length)} of ${count(mine.length)}`);
    setText(tiles.tasks.note.firstChild, `on ${plural(Object.keys(document.threads || {}).length, "thread")}`);
    setText(tiles.total.value, count(totals.records || 0));
    setText(tiles.total.note, app.started ? `in ${duration((live.now() - app.started) / 1000)}` : "");
    setText(tiles.dead.value, count(totals.dead_letters || 0));
    setClass(tiles.dead.value, totals.dead_letters ? "bad" : "");
    setText(tiles.dead.note.firstChild, totals.dead_letters ? "see why" : "none so far");
    this.spans.forEach((button, index) => button.setAttribute("aria-pressed", SPANS[index][0] === span));
    for (const chart of this.charts) chart.update(points, span);
    const partitions = Object.values(document.partitions || {}), behind = partitions.filter(p => p.lag > 0).length;
    this.partitions.update(partitions);
    setText(this.partitionCount, `${plural(partitions.length, "partition")}, ${behind ? count(behind) : "none"} behind`);
    const instances = Object.values(document.instances || {});
    this.instances.update(instances);
    setText(this.instanceCount, plural(instances.length, "instance"));
  }
}
function trend(p) {
  if (p.trend == null) return "–";
  if (!p.lag && Math.abs(p.trend) < 0.05) return "steady";
  return p.trend > 0.05 ? `↑ ${number(p.trend)}/s` : p.trend < -0.05 ? `↓ ${number(-p.trend)}/s` : "steady";
}
// The records of the last seconds are always in flight: they are no backlog.
const keepsUp = p => p.read > 0 && p.lag / p.read < 5 && !(p.trend > 0.1 * p.read);
export function left(p) {
  if (!p.lag) return "now";
  if (p.trend == null) return "–";
  if (keepsUp(p)) return "keeps up";
  return p.seconds_left == null ? "not at this rate" : duration(p.seconds_left);
}
function overall(partitions, lag) {
  if (!lag) return "all caught up";
  const known = partitions.filter(p => p.lag && p.trend != null);
  if (!known.length) return "";
  const behind = known.filter(p => !keepsUp(p));
  if (!behind.length) return "keeps up";
  if (behind.some(p => p.seconds_left == null)) return "not shrinking";
  return `caught up in ${duration(Math.max(...behind.map(p => p.seconds_left)))}`;
}
