// The inbox, live: cards change where they stand; new ones wait behind a button, so that nothing moves under a hand.
import { renderBlocks } from "./blocks.js";
import { drawItem, fetchOwn, hearComments } from "./dom.js";
import { keepDrafts } from "./drafts.js";
import { keyboard } from "./keys.js";
import { plans } from "./plan.js";
import { keepTime } from "./time.js";
import { decideInPlace, decideOnPage } from "./undo.js";
import { t } from "./words.js";

const GATHER_MS = 250;
//: A card is seen a moment after the time that it was opened at.
const LATE_SECONDS = 60;
//: What a list is narrowed by among words, which a new card has some six seconds late.
const WORDS = ["q", "rule", "requester"];
const WORDS_MS = 8_000;
//: When a look is tried again that failed.
const AGAIN_MS = [2_000, 5_000, 15_000];
//: As many as the server shows at once.
const CARDS_MAX = 50;
const asked = new URLSearchParams(location.search);
const whole = document.querySelector("[data-whole]")?.dataset.whole;
const fresh = document.getElementById("fresh");
const show = document.getElementById("fresh-show");
const connection = document.getElementById("connection");
keepDrafts(document);
if (whole) decideOnPage(document);
else decideInPlace(document);
// Ids and digests of the calls that can be selected and stood here already.
const known = new Set();
let changed = new Set();
let waiting = null;
let late = null;
let failed = 0;
// When the list was drawn, and when it was last looked at: by the server's clock, in seconds.
let since = Number(document.getElementById("main")?.dataset.now ?? 0);
let until = since;

function say(state) {
  connection.textContent = { live: t("live"), connecting: t("connecting"), closed: t("signed out?") }[state];
  connection.dataset.state = state;
}

function refresh(element) {
  element?.dispatchEvent(new CustomEvent("refresh"));
}

function take(id) {
  if (whole && id !== whole) return;
  // What somebody else has just done may have decided it: nothing can be pressed until the card is as it is now.
  if (!whole) lock(document.getElementById(`item-${id}`), true);
  changed.add(id);
  soon();
  if (whole || !WORDS.some((each) => asked.get(each))) return;
  clearTimeout(late);
  late = setTimeout(soon, WORDS_MS);
}

// One look after another, however much happens meanwhile. What a look could not show waits for the next one: after a
// while, when something else happens, or when the stream begins again.
function soon() {
  waiting ??= setTimeout(async () => {
    const ids = changed;
    changed = new Set();
    const seen = await (whole ? lookAtPage(ids) : look(ids)).catch(() => false);
    waiting = null;
    if (changed.size) soon();
    if (seen) {
      failed = 0;
      return;
    }
    for (const id of ids) changed.add(id);
    if (failed < AGAIN_MS.length) setTimeout(soon, AGAIN_MS[failed++]);
  }, GATHER_MS);
}

function lock(root, locked) {
  for (const button of root?.querySelectorAll("form button") ?? []) button.disabled = locked;
}

async function pageAt(address) {
  const answer = await fetchOwn(address, { headers: { accept: "text/html" } });
  return answer.ok && !answer.redirected ? new DOMParser().parseFromString(await answer.text(), "text/html") : null;
}

// The list as it is now, and what is no longer on it: decided, or on the next page by now.
async function look(ids) {
  const page = await pageAt(location.href);
  if (!page) return false;
  announce(page);
  const gone = [];
  for (const item of document.querySelectorAll(".item")) {
    const now = page.getElementById(item.id);
    if (now) draw(item, now, ids);
    else if (item.classList.contains("pending") || ids.has(item.dataset.approval)) gone.push(item.dataset);
  }
  for (let at = 0; at < gone.length; at += CARDS_MAX) {
    const some = gone.slice(at, at + CARDS_MAX);
    const seen = some.map((each) => ["seen", `${each.approval}.${ids.has(each.approval) ? 0 : each.revision}`]);
    const cards = await pageAt(`/inbox/cards?${new URLSearchParams(seen)}`);
    if (!cards) return false;
    for (const now of cards.querySelectorAll(".item")) draw(document.getElementById(now.id), now, ids);
  }
  showTotal(page.getElementById("total"));
  return true;
}

