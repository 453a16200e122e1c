// Who runs what: tasks, threads, instances, and what is being restored.
"use strict";
import {h, setText, setClass, count, duration, plural, short, place, when} from "./dom.js";
import {Table} from "./table.js";
import {live} from "./stream.js";

const ago = (since) => since == null ? "–" : duration((live.now() - since) / 1000);

export class Tasks {
  constructor() {
    this.search = h("input", {type: "search", placeholder: "task, thread, host, store", "data-search": true, "aria-label": "Search tasks", oninput: () => { this.tasks.first(); this.update(live.document, null); }});
    this.role = h("select", {"aria-label": "Role", onchange: () => { this.tasks.first(); this.update(live.document, null); }}, [["", "all roles"], ["active", "active here"], ["standby", "standbys here"], ["elsewhere", "elsewhere"]].map(([value, text]) => h("option", {value}, text)));
    this.counted = h("span", {class: "soft"});
    this.tasks = new Table([
      {title: "Task", text: t => t.id, mono: true},
      {title: "Role", text: t => (t.role)},
      {title: "State", sort: t => t.state, fill: (cell, t) => { setText(cell, t.state ? t.state.toLowerCase() : "–"); setClass(cell, t.state === "RESTORING" ? "warn" : ""); }},
      {title: "Thread", text: t => short(t.thread)},
      {title: "Executor", text: t => place(t.executor)},
      {title: "Host", text: t => t.host},
      {title: "On this thread for", number: true, text: t => ago(t.since), sort: t => t.since == null ? null : -t.since},
      {title: "Lag", number: true, text: t => count(t.lag), sort: t => t.lag},
      {title: "Reads", text: t => t.inputs.join(", "), long: true},
      {title: "Stores", text: t => t.stores.join(", "), long: true},
    ], {label: "Tasks", key: t => t.id, size: 25, none: "No task matches."});
    this.threads = new Table([
      {title: "Thread", text: t => short(t.name)},
      {title: "State", sort: t => t.state, fill: (cell, t) => { const waits = t.waiting_for_core_seconds; setText(cell, t.state.toLowerCase().replace("_", " ") + (waits == null ? "" : `, waiting for a core of Spark (${waits} s)`)); setClass(cell, waits == null ? "" : "warn"); }},
      {title: "Executor", text: t => place(t.executor)},
      {title: "Tasks", number: true, text: t => count(t.tasks.length), sort: t => t.tasks.length},
      {title: "Task ids", text: t => t.tasks.join(", "), long: true},
    ], {label: "Stream threads", key: t => t.name, size: 10});
    this.instances = new Table([
      {title: "Instance", sort: i => i.host, fill: (cell, i) => { if (cell.dataset.url !== i.url) { cell.dataset.url = i.url; cell.replaceChildren(i.here ? h("b", {}, i.host) : h("a", {href: i.url, rel: "noreferrer"}, i.host), i.here ? h("span", {class: "tag"}, "this one") : null); } }},
      {title: "Partitions", number: true, text: i => count(i.partitions), sort: i => i.partitions},
      {title: "Stores", text: i => i.stores.join(", "), long: true},
    ], {label: "Instances", key: i => i.host, size: 10, none: "No instance is known. Set application.server on each instance."});
    this.bars = new Map();
    this.restoringList = h("div", {class: "restoring"});
    this.restoring = h("section", {class: "card", hidden: true}, h("div", {class: "head"}, h("h2", {}, "Restoring"), this.restoringCount = h("span", {class: "soft"})), this.restoringList);
    this.element = h("div", {}, this.restoring,
      h("section", {class: "card"}, h("div", {class: "head"}, h("h2", {}, "Tasks"), this.counted, h("div", {class: "filters"}, this.search, this.role)), this.tasks.element),
      h("div", {class: "pair"}, h("section", {class: "card"}, h("h2", {}, "Stream threads"), this.threads.element), h("section", {class: "card"}, h("h2", {}, "Instances"), this.instances.element)));
  }
  go(parameters) { if (parameters.has("q")) this.search.value = parameters.get("q"); }
  update(document, changed) {
    const all = Object.values(document.tasks || {}), words = this.search.value.toLowerCase(), role = this.role.value;
    const shown = all.filter(t => (!role || t.role === role) && (!words || [t.id, t.thread, t.host, t.executor, t.state, ...t.stores, ...t.inputs].some(text => text && String(text).toLowerCase().includes(words))));
    const here = all.filter(t => t.role === "active").length;
    setText(this.counted, `${plural(all.length, "task")} of the application, ${count(here)} active here`);
    this.tasks.update(shown);
    this.threads.update(Object.values(document.threads || {}));
    this.instances.update(Object.values(document.instances || {}));
    this.showRestoring(Object.entries(document.restoring || {}));
  }
  showRestoring(all) {
    this.restoring.hidden = !all.length;
    const left = all.map(([, r]) => r.seconds_left).filter(seconds => seconds != null);
    setText(this.restoringCount, all.length ? `${plural(all.length, "store")}${left.length ? `, about ${duration(Math.max(...left))} left` : ""}` : "");
    for (const key of [...this.bars.keys()]) if (!all.some(([other]) => other === key)) { this.bars.get(key).element.remove(); this.bars.delete(key); }
    for (const [key, r] of all.slice(0, 50)) {
      let bar = this.bars.get(key);
      if (!bar) {
        const progress = h("progress", {"aria-label": `Restoring ${key}`}), text = h("span");
        bar = {progress, text, element: h("div", {class: "restore"}, text, progress)};
        this.bars.set(key, bar); this.restoringList.append(bar.element);
      }
      bar.progress.max = Math.max(1, r.end - r.start); bar.progress.value = Math.max(0, r.position - r.start);
      const part = Math.min(100, Math.floor(100 * (r.position - r.start) / Math.max(1, r.end - r.start)));
      setText(bar.text, `task ${r.task}, ${r.store}: ${count(r.position - r.start)} of ${count(r.end - r.start)} records (${part} %), since ${when(r.since).slice(11)}${r.seconds_left == null ? "" : `, ${duration(r.seconds_left)} left`}`);
    }
  }
}
