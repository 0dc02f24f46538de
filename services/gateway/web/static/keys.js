// Single keys for who decides a lot: they move the focus and never decide by themselves; Enter on a button does.
const STORE = "placet-keys";

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
  const current = () => root.querySelector(".item.current");

  function move(step) {
    const all = items();
    if (!all.length) return;
    const at = all.indexOf(current());
    const next = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + step, 0), all.length - 1)];
    choose(next);
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  }

  function choose(item) {
    for (const each of root.querySelectorAll(".item.current")) each.classList.remove("current");
    item?.classList.add("current");
  }

  // On the list a key means the current card; on one approval's page, the page.
  const place = () => (root.querySelector("[data-whole]") ? root.getElementById("main") : current());
  const focus = (selector) => place()?.querySelector(selector)?.focus();
  const actions = {
    j: () => move(1),
    k: () => move(-1),
    o: () => place()?.querySelector("a.open")?.click(),
    a: () => focus("button.approve"),
    d: () => focus("[name=reason]"),
    x: () => place()?.querySelector("input[form=batch]")?.click(),
    e: edit,
    "?": () => dialog.showModal(),
  };

  function edit() {
    const link = current()?.querySelector("a.open");
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
}
