// A conversation's feed as elements. Items may come twice or out of order: each thing has one element, found by its id.
import { renderBlocks } from "./blocks.js";
import { make, visible } from "./dom.js";
import { markdown } from "./markdown.js";
import { t } from "./words.js";

// Names of people that items came with. Who has none is called by what they would say themselves of their id.
const names = new Map();

function nameOf(id) {
  return visible(names.get(id) ?? (id ?? "").replace(/^(person|visitor|agent):(?=\S)/, ""));
}

function named(sentence) {
  return sentence.replace(/\b(?:person|visitor|agent):[\w.@+-]*[\w@+-]/g, nameOf);
}

const RANK = { proposed: 0, pending_confirmation: 1, decided: 2, executing: 3, success: 4, error: 4 };
const LABELS = { proposed: t("running"), pending_confirmation: t("waiting for approval"), executing: t("running"), success: t("done") };
const GOOD_ENDS = new Set(["finished", "completed", "succeeded", "ended", "done"]);

// How a call was decided, or ended. A new kind is shown by its name.
const ENDS = {
  succeeded: t("succeeded"),
  failed: t("failed"),
  refused: t("refused"),
  approved: t("approved"),
  denied: t("denied"),
  answered: t("answered"),
  expired: t("expired"),
  cancelled: t("cancelled"),
  superseded: t("superseded"),
  invalid: t("invalid"),
  staged: t("staged"),
  unknown: t("unknown"),
  withdrawn: t("withdrawn"),
  committed: t("committed"),
  conflicted: t("conflicted"),
  left_out: t("left out"),
  discarded: t("discarded"),
  error: t("error"),
};

// The one call that runs what was staged.
export const COMMIT = "commit_changes";

// Of a commit the entries say what became of it; everything else is shown as it is.
function shownPart(data, name, value) {
  if (data.tool === COMMIT && name === "data" && Array.isArray(value.entries)) {
    return make("ul", { class: "ended-entries", "data-part": name }, ...value.entries.map(entryEnd));
  }
  const said = typeof value === "string" ? value : JSON.stringify(value, null, 1);
  // Who withdrew a call is said by their name; what a tool says is shown as it is.
  const text = name === "error" && data.kind === "cancelled" ? named(said) : said;
  return make("pre", { "data-part": name }, visible(text));
}

function entryEnd(entry) {
  const words = visible(entry.summary || entry.tool || "");
  const badge = make("span", { class: `badge ${entry.outcome}` }, ended(entry.outcome));
  const why = entry.error ? make("span", { class: "fault small" }, ` ${visible(entry.error)}`) : null;
  return make("li", {}, badge, ` ${words}`, why);
}

function ended(kind) {
  return Object.hasOwn(ENDS, kind) ? ENDS[kind] : kind;
}

export class Feed {
  #root;
  #me;
  #onCard;
  #things = new Map();
  #status = new Map();
  #waitingTurns = new Map();
  #said = new Map();
  #running = new Set();
  #over = new Set();

  constructor(root, me, onCard) {
    this.#root = root;
    this.#me = me;
    this.#onCard = onCard;
  }

  get running() {
    return this.#running.size > 0;
  }

  take(type, data) {
    for (const [id, name] of Object.entries(data.names ?? {})) names.set(id, name);
    switch (type) {
      case "message":
        if (data.role === "operator") return this.#operator(data);
        return data.role === "assistant" ? this.#answer(data) : this.#posted(data);
      case "delta":
        return this.#delta(data);
      case "tool_call":
        return this.#call(data);
      case "progress":
        return this.#progress(data);
      case "approval":
        return this.#approval(data);
      case "decision":
        return this.#decided(data);
      case "holder":
        return this.#place(`holder ${data.revision}`, () => make("p", { class: "muted" }, visible(data.text ?? "")));
      case "turn":
        return this.#turn(data);
      case "resolution":
        return this.#resolution(data);
      case "conversation":
        return this.#place("conversation", () => make("p", { class: "muted" }, t("The conversation has ended.")));
    }
  }

