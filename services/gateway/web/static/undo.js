// Decisions on the list, in place: the list stays where it is, the next card gets the focus, and for a few seconds a
// decision can be taken back, because it has not been sent yet. Whoever leaves the page means what they pressed.
import { make } from "./dom.js";
import { t } from "./words.js";

export function decideInPlace(root) {
  const seconds = Number(root.querySelector("[data-undo-seconds]")?.dataset.undoSeconds ?? 0);
  const held = new Map();

  function decide(event) {
    const form = event.target.closest("form.verdict");
    if (!form) return;
    event.preventDefault();
    const item = form.closest(".item");
    const fields = new FormData(form, event.submitter);
    const decision = { item, id: item.dataset.approval, form, address: `/inbox/${item.dataset.approval}/card`, fields };
    held.set(decision.id, decision);
    goOn(item);
    if (!seconds) {
      send(decision);
      return;
    }
    const approved = fields.get("decision").startsWith("approve");
    const text = make("span", { role: "status" }, approved ? t("Approved.") : t("Denied."));
    const undo = make("button", { type: "button", class: "undo" }, t("Undo"));
    decision.line = make("p", { class: `verdict taken ${approved ? "yes" : "no"}` }, text, undo);
    decision.timer = setTimeout(() => send(decision), seconds * 1000);
    undo.addEventListener("click", () => takeBack(decision));
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

  function takeBack(decision) {
    clearTimeout(decision.timer);
    held.delete(decision.id);
    decision.line.remove();
    decision.form.hidden = false;
    decision.item.focus({ preventScroll: true });
  }

  async function send(decision) {
    decision.line?.querySelector(".undo").remove();
    for (const button of decision.form.querySelectorAll("button")) button.disabled = true;
    try {
      const body = new URLSearchParams(decision.fields);
      const answer = await fetch(decision.address, { method: "POST", body });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const now = page.querySelector(".item");
      if (!now) throw new Error(page.querySelector("h1")?.textContent ?? String(answer.status));
      held.delete(decision.id);
      show(decision.item, root.importNode(now, true));
    } catch (error) {
      held.delete(decision.id);
      decision.line?.remove();
      decision.form.hidden = false;
      for (const button of decision.form.querySelectorAll("button")) button.disabled = false;
      decision.item.querySelector(":scope > .notice")?.remove();
      decision.item.append(make("p", { class: "notice", role: "alert" }, t("Not sent: {error}", { error: error.message })));
    }
  }

  function show(item, now) {
    const focused = item.contains(root.activeElement);
    if ("current" in item.dataset) now.dataset.current = "";
    item.replaceWith(now);
    window.htmx?.process(now);
    if (focused) now.focus({ preventScroll: true });
  }

  function flush() {
    for (const decision of held.values()) {
      if (!decision.timer) continue;
      clearTimeout(decision.timer);
      decision.timer = null;
      fetch(decision.address, { method: "POST", body: new URLSearchParams(decision.fields), keepalive: true });
    }
  }

  root.addEventListener("submit", decide);
  addEventListener("pagehide", flush);
  return { holds: (id) => held.has(id) };
}
