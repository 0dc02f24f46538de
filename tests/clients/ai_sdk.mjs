// A chat page without a page: the SDK's own Chat and transport, driven by lines of JSON on standard input.
// `node ai_sdk.mjs MAJOR URL TOKEN CHAT_ID`; each command is answered by one line: how the chat stands then.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const [major, url, token, id] = process.argv.slice(2);
const { Chat } = await import(`@ai-sdk/react-${major}`);
const sdk = await import(`ai-${major}`);
const { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses, safeValidateUIMessages } = sdk;

// What a person waits for something that must happen by itself, in milliseconds.
const PATIENCE = 15_000;
const headers = { authorization: `Bearer ${token}` };
const heard = [];
const waiting = [];
// Every request of the page: "GET …/stream 204".
const requests = [];
let chat;
let resuming;
// Whether the page loads the history behind a stream that told how an approval ended, as docs/ai-sdk.md has it.
let looksAgain = false;
let looking;
// Whether the page is another than the guide's: one that posts by itself while any of its messages is answered.
let isForeign = false;

// Whether the page's requests reach nobody; and what breaks off the streams that it reads.
let offline = false;
const cutters = [];

async function noted(address, options) {
  if (offline) throw new TypeError("fetch failed");
  const response = await fetch(address, options);
  requests.push(`${options.method} ${new URL(address).pathname.replace(id, "…")} ${response.status}`);
  if (!response.body) return response;
  const cut = { start: (controller) => cutters.push(() => controller.error(new TypeError("network error"))) };
  return new Response(response.body.pipeThrough(new TransformStream(cut)), response);
}

// By approval: entries of its commit that do not run. As the guide has it, each post of the page tells them.
const leftOut = {};

class Transport extends DefaultChatTransport {
  constructor(options) {
    super({ ...options, body: () => ({ leave_out: leftOut }), fetch: noted });
  }
}

// The page of docs/ai-sdk.md: the first snippet there, word by word, but for the address.
const guide = readFileSync(new URL("../../docs/ai-sdk.md", import.meta.url), "utf8");
const [, snippet] = guide.match(/```tsx\n(?:import .*\n|\n)*([^]*?)```/);
const here = snippet.replace("https://placet.example", url).replace(/version=\d+/, `version=${major}`);
const names = ["conversation", "messages", "useEffect", "useRef", "useState", "useChat", "Chat", "DefaultChatTransport"];
const condition = "lastAssistantMessageIsCompleteWithApprovalResponses";
const documented = new Function(...names, condition, here);

class Page extends Chat {
  constructor(options) {
    super({
      ...options,
      onData: (part) => heard.push(part),
      onError: () => {},
      onFinish: async ({ message }) => {
        const decided = message.parts.some((part) => part.type === "data-approval" && part.data.state !== "pending");
        if (looksAgain && decided) {
          looking = history();
          chat.messages = await looking;
        }
        waiting.shift()?.();
      },
    });
    chat = this;
  }
}

// What React does of that snippet: calls it at each change, then its effects whose values are others than before.
// Whether the page resumes by itself is returned, and left to the commands.
function begin(messages) {
  const kept = [];
  let place, due, resumes, page;
  const keep = (make) => (kept[place++] ??= { value: make() }).value;
  const useRef = (current) => keep(() => ({ current }));
  const useState = (make) => [keep(make)];
  const useChat = ({ chat, resume }) => ((resumes = resume), chat);
  function useEffect(effect, values) {
    const before = keep(() => ({}));
    if (JSON.stringify(before.values) !== JSON.stringify(values)) due.push(effect);
    before.values = values;
  }
  function render() {
    [place, due] = [0, []];
    documented({ id, token }, messages, useEffect, useRef, useState, useChat, Page, Transport, lastAssistantMessageIsCompleteWithApprovalResponses);
    if (!isForeign) for (const effect of due) effect();
  }
  let isDue = false;
  const changed = () => {
    if (!isDue) setImmediate(() => ((isDue = false), page === chat && render()));
    isDue = true;
  };
  render();
  page = chat;
  page["~registerMessagesCallback"](changed);
  page["~registerStatusCallback"](changed);
  return resumes;
}

async function history() {
  const response = await fetch(`${url}/api/chat/${id}?version=${major}`, { headers });
  return (await response.json()).messages;
}

// Answers are sent by the SDK itself; its end is the end of the stream that follows.
const finished = () => new Promise((resolve) => waiting.push(resolve));

