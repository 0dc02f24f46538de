"""Jobs on the command line: run one and watch it, list, show, cancel, and read logs."""

from __future__ import annotations

import json as json_module
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from placet.cli.client import TIMEOUT_SECONDS, address, call, client, problem_line
from placet.cli.output import Json, fail, out, show_json, show_whole, tell
from placet.cli.resources import Id, Resource
from placet.runtime.urls import redacted_url

jobs = Resource("jobs", "Run jobs: tasks that several agents try and vote on.")
jobs.list(
    "List jobs, newest first.",
    ["id", "state", "tasks_decided", "tasks_total", "attempts", "tokens", "task", "created_at"],
    states="dividing, running, waiting, withdrawing, done, failed, cancelled or all.",
    state="all",
)

#: States in which nothing more comes.
OVER = frozenset({"done", "failed", "cancelled"})
#: Silence after which a stream counts as broken, in seconds; heartbeats come more often.
SILENCE_SECONDS = 60.0
#: Lines of a log per request.
PAGE = 1_000


#: Characters of a vote that people are shown, as the log shows them.
SHOWN_VOTE = 8


@jobs.app.command("show")
def show(thing: Id, *, json: Json = False) -> None:
    """Show a job, and a line for each of its tasks with votes and attempts."""
    found = call("GET", f"/v1/jobs/{thing}")
    if json:
        show_json(found)
        return
    division, tasks = found.pop("division"), found.pop("tasks")
    lines = [_line_of(each) for each in ([division] if division else []) + tasks]
    show_whole({**found, "tasks": lines}, ["plan", "budget"], {"tasks": ["id", "state", "votes", "attempts"]})


def _line_of(task: dict[str, Any]) -> dict[str, Any]:
    """Return a task as a line of a table: votes by the beginnings of their hashes, and how many attempts."""
    votes = ", ".join(f"{vote[:SHOWN_VOTE]} {count}" for vote, count in task["votes"].items())
    thrown_out = sum(each["state"] in {"flagged", "conflicted"} for each in task["attempts"])
    waiting = sum(bool(each["waits_for"]) for each in task["attempts"])
    attempts = f"{len(task['attempts'])}" + (f", {thrown_out} thrown out" if thrown_out else "")
    attempts += f", {waiting} waiting for people" if waiting else ""
    return {"id": task["id"] or "(division)", "state": task["state"], "votes": votes or None, "attempts": attempts}


@jobs.app.command("cancel")
def cancel(thing: Id, *, json: Json = False) -> None:
    """Cancel a job: its attempts are withdrawn."""
    found = call("POST", f"/v1/jobs/{thing}/cancel")
    if found["state"] in OVER:
        fail(f"job {thing} has ended already: it is {found['state']}")
    tell(found, f"cancellation of {thing} is on its way", json=json)


@jobs.app.command("run")
def run(
    task: Annotated[str, typer.Argument(help="What is to be done.")],
    agent: Annotated[str, typer.Option(help="Which agent does it; none: what the file says, or `default`.")] = "",
    context: Annotated[str, typer.Option(help="What its agents should know beside.")] = "",
    file: Annotated[
        Path | None, typer.Option(help="More of the job as JSON, as `POST /v1/jobs` takes it: budget, tasks, schema.")
    ] = None,
    k: Annotated[int | None, typer.Option(min=1, help="Votes that an answer must be ahead by; none: computed.")] = None,
    *,
    wait: Annotated[bool, typer.Option(help="Follow it to its end.")] = True,
    json: Json = False,
) -> None:
    """Have a job done, and say what happens line by line; it goes on where this command is interrupted."""
    more = _read(file) if file else {}
    own = {"task": task} | {name: value for name, value in (("agent", agent), ("context", context), ("k", k)) if value}
    sent = call("POST", "/v1/jobs", json={**more, **own})
    if not wait:
        show_json(sent) if json else out.print(sent["id"])
        return
    if not json:
        out.print(f"job {sent['id']}")
    state = _follow(sent["id"], 0, json=json)
    found = call("GET", f"/v1/jobs/{sent['id']}")
    if not json and found["result"] is not None:
        show_json(found["result"])
    if state != "done":
        raise typer.Exit(1)


@jobs.app.command("log")
def log(
    job_id: Id,
    attempt: Annotated[str, typer.Option(help="Id of an attempt: what its agent was told, said, called and got.")] = "",
    *,
    follow: Annotated[
        bool, typer.Option(help="Go on with what comes, up to the job's end; attempts that end later are in the log.")
    ] = False,
    json: Json = False,
) -> None:
    """Print a job's log, one line per event; with `--json` every event whole, one per line."""
    if follow and attempt:
        fail("--follow goes with the log of the whole job", code=2)
    path = f"/v1/jobs/{job_id}/attempts/{attempt}/log" if attempt else f"/v1/jobs/{job_id}/log"
    after, over = 0, False
    while True:
        page = call("GET", path, params={"after": after, "limit": PAGE})
        for item in page["items"]:
            _show(item, json=json)
            over = item["type"] == "job" and item["data"].get("state") in OVER
        after = page["last_event_id"]
        if len(page["items"]) < PAGE:
            break
    if follow and not over:
        _follow(job_id, after, json=json)


def _read(file: Path) -> dict[str, Any]:
    try:
        found = json_module.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        fail(f"{file} cannot be read: {error}", code=2)
    if not isinstance(found, dict):
        fail(f"{file} holds no JSON object", code=2)
    return found


def _follow(job_id: str, after: int, *, json: bool) -> str:
    """Print a job's events as they come, up to its end; return the state that it ended in."""
    import httpx
    from httpx_sse import connect_sse

    path, away = f"/v1/jobs/{job_id}/events", False
    while True:
        try:
            with client() as http:
                timeout = httpx.Timeout(TIMEOUT_SECONDS, read=SILENCE_SECONDS)
                with connect_sse(http, "GET", path, params={"after": after}, timeout=timeout) as source:
                    if source.response.status_code == httpx.codes.NO_CONTENT:
                        return str(call("GET", f"/v1/jobs/{job_id}")["state"])
                    if not source.response.is_success:
                        source.response.read()
                        # What was asked for just now may still be on its way.
                        if source.response.status_code not in {404, 502, 503, 504}:
                            fail(problem_line(source.response))
                    else:
                        away = False
                        for event in source.iter_sse():
                            if not event.data:
                                continue
                            data = event.json()
                            after = int(event.id)
                            _show({"id": after, "type": event.event, "data": data}, json=json)
                            if event.event == "job" and data["state"] in OVER:
                                return str(data["state"])
        except httpx.TransportError as error:
            if not away:
                typer.echo(f"no answer from {redacted_url(address())}, trying again: {type(error).__name__}", err=True)
            away = True
        time.sleep(1.0)


def _show(item: dict[str, Any], *, json: bool) -> None:
    if json:
        sys.stdout.write(json_module.dumps(item, ensure_ascii=False) + "\n")
        sys.stdout.flush()
        return
    data = item["data"]
    told = data.get("line") or json_module.dumps({"type": item["type"], **data}, ensure_ascii=False)
    out.print(f"{item['id']:>5}  {told}", markup=False, highlight=False)
