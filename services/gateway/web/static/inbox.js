// The inbox, live: cards change where they stand; new ones wait behind a button, so that nothing moves under a hand.
import { keyboard } from "./keys.js";
import { keepTime } from "./time.js";
import { t } from "./words.js";

const GATHER_MS = 250;
const whole = document.querySelector("[data-whole]")?.dataset.whole;
const fresh = document.getElementById("fresh");
const show = document.getElementById("fresh-show");
const connection = document.getElementById("connection");
let changed = new Set();
let waiting = null;

function say(state) {
  connection.textContent = { live: t("live"), connecting: t("connecting"), closed: t("signed out?") }[state];
  connection.dataset.state = state;
}

function refresh(element) {
  element?.dispatchEvent(new CustomEvent("refresh"));
}

function take(id) {
  if (whole) {
    if (id === whole) fresh.hidden = false;
    return;
  }
  changed.add(id);
  waiting ??= setTimeout(look, GATHER_MS);
}

async function look() {
  const ids = changed;
  changed = new Set();
  waiting = null;
  for (const id of ids) refresh(document.getElementById(`item-${id}`));
  if ([...ids].every((id) => document.getElementById(`item-${id}`))) return;
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const added = [...page.querySelectorAll(".item")].filter((each) => !document.getElementById(each.id)).length;
  if (!added) return;
  if (!document.querySelector(".item")) {
    refresh(document.getElementById("list"));
    return;
  }
  show.textContent = added === 1 ? t("Show 1 new approval") : t("Show {count} new approvals", { count: added });
  fresh.hidden = false;
}

function count() {
  const number = document.querySelectorAll("input[form=batch]:checked").length;
  const open = document.getElementById("total")?.dataset.open ?? document.querySelectorAll(".item.pending").length;
  // Only what differs is written: the observer below would call for ever.
  const chosen = document.getElementById("chosen");
  const text = t("{count} chosen", { count: number });
  if (chosen && chosen.textContent !== text) chosen.textContent = text;
  if (!whole) document.title = `${Number(open) === 0 ? "" : `(${open}) `}${t("Inbox")} · Placet`;
  for (const button of document.querySelectorAll(".choose")) button.hidden = false;
}

show?.addEventListener("click", () => {
  if (whole) {
    location.assign(`/inbox/${whole}`);
    return;
  }
  fresh.hidden = true;
  refresh(document.getElementById("list"));
});

document.addEventListener("change", count);
document.addEventListener("click", (event) => {
  const button = event.target.closest(".choose");
  if (!button) return;
  for (const box of button.closest(".alike").querySelectorAll("input[form=batch]")) box.checked = true;
  count();
});
new MutationObserver(count).observe(document.getElementById("main"), { childList: true, subtree: true });

const events = new EventSource("/ui/events");
events.onopen = () => say("live");
events.onerror = () => say(events.readyState === EventSource.CLOSED ? "closed" : "connecting");
events.addEventListener("approvals", (event) => take(JSON.parse(event.data).approval_id));
addEventListener("pagehide", () => events.close());

keyboard(document);
keepTime(document);
count();
