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

function show(root) {
  for (const element of root.querySelectorAll("time[data-until], time[data-ago]")) {
    const seconds = (Date.parse(element.dateTime) - Date.now()) / 1000;
    const text = "until" in element.dataset ? countdown(seconds) : relative(seconds);
    if (element.textContent !== text) element.textContent = text;
    if ("until" in element.dataset) element.classList.toggle("soon", seconds < 60);
  }
}

export function keepTime(root) {
  show(root);
  setInterval(() => show(root), 1000);
  // Fragments that were just swapped in show their exact time until the next tick: do it at once.
  new MutationObserver(() => show(root)).observe(root.body, { childList: true, subtree: true });
}
