// Times as people say them, kept current; the exact time stands in each element's title.
import { language, t } from "./words.js";

const UNITS = [
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
  ["second", 1],
];
const words = new Intl.RelativeTimeFormat(language, { numeric: "auto" });

function relative(seconds) {
  const [unit, size] = UNITS.find(([, each]) => Math.abs(seconds) >= each) ?? UNITS[3];
  return words.format(Math.trunc(seconds / size), unit);
}

function countdown(seconds) {
  if (seconds <= 0) return t("expired");
  if (seconds >= 86400) return t("expires in {span}", { span: spans(seconds) });
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, Math.floor(seconds) % 60];
  const shown = parts[0] ? parts : parts.slice(1);
  const left = shown.map((each, at) => (at ? String(each).padStart(2, "0") : each)).join(":");
  return t("expires in {span}", { span: left });
}

// The words that the server renders for a deadline: see services/gateway/web/words.py.
function due(seconds) {
  if (seconds <= 0) return t("overdue");
  return t("in {span}", { span: spans(seconds) });
}

// Hours and days with the unit below, so that nobody is an hour late.
function spans(seconds) {
  const sizes = [86400, 3600, 60, 1];
  const at = seconds >= 1 ? sizes.findIndex((each) => seconds >= each) : 3;
  const said = [span(sizes[at], Math.floor(seconds / sizes[at]))];
  const rest = seconds % sizes[at];
  if (at < 2 && rest >= sizes[at + 1]) said.push(span(sizes[at + 1], Math.floor(rest / sizes[at + 1])));
  return said.join(" ");
}

function span(size, count) {
  if (size === 86400) return count === 1 ? t("{count} day", { count }) : t("{count} days", { count });
  if (size === 3600) return t("{count} h", { count });
  return size === 60 ? t("{count} min", { count }) : t("{count} s", { count });
}

// The server cannot know where the reader is: it says UTC.
function localise(element) {
  const exact = new Date(element.dateTime).toLocaleString(language, { dateStyle: "medium", timeStyle: "long" });
  element.title = exact;
  if ("exact" in element.dataset) element.dataset.exact = exact;
  element.dataset.local = "";
}

function show(root) {
  for (const element of root.querySelectorAll("time[title]:not([data-local])")) localise(element);
  for (const element of root.querySelectorAll("time[data-until], time[data-due], time[data-ago]")) {
    const seconds = (Date.parse(element.dateTime) - Date.now()) / 1000;
    const ahead = "until" in element.dataset || "due" in element.dataset;
    const text = !ahead ? relative(seconds) : "due" in element.dataset ? due(seconds) : countdown(seconds);
    if (element.textContent !== text) element.textContent = text;
    if (ahead) element.classList.toggle("soon", seconds < ("due" in element.dataset ? 300 : 60));
  }
}

export function keepTime(root) {
  show(root);
  setInterval(() => show(root), 1000);
  // Fragments that were just swapped in show their exact time until the next tick: do it at once.
  new MutationObserver(() => show(root)).observe(root.body, { childList: true, subtree: true });
}