// A card that is older than the one that stands here, or that something has happened to meanwhile, is not shown. What
// ends an approval makes no other revision of it.
function draw(item, now, ids) {
  if (!item || changed.has(item.dataset.approval)) return;
  const age = (each) => 2 * Number(each.dataset.revision) + (each.classList.contains("pending") ? 0 : 1);
  const newer = age(now) - age(item);
  if (newer > 0 || (newer === 0 && ids.has(item.dataset.approval))) drawItem(item, now);
}

// What moves up from the next page, because others have decided, is not new. Where the newest stand first, it is older
// than all that stand here; elsewhere it may have come just before the list was drawn.
function newFrom() {
  const newestFirst = (asked.get("sort") ?? "newest") === "newest" && !asked.get("group");
  const here = [...document.querySelectorAll(".item")].map((each) => Number(each.dataset.opened));
  const more = document.querySelector("#list [rel=next]") !== null;
  return Math.max(since - LATE_SECONDS, newestFirst && more ? Math.min(...here) : 0);
}

function announce(page) {
  const oldest = newFrom();
  const isNew = (each) => Number(each.dataset.opened) > oldest && !document.getElementById(each.id);
  const added = [...page.querySelectorAll(".item")].filter(isNew).length;
  until = Number(page.getElementById("main").dataset.now);
  if (!added) return;
  if (!document.querySelector(".item")) {
    since = until;
    refresh(document.getElementById("list"));
    return;
  }
  show.textContent = added === 1 ? t("Show 1 new approval") : t("Show {count} new approvals", { count: added });
  fresh.hidden = false;
}

function showTotal(now) {
  const total = document.getElementById("total");
  if (!total || !now) return;
  Object.assign(total.dataset, now.dataset);
  count();
}

// How many of all that wait stand here: others decide, and new ones come, while the page is open.
function sayTotal() {
  const total = document.getElementById("total");
  if (!total?.dataset.open) return;
  const { open, one, many, part, mine } = total.dataset;
  // What needs me: where several must approve, what I have approved waits for others.
  const here = String(document.querySelectorAll(mine === undefined ? ".item.pending" : ".item.pending:not(.others)").length);
  const words = here === open ? (open === "1" ? one : many) : part;
  const text = open === "0" ? "" : words.replace("{count}", here).replace("{total}", open);
  if (total.textContent !== text) total.textContent = text;
}

// One approval's page follows its call to the end. While it still waits, what has changed is shown only on demand: what
// is decided must be what was read, so the buttons rest where that is something else by now.
async function lookAtPage(ids) {
  const page = await pageAt(`/inbox/${whole}`);
  const now = page?.getElementById("main")?.dataset;
  const here = document.getElementById("main");
  if (!now) return false;
  if (!ids.size && now.revision === here.dataset.revision && now.state === here.dataset.state) return true;
  if (now.state !== "pending" || here.dataset.state !== "pending") {
    refresh(here);
    return true;
  }
  if (now.digest !== here.dataset.digest) lock(here.querySelector(".panel"), true);
  fresh.hidden = false;
  return true;
}

function showBlocks() {
  for (const place of document.querySelectorAll("[data-blocks]:empty")) {
    place.append(...renderBlocks(JSON.parse(place.dataset.blocks)));
  }
}

function showProgress(data) {
  const line = document.querySelector(".outcome-of .progress");
  if (!line) return;
  line.hidden = false;
  const bar = line.querySelector("progress");
  if (data.fraction === null) bar.removeAttribute("value");
  else bar.value = data.fraction;
  line.querySelector("p").textContent = data.text ?? "";
}

function callIn(box) {
  return box.value.slice(0, box.value.lastIndexOf("."));
}

// Where all that match were selected, what comes later and what was edited meanwhile is drawn selected: nobody has
// read it yet.
function leaveUnread() {
  for (const box of document.querySelectorAll("input[form=batch]")) {
    if (!known.has(callIn(box))) box.checked = false;
    known.add(callIn(box));
  }
}

