// A commit's entries: diffs come when they are opened, and what shares a file with what is left out goes with it.
import { fetchOwn } from "./dom.js";
import { t } from "./words.js";

export function plans(root) {
  // Such events do not rise: they are caught on their way down.
  root.addEventListener("toggle", (event) => event.target.matches?.("details[data-diff]") && show(event.target), true);
  // Those of a small plan are open from the beginning, and come once somebody can see them.
  const seen = new IntersectionObserver((entries) => {
    for (const each of entries) {
      if (!each.isIntersecting) continue;
      seen.unobserve(each.target);
      show(each.target);
    }
  });
  const watch = () => {
    for (const each of root.querySelectorAll("details[data-diff][open]")) {
      if (!each.querySelector(".diff-place").dataset.state) seen.observe(each);
    }
  };
  watch();
  new MutationObserver(watch).observe(root.body, { childList: true, subtree: true });
  root.addEventListener("change", (event) => event.target.matches("input[name=leave]") && follow(event.target));
}

async function show(details) {
  const place = details.querySelector(".diff-place");
  if (!details.open || place.dataset.state) return;
  place.dataset.state = "loading";
  const answer = await fetchOwn(details.dataset.diff, { headers: { accept: "text/html" } });
  if (!answer.ok) {
    delete place.dataset.state;
    return;
  }
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  place.replaceChildren(...[...page.body.childNodes].map((each) => document.importNode(each, true)));
  place.dataset.state = "shown";
}

// The same closure as `placet.surfaces.plan.closure`. What is put back in brings along what it stands on.
function follow(box) {
  const plan = box.closest(".plan");
  const entries = [...plan.querySelectorAll(".entry")].map((each) => ({
    box: each.querySelector("input[name=leave]"),
    keys: JSON.parse(each.dataset.keys),
  }));
  const start = entries.find((each) => each.box === box);
  const keys = new Set(start.keys);
  const touched = new Set([start]);
  for (let size = 0; size !== touched.size; ) {
    size = touched.size;
    for (const each of entries) {
      if (!each.keys.some((key) => keys.has(key))) continue;
      touched.add(each);
      for (const key of each.keys) keys.add(key);
    }
  }
  let more = 0;
  for (const each of touched) {
    if (each.box.checked !== box.checked) more += 1;
    each.box.checked = box.checked;
  }
  const left = entries.filter((each) => each.box.checked).length;
  const said = left ? [t("{count} left out", { count: left })] : [];
  if (more) said.push(t("{count} more that touch the same were left out too", { count: more }));
  plan.querySelector(".closure").textContent = said.join("; ");
}
