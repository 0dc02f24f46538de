// The page's wiring: one event stream in, messages out, cards kept fresh. Texts from outside are text nodes only.
import { fetchOwn, hearComments, keepFocus, signInLater } from "./dom.js";
import { dropDraft, keepDraft, keepDrafts } from "./drafts.js";
import { COMMIT, Feed } from "./feed.js";
import { plans } from "./plan.js";
import { keepTime } from "./time.js";
import { t, why } from "./words.js";

// Every type of `ItemType` in services/gateway/conversations/items.py, and texts as they are written.
const TYPES = ["message", "tool_call", "progress", "approval", "decision", "holder", "turn", "resolution", "conversation", "delta"];
const chat = document.getElementById("chat");
const feedElement = document.getElementById("feed");
const connection = document.getElementById("connection");
const composer = document.getElementById("composer");
const fault = document.getElementById("fault");
const stop = document.getElementById("stop");
const feed = new Feed(feedElement, chat.dataset.me, refreshCard);

const staged = document.getElementById("staged");

let stagedSoon = null;
let conversation = chat.dataset.conversation;
let events = null;
let lastId = 0;
let atEnd = true;

function follow() {
  events?.close();
  const query = new URLSearchParams(conversation ? { conversation, after: String(lastId) } : {});
  events = new EventSource(`/ui/events?${query}`);
  events.onopen = () => say("live");
  events.addEventListener("begun", refreshPane);
  events.onerror = () => say(events.readyState === EventSource.CLOSED ? "closed" : "connecting");
  events.addEventListener("approvals", (event) => {
    refreshPane();
    refreshCards(JSON.parse(event.data).approval_id);
  });
  hearComments(events);
  for (const type of TYPES) {
    events.addEventListener(type, (event) => {
      if (event.data) receive(type, event);
    });
  }
}

function receive(type, event) {
  const data = JSON.parse(event.data);
  if (type !== "delta") lastId = Number(event.lastEventId);
  document.getElementById("empty").hidden = true;
  feed.take(type, data);
  if (type === "turn") showStop();
  if (type === "turn" || type === "approval" || data.kind === "staged" || data.outcome || data.tool === COMMIT) showStaged();
  if (type === "conversation") endWriting();
}

// What was being written stays, to be copied; nobody writes here any more.
function endWriting() {
  if (!composer) return;
  const box = document.getElementById("text");
  box.readOnly = true;
  box.placeholder = t("The conversation has ended.");
  document.getElementById("send").hidden = true;
}

// Stopping is for while something runs; the focus must not fall out of the page when the button goes.
function showStop() {
  if (!stop) return;
  if (!feed.running && document.activeElement === stop) document.getElementById("text").focus();
  stop.hidden = !feed.running;
  stop.disabled = false;
}

// What is staged is drawn by the server; a hundred calls that are staged at once ask for it a few times.
function showStaged() {
  stagedSoon ??= setTimeout(() => {
    stagedSoon = null;
    staged.setAttribute("hx-get", `/ui/conversations/${conversation}/workspace`);
    window.htmx?.process(staged);
    staged.dispatchEvent(new CustomEvent("refresh"));
  }, 200);
}

function say(state) {
  connection.textContent = { live: t("live"), connecting: t("connecting"), closed: t("signed out?") }[state];
  connection.dataset.state = state;
}

function refreshPane() {
  document.getElementById("waiting")?.dispatchEvent(new CustomEvent("refresh"));
}

function refreshCards(id) {
  for (const frame of document.querySelectorAll(`[data-held="${CSS.escape(id)}"]`)) refreshCard(frame);
}

function refreshCard(frame) {
  window.htmx?.process(frame);
  frame.dispatchEvent(new CustomEvent("refresh"));
}

async function send(text) {
  if (!conversation) await begin();
  await ask(`/v1/conversations/${conversation}/messages`, { text, message_id: crypto.randomUUID() });
}

async function begin() {
  const agent = document.getElementById("agent")?.value;
  const made = await ask("/v1/conversations", { language: language(), ...(agent && { agent }) });
  conversation = made.id;
  // What is being sent is written in this conversation now.
  const box = document.getElementById("text");
  dropDraft(box);
  chat.dataset.conversation = conversation;
  keepDraft(box);
  history.replaceState(null, "", `/?conversation=${conversation}`);
  lastId = 0;
  follow();
}

