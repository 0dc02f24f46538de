// Decisions on the list, in place: the list stays where it is, the next card gets the focus, and for a few seconds a
// decision can be taken back, because it has not been sent yet. Whoever leaves the page means what they pressed.
import { drawItem, fetchOwn, make, signInLater } from "./dom.js";
import { dropDrafts } from "./drafts.js";
import { t, why } from "./words.js";

//: A card comes under the pointer that decided the one before: what is pressed sooner was not meant for it.
const REST_MS = 700;

// With an id of its own no part of a page that is drawn anew is made from it: it is taken out whole, and put back.
let lines = 0;

function heldLine(approved, said, back, rest = 0) {
  const text = make("span", { role: "status" }, said);
  const undo = make("button", { type: "button", class: rest ? "undo resting" : "undo" }, t("Undo"));
  // Where it takes the place of what was pressed, a second tap or Enter must not take back what the first one did.
  const began = performance.now();
  setTimeout(() => undo.classList.remove("resting"), rest);
  undo.addEventListener("click", (event) => {
    if (!event.isTrusted || performance.now() - began >= rest) back();
  });
  return make("p", { id: `held-${(lines += 1)}`, class: `verdict taken ${approved ? "yes" : "no"}` }, text, undo);
}

// What was pressed, not what the page has become since: each with the digest that was read.
function submitAs(form, fields) {
  const sent = make("form", { method: form.method, action: form.getAttribute("action"), hidden: "" });
  for (const [name, value] of fields) sent.append(make("input", { type: "hidden", name, value }));
  form.ownerDocument.body.append(sent);
  sent.submit();
}

// Sent although its page is on its way out, and so nobody will hear the answer.
function sendLeaving(address, fields) {
  return fetch(address, { method: "POST", body: new URLSearchParams(fields), keepalive: true });
}

// Stays in sight, for the card that it is about may have left the list, or been drawn anew.
function tell(said) {
  const notice = make("p", { class: "notice in-sight", role: "alert" }, said);
  notice.addEventListener("click", () => notice.remove());
  document.body.append(notice);
}

