// The topology as a map: what flows, where the time goes, which line of the user's code it is.
"use strict";
import {$, h, s, setText, setClass, count, number, brief, millis} from "./dom.js";
import {Table} from "./table.js";
import {live} from "./stream.js";

const ZOOMS = [0.05, 4];

export class Topology {
  constructor() {
    this.svg = s("svg", {class: "map", tabindex: "0", role: "group", "aria-label": "The topology as a map. Arrow keys move it, plus and minus zoom, 0 shows the whole map. The table below has the same data."});
    this.world = s("g"); this.svg.append(s("defs", {}, s("marker", {id: "head", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto"}, s("path", {d: "M0 0L8 4L0 8z", class: "arrow"}))), this.world);
    this.details = h("aside", {class: "details", "aria-live": "polite", hidden: true});
    const tool = (text, label, action) => h("button", {class: "small", type: "button", title: label, "aria-label": label, onclick: action}, text);
    this.legend = h("p", {class: "legend"}, [["source", "source"], ["processor", "operator"], ["sink", "sink"], ["store", "store"], ["topic", "topic"]].map(([css, text]) => h("span", {class: `sample ${css}`}, h("i", {"aria-hidden": "true"}), text)), h("span", {class: "sample heat"}, h("i", {"aria-hidden": "true"}), "redder: more of a thread's time"));
    this.hint = h("p", {class: "soft", hidden: true}, "Drag the map to see the rest of it.");
    this.frame = h("div", {class: "map-frame"}, this.svg, this.details);
    this.table = new Table([
      {title: "Node", fill: (cell, n) => { if (cell.dataset.name !== n.name) { cell.dataset.name = n.name; cell.replaceChildren(h("a", {href: `#/topology?node=${encodeURIComponent(n.name)}`}, n.name)); } }, sort: n => n.name},
      {title: "Code", text: n => n.line, mono: true, long: true},
      {title: "Records in / s", number: true, text: n => number(n.in), sort: n => n.in},
      {title: "Records out / s", number: true, text: n => number(n.out), sort: n => n.out},
      {title: "Busy", number: true, text: n => n.busy ? `${(n.busy * 100).toFixed(1)} %` : "–", sort: n => n.busy},
      {title: "Time per record", number: true, text: n => n.each == null ? "–" : millis(n.each), sort: n => n.each},
      {title: "Failed", number: true, text: n => count(n.failed || 0), sort: n => n.failed},
      {title: "Stores", text: n => n.stores.join(", ")},
    ], {label: "All nodes", key: n => n.name, size: 25, none: "The topology has no nodes."});
    this.steps = h("div", {class: "steps"});
    this.element = h("div", {},
      h("section", {class: "card"}, h("div", {class: "head"}, h("h2", {}, "Topology"), h("div", {class: "buttons"}, tool("−", "Zoom out", () => this.zoom(1 / 1.25)), tool("+", "Zoom in", () => this.zoom(1.25)), tool("Whole map", "Show the whole map", () => this.fit(true)))), this.legend, this.hint, this.frame),
      h("section", {class: "card"}, h("h2", {}, "Where the threads' time goes"), h("p", {class: "soft"}, "Shares of one thread's time in the last ten seconds. Each thread is sampled twenty times a second."), this.steps),
      h("section", {class: "card"}, h("h2", {}, "Nodes"), this.table.element));
    this.at = {x: 0, y: 0, scale: 1}; this.whole = false; this.parts = new Map(); this.labels = new Map(); this.chosen = null;
    this.listen();
    this.watch = new ResizeObserver(() => { if (!this.moved) this.fit(); });
    this.watch.observe(this.frame);
  }
  close() { this.watch.disconnect(); }
  go(parameters) { this.chosen = parameters.get("node"); }

  // -- moving ---------------------------------------------------------------------------------------------------------------

  listen() {
    const svg = this.svg, pointers = new Map();
    let before = null;
    svg.addEventListener("wheel", event => {
      if (!event.ctrlKey && !event.metaKey && !this.moved && document.activeElement !== svg) return;  // the page scrolls on
      event.preventDefault();
      const box = svg.getBoundingClientRect();
      this.zoom(Math.exp(-event.deltaY / 400), event.clientX - box.left, event.clientY - box.top);
    }, {passive: false});
    svg.addEventListener("pointerdown", event => { pointers.set(event.pointerId, event); before = this.middle(pointers); this.dragged = 0; });
    svg.addEventListener("pointermove", event => {
      if (!pointers.has(event.pointerId)) return;
      pointers.set(event.pointerId, event);
      const now = this.middle(pointers);
      this.dragged += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
      if (this.dragged > 4) { svg.setPointerCapture?.(event.pointerId); svg.classList.add("dragging"); }
      this.at.x += now.x - before.x; this.at.y += now.y - before.y;
      if (before.far && now.far) { const box = svg.getBoundingClientRect(); this.zoom(now.far / before.far, now.x - box.left, now.y - box.top); }
      before = now; this.moved = true; this.place();
    });
    const end = event => { pointers.delete(event.pointerId); before = pointers.size ? this.middle(pointers) : null; svg.classList.remove("dragging"); };
    svg.addEventListener("pointerup", end); svg.addEventListener("pointercancel", end);
    svg.addEventListener("click", event => {
      const node = event.target.closest("[data-node]");
      if (this.dragged > 4) return;
      if (node) location.hash = `#/topology?node=${encodeURIComponent(node.dataset.node)}`;
      else if (this.chosen) location.hash = "#/topology";
    });
    svg.addEventListener("keydown", event => {
      const step = {ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60]}[event.key];
      if (step) { this.at.x += step[0]; this.at.y += step[1]; this.moved = true; this.place(); }
      else if (event.key === "+" || event.key === "=") this.zoom(1.25);
      else if (event.key === "-") this.zoom(1 / 1.25);
      else if (event.key === "0") this.fit(true);
      else if ((event.key === "Enter" || event.key === " ") && event.target.dataset?.node) location.hash = `#/topology?node=${encodeURIComponent(event.target.dataset.node)}`;
      else if (event.key === "Escape" && this.chosen) location.hash = "#/topology";
      else return;
      event.preventDefault(); event.stopPropagation();
    });
  }
  middle(pointers) {
    const all = [...pointers.values()], x = all.reduce((sum, p) => sum + p.clientX, 0) / all.length, y = all.reduce((sum, p) => sum + p.clientY, 0) / all.length;
    return {x, y, far: all.length > 1 ? Math.hypot(all[0].clientX - all[1].clientX, all[0].clientY - all[1].clientY) : 0};
  }
  zoom(by, x = this.svg.clientWidth / 2, y = this.svg.clientHeight / 2) {
    const scale = Math.min(ZOOMS[1], Math.max(ZOOMS[0], this.at.scale * by)), real = scale / this.at.scale;
    this.at = {x: x - (x - this.at.x) * real, y: y - (y - this.at.y) * real, scale};
    this.moved = true; this.place();
  }
  // At first the text can be read, and a large map begins at its left; `whole` shows all of it, however small.
  fit(whole = this.whole) {
    this.whole = whole;
    const map = this.map, width = this.frame.clientWidth;
    if (!map || !width) return;
    const wide = width / map.width, readable = innerWidth <= 640 ? 0.85 : 0.6;
    const scale = Math.min(1.15, whole ? wide : Math.max(wide, readable));
    const height = Math.min(Math.max(innerWidth <= 640 ? 200 : 280, map.height * scale + 8), Math.max(360, innerHeight * 0.78));
    const fitting = Math.max(ZOOMS[0], Math.min(scale, Math.max(whole ? ZOOMS[0] : readable, height / map.height)));
    this.hint.hidden = map.width * fitting <= width + 1 && map.height * fitting <= height + 1;
    this.svg.setAttribute("height", Math.round(height));
    this.at = {x: Math.max(4, (width - map.width * fitting) / 2), y: Math.max(4, (height - map.height * fitting) / 2), scale: fitting};
    this.moved = false; this.place();
  }
  place() { this.world.setAttribute("transform", `translate(${this.at.x.toFixed(1)} ${this.at.y.toFixed(1)}) scale(${this.at.scale.toFixed(3)})`); }

  // -- drawing --------------------------------------------------------------------------------------------------------------

  draw(map) {
    this.map = map; this.parts.clear(); this.labels.clear();
    const rectangle = (css, part, radius) => s("rect", {class: css, x: part.x, y: part.y, width: part.w, height: part.h, rx: radius});
    const text = (css, x, y, words) => s("text", {class: css, x, y}, words);
    const edges = map.edges.map(edge => {
      const path = s("path", {class: "edge", d: edge.d, "marker-end": "url(#head)"}), label = text("rate", 0, 0, "");
      this.labels.set(`${edge.from}\n${edge.to}`, {path, label});
      return path;
    });
    const nodes = map.nodes.map(node => {
      const box = rectangle(`node ${node.kind}`, node, node.kind === "processor" ? 6 : 20);
      const rate = text("line", node.x + node.w / 2, node.y + 38, ""), extra = text("line soft", node.x + node.w / 2, node.y + 54, "");
      const group = s("g", {"data-node": node.name, tabindex: "0", role: "button", "aria-label": `${node.kind} ${node.name}`}, s("title", {}, node.name), box, text("label", node.x + node.w / 2, node.y + 18, node.label), rate, extra);
      this.parts.set(node.name, {node, box, rate, extra, group});
      return group;
    });
    const stores = map.stores.map(store => s("g", {}, s("title", {}, `store ${store.name}`), s("path", {class: "store", d: cylinder(store)}), s("a", {href: `#/queries?store=${encodeURIComponent(store.name)}`}, text("label", store.x + store.w / 2, store.y + store.h / 2 + 7, store.name))));
    this.topicLines = map.topics.map(topic => {
      const line = text("line soft", topic.x + topic.w / 2, topic.y + 34, "");
      return {topic, line, group: s("g", {}, s("title", {}, `topic ${topic.name}`), rectangle(`topic${topic.dynamic ? " dynamic" : ""}`, topic, 23), text("label", topic.x + topic.w / 2, topic.y + 17, cut(topic.name, topic.w)), line)};
    });
    this.world.replaceChildren(
      ...map.boxes.flatMap(box => [rectangle("box", box, 12), text("title", box.x + 14, box.y + 20, box.title)]),
      ...map.uses.map(d => s("path", {class: "use", d})), ...edges, ...nodes, ...stores, ...this.topicLines.map(part => part.group),
      ...[...this.labels.values()].map(part => part.label));
    this.fit();
    for (const {path, label} of this.labels.values()) {
      const middle = path.getPointAtLength(path.getTotalLength() / 2);
      label.setAttribute("x", middle.x + 5); label.setAttribute("y", middle.y + 3);
    }
  }
  update(document, changed) {
    const map = document.map;
    if (!map) return;
    if (!this.map || this.map.boxes !== map.boxes || this.map.edges !== map.edges) this.draw(map);
    if (changed && !["edges", "nodes", "map", "partitions"].some(part => changed.has(part))) return;
    const rates = document.edges || {}, nodes = document.nodes || {}, incoming = {}, outgoing = {};
    for (const [key, rate] of Object.entries(rates)) {
      const [from, to] = key.split("\n");
      incoming[to] = (incoming[to] || 0) + rate; outgoing[from] = (outgoing[from] || 0) + rate;
    }
    for (const [key, {label, path}] of this.labels) {
      const rate = rates[key] || 0;
      setText(label, rate ? `${brief(rate)}/s` : "");
      path.classList.toggle("flows", rate > 0);
    }
    const lagOf = {};
    for (const p of Object.values(document.partitions || {})) lagOf[p.topic] = (lagOf[p.topic] || 0) + p.lag;
    for (const {topic, line} of this.topicLines) {
      const lag = lagOf[topic.name];
      setText(line, lag ? `lag ${brief(lag)}` : lag === 0 ? "caught up" : "");
    }
    const rows = [];
    for (const [name, part] of this.parts) {
      const known = nodes[name] || {}, busy = known.busy || 0, into = incoming[name] || 0, out = outgoing[name] || 0;
      const each = busy && into ? busy * 1000 / into : null, line = (map.lines || {})[name] || "";
      setText(part.rate, [`${brief(into || out)}/s`, busy >= 0.001 ? `${(busy * 100).toFixed(busy < 0.1 ? 1 : 0)} % busy` : "", known.failed ? `${brief(known.failed)} failed` : ""].filter(Boolean).join(" · "));
      setText(part.extra, cut(line.replace(/^.*\//, ""), part.node.w));
      setClass(part.group, ["", busy >= 0.02 && "warm", busy >= 0.15 && "hot", busy >= 0.4 && "burning", known.failed && "failing", this.chosen === name && "chosen"].filter(Boolean).join(" "));
      rows.push({name, line, in: into, out, busy, each, failed: known.failed || 0, kind: part.node.kind, box: part.node.box, stores: map.stores.filter(store => store.node === name).map(store => store.name)});
    }
    this.table.update(rows);
    this.tell(rows.find(row => row.name === this.chosen), document);
    this.showSteps(nodes);
  }
  tell(row, document) {
    this.details.hidden = !row;
    if (!row) return;
    const facts = [["Kind", row.kind], ["In", row.box], ["Added at", row.line || "–"], ["Records in", `${number(row.in)}/s`], ["Records out", `${number(row.out)}/s`],
      ["Busy", row.busy ? `${(row.busy * 100).toFixed(1)} % of a thread` : "too little to measure"], ["Time per record", row.each == null ? "–" : `about ${millis(row.each)}`], ["Failed records", count(row.failed)]];
    const key = JSON.stringify([row.name, facts, row.stores]);
    if (this.told === key) return;
    this.told = key;
    this.details.replaceChildren(h("div", {class: "head"}, h("h3", {}, row.name), h("a", {href: "#/topology", class: "small", "aria-label": "Close the details"}, "Close")),
      h("dl", {}, facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]), row.stores.length ? [h("dt", {}, "Stores"), h("dd", {}, row.stores.map(store => [h("a", {href: `#/queries?store=${encodeURIComponent(store)}`}, store), " "]))] : null));
  }
  showSteps(nodes) {
    const names = {"(fetch)": "reading from Kafka", "(process)": "processing outside of nodes", "(commit)": "writing and committing", "(store)": "writing stores", "(restore)": "restoring", "(punctuate)": "punctuating", "(open)": "opening tasks"};
    const all = Object.entries(nodes).filter(([, known]) => known.busy).sort((a, b) => b[1].busy - a[1].busy).slice(0, 10);
    this.steps.replaceChildren(...(all.length ? all.map(([name, {busy}]) => {
      const bar = h("i"); bar.style.width = `${Math.min(100, busy * 100)}%`;
      return h("div", {class: "step"}, h("span", {}, names[name] || name), h("span", {class: "track", "aria-hidden": "true"}, bar), h("b", {}, `${(busy * 100).toFixed(1)} %`));
    }) : [h("p", {class: "soft"}, "No batch was processed.")]));
  }
}
function cylinder({x, y, w, h: height}) {
  const half = w / 2, lid = 5;
  return `M${x} ${y + lid}v${height - 2 * lid}a${half} ${lid} 0 0 0 ${w} 0v${-(height - 2 * lid)}a${half} ${lid} 0 0 0 ${-w} 0a${half} ${lid} 0 0 0 ${w} 0`;
}
function cut(text, width) {
  const most = Math.floor((width - 20) / 6.6);
  return text.length > most ? "…" + text.slice(text.length - most + 1) : text;
}
