"""`placet workspace`: what is staged in a conversation, its diffs, asking for the decision, throwing it away."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from placet.cli.client import call
from placet.cli.output import Json, at_terminal, fail, out, show_json, show_table, spoken, tell
from placet.domain.card_text import visible
from placet.domain.cut_diff import not_shown

#: Of a file's permissions, whoever may run it.
_EXECUTABLE = 0o111

app = typer.Typer(no_args_is_help=True, help="Show, diff, propose and discard what is staged in a conversation.")

ConversationId = Annotated[str, typer.Argument(metavar="CONVERSATION", help="The conversation's id.")]

_STYLES = {"+": "green", "-": "red", "@": "cyan"}


@app.command()
def show(conversation_id: ConversationId, *, json: Json = False) -> None:
    """Show what is staged, entry by entry, or what became of it."""
    workspace: dict[str, Any] = call("GET", f"/v1/conversations/{conversation_id}/workspace")
    if json:
        show_json(workspace)
        return
    out.print(headline(workspace), style="bold")
    why = f": {visible(workspace['reason'])}" if workspace["reason"] else ""
    out.print(f"state {workspace['state']}{why}, workspace {workspace['id']}\n")
    show_entries(workspace["entries"])


@app.command()
def diff(
    conversation_id: ConversationId,
    call_id: Annotated[str, typer.Argument(metavar="[ENTRY]", help="One entry; by default all.")] = "",
    *,
    json: Json = False,
) -> None:
    """Show what the staged entries change, as unified diffs."""
    path = f"/v1/conversations/{conversation_id}/workspace"
    calls = [call_id] if call_id else [each["id"] for each in call("GET", path)["entries"] if each["changes"]]
    found = [call("GET", f"{path}/entries/{each}/diff") for each in calls]
    if json:
        show_json(found)
        return
    for entry in found:
        for change in entry["changes"]:
            out.print(change_line(change), style="bold")
            show_diff(change)


@app.command()
def propose(conversation_id: ConversationId, *, json: Json = False) -> None:
    """Have what is staged decided now; an approval opens."""
    answer = call("POST", f"/v1/conversations/{conversation_id}/workspace/propose")
    tell(answer, "asked: the approval opens in a moment", json=json)


@app.command()
def discard(
    conversation_id: ConversationId,
    reason: Annotated[str, typer.Option("--reason", help="Why; the model and the history get it.")] = "",
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; without a terminal nobody is asked.")] = False,
    json: Json = False,
) -> None:
    """Throw away what is staged: none of it happens."""
    path = f"/v1/conversations/{conversation_id}/workspace"
    if not (yes or json) and at_terminal():
        workspace = call("GET", path)
        out.print(headline(workspace), style="bold")
        show_entries(workspace["entries"])
        if not typer.confirm("Throw all of it away?"):
            fail("nothing was thrown away")
    answer = call("POST", f"{path}/discard", json={"reason": reason} if reason else {})
    tell(answer, "asked: it is thrown away in a moment", json=json)


def headline(workspace: dict[str, Any]) -> str:
    """Return how much a workspace creates, changes, deletes and calls."""
    names = ("created", "changed", "deleted")
    said = [f"{workspace[name]:,} {name}" for name in names if workspace[name]]
    said += [f"{workspace['calls']:,} {'call' if workspace['calls'] == 1 else 'calls'}"] if workspace["calls"] else []
    return ", ".join(said) or "nothing"


def asked_entries(workspace: dict[str, Any], arguments: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the entries that a commit with these arguments asks for; None where it asks for another workspace's."""
    if workspace["id"] != arguments.get("workspace_id"):
        return None
    chosen = set(arguments.get("entries", ()))
    return [each for each in workspace["entries"] if each["id"] in chosen]


def show_entries(entries: list[dict[str, Any]]) -> None:
    """Print staged entries as a table: a line for each, with its size and what became of it."""
    rows = [
        {
            "id": each["id"],
            "place": str(each["position"]),
            "tool": each["tool"],
            "what": visible(each["summary"]),
            "size": "; ".join(_size(change) for change in each["changes"]) or visible(_arguments(each)),
            "state": each["state"] + (f": {each['error']}" if each["error"] else ""),
        }
        for each in entries
    ]
    show_table(rows, ["place", "id", "tool", "what", "size", "state"])


def change_line(change: dict[str, Any]) -> str:
    """Return one change as a line: `change src/total.py (+3 -1, 40 -> 50 bytes, mode 644 -> 755)`."""
    before, after = change["base_mode"], change["after_mode"]
    mode = f", mode {before} -> {after}" if before and after and before != after else ""
    if change["kind"] == "create" and int(after or "0", 8) & _EXECUTABLE:
        mode = f", mode {after}"
    return f"{change['kind']} {visible(change['key'])} ({_size(change)}{mode})"


def show_diff(change: dict[str, Any]) -> None:
    """Print a unified diff; what cannot be shown says so."""
    if change["binary"] or not change["diff"]:
        out.print("  binary: no diff can show it" if change["binary"] else "  no diff to read")
    for line in change["diff"].split("\n") if change["diff"] else []:
        out.print(spoken(line), style=_STYLES.get(line[:1], ""))
    if change["cut"]:
        more = not_shown(change)
        out.print("  … the diff is longer than is kept" + (f"; not shown: {more}" if more else ""))
    out.print()


def _size(change: dict[str, Any]) -> str:
    extent = "binary" if change["binary"] else f"+{change['added']} -{change['removed']}"
    sizes = [f"{each:,}" for each in (change["base_size"], change["after_size"]) if each is not None]
    return f"{extent}, {' -> '.join(sizes)} bytes"


def _arguments(entry: dict[str, Any]) -> str:
    given = entry["arguments"]
    return ", ".join(f"{name}={value}" for name, value in given.items()) if isinstance(given, dict) else ""