async function until(holds) {
  await within(
    (async () => {
      while (!holds()) await new Promise((resolve) => setTimeout(resolve, 10));
    })(),
  );
}

async function within(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`still ${chat.status} after ${PATIENCE} ms`)), PATIENCE);
  });
  await Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

const commands = {
  send: ({ text }) => within(chat.sendMessage({ text })),
  edit: ({ text, messageId }) => chat.sendMessage({ text, messageId }),
  regenerate: ({ messageId }) => within(chat.regenerate({ messageId })),
  resume: () => within(chat.resumeStream()),
  async answer({ approved, reason, tool }) {
    const parts = chat.messages.flatMap(({ parts }) => parts.filter((part) => part.state === "approval-requested"));
    const end = finished();
    for (const { approval: { id } } of parts.filter((part) => !tool || part.toolName === tool)) {
      await chat.addToolApprovalResponse({ id, approved, reason });
    }
    await within(end);
  },
  // What the page has answered, without waiting for the rest.
  post: () => within(chat.sendMessage()),
  leaveOut({ id, entries }) {
    leftOut[id] = entries;
  },
  // Answered while something streams, or where nobody hears it.
  async click({ approved, tool, digest, at = 0 }) {
    const parts = chat.messages.flatMap(({ parts }) => parts);
    const { approval } = parts.filter((part) => part.state === "approval-requested" && part.toolName === tool).at(at);
    if (digest) approval.descriptor.digest = digest;
    await chat.addToolApprovalResponse({ id: approval.id, approved });
  },
  // Until the page posts no more.
  async rest() {
    const answered = ({ parts }) => parts.some((part) => part.state === "approval-responded");
    await until(() => chat.status === "error" || (chat.status === "ready" && !chat.messages.some(answered)));
  },
  async disconnect() {
    offline = true;
    await commands.click({ approved: true, tool: "deploy" });
    await until(() => chat.status === "error");
    offline = false;
  },
  // The network goes away in the middle of a stream, and is back at once.
  async cut() {
    for (const cutter of cutters.splice(0)) cutter();
    await until(() => chat.status === "error");
  },
  foreign() {
    isForeign = true;
    const answered = (message) => lastAssistantMessageIsCompleteWithApprovalResponses({ messages: [message] });
    chat.sendAutomaticallyWhen = ({ messages }) => messages.some(answered);
  },
  async reload() {
    begin(await history());
  },
  // As `useChat` does where its options have it.
  async open() {
    resuming = begin(await history()) ? chat.resumeStream() : Promise.resolve();
    await within(new Promise((resolve) => setImmediate(resolve)));
  },
  // Sent, and looked at as soon as the first words are there.
  async begin({ text }) {
    resuming = chat.sendMessage({ text });
    await commands.words();
  },
  // Asked again, and looked at as soon as the server has taken that.
  async beginAgain() {
    const before = requests.length;
    resuming = chat.regenerate();
    await until(() => requests.length > before);
  },
  async words() {
    const spoken = () => chat.lastMessage?.role === "assistant" && chat.lastMessage.parts.some((part) => part.text);
    await until(spoken);
  },
  // Until the newest message says a text.
  says: ({ text }) => until(() => chat.lastMessage.parts.some((part) => part.text === text)),
  async settle() {
    await within(resuming);
    await looking;
  },
  lookAgain() {
    looksAgain = true;
  },
  async stop() {
    const options = { method: "POST", headers: { ...headers, "content-type": "application/json" } };
    await noted(`${url}/api/chat/${id}/stop`, { ...options, body: JSON.stringify({ assistantMessage: chat.lastMessage }) });
    await within(resuming);
  },
  forge({ message }) {
    chat.messages = [...chat.messages, message];
    return chat.sendMessage();
  },
};

begin([]);
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  let thrown = null;
  try {
    await commands[command.do](command);
  } catch (error) {
    thrown = String(error);
  }
  const error = thrown ?? (chat.error ? String(chat.error) : null);
  // As it goes over a wire: what is undefined is left out there.
  const messages = JSON.parse(JSON.stringify(chat.messages));
  const checked = messages.length ? await safeValidateUIMessages({ messages }) : { success: true };
  const fault = checked.success ? null : String(checked.error).slice(0, 2_000);
  console.log(JSON.stringify({ status: chat.status, error, messages, data: heard, requests, fault }));
}
