// Dead letters: by cause, with all that is known of each, and back to where they came from.
"use strict";
import {h, setText, count, when, zone, plural, copyButton} from "./dom.js";
import {ask, live} from "./stream.js";

const PAGE = 10;
const from = place => place.topic == null ? "not known" : `${place.topic}-${place.partition} @ ${place.offset}`;
const content = data => data == null ? null : data.text != null ? pretty(data.text) : data.hex;
function pretty(text) {
  if (!/^\s*[[{]/.test(text)) return text;
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}
const groupOf = letter => JSON.stringify([letter.exception, letter.cause, letter.from.topic, letter.at.topic]);

export class Letters {
  constructor() {
    this.counted = h("span", {class: "soft"});
    this.search = h("input", {type: "search", placeholder: "cause, topic, key, value", "data-search": true, "aria-label": "Search dead letters", oninput: () => this.show()});
    this.topic = h("select", {"aria-label": "Dead letter topic", onchange: () => this.load()}, h("option", {value: ""}, "all topics"));
    this.refresh = h("button", {class: "small", type: "button", onclick: () => this.load()}, "Read again");
    this.groups = h("div", {class: "groups"});
    this.status = h("p", {class: "soft", role: "status"});
    this.since = h("div");
    this.letters = []; this.open = new Set(); this.pages = new Map();
    this.element = h("div", {},
      h("section", {class: "card"}, h("div", {class: "head"}, h("h2", {}, "Dead letters"), this.counted, h("div", {class: "filters"}, this.search, this.topic, this.refresh)), this.status, this.groups),
      h("section", {class: "card"}, h("h2", {}, "Causes since the start of this instance"), this.since));
    this.load();
  }
  go(parameters) { if (parameters.has("q")) { this.search.value = parameters.get("q"); this.show(); } }
  async load() {
    this.refresh.disabled = true; setText(this.status, "Reading the topics …");
    try {
      const found = await ask(`/api/dead-letters${this.topic.value ? `?topic=${encodeURIComponent(this.topic.value)}` : ""}`), chosen = this.topic.value;
      this.letters = found.letters; this.topics = found.topics;
      this.topic.replaceChildren(h("option", {value: ""}, "all topics"), ...found.topics.map(name => h("option", {value: name}, name)));
      this.topic.value = chosen;
      setText(this.status, !found.topics.length ? "There is no dead letter topic. Set errors.dead.letter.queue.topic.name: failed records are then written there with the reason." :
        found.missing.length ? `${found.missing.join(", ")} does not exist yet.` : found.letters.length >= found.most ? `The last ${count(found.most)} of each topic are shown.` : "");
      this.loaded = live.document.now?.totals?.dead_letters || 0;
      this.show();
    } catch (error) { setText(this.status, error.message); }
    this.refresh.disabled = false;
  }
  show() {
    const words = this.search.value.toLowerCase();
    const shown = this.letters.filter(l => !words || [l.exception, l.message, l.from.topic, l.at.topic, l.key?.text, l.value?.text].some(text => text && text.toLowerCase().includes(words)));
    const groups = new Map();
    for (const letter of shown) groups.set(groupOf(letter), [...(groups.get(groupOf(letter)) || []), letter]);
    setText(this.counted, shown.length ? `${plural(shown.length, "letter")} with ${plural(groups.size, "cause")}, ${zone()}` : "");
    this.groups.replaceChildren(...(groups.size ? [...groups].sort((a, b) => b[1].length - a[1].length).map(([key, letters]) => this.group(key, letters)) : this.topics?.length ? [h("div", {class: "empty"}, h("b", {}, this.letters.length ? "No dead letter matches" : "No dead letters"), h("p", {class: "soft"}, this.letters.length ? "" : "No record has failed, or the dead letters have expired."))] : []));
  }
  group(key, letters) {
    const first = letters[0], times = letters.map(l => l.time), list = h("div", {class: "letters"});
    const details = h("details", {class: "group", open: this.open.has(key)}, h("summary", {}, h("span", {class: "badge"}, count(letters.length)), h("span", {class: "cause"}, h("b", {}, first.exception || "no exception recorded"), first.cause ? `: ${first.cause}` : ""), h("span", {class: "soft"}, `from ${first.from.topic ?? "an unknown topic"} to ${first.at.topic}, last ${when(Math.max(...times))}`)), list);
    const fill = () => {
      const page = this.pages.get(key) || 0, pages = Math.ceil(letters.length / PAGE);
      list.replaceChildren(...letters.slice(page * PAGE, page * PAGE + PAGE).map(letter => this.letter(letter)), pages > 1 ? h("div", {class: "pager"}, h("span", {class: "soft"}, `${page * PAGE + 1}–${Math.min(letters.length, page * PAGE + PAGE)} of ${letters.length}`),
        h("button", {class: "small", type: "button", disabled: page === 0, onclick: () => { this.pages.set(key, page - 1); fill(); }}, "Previous"), h("button", {class: "small", type: "button", disabled: page >= pages - 1, onclick: () => { this.pages.set(key, page + 1); fill(); }}, "Next")) : "");
    };
    details.addEventListener("toggle", () => { if (details.open) { this.open.add(key); if (!list.children.length) fill(); } else this.open.delete(key); });
    if (details.open) fill();
    return details;
  }
  letter(letter) {
    const part = (title, data) => data == null ? [h("dt", {}, title), h("dd", {class: "soft"}, "none")] : [h("dt", {}, title), h("dd", {}, h("pre", {}, content(data)), h("small", {class: "soft"}, `${count(data.size)} bytes${data.text == null ? ", hexadecimal" : ""}${data.cut ? ", the beginning of it" : ""}`))];
    const answer = h("span", {class: "soft", role: "status"}, letter.replayed ? `replayed ${when(letter.replayed)}` : "");
    const preview = content(letter.value)?.replace(/\s+/g, " ").slice(0, 160) ?? "no value";
    const details = h("details", {class: "letter"}, h("summary", {}, h("b", {}, from(letter.from)), h("span", {class: "soft"}, when(letter.time)), h("span", {class: "preview mono soft"}, [content(letter.key)?.slice(0, 60), preview].filter(Boolean).join(" · ")), letter.replayed ? h("span", {class: "tag"}, "replayed") : null));
    // Most are never opened: what is inside is made when one is.
    details.addEventListener("toggle", () => {
      if (!details.open || details.children.length > 1) return;
      details.append(h("div", {class: "actions"}, copyButton(() => JSON.stringify(letter, null, 2)), this.replayButton(letter, answer), answer),
        h("dl", {}, h("dt", {}, "Reason"), h("dd", {}, letter.message || "no reason recorded"), part("Key", letter.key), part("Value", letter.value),
          letter.headers.length ? [h("dt", {}, "Headers"), h("dd", {}, h("table", {}, h("tbody", {}, letter.headers.map(header => h("tr", {}, h("td", {class: "mono"}, header.name), h("td", {class: "long mono"}, content(header.value) ?? "null"))))))] : null,
          h("dt", {}, "Position"), h("dd", {class: "mono"}, `${letter.at.topic}-${letter.at.partition} @ ${letter.at.offset}`)));
      if (letter.traceback) details.append(h("details", {}, h("summary", {}, "Traceback"), h("pre", {class: "traceback"}, letter.traceback)));
    });
    return details;
  }
  replayButton(letter, answer) {
    const why = letter.why_not || (live.document.app?.has_token ? null : "Replaying needs a token: set application.server.token.");
    const button = h("button", {class: "small", type: "button", disabled: Boolean(why), title: why || "Write the record to its input topic again"}, letter.replayed ? "Replay again" : "Replay");
    button.addEventListener("click", async () => {
      if (!confirm(`Write this record to ${letter.from.topic}-${letter.from.partition} again?\n\nThe application and all other readers of that topic process it again.`)) return;
      button.disabled = true; setText(answer, "writing …");
      try {
        const done = await ask("/api/dead-letters/replay", {...letter.at, again: Boolean(letter.replayed)});
        letter.replayed = done.replayed;
        setText(answer, `written to ${done.topic}-${done.partition}, ${when(done.replayed)}`); button.textContent = "Replay again";
      } catch (error) { setText(answer, error.message); }
      button.disabled = false;
    });
    return why ? h("span", {class: "with-reason"}, button, h("small", {class: "soft"}, why)) : button;
  }
  update(document, changed) {
    if (changed && !changed.has("causes") && !changed.has("now")) return;
    const causes = Object.values(document.causes || {}), total = document.now?.totals?.dead_letters || 0;
    if (this.loaded != null && total > this.loaded) setText(this.status, `${plural(total - this.loaded, "new dead letter")}. Press Read again.`);
    const key = JSON.stringify(causes);
    if (this.shownCauses === key) return;
    this.shownCauses = key;
    this.since.replaceChildren(causes.length ? h("div", {class: "scroll"}, h("table", {}, h("thead", {}, h("tr", {}, ["Count", "Cause", "From", "To", "First", "Last"].map(text => h("th", {scope: "col", class: text === "Count" ? "number" : null}, text)))), h("tbody", {}, causes.map(c => h("tr", {}, h("td", {class: "number"}, count(c.count)), h("td", {class: "long"}, [c.exception, c.message].filter(Boolean).join(": ") || "not recorded"), h("td", {}, c.topic ?? "–"), h("td", {}, c.to), h("td", {class: "time"}, when(c.first)), h("td", {class: "time"}, when(c.last))))))) : h("p", {class: "soft"}, "None."));
  }
}
