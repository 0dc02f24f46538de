// A chat page without a page: AG-UI's own HttpAgent, driven by lines of JSON on standard input.
// `node ag_ui.mjs URL TOKEN THREAD_ID`; each command is answered by one line: what the client has then.
import { createInterface } from "node:readline";
import { randomUUID } from "node:crypto";
import { HttpAgent } from "@ag-ui/client";

const [url, token, threadId] = process.argv.slice(2);
const noted = [];
// The client strips and mends with a warning what it should not have got; standard output is ours.
console.warn = (...words) => noted.push(words.map(String).join(" "));
console.error = console.warn;
// As docs/ag-ui.md has it: a connection that breaks off rejects a promise of the client's own.
process.on("unhandledRejection", console.error);

let agent;
let running;

// A page that is loaded again knows the thread and nothing else.
function load(key = token) {
  agent = new HttpAgent({ url: `${url}/agui`, headers: { authorization: `Bearer ${key}` }, threadId });
}

async function run(parameters, until) {
  const events = [];
  let error = null;
  try {
    await agent.runAgent(parameters, {
      onEvent({ event }) {
        events.push(event);
        if (event.type === until) agent.abortRun();
      },
    });
  } catch (thrown) {
    error = String(thrown);
  }
  return { error, events };
}

const commands = {
  say({ text, id, resume, until, context }) {
    agent.addMessage({ id: id ?? randomUUID(), role: "user", content: text });
    return run({ resume, context }, until);
  },
  run: ({ resume, tools }) => run({ resume, tools }),
  answer: ({ payload, status = "resolved", until }) =>
    run({ resume: agent.pendingInterrupts.map(({ id }) => ({ interruptId: id, status, payload })) }, until),
  load: ({ token: key }) => load(key),
  // It says when it is under way, so that something can happen meanwhile; `end` is what came of it.
  begin({ payload }) {
    running = commands.answer({ payload });
  },
  end: () => running,
  state({ state }) {
    agent.state = state;
  },
};

load();
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  const { error = null, events = [] } = (await commands[command.do](command)) ?? {};
  const { messages, state, pendingInterrupts } = agent;
  console.log(JSON.stringify({ error, events, messages, state, interrupts: pendingInterrupts, noted }));
}
