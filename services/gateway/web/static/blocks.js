// What tools show people: one function per kind of block; a kind nobody knows is left out.
import { make, money, visible, webAddress } from "./dom.js";
import { t } from "./words.js";

const KINDS = {
  product_carousel: (block) => make("div", { class: "carousel", tabindex: "0", role: "group", "aria-label": t("Products") }, ...list(block.products).map(product)),
  cart: (block) =>
    make(
      "div",
      { class: "block cart" },
      make("h3", {}, t("Cart")),
      ...list(block.items).map((item) => cartLine(item, block.currency)),
      make("p", { class: "line total" }, make("span", {}, t("Total")), make("span", {}, money(block.total, block.currency))),
    ),
  payment_link: (block) => {
    const href = webAddress(block.url);
    const text = t("Pay {amount}", { amount: money(block.amount, block.currency) });
    const link = href
      ? make("a", { class: "block pay", href, target: "_blank", rel: "noopener noreferrer" }, text)
      : make("p", { class: "block" }, `${text}: ${block.url}`);
    return make("div", {}, link, block.note ? make("p", { class: "quiet small" }, String(block.note)) : null);
  },
  staged_diff: (block) =>
    make(
      "figure",
      { class: "block diff", tabindex: "0" },
      make("figcaption", {}, make("code", {}, visible(String(block.target ?? "")))),
      make("ol", {}, ...list(block.lines).map(diffLine)),
    ),
  notice: (block) =>
    make("p", { class: `block notice-${NOTICES.has(block.level) ? block.level : "info"}` }, String(block.text ?? "")),
};
const NOTICES = new Set(["info", "success", "warning"]);

export function renderBlocks(blocks) {
  return list(blocks)
    .filter((block) => Object.hasOwn(KINDS, block?.type))
    .map((block) => KINDS[block.type](block));
}

function cartLine(item, currency) {
  const name = [item.name ?? item.product_id, item.variant_label].filter(Boolean).join(", ");
  const price = item.unit_price ?? item.price;
  return make(
    "p",
    { class: "line" },
    make("span", {}, `${item.quantity ?? 1} × ${name}`),
    make("span", {}, money(price * (item.quantity ?? 1), item.currency ?? currency)),
  );
}

// Signs beside the colours for who does not see these, words for who sees neither.
const CHANGES = {
  same: { tag: "span", sign: " ", word: "" },
  removed: { tag: "del", sign: "−", word: t("removed: ") },
  added: { tag: "ins", sign: "+", word: t("added: ") },
  gap: { tag: "span", sign: "⋯", word: t("unchanged lines") },
};

function diffLine(each) {
  const change = Object.hasOwn(CHANGES, each?.change) ? each.change : "same";
  const { tag, sign, word } = CHANGES[change];
  return make(
    "li",
    { class: change },
    make("span", { class: "sign", "aria-hidden": "true" }, sign),
    word ? make("span", { class: "unseen" }, word) : null,
    make(tag, {}, visible(String(each?.text ?? ""))),
  );
}

function product(each) {
  const picture = each.image ? webAddress(each.image) : null;
  return make(
    "article",
    { class: "product" },
    picture
      ? make("img", { src: picture, alt: "", loading: "lazy" })
      : make("div", { class: "initial", "aria-hidden": "true" }, String(each.name ?? "?").slice(0, 1)),
    make("p", { class: "name", title: each.id }, String(each.name ?? each.id)),
    make(
      "p",
      { class: "price" },
      make("strong", {}, money(each.price, each.currency)),
      each.list_price ? make("s", { class: "quiet" }, money(each.list_price, each.currency)) : null,
      each.on_sale ? make("span", { class: "badge sale" }, t("sale")) : null,
      each.in_stock === false ? make("span", { class: "badge" }, t("sold out")) : null,
    ),
    make("p", { class: "variants" }, ...list(each.variants).map(variant)),
  );
}

function variant(each) {
  const gone = each.in_stock === false;
  const told = gone ? make("span", { class: "unseen" }, ` (${t("sold out")})`) : null;
  return make("span", { class: gone ? "gone" : null }, String(each.label ?? each.id), told);
}

function list(value) {
  return Array.isArray(value) ? value : [];
}