async function ask(path, body) {
  const answer = await fetchOwn(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (answer.status === 401) {
    location.assign(signInLater());
    return new Promise(() => {});
  }
  const value = await answer.json();
  if (!answer.ok) throw new Error(value.title);
  return value;
}

function language() {
  const code = navigator.language.slice(0, 2).toLowerCase();
  return /^[a-z]{2}$/.test(code) ? code : "en";
}

function showFault(text) {
  if (!fault) return;
  fault.textContent = text;
  fault.hidden = !text;
}

// A text is never cut behind its writer's back: what is too long says so and is not sent. Characters as the server counts
// them, which are not those of UTF-16.
function checkLength(box) {
  const most = Number(box.dataset.max);
  const over = box.value.length > most ? [...box.value].length - most : 0;
  const [max, much] = [most, over].map((each) => each.toLocaleString(document.documentElement.lang || "en"));
  const text = over > 0 ? t("At most {max} characters: {over} too many.", { max, over: much }) : "";
  if (box.validationMessage || text) showFault(text);
  box.setCustomValidity(text);
}

keepDrafts(document);
if (composer) {
  const box = document.getElementById("text");
  const button = document.getElementById("send");
  const grow = () => {
    box.style.height = "auto";
    box.style.height = `${Math.min(box.scrollHeight, 200)}px`;
  };
  box.addEventListener("input", () => {
    grow();
    checkLength(box);
  });
  grow();
  box.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      composer.requestSubmit();
    }
  });
  composer.addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = box.value.trim();
    if (!text || box.readOnly) return;
    button.disabled = true;
    try {
      await send(text);
      box.value = "";
      dropDraft(box);
      showFault("");
      atEnd = true;
    } catch (error) {
      showFault(t("Not sent: {error}", { error: why(error) }));
    } finally {
      button.disabled = false;
      grow();
      box.focus();
    }
  });
  stop.addEventListener("click", async () => {
    // A button that is switched off loses the focus, and the next thing to do is to write.
    box.focus();
    stop.disabled = true;
    try {
      await ask(`/v1/conversations/${conversation}/stop`, {});
      showFault("");
    } catch (error) {
      stop.disabled = false;
      showFault(t("Not stopped: {error}", { error: why(error) }));
    }
  });
  document.getElementById("agent")?.addEventListener("change", (event) => {
    for (const each of document.querySelectorAll(".wishes")) each.hidden = each.dataset.agent !== event.target.value;
  });
  for (const wish of document.querySelectorAll(".wish")) {
    wish.addEventListener("click", () => {
      box.value = wish.textContent;
      keepDraft(box);
      composer.requestSubmit();
    });
  }
}

document.body.addEventListener("htmx:response:error", () => {
  showFault(t("That did not work. Try again in a moment."));
});

// Who reads at the end stays at the end, also when a card or a picture grows; who scrolled up is left alone.
feedElement.addEventListener("scroll", () => {
  atEnd = feedElement.scrollHeight - feedElement.scrollTop - feedElement.clientHeight < 80;
});
new MutationObserver(() => {
  if (atEnd) feedElement.scrollTop = feedElement.scrollHeight;
}).observe(feedElement, { childList: true, subtree: true, characterData: true });

const waiting = document.getElementById("waiting");
if (waiting) {
  const count = document.getElementById("count");
  new MutationObserver(() => {
    // The pane shows the newest; how many wait in all is said by the server.
    const total = document.getElementById("total");
    const number = Number(total?.dataset.total ?? 0);
    count.textContent = total?.dataset.words ?? "";
    count.hidden = number === 0;
    document.title = number ? `(${count.textContent}) Placet` : "Placet";
  }).observe(waiting, { childList: true, subtree: true, attributes: true, attributeFilter: ["class"] });
}

document.getElementById("menu").addEventListener("toggle", (event) => {
  if (event.target.open) document.getElementById("recent").dispatchEvent(new CustomEvent("refresh"));
});
document.addEventListener("click", (event) => {
  const menu = document.getElementById("menu");
  if (!menu.contains(event.target)) menu.open = false;
});

// A newcomer on a small screen sees the chat first; the pane says how much waits.
if (matchMedia("(max-width: 56rem)").matches) document.getElementById("pane")?.removeAttribute("open");
keepFocus(document);
keepTime(document);
plans(document);
follow();
