// What the chunks of a stream can make of a call, as the SDK itself reads them: `node ai_sdk_chunks.mjs MAJOR`.
// Each command `{do: "ends", shown}` is answered by one line, `{ends}`: how the call stands after every series of LENGTH
// chunks that ends it: state, `approval.approved`, and whether the SDK's own validator takes the message.
// `shown`: the page has the request already, as a message that is gone on with has it.
import { createInterface } from "node:readline";

const LENGTH = 4;
const [major] = process.argv.slice(2);
const sdk = await import(`ai-${major}`);
const { asSchema, readUIMessageStream, safeValidateUIMessages, uiMessageChunkSchema } = sdk;

const call = { toolCallId: "k1", toolName: "deploy", dynamic: true };
const no = { approved: false, reason: "Not today." };
const said = { approvalId: "a1", ...no };
const KINDS = [
  { type: "tool-input-start", ...call },
  { type: "tool-input-available", ...call, input: {}, approval: { id: "a1", ...no } },
  { type: "tool-input-error", ...call, input: {}, errorText: "No.", approval: { id: "a1", ...no } },
  { type: "tool-approval-request", toolCallId: "k1", ...said },
  { type: "tool-approval-response", toolCallId: "k1", ...said },
  { type: "tool-output-available", toolCallId: "k1", output: {}, ...said },
  { type: "tool-output-error", toolCallId: "k1", errorText: "No.", ...said },
  { type: "tool-output-denied", toolCallId: "k1", ...said, approval: { id: "a1", ...no } },
  { type: "start", messageMetadata: said },
  { type: "start-step" },
];

// What the transport lets through; another chunk ends the stream with an error.
const known = [];
for (const chunk of KINDS) {
  if ((await asSchema(uiMessageChunkSchema).validate(chunk)).success) known.push(chunk);
}

function* series(length) {
  if (!length) yield [];
  else for (const head of series(length - 1)) for (const chunk of known) yield [...head, chunk];
}

async function read(chunks, message) {
  const stream = new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(structuredClone(chunk));
      controller.close();
    },
  });
  let last = message;
  for await (const each of readUIMessageStream({ message: structuredClone(message), stream, onError: () => {} })) last = each;
  return JSON.parse(JSON.stringify(last));
}

async function ends(shown) {
  const asked = { type: "dynamic-tool", toolName: "deploy", toolCallId: "k1", input: {}, state: "approval-requested", approval: { id: "a1" } };
  const message = { id: "m1", role: "assistant", parts: [{ type: "step-start" }, ...(shown ? [asked] : [])] };
  const found = new Set();
  for (const chunks of series(LENGTH)) {
    const after = await read(chunks, message);
    const part = after.parts.find(({ toolCallId }) => toolCallId);
    if (!part?.state.startsWith("output-")) continue;
    const { success } = await safeValidateUIMessages({ messages: [after] });
    found.add(JSON.stringify([part.state, part.approval?.approved ?? null, success]));
  }
  return [...found].sort().map((each) => JSON.parse(each));
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify({ ends: await ends(JSON.parse(line).shown) }));
}
