// CopilotKit without React: its core runs the agent, and its interrupt state is what `useInterrupt` shows and answers.
// `node copilotkit.mjs URL TOKEN THREAD_ID`; each command is answered by one line: what the page has then.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { randomUUID } from "node:crypto";
import { CopilotKitCore, ɵInterruptState } from "@copilotkit/core";
import React from "react";
import ts from "typescript";

// The version that CopilotKit pins, not ours.
const { HttpAgent } = createRequire(import.meta.resolve("@copilotkit/core"))("@ag-ui/client");

const [url, token, threadId] = process.argv.slice(2);
const noted = [];
console.warn = (...words) => noted.push(words.map(String).join(" "));
console.error = console.warn;
console.log = console.warn;
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

const agent = new HttpAgent({ agentId: "default", url: `${url}/agui`, headers: { authorization: `Bearer ${token}` }, threadId });
const core = new CopilotKitCore({ agents__unsafe_dev_only: { default: agent } });
core.subscribe({ onError: ({ error }) => errors.push(String(error)) });
core.addTool({ name: "paint", description: "A tool of the page.", handler: async () => "painted" });

const errors = [];
const posted = [];
agent.subscribe({ onRunInitialized: ({ input }) => void posted.push(structuredClone(input)) });

// What react-core's `useInterrupt` does around the same state.
const state = new ɵInterruptState();
const runs = new Map();
let asked = null;
agent.subscribe({
  onRunFinishedEvent({ outcome, interrupts, input }) {
    if (outcome !== "interrupt") return;
    for (const { id } of interrupts) runs.set(id, input.runId);
    asked = interrupts;
  },
  onRunStartedEvent() {
    asked = null;
    runs.clear();
    state.clear();
  },
  onRunFinalized() {
    if (asked?.length) state.setStandard(asked);
  },
  onRunFailed: () => state.clear(),
});

async function respond(decide) {
  const decision = decide();
  if (decision.kind === "waiting") return;
  if (decision.kind !== "resume") return errors.push(decision.kind);
  const runId = decision.resume.map(({ interruptId }) => runs.get(interruptId)).find(Boolean);
  for (const { toolCallId, content } of decision.toolResults)
    agent.addMessage({ id: randomUUID(), role: "tool", toolCallId, content });
  await core.runAgent({ agent, resume: decision.resume, runId });
}

// The page of docs/ag-ui.md, word by word: what it shows of the state, and its buttons.
const guide = readFileSync(new URL("../../docs/ag-ui.md", import.meta.url), "utf8");
const [, snippet] = guide.match(/```tsx\n(?:import .*\n|\n)*([^]*?)```/);
const compilerOptions = { jsx: ts.JsxEmit.React, module: ts.ModuleKind.CommonJS, target: ts.ScriptTarget.ESNext };
const page = ts.transpileModule(snippet, { compilerOptions, fileName: "page.tsx" }).outputText;
const names = ["React", "exports", "CopilotChat", "CopilotKit", "useAgent", "useCopilotKit", "useInterrupt"];
let hook;
const documented = new Function(...names, `${page}; return { Approvals, Chat };`);
const hooks = [() => ({ agent }), () => ({ copilotkit: core }), (given) => void (hook = given)];
const { Approvals, Chat } = documented(React, {}, "chat", "kit", ...hooks);

const elements = (node) => React.Children.toArray(node).flatMap((each) => [each, ...elements(each.props?.children)]);

function buttons(name) {
  const always = Approvals();
  const interrupts = state.pending?.interrupts ?? [];
  const resolve = (payload, id) => respond(() => state.resolve(payload, id));
  const shown = interrupts.length ? hook.render({ interrupt: interrupts[0], interrupts, resolve }) : [];
  return elements([shown, always]).filter(({ type, props }) => type === "button" && props.children === name);
}

const commands = {
  click: ({ name, place }) => buttons(name)[place].props.onClick(),
  // An answer that is given while the page's own stop button is pressed, or while nobody can be reached.
  async cut({ name }) {
    const stopping = agent.subscribe({ onRunStartedEvent: () => agent.abortRun() });
    await commands.click({ name, place: 0 });
    stopping.unsubscribe();
  },
  async lose({ name }) {
    const address = agent.url;
    agent.url = "http://127.0.0.1:1/agui";
    await commands.click({ name, place: 0 });
    agent.url = address;
  },
  // Which thread the page's chat is of.
  thread({ threadId }) {
    const { props } = elements(Chat({ threadId })).find(({ type }) => type === "chat");
    noted.push(props.threadId);
  },
  async say({ text }) {
    agent.addMessage({ id: randomUUID(), role: "user", content: text });
    await core.runAgent({ agent });
  },
  resolve: ({ payload }) => respond(() => state.resolve(payload)),
  cancel: () => respond(() => state.cancel()),
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  try {
    await commands[command.do](command);
  } catch (error) {
    errors.push(String(error));
  }
  const input = posted.at(-1);
  say({ errors, noted, messages: agent.messages, interrupts: state.pending?.interrupts ?? [], posted: input });
}
