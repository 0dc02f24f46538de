// Single keys for who decides a lot: they move the focus and never decide by themselves; Enter on a button does.
const STORE = "placet-keys";
//: The card that was looked at last: on this page of the list, which `Back` leads to, or else on any.
const PLACE = "placet-place";
const HERE = `${PLACE} ${location.pathname}${location.search}`;

function shortcutsOn() {
  return localStorage.getItem(STORE) !== "off";
}

function typing(target) {
  return target.closest("input:not([type=checkbox]), textarea, select, dialog") !== null;
}

export function keyboard(root) {
  const dialog = root.getElementById("keys");
  const opener = root.getElementById("keys-open");
  const toggle = root.getElementById("keys-on");
  const items = () => [...root.querySelectorAll(".item")];
  const current = () => root.querySelector(".item[data-current]");
  const beside = matchMedia("(min-width: 64rem)");

  function move(step) {
    const all = items();
    if (!all.length) return;
    const at = all.indexOf(current());
    if (step > 0 && at === all.length - 1) {
      root.querySelector(".pages a[rel=next]")?.click();
      return;
    }
    const next = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + step, 0), all.length - 1)];
    choose(next);
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  }

  // The current card is the one whose details are shown: beside the list on a wide screen, else below its line. It
  // stays the current one after a reload, and when its line is drawn anew.
  function choose(item) {
    for (const each of items()) if (each !== item) each.removeAttribute("data-current");
    if (!item) return;
    item.setAttribute("data-current", "");
    for (const name of [PLACE, HERE]) sessionStorage.setItem(name, item.id);
  }

  let shown = false;
  function show() {
    if (current() || !items().length || root.querySelector("[data-whole]")) return;
    const [before] = [HERE, PLACE].map((name) => root.getElementById(sessionStorage.getItem(name) ?? "")).filter(Boolean);
    if (!beside.matches) return;
    choose(before ?? items()[0]);
    // After a reload the list is where it was left.
    if (before && !shown) before.scrollIntoView({ block: "nearest" });
    shown = true;
  }

  // What was current before a press: the press itself moves the focus, and that makes its card the current one.
  let before = null;
  root.addEventListener("pointerdown", () => (before = current()), true);
  root.addEventListener("click", (event) => {
    const item = event.target.closest(".item");
    if (!item || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const link = event.target.closest("a.open");
    if (link) event.preventDefault();
    else if (event.target.closest("a, button, input, label, summary, select, textarea, .detail, .pick")) return;
    if (!beside.matches && event.detail && item === before) {
      item.removeAttribute("data-current");
      return;
    }
    choose(item);
    if (!link) item.focus({ preventScroll: true });
  });

  // On the list a key means the current card; on one approval's page, the page.
  const place = () => (root.querySelector("[data-whole]") ? root.getElementById("main") : current());
  const focus = (selector) => place()?.querySelector(selector)?.focus();
  const actions = {
    j: () => move(1),
    k: () => move(-1),
    o: () => place()?.querySelector("a.whole")?.click(),
    a: () => focus("button.approve"),
    d: () => focus("[name=reason]"),
    x: () => place()?.querySelector("input[form=batch]")?.click(),
    e: edit,
    z: () => [...root.querySelectorAll("button.undo")].at(-1)?.click(),
    "?": () => dialog.showModal(),
  };

  function edit() {
    const link = current()?.querySelector("a.whole");
    if (link) {
      location.href = `${link.href}#edit`;
      return;
    }
    const details = root.getElementById("edit");
    if (!details) return;
    details.open = true;
    details.querySelector("input:not([type=hidden]), select, textarea")?.focus();
  }

  root.addEventListener("keydown", (event) => {
    // Out of a field and back to its card: what is typed stays, and Enter denies nothing.
    if (event.key === "Escape" && typing(event.target) && !event.target.closest("dialog")) {
      const item = event.target.closest(".item");
      event.target.blur();
      item?.focus({ preventScroll: true });
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
    if (event.key !== "?" && !shortcutsOn()) return;
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
  root.addEventListener("focusin", (event) => {
    const item = event.target.closest(".item");
    if (item) choose(item);
  });
  toggle.checked = shortcutsOn();
  toggle.addEventListener("change", () => localStorage.setItem(STORE, toggle.checked ? "on" : "off"));
  if (opener) {
    opener.hidden = false;
    opener.addEventListener("click", () => dialog.showModal());
  }
  if (location.hash === "#edit") edit();
  show();
  beside.addEventListener("change", show);
  new MutationObserver(show).observe(root.body, { childList: true, subtree: true });
}
