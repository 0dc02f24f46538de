// The operators' pages, live: the server renders what is new, and what is being typed stays where it is.
import { keepDrafts } from "./drafts.js";
import { keepTime } from "./time.js";
import { t } from "./words.js";

const GATHER_MS = 200;
const KINDS = ["message", "holder", "tool_call", "approval", "conversation"];
const conversation = document.querySelector("[data-conversation]")?.dataset.conversation;
const connection = document.getElementById("connection");
let waiting = null;
// Whether there is a box to answer in is decided when the page is made.
const holder = document.querySelector(".talk .title .badge")?.textContent;

function say(state) {
  connection.textContent = { live: t("live"), connecting: t("connecting"), closed: t("signed out?") }[state];
  connection.dataset.state = state;
}

function look() {
  waiting ??= setTimeout(() => {
    waiting = null;
    document.getElementById("live")?.dispatchEvent(new CustomEvent("refresh"));
  }, GATHER_MS);
}

function down() {
  if (conversation) document.getElementById("live")?.scrollIntoView({ block: "end" });
}

document.addEventListener("htmx:after:swap", () => {
  const now = document.querySelector(".talk .title .badge")?.textContent;
  if (now === holder) down();
  else if (!document.getElementById("text")?.value) location.reload();
});

// Enter sends, as in the chat; with shift it begins a line.
document.getElementById("text")?.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  event.target.form.requestSubmit();
});

const seen = Number(document.querySelector("input[name=seen]")?.value ?? 0);
const address = conversation ? `/ui/events?conversation=${encodeURIComponent(conversation)}&after=${seen}` : "/ui/events";
const events = new EventSource(address);
events.onopen = () => say("live");
events.onerror = () => say(events.readyState === EventSource.CLOSED ? "closed" : "connecting");
if (conversation) for (const kind of KINDS) events.addEventListener(kind, look);
else events.addEventListener("held", look);
addEventListener("pagehide", () => events.close());
addEventListener("pageshow", (event) => event.persisted && location.reload());

keepDrafts(document);
keepTime(document);
down();
