// What is being written about an approval is there again after a reload, on the way back, and on its own page: in this
// tab, for the same person, until it is sent.
const NAMED = /^(reason|comment)-(?:(?:list|page|pane|chat)-)?(.+)$/;

export function keepDrafts(root, whole) {
  const { person } = root.getElementById("main").dataset;
  const keyOf = (field) => {
    const [, kind, id] = NAMED.exec(field.id) ?? (whole && field.id === "reason" ? [null, "reason", whole] : []);
    return kind && `draft ${person} ${kind} ${id}`;
  };
  root.addEventListener("input", ({ target }) => {
    const key = keyOf(target);
    if (key && target.value) sessionStorage.setItem(key, target.value);
    else if (key) sessionStorage.removeItem(key);
  });
  root.addEventListener("submit", ({ target }) => {
    for (const field of target.elements) if (keyOf(field)) sessionStorage.removeItem(keyOf(field));
  });
  const fill = () => {
    for (const field of root.querySelectorAll("textarea, input.reason")) {
      field.value ||= sessionStorage.getItem(keyOf(field) ?? "") ?? "";
    }
  };
  fill();
  // Comments come when their card is looked at.
  root.addEventListener("htmx:after:swap", fill);
}
