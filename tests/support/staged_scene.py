"""Workspaces with staged entries in the stand-ins of the executor's views, and the commits that propose them."""

from __future__ import annotations

import json
from typing import Any

from placet.contracts.canonical import canonical_text, sha256_hex, tree_digest
from placet.contracts.messages import COMMIT_TOOL
from tests.support.gateway import House, insert
from tests.support.inbox_scene import hold

WORKSPACE = "workspace-1"
CONVERSATION = "acme_conversation-1"

Spec = dict[str, Any]


def a_file(key: str, *, base: str | None = None, after: str | None = None, **changes: Any) -> Spec:
    """Return what one entry makes of a file; contents are texts, `changes` columns of `read.workspace_changes`."""
    kind = "create" if base is None else "delete" if after is None else "change"
    signs = [f"-{line}" for line in (base or "").splitlines()] + [f"+{line}" for line in (after or "").splitlines()]
    row = {
        "pack": "files",
        "key": key,
        "kind": kind,
        "base_digest": None if base is None else sha256_hex(base),
        "base_size": None if base is None else len(base),
        "after_digest": None if after is None else sha256_hex(after),
        "after_size": None if after is None else len(after),
        "summary": f"{kind.capitalize()} {key}",
        "added": len((after or "").splitlines()),
        "removed": len((base or "").splitlines()),
        "diff": "\n".join([f"--- a/{key}", f"+++ b/{key}", "@@ -1 +1 @@", *signs]),
    }
    return row | changes


def a_change(*files: Spec, **changes: Any) -> Spec:
    """Return an entry whose changes wait."""
    return {"kind": "change", "tool": "write_file", "files": files, "summary": files[0]["summary"]} | changes


def a_staged_call(tool: str, summary: str, arguments: dict[str, Any], **changes: Any) -> Spec:
    """Return an entry that is a whole call."""
    return {"kind": "call", "tool": tool, "summary": summary, "arguments": arguments, "files": ()} | changes


def stage(house: House, entries: list[Spec], *, conversation_id: str = CONVERSATION, **changes: Any) -> list[str]:
    """Put entries into the workspace of a conversation; return the ids of their calls."""
    workspace = changes.pop("workspace_id", WORKSPACE)
    here = {"workspace_id": workspace, "tenant": "acme", "conversation_id": conversation_id}
    row = {"state": "open", "entries": len(entries), "waiting": len(entries)} | changes
    insert(house.url, "workspaces", **here, **row)
    for position, entry in enumerate(entries, 1):
        call_id = f"{workspace}-call-{position}"
        own = {name: value for name, value in entry.items() if name not in {"files", "arguments"}}
        keys = [f"{each['pack']}:{each['key']}" for each in entry["files"]]
        shown = json.dumps(entry.get("arguments", {"path": keys}))
        own |= {"keys": "{" + ",".join(keys) + "}", "shown_arguments": shown, "digest": sha256_hex(call_id)}
        insert(house.url, "workspace_entries", **here, call_id=call_id, position=position, **own)
        for ordinal, change in enumerate(entry["files"]):
            place = {"call_id": call_id, "position": position, "ordinal": ordinal}
            insert(house.url, "workspace_changes", **here, **place, **change)
    return [f"{workspace}-call-{position}" for position in range(1, len(entries) + 1)]


def commit_arguments(calls: list[str], workspace_id: str = WORKSPACE) -> dict[str, Any]:
    """Return the arguments of the commit of these entries."""
    tree = tree_digest([(each, sha256_hex(each)) for each in calls])
    return {"workspace_id": workspace_id, "tree_digest": tree, "entries": calls}


def propose(house: House, calls: list[str], **changes: Any) -> dict[str, Any]:
    """Let the commit of these entries wait for people; return its row."""
    rule = {"approvers": ["operators"], "edits": True} | changes.pop("approval_rule", {})
    values = {"category": "unsafe_write", "rule": "staged", "reason": "Staged work is decided together."} | changes
    summary = values.pop("summary", f"Apply {len(calls)} staged entries")
    values |= {"approval_rule": rule, "conversation_id": CONVERSATION}
    return hold(house, COMMIT_TOOL, summary, commit_arguments(calls), **values)


def a_busy_turn(files: int = 3) -> list[Spec]:
    """Return entries of every sort: files created, changed twice, deleted and binary, and two staged calls."""
    code = "def total(lines):\n    return sum(lines)\n"
    better = "def total(lines):\n    return round(sum(lines), 2)\n"
    many = [a_change(a_file(f"notes/{number}.md", after=f"# Note {number}\n")) for number in range(files)]
    picture = a_file("logo.png", base="x" * 900, after="y" * 1204, binary=True, diff="", added=0, removed=0)
    return [
        *many,
        a_change(a_file("src/total.py", base=code, after=better)),
        a_change(a_file("src/total.py", base=better, after=better + "\n# rounded\n"), tool="edit_file"),
        a_change(a_file("old.txt", base="gone\n"), tool="delete_file"),
        a_change(picture),
        a_staged_call(
            "send_mail", "Send a mail to lin@example.org", {"to": "lin@example.org", "subject": "It is done"}
        ),
        a_staged_call("refund", "Refund 12 EUR", {"amount": 12, "order": "10482"}),
    ]


def text_of(arguments: dict[str, Any]) -> str:
    """Return arguments as they are signed."""
    return canonical_text(arguments)