  #place(key, build) {
    let element = this.#things.get(key);
    if (!element) {
      element = build();
      this.#things.set(key, element);
      this.#root.append(element);
    }
    return element;
  }

  #posted(data) {
    const author = data.author?.id ?? "";
    const bubble = make("p", { class: "bubble" }, data.text);
    const element = this.#place(`message ${data.message_id}`, () =>
      author === this.#me
        ? make("div", { class: "said by-me" }, bubble)
        : make("div", { class: "said by-other" }, bubble, make("p", { class: "from" }, nameOf(author))),
    );
    if (data.taken_as && !element.querySelector(".taken")) {
      const { decision, summary } = data.taken_as;
      const yes = decision === "approve";
      const taken = yes ? t("taken as: yes to “{summary}”", { summary }) : t("taken as: no to “{summary}”", { summary });
      element.append(make("p", { class: "from taken" }, visible(taken)));
    }
  }

  // A person answers in the agent's place, and it says who.
  #operator(data) {
    this.#place(`message ${data.message_id}`, () =>
      make("div", { class: "said by-operator" }, make("p", { class: "from" }, nameOf(data.author?.id)), make("p", { class: "text" }, data.text)),
    );
  }

  // What became of a message that was taken for a decision; a counted one needs no word beside its card.
  #decided(data) {
    const element = this.#things.get(`message ${data.message_id}`);
    if (!element || data.outcome === "accepted" || element.querySelector(".undecided")) return;
    element.append(make("p", { class: "from undecided" }, visible(t("it did not count: {why}", { why: data.detail || data.outcome }))));
  }

  #answer(data) {
    const element = this.#place(`message ${data.message_id}`, () => make("div", { class: "said by-agent" }));
    // What came while it was written stands before it in the feed, and so after a reload.
    if (element.classList.contains("writing")) this.#root.append(element);
    element.classList.remove("writing");
    element.replaceChildren();
    if (data.turn_id) this.#said.set(data.turn_id, data.text);
    if (!data.text) {
      element.remove();
    } else if (data.while_waiting) {
      element.append(
        make("details", { class: "muted" }, make("summary", {}, t("said while the call waited")), ...markdown(data.text)),
      );
    } else {
      element.append(make("div", { class: "text" }, ...markdown(data.text)));
    }
  }

  #delta(data) {
    // A model that was stopped may write on for a moment; what one says about a call that waits is folded away later.
    if (data.while_waiting || this.#over.has(data.turn_id)) return;
    const element = this.#place(`message ${data.message_id}`, () =>
      make("div", { class: "said by-agent writing", "data-turn": data.turn_id }, make("p", { class: "text" })),
    );
    const text = element.querySelector(".writing > .text");
    if (!text) return;
    const known = data.reset ? "" : text.textContent.slice(0, data.offset);
    if (known.length === data.offset || data.reset) text.textContent = known + data.text;
  }

  #call(data) {
    const before = this.#status.get(data.call_id);
    if (before && RANK[before] > RANK[data.status]) return;
    this.#status.set(data.call_id, data.status);
    const element = this.#place(`call ${data.call_id}`, () =>
      make(
        "div",
        { class: "tool", "data-turn": data.turn_id },
        make(
          "details",
          {},
          make("summary", {}, make("code", {}, data.tool), make("span", { class: "badge" })),
          make("div", { class: "inside" }),
        ),
        make("div", { class: "blocks" }),
      ),
    );
    const stands = data.kind === "staged" ? "staged" : data.status;
    // What was staged says by its outcome what became of it.
    this.#badge(element, data.status === "error" ? (data.outcome ?? data.kind ?? "error") : stands);
    if (RANK[data.status] === RANK.success) element.querySelector(".progress")?.remove();
    this.#inside(element.querySelector(".inside"), data);
    if (data.ui_blocks?.length) element.querySelector(".blocks").replaceChildren(...renderBlocks(data.ui_blocks));
  }

  // A badge says where a call stands; what is decided says how.
  #badge(element, stands) {
    const badge = element.querySelector(".badge");
    badge.className = `badge ${stands}`;
    badge.textContent = LABELS[stands] ?? ended(stands);
    this.#showProgress(element.dataset.turn);
  }

  // Cards and reports come by other ways than the call's own items, and may come before or after them.
  #stands(call, status, word = status) {
    const element = this.#things.get(`call ${call}`);
    if (!element || RANK[this.#status.get(call)] >= RANK[status]) return;
    this.#status.set(call, status);
    this.#badge(element, word);
  }

  // How far a tool is. A report that comes after the call has ended says nothing any more.
  #progress(data) {
    const element = this.#things.get(`call ${data.call_id}`);
    if (!element || RANK[this.#status.get(data.call_id)] === RANK.success) return;
    this.#stands(data.call_id, "executing");
    if (data.fraction === null && !data.text) return;
    let line = element.querySelector(".progress");
    if (!line) {
      line = make("div", { class: "progress" }, make("progress", { max: "1", "aria-label": data.tool }), make("p", {}));
      element.querySelector(".blocks").before(line);
    }
    const bar = line.querySelector("progress");
    if (data.fraction === null) bar.removeAttribute("value");
    else bar.value = data.fraction;
    const share = data.fraction === null ? "" : `${Math.floor(data.fraction * 100)} %`;
    line.querySelector("p").textContent = [share, visible(data.text)].filter(Boolean).join(" · ");
  }

  #inside(inside, data) {
    const parts = { arguments: t("Arguments"), data: t("Result"), error: t("Error") };
    for (const [name, title] of Object.entries(parts)) {
      const value = data[name];
      if (value === undefined || value === null || value === "") continue;
      // What was staged has a second result, its end: it takes the place of the first.
      for (const each of inside.querySelectorAll(`[data-part="${name}"]`)) each.remove();
      inside.append(make("p", { class: "label", "data-part": name }, title), shownPart(data, name, value));
    }
  }

  #approval(data) {
    if (data.turn_id) this.#remember(data);
    if (data.state !== "pending") this.#stands(data.call_id, "decided", data.state);
    if (data.state !== "pending") for (const open of this.#waitingTurns.values()) open.delete(data.approval_id);
    const element = this.#place(`approval ${data.approval_id}`, () =>
      this.#card(data),
    );
    for (const turn of this.#waitingTurns.keys()) this.#showProgress(turn);
    this.#onCard(element);
  }

  #resolution(data) {
    const { tool } = data;
    const by = nameOf(data.by);
    const found =
      data.outcome === "ran"
        ? t("{tool}: {by} has checked, it did run.", { tool, by })
        : t("{tool}: {by} has checked, it did not run.", { tool, by });
    this.#place(`resolution ${data.call_id}`, () =>
      make("p", { class: "muted" }, `${found} `, visible(data.note ?? "")),
    );
  }

  #showProgress(turn) {
    const element = this.#things.get(`turn ${turn}`);
    const open = this.#waitingTurns.get(turn)?.size ?? 0;
    const runs = this.#root.querySelector(`.tool[data-turn="${CSS.escape(turn)}"] .badge.executing`);
    if (element) element.textContent = open ? t("waiting for a decision") : runs ? t("running") : t("thinking");
  }

  #remember(data) {
    const open = this.#waitingTurns.get(data.turn_id) ?? new Set();
    this.#waitingTurns.set(data.turn_id, open.add(data.approval_id));
  }

  // The server renders cards; until its answer is there, the summary stands in. What asks for the card is its frame,
  // which stays: a refresh that comes while another is under way waits for it and is not lost with the old card. What
  // somebody has opened or typed in the card stays, too.
  #card(data) {
    const summary = make("article", { class: "card" }, make("p", { class: "summary" }, data.summary ?? ""));
    const address = `/ui/approvals/${data.approval_id}?place=chat`;
    const attributes = { "hx-get": address, "hx-trigger": "refresh", "hx-swap": "innerMorph" };
    return make("div", { class: "held", "data-held": data.approval_id, ...attributes }, summary);
  }

  #turn(data) {
    const key = `turn ${data.turn_id}`;
    if (data.state === "continued" || data.state === "paused") return;
    if (data.state === "started") {
      if (!this.#over.has(data.turn_id)) this.#running.add(data.turn_id);
      if (!this.#things.has(`${key} over`)) this.#place(key, () => make("p", { class: "thinking" }, t("thinking")));
      return;
    }
    this.#over.add(data.turn_id);
    this.#running.delete(data.turn_id);
    this.#things.get(key)?.remove();
    // A text that never became a message was thrown away.
    for (const each of this.#root.querySelectorAll(`.writing[data-turn="${CSS.escape(data.turn_id)}"]`)) each.remove();
    this.#place(`${key} over`, () => this.#ending(data));
  }

  #ending(data) {
    const bad = data.state && !GOOD_ENDS.has(data.state);
    const quiet = (why) => make("p", { class: "ending stopped" }, visible(named(why)));
    const result = data.final_answer?.result;
    if (typeof result === "string" && result && result !== this.#said.get(data.turn_id)) {
      const said = make("div", { class: "text" }, ...markdown(result));
      return make("div", { class: "said by-agent" }, said, ...(data.reason && !bad ? [quiet(data.reason)] : []));
    }
    // Nothing went wrong where somebody wanted it so, or where a limit of steps ended it behind an answer.
    if (data.state === "stopped") return quiet(data.reason ?? t("Stopped."));
    if (!bad && data.reason) return quiet(data.reason);
    const text = bad ? t("The turn ended: {why}", { why: data.reason || data.state }) : "";
    return make("p", { class: bad ? "ending" : "ending hidden" }, text);
  }
}