// A call that waits no more stays in its table, as its card stays on the list: its row says what became of it.
function sayOver() {
  for (const row of document.querySelectorAll(".differences tbody tr:not(.over)")) {
    const item = document.getElementById(row.querySelector("a").hash.slice(1));
    if (!item || item.classList.contains("pending")) continue;
    row.classList.add("over");
    row.querySelector("th").append(" ", item.querySelector(".what .badge").cloneNode(true));
  }
  for (const told of document.querySelectorAll(".over-now")) {
    const number = told.closest(".alike").querySelectorAll(".item:not(.pending)").length;
    const words = number ? t("No longer waiting: {count}", { count: number }) : "";
    if (told.textContent !== words) told.textContent = words;
    told.hidden = !number;
  }
}

function count() {
  const number = document.querySelectorAll("input[form=batch]:checked").length;
  const open = document.getElementById("total")?.dataset.open ?? document.querySelectorAll(".item.pending").length;
  // Only what differs is written: the observer below would call for ever.
  const chosen = document.getElementById("chosen");
  const text = t("{count} selected", { count: number });
  const told = document.getElementById("whole-count");
  if (told && told.dataset.count !== String(number)) told.remove();
  if (chosen && chosen.textContent !== text) chosen.textContent = text;
  if (!whole) document.title = `${Number(open) === 0 ? "" : `(${open}) `}${t("Inbox")} · Placet`;
  for (const button of document.querySelectorAll(".choose")) {
    const boxes = button.closest(".alike").querySelectorAll("input[form=batch]").length;
    const words = t("Select these {count}", { count: boxes });
    if (button.textContent !== words) button.textContent = words;
    button.hidden = boxes < 2;
  }
  if (!whole) sayTotal();
  sayOver();
}

show?.addEventListener("click", () => {
  if (whole) {
    // What is being typed into the arguments comes along.
    const edit = document.querySelector("#edit[open] form");
    if (!edit) location.assign(`/inbox/${whole}`);
    else {
      edit.querySelector("[name=decision]").value = "redraw";
      edit.submit();
    }
    return;
  }
  fresh.hidden = true;
  since = until;
  refresh(document.getElementById("list"));
});

document.addEventListener("change", count);
// Order and group apply at once; without scripts the form's button does it.
for (const select of document.querySelectorAll("#filters select")) {
  select.addEventListener("change", () => select.form.requestSubmit());
}
document.addEventListener("click", (event) => {
  const button = event.target.closest(".choose");
  if (!button) return;
  for (const box of button.closest(".alike").querySelectorAll("input[form=batch]")) box.checked = true;
  count();
});
new MutationObserver(() => {
  leaveUnread();
  count();
  showBlocks();
}).observe(document.body, { childList: true, subtree: true });

const { conversation, after, call } = document.querySelector("[data-whole]")?.dataset ?? {};
const query = conversation ? `?${new URLSearchParams({ conversation, after })}` : "";
const events = new EventSource(`/ui/events${query}`);
events.onopen = () => say("live");
events.onerror = () => say(events.readyState === EventSource.CLOSED ? "closed" : "connecting");
// What happened between the page's drawing and its stream, or while that was broken, is told by nobody.
events.addEventListener("begun", soon);
document.addEventListener("decided", (event) => event.detail.forEach(take));
events.addEventListener("approvals", (event) => take(JSON.parse(event.data).approval_id));
for (const type of ["tool_call", "progress", "resolution"]) {
  events.addEventListener(type, (event) => {
    if (!event.data) return;
    const data = JSON.parse(event.data);
    if (data.call_id !== call) return;
    if (type === "progress") showProgress(data);
    else take(whole);
  });
}
hearComments(events);
addEventListener("pagehide", () => events.close());
// Kept by the browser while another page was shown: its stream is over, and what was pressed in it is sent.
addEventListener("pageshow", (event) => event.persisted && location.reload());

const again = performance.getEntriesByType("navigation")[0].type !== "navigate";
if (again) document.getElementById("whole-told")?.remove();
for (const box of document.querySelectorAll("input[form=batch]")) {
  known.add(callIn(box));
  // Selected anew would be what somebody took out before they loaded the page again.
  if (again) box.checked = false;
}
keyboard(document);
plans(document);
keepTime(document);
count();
showBlocks();
