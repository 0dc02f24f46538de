// A program that somebody writes with the types that openapi-typescript generates: it finds what waits and decides it.
// `node decide.js URL TOKEN CONVERSATION`; prints one line of JSON.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

declare const process: { argv: string[] };
type FeedItem = components["schemas"]["FeedItem"];

const [url, token, conversation] = process.argv.slice(2) as [string, string, string];
const client = createClient<paths>({ baseUrl: url, headers: { authorization: `Bearer ${token}` } });

function waiting(items: FeedItem[]): string[] {
  return items.flatMap((item) => (item.type === "approval" && item.data.state === "pending" ? [item.data.approval_id] : []));
}

const feed = await client.GET("/v1/conversations/{conversation_id}/feed", {
  params: { path: { conversation_id: conversation } },
});
if (feed.error) throw new Error(feed.error.title);
const told: unknown[] = [];
for (const id of waiting(feed.data.items)) {
  const params = { path: { approval_id: id } };
  const shown = await client.GET("/v1/approvals/{approval_id}", { params });
  if (shown.error) throw new Error(shown.error.title);
  const decided = await client.POST("/v1/approvals/{approval_id}/decisions", {
    params,
    body: { decision: "approve", digest: shown.data.digest, reason: "" },
  });
  told.push(decided.error ? decided.error.title : decided.data);
}
console.log(JSON.stringify(told));
