// The page of a job, live: each line of its log has the server draw it again.
import { keepTime } from "./time.js";
import { t } from "./words.js";

const GATHER_MS = 400;
// What people are asked in attempts is no line of the log.
const PEOPLE_MS = 15_000;
const main = document.getElementById("main");
const connection = document.getElementById("connection");
let waiting = null;

function say(state) {
  connection.textContent = { live: t("live"), connecting: t("connecting"), closed: t("signed out?") }[state];
  connection.dataset.state = state;
}

function look() {
  waiting ??= setTimeout(() => {
    waiting = null;
    document.getElementById("live")?.dispatchEvent(new CustomEvent("refresh"));
  }, GATHER_MS);
}

const OVER = ["done", "failed", "cancelled"];
let over = OVER.includes(main.dataset.state);
const events = new EventSource(`/v1/jobs/${encodeURIComponent(main.dataset.job)}/events?after=${main.dataset.seen}`);
events.onopen = () => say("live");
// The stream of a job that is over ends.
events.onerror = () => over || say(events.readyState === EventSource.CLOSED ? "closed" : "connecting");
for (const kind of ["job", "division", "task", "attempt", "changes"]) events.addEventListener(kind, look);
events.addEventListener("job", (event) => {
  over ||= OVER.includes(JSON.parse(event.data).state);
});
const lookAtPeople = () => over || document.hidden || look();
setInterval(lookAtPeople, PEOPLE_MS);
// Whoever comes back from the inbox has decided there.
document.addEventListener("visibilitychange", lookAtPeople);
addEventListener("pagehide", () => events.close());
addEventListener("pageshow", (event) => event.persisted && location.reload());

keepTime(document);