export function decideInPlace(root) {
  const seconds = Number(root.querySelector("[data-undo-seconds]")?.dataset.undoSeconds ?? 0);
  const held = new Map();
  // When the pointer pressed last; 0 where the keyboard did.
  let pressed = 0;
  let rests = 0;

  function decide(event) {
    const form = event.target;
    if (form.id === "batch") {
      decideTogether(event);
      return;
    }
    if (form.getAttribute("action") === "/sign-out") {
      signOut(event);
      return;
    }
    if (!form.matches("form.verdict")) return;
    event.preventDefault();
    if (pressed && pressed < rests) {
      rests = pressed + REST_MS;
      return;
    }
    const item = form.closest(".item");
    const before = held.get(item.dataset.approval);
    if (before?.sent) return;
    if (before) forget(before);
    leaveBatch(item.dataset.approval);
    const fields = new FormData(form, event.submitter);
    const decision = { item, id: item.dataset.approval, form, address: `/inbox/${item.dataset.approval}/card`, fields };
    held.set(decision.id, decision);
    if (pressed) rests = pressed + REST_MS;
    goOn(item);
    if (!seconds) {
      send(decision);
      return;
    }
    const approved = fields.get("decision").startsWith("approve");
    decision.line = heldLine(approved, approved ? t("Approved.") : t("Denied."), () => takeBack(decision));
    decision.timer = setTimeout(() => send(decision), seconds * 1000);
    form.hidden = true;
    item.append(decision.line);
  }

  // Down to the next card that can be decided here, else up; the screen moves only as far as it must.
  function goOn(item) {
    const open = [...root.querySelectorAll(".item")].filter(
      (each) => each !== item && each.querySelector("form.verdict:not([hidden])"),
    );
    const next = open.find((each) => item.compareDocumentPosition(each) & Node.DOCUMENT_POSITION_FOLLOWING) ?? open.at(-1);
    next?.focus({ preventScroll: true });
    next?.scrollIntoView({ block: "nearest" });
  }

  function forget(decision) {
    clearTimeout(decision.timer);
    held.delete(decision.id);
    decision.line?.remove();
  }

  function takeBack(decision) {
    forget(decision);
    rests = 0;
    decision.form.hidden = false;
    decision.item.focus({ preventScroll: true });
  }

  // A card that was drawn anew says still what is held of it. One that somebody else has closed meanwhile says that
  // instead: there is nothing left to send.
  function keep() {
    for (const decision of [...held.values()]) {
      const item = root.getElementById(`item-${decision.id}`);
      if (decision.sent || !decision.line || !item) continue;
      const form = item.querySelector("form.verdict");
      if (!form) {
        forget(decision);
        const summary = item.querySelector("a.open")?.textContent.trim() ?? "";
        tell(t("Yours was not sent, it was decided meanwhile: {summary}", { summary }));
        continue;
      }
      Object.assign(decision, { item, form });
      if (!form.hidden) form.hidden = true;
      if (decision.line.parentNode !== item) item.append(decision.line);
    }
  }

  async function send(decision) {
    decision.sent = true;
    decision.line?.querySelector(".undo").remove();
    for (const button of decision.form.querySelectorAll("button")) button.disabled = true;
    try {
      const body = new URLSearchParams(decision.fields);
      const answer = await fetchOwn(decision.address, { method: "POST", body });
      // Only a session that is over leads elsewhere; whoever signs in again comes back to the list, and is told before.
      if (answer.redirected) location.assign(signInLater());
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const now = page.querySelector(".item");
      if (!now) throw new Error(page.querySelector("h1")?.textContent ?? String(answer.status));
      held.delete(decision.id);
      const item = root.getElementById(`item-${decision.id}`);
      const fault = now.querySelector(":scope > .notice")?.textContent;
      // What was written for it was sent with it.
      if (!fault) {
        dropDrafts(decision.form);
        decision.form.reset();
      }
      if (item) drawItem(item, now);
      // Somebody else has decided: the list is drawn anew, without it or without what was said on it.
      if (fault && !(item && now.classList.contains("pending"))) tell(`${now.querySelector("a.open").textContent.trim()} ${fault}`);
    } catch (error) {
      forget(decision);
      const item = root.getElementById(`item-${decision.id}`) ?? decision.item;
      const form = item.querySelector("form.verdict");
      if (form) form.hidden = false;
      for (const button of form?.querySelectorAll("button") ?? []) button.disabled = false;
      item.querySelector(":scope > .notice")?.remove();
      item.append(make("p", { class: "notice", role: "alert" }, t("Not sent: {error}", { error: why(error) })));
    }
  }

  // Many at once can be taken back as one can: they are sent together after the same time.
  let batch = null;

  function decideTogether(event) {
    const form = event.target;
    if (!seconds) return;
    event.preventDefault();
    if (batch) return;
    const fields = new FormData(form, event.submitter);
    const number = fields.getAll("item").length;
    if (!number) return;
    // What was pressed last counts.
    for (const each of fields.getAll("item")) {
      const before = held.get(each.split(".")[0]);
      if (before && !before.sent) takeBack(before);
    }
    const approved = fields.get("decision") === "approve";
    const said = approved ? t("{count} approved.", { count: number }) : t("{count} denied.", { count: number });
    const boxes = [...root.querySelectorAll("input[form=batch]")].filter((each) => !each.disabled);
    batch = { form, fields, boxes, sent: false, line: heldLine(approved, said, endBatch, REST_MS) };
    batch.timer = setTimeout(sendBatch, seconds * 1000);
    form.setAttribute("inert", "");
    for (const box of boxes) box.inert = true;
    form.before(batch.line);
    form.classList.add("held");
    root.querySelector(".item[data-current]")?.focus({ preventScroll: true });
  }

  // What is decided by itself is not decided with the others, too.
  function leaveBatch(id) {
    if (!batch || batch.sent) return;
    const items = batch.fields.getAll("item");
    batch.fields.delete("item");
    for (const each of items) if (!each.startsWith(`${id}.`)) batch.fields.append("item", each);
    if (!batch.fields.has("item")) endBatch();
  }

  function endBatch() {
    const { form, boxes, line, timer } = batch;
    clearTimeout(timer);
    line.remove();
    form.classList.remove("held");
    form.removeAttribute("inert");
    for (const box of boxes) box.inert = false;
    batch = null;
  }

  // What became of each stands on the list; the list and what is being written beside it stay where they are.
  async function sendBatch() {
    const { form, fields, boxes, line } = batch;
    batch.sent = true;
    line.querySelector(".undo").remove();
    try {
      const answer = await fetchOwn(form.getAttribute("action"), { method: "POST", body: new URLSearchParams(fields) });
      if (answer.redirected) location.assign(signInLater());
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const outcomes = page.querySelector(".outcomes");
      const said = page.querySelector("h1")?.textContent.trim() ?? String(answer.status);
      if (!outcomes) throw new Error(said);
      const close = make("button", { type: "button", class: "plain" }, t("Close"));
      const each = make("details", {}, make("summary", {}, t("Result")), root.importNode(outcomes, true));
      each.open = outcomes.querySelector(".not") !== null;
      const told = make("section", { class: "batch-told", "aria-label": said }, make("p", { role: "status" }, said), each, close);
      close.addEventListener("click", () => told.remove());
      root.querySelector(".batch-told")?.remove();
      form.before(told);
      for (const box of boxes) box.checked = false;
      // It counts what was selected when the page was drawn.
      root.getElementById("whole-told")?.remove();
      const detail = fields.getAll("item").map((value) => value.split(".")[0]);
      root.dispatchEvent(new CustomEvent("decided", { detail }));
    } catch (error) {
      tell(t("Not sent: {error}", { error: why(error) }));
    }
    endBatch();
  }

  // Each is sent as it stands; returns what is on its way.
  function flush() {
    const bodies = [];
    for (const decision of held.values()) {
      if (decision.sent) continue;
      clearTimeout(decision.timer);
      decision.sent = true;
      dropDrafts(decision.form);
      bodies.push([decision.address, decision.fields]);
    }
    if (batch && !batch.sent) {
      clearTimeout(batch.timer);
      batch.sent = true;
      bodies.push(["/inbox/decisions", batch.fields]);
    }
    return bodies.map(([address, fields]) => sendLeaving(address, fields));
  }

  // What was pressed is sent before the session that it was pressed in is over.
  async function signOut(event) {
    if (event.target.dataset.sent || (![...held.values()].some((each) => !each.sent) && !batch)) return;
    event.preventDefault();
    event.target.dataset.sent = "1";
    await Promise.allSettled(flush());
    event.target.submit();
  }

  root.addEventListener("pointerdown", () => (pressed = performance.now()), true);
  root.addEventListener("keydown", () => (pressed = 0), true);
  root.addEventListener("submit", decide);
  addEventListener("pagehide", flush);
  new MutationObserver(keep).observe(root.body, { childList: true, subtree: true, attributeFilter: ["hidden"] });
}

