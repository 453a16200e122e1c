// The frame of the page: tabs and their links, who is signed in, what is wrong.
"use strict";
import {$, h, setText, setClass, duration, clock, when, zone} from "./dom.js";
import {ask, live, token} from "./stream.js";
import {Overview} from "./overview.js";
import {Topology} from "./topology.js";
import {Tasks} from "./tasks.js";
import {StateView} from "./state.js";
import {Queries} from "./queries.js";
import {Topics} from "./topics.js";
import {Letters} from "./letters.js";
import {Logs} from "./logs.js";
import {Settings} from "./settings.js";

const TABS = [
  ["overview", "Overview", Overview], ["topology", "Topology", Topology], ["tasks", "Tasks", Tasks], ["state", "State", StateView],
  ["queries", "Queries", Queries], ["topics", "Topics", Topics], ["dead-letters", "Dead letters", Letters], ["logs", "Logs", Logs], ["settings", "Settings", Settings],
];
const WORDS = {
  STARTING: "starting", CREATED: "starting", REBALANCING: "rebalancing", RUNNING: "running", PENDING_SHUTDOWN: "closing",
  NOT_RUNNING: "closed", PENDING_ERROR: "failing", ERROR: "failed",
};
let view = null, current = "", ready = false;

// -- links ----------------------------------------------------------------------------------------------------------------

