// Building elements: children are elements or texts, and texts are never read as markup.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// Only addresses of the web become links or pictures; anything else stays text.
export function webAddress(value) {
  try {
    const address = new URL(String(value), location.href);
    return ["http:", "https:"].includes(address.protocol) ? address.href : null;
  } catch {
    return null;
  }
}

export function money(amount, currency) {
  if (!Number.isFinite(amount)) return "";
  try {
    return new Intl.NumberFormat(undefined, { style: "currency", currency }).format(amount);
  } catch {
    return [amount, currency].filter((each) => each !== undefined).join(" ");
  }
}
