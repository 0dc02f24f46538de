import { t } from "./words.js";

// Building elements: children are elements or texts, and texts are never read as markup.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// What prints nothing or steers the text around it: the same characters as in shared/domain/card_text.py.
const HIDDEN =
  /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u034F\u115F\u1160\u17B4\u17B5\u180B-\u180D\u180F\u2800\u3164\uFFA0\uFE00-\uFE0E\u{E0100}-\u{E01EF}]/gu;

// A text with every hidden character as its code point; line breaks stay, for those of JSON are only its layout.
export function visible(text) {
  return text.replace(HIDDEN, (char) =>
    char === "\n" ? char : `[U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`,
  );
}

// A card of the list as the server draws it now: what is being written in it stays.
export async function drawItem(item, now) {
  const focused = item.contains(document.activeElement);
  if (window.htmx) await window.htmx.swap({ text: now.outerHTML, target: item, swap: "outerMorph" });
  else item.replaceWith(document.importNode(now, true));
  const drawn = document.getElementById(now.id);
  if (focused && !drawn?.contains(document.activeElement)) drawn?.focus({ preventScroll: true });
}

// A button that was pressed goes with its card, and the focus with it: whoever decides by keyboard goes on with the card as
// it is now, the first one that still waits beside it, or else the heading of its list.
export function keepFocus(root) {
  let card = null;
  root.addEventListener("pointerdown", () => (card = null));
  root.addEventListener("focusin", ({ target }) => (card = target.closest("article.card[id]")));
  root.addEventListener("htmx:after:swap", () => {
    if (!card || root.activeElement !== root.body) return;
    const beside = card.matches(".in-pane") ? ["#waiting article.card", "#pane > summary"] : ["#text"];
    const next = [`#${CSS.escape(card.id)}`, ...beside].map((place) => root.querySelector(place)).find(Boolean);
    if (next?.matches("article")) next.tabIndex = -1;
    next?.focus({ preventScroll: true });
  });
}

// What people said about an approval changes where it stands as soon as the page's stream tells of it; what was said
// while there was no stream, once there is one again.
export function hearComments(events) {
  const show = (id) => {
    for (const each of document.querySelectorAll("section.comments")) {
      if (each.id.endsWith(id)) each.dispatchEvent(new CustomEvent("news"));
    }
  };
  events.addEventListener("comments", (event) => show(JSON.parse(event.data).approval_id));
  events.addEventListener("begun", () => show(""));
}

// Asks as the session that the page was made in: where somebody has signed in anew since, nothing is done. A part of the
// page is no use then, and it is loaded again as theirs; of what was to be sent the page says that it was not.
export async function fetchOwn(address, options = {}) {
  const own = JSON.parse(document.body.getAttribute("hx-headers:inherited") ?? "{}");
  const answer = await fetch(address, { ...options, headers: { ...own, ...options.headers } });
  if (!answer.headers.has("hx-refresh")) return answer;
  if (options.method === "POST") throw new Error(t("Somebody has signed in anew since this page was loaded. Reload it."));
  location.reload();
  return new Promise(() => {});
}

// Where a form leads in a session that is over.
export function signInLater() {
  return `/sign-in?${new URLSearchParams({ unsent: "1", back: location.pathname + location.search })}`;
}

// Only addresses of the web become links or pictures; anything else stays text.
export function webAddress(value) {
  try {
    const address = new URL(String(value), location.href);
    return ["http:", "https:"].includes(address.protocol) ? address.href : null;
  } catch {
    return null;
  }
}

export function money(amount, currency) {
  if (!Number.isFinite(amount)) return "";
  try {
    return new Intl.NumberFormat(undefined, { style: "currency", currency }).format(amount);
  } catch {
    return [amount, currency].filter((each) => each !== undefined).join(" ");
  }
}