// The same on the page of one approval: what was pressed there waits as long, and Undo brings the form back as it was.
export function decideOnPage(root) {
  const seconds = Number(root.querySelector("[data-undo-seconds]")?.dataset.undoSeconds ?? 0);
  if (!seconds) return;
  let held = null;

  function decide(event) {
    const form = event.target;
    if (form.getAttribute("action") === "/sign-out") {
      signOut(event);
      return;
    }
    const fields = new FormData(form, event.submitter);
    // Who edits approves what they made of it.
    if (!/^(approve|deny|edit)/.test(fields.get("decision"))) return;
    event.preventDefault();
    if (held) return;
    const approved = !fields.get("decision").startsWith("deny");
    const line = heldLine(approved, approved ? t("Approved.") : t("Denied."), takeBack, REST_MS);
    const timer = setTimeout(() => {
      held = null;
      submitAs(form, fields);
    }, seconds * 1000);
    held = { form, fields, line, timer, button: event.submitter, panel: form.closest(".panel") };
    keep();
  }

  function takeBack() {
    const { line, timer, panel, button } = held;
    clearTimeout(timer);
    held = null;
    line.remove();
    panel.classList.remove("held");
    (button?.isConnected ? button : root.querySelector("form.decide-whole button.approve"))?.focus();
  }

  // A page that was drawn anew says still what is held. Where somebody else has decided, nothing is left to send.
  function keep() {
    if (!held) return;
    const form = root.querySelector("form.decide-whole");
    if (!form) {
      clearTimeout(held.timer);
      held.panel.classList.remove("held");
      held.line.remove();
      held = null;
      tell(t("Your decision was not sent: somebody else decided first."));
      return;
    }
    // Only what differs is written: the observer below would call for ever.
    held.panel = form.closest(".panel");
    if (!held.panel.classList.contains("held")) held.panel.classList.add("held");
    if (held.line.parentNode === held.panel) return;
    held.panel.prepend(held.line);
    // Taken out, it has lost the focus; the button that was pressed is hidden now.
    if (!root.activeElement?.checkVisibility() || root.activeElement === root.body) held.line.querySelector(".undo").focus();
  }

  function flush() {
    if (!held) return [];
    clearTimeout(held.timer);
    const { form, fields } = held;
    held = null;
    dropDrafts(form);
    return [sendLeaving(form.getAttribute("action"), fields)];
  }

  async function signOut(event) {
    if (!held) return;
    event.preventDefault();
    await Promise.allSettled(flush());
    event.target.submit();
  }

  root.addEventListener("submit", decide);
  addEventListener("pagehide", flush);
  new MutationObserver(keep).observe(root.body, { childList: true, subtree: true, attributeFilter: ["class"] });
}
