// A chat page without a page: the SDK's own Chat and transport, driven by lines of JSON on standard input.
// `node ai_sdk.mjs MAJOR URL TOKEN CHAT_ID`; each command is answered by one line: how the chat stands then.
import { createInterface } from "node:readline";

const [major, url, token, id] = process.argv.slice(2);
const { Chat } = await import(`@ai-sdk/react-${major}`);
const { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } = await import(`ai-${major}`);

const heard = [];
const waiting = [];
let chat;

function begin(messages) {
  chat = new Chat({
    id,
    messages,
    transport: new DefaultChatTransport({
      api: `${url}/api/chat?version=${major}`,
      headers: { authorization: `Bearer ${token}` },
    }),
    // Of any message: what was written since waits behind the question.
    sendAutomaticallyWhen: ({ messages }) =>
      messages.some((message) => lastAssistantMessageIsCompleteWithApprovalResponses({ messages: [message] })),
    onData: (part) => heard.push(part),
    onError: () => {},
    onFinish: () => waiting.shift()?.(),
  });
}

// Answers are sent by the SDK itself; its end is the end of the stream that follows.
const finished = () => new Promise((resolve) => waiting.push(resolve));

const commands = {
  send: ({ text }) => chat.sendMessage({ text }),
  edit: ({ text, messageId }) => chat.sendMessage({ text, messageId }),
  regenerate: () => chat.regenerate(),
  resume: () => chat.resumeStream(),
  async answer({ approved, reason }) {
    const parts = chat.messages.flatMap(({ parts }) => parts.filter((part) => part.state === "approval-requested"));
    const end = finished();
    for (const part of parts) await chat.addToolApprovalResponse({ id: part.approval.id, approved, reason });
    await end;
  },
  async reload() {
    const response = await fetch(`${url}/api/chat/${id}?version=${major}`, {
      headers: { authorization: `Bearer ${token}` },
    });
    begin((await response.json()).messages);
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
  console.log(JSON.stringify({ status: chat.status, error, messages: chat.messages, data: heard }));
}