export function route() {
  const [name, query] = location.hash.replace(/^#\/?/, "").split("?");
  return {name: TABS.some(tab => tab[0] === name) ? name : "overview", parameters: new URLSearchParams(query || "")};
}
const links = new Map(TABS.map(([name, title], index) => [name, h("a", {href: `#/${name}`, title: `${title} (${index + 1})`}, title, h("span", {class: "badge", hidden: true}))]));
$("tabs").append(...links.values());

function open() {
  if (!ready) return;
  const {name, parameters} = route();
  if (name !== current) {
    view?.close?.();
    current = name;
    const [, title, View] = TABS.find(tab => tab[0] === name);
    view = new View();
    $("view").replaceChildren(view.element);
    $("view").setAttribute("aria-label", title);
    for (const [other, link] of links) other === name ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
    links.get(name).scrollIntoView({block: "nearest", inline: "nearest"});
    name_page();
  }
  view.go?.(parameters);
  view.update(live.document, null);
}
addEventListener("hashchange", () => { const before = current; open(); if (current !== before) { scrollTo(0, 0); $("view").focus({preventScroll: true}); } });

function name_page() {
  const app = live.document.app, title = TABS.find(tab => tab[0] === current)?.[1];
  document.title = [app && app.state !== "RUNNING" ? `(${WORDS[app.state] || app.state})` : "", title, app?.id || "penstock"].filter(Boolean).join(" · ");
}

// -- how it is --------------------------------------------------------------------------------------------------------------

function banner() {
  const app = live.document.app, box = $("banner");
  const say = (kind, ...parts) => {
    const text = parts.join("\n");
    setClass(box, `banner ${kind}`);
    if (box.dataset.text !== text) {
      box.dataset.text = text;
      box.replaceChildren(h("b", {}, parts[0]), ...parts.slice(1).filter(Boolean).map(part => h("p", {}, part)));
    }
    box.hidden = false;
  };
  if (live.signedOut) { box.hidden = true; return; }
  if (live.lostSince) {
    const ago = (Date.now() - live.lostSince) / 1000;
    say("gone", `Not reachable since ${clock(live.lostSince)}, for ${duration(ago)}`,
      live.heard ? `The data below is from ${clock(live.heard)}. The application may have ended, or the network may be down. This page reconnects by itself.`
        : "There was no answer yet. This page reconnects by itself.", `Last answer: ${live.trouble}.`);
    return;
  }
  if (!app) { say("wait", "Connecting …"); return; }
  const since = `since ${when(app.since)}, for ${duration((live.now() - app.since) / 1000)}`;
  const waits = Object.values(app.waiting || {});
  if (app.state === "ERROR" || app.state === "PENDING_ERROR") say("gone", `The application has stopped after a failure, ${since}`, app.failure || "", "It processes nothing. Its state can be read after a restart. The tab Logs has more.");
  else if (app.state === "NOT_RUNNING" || app.state === "PENDING_SHUTDOWN") say("wait", app.state === "NOT_RUNNING" ? `The application was closed, ${since}` : `The application is being closed, ${since}`);
  else if (app.state !== "RUNNING") say("wait", app.state === "REBALANCING" ? `Rebalancing ${since}` : `Starting ${since}`, waits.length ? `It waits for ${waits.join("; ")}${app.waiting_since ? `, for ${duration((live.now() - app.waiting_since) / 1000)}` : ""}.` : "");
  else if (app.paused) say("wait", "Paused: nothing is processed until the application is resumed", "Its state can be read.");
  else box.hidden = true;
}

function frame() {
  const app = live.document.app, lost = Boolean(live.lostSince);
  $("sign-in").hidden = !live.signedOut;
  $("view").hidden = live.signedOut || !app || app.state === "STARTING";
  $("tabs").hidden = live.signedOut;
  $("sign-out").hidden = !token.get() || live.signedOut;
  document.body.classList.toggle("stale", lost);
  if (live.signedOut) {
    setText($("state"), "sign in"); setClass($("state"), "pill wait"); setText($("where"), "");
    $("sign-in-error").hidden = !live.wrong;
    setText($("sign-in-error"), live.wrong ? "This is not the token of the application." : "");
    if (document.activeElement === document.body) $("token").focus();
  } else if (app) {
    setText($("name"), app.id);
    setText($("state"), lost ? "not reachable" : app.paused && app.state === "RUNNING" ? "paused" : WORDS[app.state] || app.state);
    setClass($("state"), "pill " + (lost ? "gone" : app.paused ? "wait" : {RUNNING: "good", ERROR: "gone", PENDING_ERROR: "gone", NOT_RUNNING: "gone"}[app.state] || "wait"));
    const running = app.state === "RUNNING" || app.state === "REBALANCING";
    $("pause").hidden = lost || !app.has_token || !running;
    setText($("pause"), app.paused ? "Resume" : "Pause");
    $("spark").hidden = !app.spark_ui;
    if (/^https?:/.test(app.spark_ui || "")) $("spark").href = app.spark_ui;
    setText($("where"), [app.host, app.guarantee, app.version && `penstock ${app.version}`, zone()].filter(Boolean).join(" · "));
  } else { setText($("state"), lost ? "not reachable" : "connecting"); setClass($("state"), lost ? "pill gone" : "pill wait"); }
  badges();
  banner();
}
function badges() {
  const {log = {}, now, restoring = {}} = live.document;
  const errors = Object.values(log).filter(line => line.level === "ERROR" || line.level === "CRITICAL").length;
  for (const [name, number] of [["dead-letters", now?.totals?.dead_letters], ["logs", errors], ["tasks", Object.keys(restoring).length]]) {
    const badge = links.get(name).lastChild;
    badge.hidden = !number;
    setText(badge, number > 999 ? "999+" : number || "");
  }
}

live.listen(changed => {
  frame();
  if (live.signedOut) return;
  const app = live.document.app;
  if (app && app.state !== "STARTING" && !ready) { ready = true; open(); }
  else if (ready && view) { name_page(); view.update(live.document, changed); }
});
setInterval(() => { if (!document.hidden && (live.lostSince || live.document.app?.state !== "RUNNING")) banner(); }, 1000);

// -- what is pressed ----------------------------------------------------------------------------------------------------------

$("sign-in").addEventListener("submit", event => {
  event.preventDefault();
  token.set($("token").value.trim()); $("token").value = "";
  live.wrong = false;
  live.again();
});
$("sign-out").addEventListener("click", () => { token.set(""); live.document = {}; ready = false; current = ""; $("view").replaceChildren(); live.again(); });
$("pause").addEventListener("click", async () => {
  const paused = live.document.app?.paused;
  if (!paused && !confirm("Pause this instance?\n\nIt processes nothing until it is resumed. Its state can still be read.")) return;
  $("pause").disabled = true;
  try { await ask(paused ? "/api/resume" : "/api/pause", {}); } catch (error) { alert(error.message); }
  $("pause").disabled = false;
});
$("theme").addEventListener("click", () => {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const next = {[dark ? "light" : "dark"]: "", "": dark ? "light" : "dark"}[root.dataset.theme || ""] ?? "";
  if (next) root.dataset.theme = next; else delete root.dataset.theme;
  try { next ? localStorage.setItem("penstock-theme", next) : localStorage.removeItem("penstock-theme"); } catch { /* for this page only */ }
});
$("help-button").addEventListener("click", () => $("help").showModal());
addEventListener("keydown", event => {
  if (event.ctrlKey || event.altKey || event.metaKey || /INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName) || live.signedOut || $("help").open) return;
  if (event.key >= "1" && event.key <= String(TABS.length)) location.hash = `#/${TABS[event.key - 1][0]}`;
  else if (event.key === "?") $("help").showModal();
  else if (event.key === "/") {
    const field = $("view").querySelector("[data-search]");
    if (field) { event.preventDefault(); field.focus(); field.select?.(); }
  }
});
frame();
live.start();
