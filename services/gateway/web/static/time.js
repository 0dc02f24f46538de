// Times as people say them, kept current; the exact time stands in each element's title.
const UNITS = [
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
  ["second", 1],
];
const words = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

function relative(seconds) {
  const [unit, size] = UNITS.find(([, each]) => Math.abs(seconds) >= each) ?? UNITS[3];
  return words.format(Math.trunc(seconds / size), unit);
}

function countdown(seconds) {
  if (seconds <= 0) return "expired";
  if (seconds >= 86400) return `expires ${relative(seconds)}`;
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, Math.floor(seconds) % 60];
  const shown = parts[0] ? parts : parts.slice(1);
  return `expires in ${shown.map((each, at) => (at ? String(each).padStart(2, "0") : each)).join(":")}`;
}

// The words that the server renders for a deadline: see services/gateway/web/words.py.
function due(seconds) {
  if (seconds <= 0) return "overdue";
  const [size, unit] = [[86400, "day"], [3600, "h"], [60, "min"], [1, "s"]].find(([each]) => seconds >= each) ?? [1, "s"];
  const count = Math.floor(seconds / size);
  return `in ${count} ${unit}${unit === "day" && count !== 1 ? "s" : ""}`;
}

function show(root) {
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
