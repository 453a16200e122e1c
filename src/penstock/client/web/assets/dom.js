// Elements and words. Whatever comes from the server becomes text, never markup.
"use strict";

export const $ = id => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "open") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(3)) if (child != null && child !== false) element.append(child);
  return element;
}
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

export function setText(element, text) {
  const wanted = text == null ? "" : String(text);
  if (element.textContent !== wanted) element.textContent = wanted;
}
export function setClass(element, name) { if (element.getAttribute("class") !== name) element.setAttribute("class", name); }

// -- words --------------------------------------------------------------------------------------------------------------

const whole = new Intl.NumberFormat("en", {maximumFractionDigits: 0});
const fine = new Intl.NumberFormat("en", {maximumFractionDigits: 1});
export const count = n => n == null ? "–" : whole.format(n);
export const number = n => n == null ? "–" : Math.abs(n) >= 100 ? whole.format(n) : fine.format(n);
export function brief(n) {
  if (n == null) return "–";
  const size = Math.abs(n);
  if (size >= 1e9) return fine.format(n / 1e9) + " G";
  if (size >= 1e6) return fine.format(n / 1e6) + " M";
  if (size >= 1e4) return fine.format(n / 1e3) + " k";
  return number(n);
}
export const plural = (n, one, many) => `${count(n)} ${n === 1 ? one : many || one + "s"}`;
export function bytes(n) {
  if (n == null) return "–";
  const units = ["B", "KB", "MB", "GB", "TB"];
  let at = 0;
  while (n >= 1024 && at < units.length - 1) { n /= 1024; at++; }
  return `${n >= 100 || at === 0 ? whole.format(n) : fine.format(n)} ${units[at]}`;
}
export function millis(ms) {
  if (ms == null) return "–";
  if (ms === 0) return "0 ms";
  if (ms < 1) return fine.format(ms * 1000) + " µs";
  if (ms < 1000) return number(ms) + " ms";
  if (ms < 120000) return fine.format(ms / 1000) + " s";
  return duration(ms / 1000);
}
export function duration(seconds) {
  if (seconds == null) return "–";
  seconds = Math.max(0, Math.round(seconds));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
  if (days) return `${days} d ${hours % 24} h`;
  if (hours) return `${hours} h ${minutes % 60} min`;
  return `${minutes} min ${seconds % 60} s`;
}
// The time zone of all times that the page shows: the browser's.
export function zone() {
  const minutes = -new Date().getTimezoneOffset(), size = Math.abs(minutes), two = n => String(n).padStart(2, "0");
  return minutes ? `times in UTC${minutes > 0 ? "+" : "−"}${two(Math.floor(size / 60))}:${two(size % 60)}` : "times in UTC";
}
export const clock = ms => ms == null ? "–" : new Date(ms).toLocaleTimeString("en-GB");
export function when(ms) {
  if (ms == null) return "–";
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return String(ms);
  const iso = new Date(ms - date.getTimezoneOffset() * 60000).toISOString();
  return iso.slice(0, 10) + " " + iso.slice(11, ms % 1000 ? 23 : 19);
}
export const short = name => name && name.replace(/^.*-(StreamThread-\d+)$/, "$1");
export const place = executor => executor && executor.replace(/^executor_(.*)_(\w+)$/, "$2 on $1");

// -- small things -------------------------------------------------------------------------------------------------------

export function copyButton(text, label = "Copy") {
  const button = h("button", {class: "small", type: "button"}, label);
  button.addEventListener("click", async () => {
    let done = true;
    try { await navigator.clipboard.writeText(text()); }
    catch {  // not over plain HTTP from another host: the old way
      const area = h("textarea", {class: "away"}, text());
      document.body.append(area); area.select();
      done = document.execCommand("copy"); area.remove();
    }
    button.textContent = done ? "Copied" : "Not allowed";
    setTimeout(() => { button.textContent = label; }, 1500);
  });
  return button;
}
export const empty = (title, text) => h("div", {class: "empty"}, h("b", {}, title), text ? h("p", {class: "soft"}, text) : null);

export function nothing(element, there, title, text) {
  const known = element.querySelector(":scope > .empty");
  if (there) known?.remove();
  else if (!known) element.append(empty(title, text));
}
