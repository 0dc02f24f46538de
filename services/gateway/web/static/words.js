// Words in the page's language: English stands in the scripts, and the page brings what it is in another language.
const WORDS = JSON.parse(document.documentElement.dataset.words ?? "{}");

export const language = document.documentElement.lang;

// Words with their {placeholders} filled; values are put in as they are.
export function t(words, values = {}) {
  const said = Object.hasOwn(WORDS, words) ? WORDS[words] : words;
  return said.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
}

// Why something was not sent: what a browser says of a lost connection, it says in a language of its own.
export function why(error) {
  return error instanceof TypeError ? t("there is no connection") : error.message;
}
