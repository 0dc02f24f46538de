// What is being written is there again after a reload, on the way back, and after signing in anew: in this tab, for the
// same person, until it was sent and answered. What is written about an approval is on its own page, too.
const NAMED = /^(reason|comment)-(?:(?:list|page|pane|chat)-)?(.+)$/;

function keyOf({ id }) {
  const { person, whole } = document.getElementById("main").dataset;
  const message = id === "text" && document.querySelector("[data-conversation]");
  if (message) return `draft ${person} message ${message.dataset.conversation}`;
  const [, kind, of] = NAMED.exec(id) ?? (whole && id === "reason" ? [null, "reason", whole] : []);
  return kind && `draft ${person} ${kind} ${of}`;
}

export function dropDraft(field) {
  sessionStorage.removeItem(keyOf(field) ?? "");
}

export function dropDrafts(form) {
  for (const field of form.elements) dropDraft(field);
}

export function keepDraft(field) {
  const key = keyOf(field);
  if (key && field.value) sessionStorage.setItem(key, field.value);
  else dropDraft(field);
}

export function keepDrafts(root) {
  const fill = () => {
    for (const field of root.querySelectorAll("textarea, input.reason")) {
      field.value ||= sessionStorage.getItem(keyOf(field) ?? "") ?? "";
    }
  };
  root.addEventListener("input", ({ target }) => keepDraft(target));
  // A form that was answered: by a page that says so once, or by a part of this one, which may say what is wrong with it.
  const asked = new URLSearchParams(location.search);
  const told = asked.get("done") ?? asked.get("sent") ?? "";
  const { whole } = root.getElementById("main").dataset;
  if (told === "message") dropDraft({ id: "text" });
  if (whole && /^(approve|deny|abstain)/.test(told)) dropDraft({ id: "reason" });
  if (told && (whole || told === "message")) history.replaceState(null, "", location.pathname);
  root.addEventListener("htmx:after:request", ({ target, detail }) => {
    const answer = detail.ctx.response.raw;
    if (target.elements && answer.ok && !answer.headers.has("placet-notice")) dropDrafts(target);
  });
  fill();
  // Comments come when their card is looked at.
  root.addEventListener("htmx:after:swap", fill);
}
