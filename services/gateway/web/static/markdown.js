// What a model writes as elements. The library only takes the text apart: every piece becomes an element of this list or
// a text node, so nothing that a model writes is ever read as markup, no picture is fetched, and there is nothing to
// clean. HTML stays visible as what was typed.
import { make, visible } from "./dom.js";
import { t } from "./words.js";

// Where set-up was not run, or a newer one is needed, answers are shown as they were written.
const library = await import("./vendor/marked.js").catch(() => null);
const LENGTH_MAX = 100_000;
// Characters that may mean something: the library looks for the other end of each among all that follow.
const MARKS_MAX = 1_500;
const DEPTH_MAX = 20;
const SIDES = { center: "to-center", right: "to-right" };
const ADDRESS = /^(https?:\/\/|mailto:)/i;

const KINDS = {
  paragraph: (token, depth) => make("p", {}, ...inside(token, depth)),
  text: (token, depth) => (token.tokens ? make("span", {}, ...inside(token, depth)) : plain(token.text)),
  heading: (token, depth) => make("h3", {}, ...inside(token, depth)),
  strong: (token, depth) => make("strong", {}, ...inside(token, depth)),
  em: (token, depth) => make("em", {}, ...inside(token, depth)),
  del: (token, depth) => make("s", {}, ...inside(token, depth)),
  blockquote: (token, depth) => make("blockquote", {}, ...inside(token, depth)),
  codespan: (token) => make("code", {}, plain(token.text)),
  code: (token) => make("pre", {}, make("code", {}, plain(token.text))),
  list: (token, depth) =>
    make(token.ordered ? "ol" : "ul", { start: token.ordered ? token.start : null }, ...elements(token.items, depth)),
  list_item: (token, depth) => make("li", {}, ...inside(token, depth)),
  checkbox: (token) => plain(token.checked ? "☑ " : "☐ "),
  table: (token, depth) => table(token, depth),
  link: (token, depth) => link(token, depth),
  image: (token) => link({ ...token, tokens: [{ type: "text", text: token.text || t("picture") }] }, 0),
  hr: () => make("hr"),
  br: () => make("br"),
  escape: (token) => plain(token.text),
  space: () => "",
  def: () => "",
};

export function markdown(text) {
  const marks = text.length > LENGTH_MAX ? Infinity : (text.match(/[*_~`[\]|<!]/g) ?? []).length;
  if (!library || marks > MARKS_MAX) return [make("p", { class: "text" }, text)];
  try {
    return elements(library.lexer(text), 0);
  } catch {
    return [make("p", { class: "text" }, text)];
  }
}

function elements(tokens, depth) {
  return tokens.map((token) =>
    depth < DEPTH_MAX && Object.hasOwn(KINDS, token.type) ? KINDS[token.type](token, depth + 1) : plain(token.raw),
  );
}

function inside(token, depth) {
  return elements(token.tokens ?? [{ type: "text", text: token.text ?? "" }], depth);
}

function plain(text) {
  return visible(String(text ?? ""));
}

// The words of a link can say anything; where it leads stands beside them.
function link(token, depth) {
  const words = make("span", {}, ...inside(token, depth));
  const address = parsed(token.href);
  if (!address) return make("span", {}, words, plain(` (${token.href})`));
  const anchor = make("a", { href: address.href, target: "_blank", rel: "noopener noreferrer" }, words);
  const place = address.host || address.pathname;
  return words.textContent.includes(place) && token.autolink
    ? anchor
    : make("span", {}, anchor, make("span", { class: "quiet" }, plain(` (${place})`)));
}

function parsed(href) {
  try {
    return ADDRESS.test(href) ? new URL(href) : null;
  } catch {
    return null;
  }
}

function table(token, depth) {
  const side = (column) => SIDES[token.align?.[column]] ?? null;
  const cell = (each, tag, column) => make(tag, { class: side(column) }, ...inside(each, depth));
  const row = (cells, tag) => make("tr", {}, ...cells.map((each, column) => cell(each, tag, column)));
  const rows = token.rows.map((cells) => row(cells, "td"));
  const whole = make("table", {}, make("thead", {}, row(token.header, "th")), make("tbody", {}, ...rows));
  return make("div", { class: "wide", tabindex: "0", role: "group", "aria-label": t("Table") }, whole);
}
