"""`placet approvals`: what waits for people, and deciding it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from placet.cli.client import call
from placet.cli.output import Json, at_terminal, fail, out, show_fields, show_json, show_table, show_whole, tell
from placet.cli.resources import LIMIT, After, Limit, show_page
from placet.cli.workspace import asked_entries, headline, show_entries
from placet.contracts.canonical import NotStrictJson, parse_arguments, readable_text
from placet.contracts.messages import COMMIT_TOOL
from placet.domain.approvers import identity_of, is_person
from placet.domain.card_text import mixed_scripts, visible
from placet.domain.json_pointer import pointer
from placet.domain.origins import NONE, from_tools_alone, is_target
from placet.domain.risk import acts
from placet.surfaces.leaves import leaves

app = typer.Typer(no_args_is_help=True, help="List, show and decide approvals.")

ApprovalId = Annotated[str, typer.Argument(metavar="ID", help="The approval's id.")]
Digest = Annotated[str, typer.Option("--digest", help="The digest of the card you saw; another one is refused.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; the model and the history get it.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; without a terminal nobody is asked.")]
Seconds = Annotated[int, typer.Option(min=1, help="How long.")]

#: What `show` prints as tables, with their columns, and as parts of their own.
_TABLES = {
    "decisions": ("at", "person", "decision", "outcome", "counts", "reason", "digest"),
    "edits": ("asked_at", "person", "state", "differences", "refusal", "reason"),
    "cards": ("channel", "recipient", "state", "revision", "sent_revision", "error", "at"),
    "comments": ("at", "person", "question", "text"),
    "history": ("at", "event", "from_state", "to_state", "actor", "detail"),
}
_PARTS = ("records", "verdict", "timers", "execution")


@app.command("list")
def list_approvals(  # noqa: PLR0913 - one for each filter
    state: Annotated[str, typer.Option(help="pending, approved, denied, answered, expired or withdrawn.")] = "pending",
    *,
    mine: Annotated[bool, typer.Option("--mine", help="Only what you can decide now and have not voted on.")] = False,
    tool: Annotated[str, typer.Option(help="Only calls of this tool.")] = "",
    agent: Annotated[str, typer.Option(help="Only calls of this agent.")] = "",
    conversation: Annotated[str, typer.Option(help="Only calls of this conversation.")] = "",
    category: Annotated[str, typer.Option(help="Only tools that can do this: unsafe_write, unsafe_api, …")] = "",
    requester: Annotated[str, typer.Option(help="Only what they asked for: person:ada.")] = "",
    rule: Annotated[str, typer.Option(help="Only what this rule held.")] = "",
    decided_by: Annotated[str, typer.Option(help="Only what they decided: person:ada.")] = "",
    sort: Annotated[str, typer.Option(help="newest, oldest, deadline, risk or amount.")] = "newest",
    older_than: Annotated[int, typer.Option(min=0, help="Only what was opened so many seconds ago or earlier.")] = 0,
    search: Annotated[
        str, typer.Option("--search", "--q", help='Words of summary and arguments: payment -test "299 TRY" inv*.')
    ] = "",
    limit: Limit = LIMIT,
    cursor: After = "",
    json: Json = False,
) -> None:
    """List approvals that fit everything asked, newest first unless asked otherwise."""
    asked = {"state": state, "tool": tool, "agent": agent, "conversation": conversation, "category": category}
    more: dict[str, Any] = {"mine": "true" if mine else "", "older_than": older_than, "q": search}
    more |= {"requester": requester, "rule": rule, "decided_by": decided_by, "sort": sort}
    columns = ["id", "state", "tool", "summary", "requester", "expires_at"]
    show_page("/v1/approvals", asked | more, columns, limit=limit, cursor=cursor, json=json)


@app.command()
def show(approval_id: ApprovalId, *, json: Json = False) -> None:
    """Show one approval with everything that happened to it."""
    approval: dict[str, Any] = call("GET", f"/v1/approvals/{approval_id}")
    if json:
        show_json(approval)
        return
    if approval["tool"] == COMMIT_TOOL:
        _show_staged(approval)
    show_whole(approval, _PARTS, _TABLES)


@app.command()
def comment(
    approval_id: ApprovalId,
    text: Annotated[str, typer.Argument(help="What you say; it decides nothing.")],
    *,
    ask: Annotated[bool, typer.Option("--ask", help="Ask the requester, who sees it in their conversation.")] = False,
    json: Json = False,
) -> None:
    """Say something to the others who may decide, or ask the requester. It decides nothing, and no model reads it."""
    answer = call("POST", f"/v1/approvals/{approval_id}/comments", json={"text": text, "question": ask})
    if json:
        show_json(answer)
        return
    for each in answer["items"]:
        out.print(f"{each['person']}{' asks' if each['question'] else ''}: {each['text']}", markup=False)


@app.command()
def approve(  # noqa: PLR0913 - a grant has as many terms
    approval_id: ApprovalId,
    reason: Reason = "",
    digest: Digest = "",
    *,
    from_now_on: Annotated[
        bool, typer.Option("--allow-from-now-on", help="Allow such calls from now on, as far as the rule lets you.")
    ] = False,
    scope: Annotated[str, typer.Option(help="With it: conversation, agent or tenant.")] = "conversation",
    bounds: Annotated[
        list[str] | None, typer.Option("--bound", help="With it: an argument that may be less; again for another.")
    ] = None,
    uses: Annotated[int, typer.Option(min=0, help="With it: how often; 0: as often as the rule lets you.")] = 0,
    seconds: Annotated[int, typer.Option(min=0, help="With it: how long; 0: as long as the rule lets you.")] = 0,
    leave_out: Annotated[
        list[str] | None,
        typer.Option("--leave-out", help="Of commit_changes: an entry to throw away; again for another."),
    ] = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Approve a call: it is shown as it stands now, and you are asked. With --digest only what you saw is approved."""
    wish = _given({"bounds": bounds, "uses": uses, "expires_after_seconds": seconds})
    if wish and not from_now_on:
        fail("--bound, --uses and --seconds go with --allow-from-now-on", code=2)
    more: dict[str, Any] = {"allow_from_now_on": {"scope": scope} | wish} if from_now_on else {}
    if leave_out:
        if from_now_on:
            fail("--leave-out does not go with --allow-from-now-on", code=2)
        _decide(approval_id, "edit", reason, digest, json=json, ask=not yes, leave_out=leave_out)
        return
    _decide(approval_id, "approve", reason, digest, json=json, ask=not yes, **more)


@app.command()
def deny(
    approval_id: ApprovalId,
    reason: Reason = "",
    digest: Digest = "",
    *,
    end_turn: Annotated[
        bool, typer.Option("--end-turn", help="End the turn too: what else of it waits is withdrawn.")
    ] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Deny a call: it is shown as it stands now, and you are asked."""
    more = {"end_turn": True} if end_turn else {}
    _decide(approval_id, "deny", reason, digest, json=json, ask=not yes, **more)


@app.command()
def abstain(approval_id: ApprovalId, reason: Reason = "", digest: Digest = "", *, json: Json = False) -> None:
    """Vote neither way; an earlier vote of yours counts no more."""
    _decide(approval_id, "abstain", reason, digest, json=json)


@app.command()
def edit(
    approval_id: ApprovalId,
    arguments: Annotated[
        str, typer.Argument(help="All arguments, as a JSON object; what is masked and left so stays.")
    ],
    reason: Reason = "",
    digest: Digest = "",
    *,
    json: Json = False,
) -> None:
    """Change the arguments within the rulebook, and approve the call with them."""
    try:
        value = parse_arguments(arguments)
    except NotStrictJson as error:
        fail(f"the arguments are not a JSON object: {error}", code=2)
    _decide(approval_id, "edit", reason, digest, json=json, arguments=value)


@app.command()
def respond(
    approval_id: ApprovalId,
    response: Annotated[str, typer.Argument(help="What the model gets instead of a result.")],
    digest: Digest = "",
    *,
    result: Annotated[bool, typer.Option("--result", help="It is a result, not an instruction.")] = False,
    json: Json = False,
) -> None:
    """Answer the model instead of running the call."""
    kind = "result" if result else "instruction"
    _decide(approval_id, "respond", "", digest, json=json, response=response, response_kind=kind)


@app.command()
def delegate(
    approval_id: ApprovalId,
    to: Annotated[str, typer.Argument(help="Who: person:<id>, or the id alone.")],
    *,
    json: Json = False,
) -> None:
    """Delegate to someone else in your place."""
    _decide(approval_id, "delegate", "", "", json=json, to=to if is_person(to) else identity_of(to))


@app.command()
def claim(approval_id: ApprovalId, seconds: Seconds = 900, *, json: Json = False) -> None:
    """Tell the others that you are on it."""
    _decide(approval_id, "claim", "", "", json=json, seconds=seconds)


@app.command()
def release(approval_id: ApprovalId, *, json: Json = False) -> None:
    """Tell the others that you are not on it any more."""
    _decide(approval_id, "release", "", "", json=json)


@app.command()
def cancel(approval_id: ApprovalId, reason: Reason = "", *, json: Json = False) -> None:
    """Cancel a call that waits; one that was approved may have run, and the answer says so."""
    _decide(approval_id, "cancel", reason, "", json=json)


@app.command()
def batch(
    verb: Annotated[str, typer.Argument(help="approve, deny, abstain, claim, release, …: one verb for all.")],
    cards: Annotated[list[str], typer.Argument(metavar="ID=DIGEST…", help="At most 50, each as you saw it.")],
    reason: Reason = "",
    *,
    json: Json = False,
) -> None:
    """Decide several approvals at once; each has its own outcome. Ends with 1 where one of them failed."""
    items = []
    for card in cards:
        approval_id, _, digest = card.partition("=")
        if not digest:
            fail(f"{card}: give each as ID=DIGEST, the digest of the card that you saw", code=2)
        items.append({"id": approval_id, "digest": digest, "decision": verb, **_given({"reason": reason})})
    answer = call("POST", "/v1/approvals/decisions", json={"items": items})
    if json:
        show_json(answer)
    else:
        show_table([_outcome(each) for each in answer["items"]], ["id", "status", "outcome"])
    if any(each["problem"] for each in answer["items"]):
        raise typer.Exit(1)


def _outcome(item: dict[str, Any]) -> dict[str, Any]:
    problem, approval = item["problem"] or {}, item["approval"] or {}
    outcome = problem.get("detail") or problem.get("title") or approval.get("state", "sent; the answer takes its time")
    return {"id": item["id"], "status": str(item["status"]), "outcome": outcome}


def _given(asked: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in asked.items() if value}


def _decide(
    approval_id: str, verb: str, reason: str, digest: str, *, json: bool, ask: bool = False, **more: Any
) -> None:
    """Send a decision about the card as it stands, or as `digest` says; `ask` at a terminal first."""
    approval = call("GET", f"/v1/approvals/{approval_id}")
    if not json:
        show_call(approval)
    # What is over is decided by nobody: the answer says who was faster.
    asks = ask and not json and approval["state"] == "pending" and at_terminal()
    if asks and not typer.confirm(_question(verb, more.get("leave_out", ()))):
        fail("nothing was decided")
    needed = (approval.get("approval_rule") or {}).get("reason_required", "never")
    if asks and not reason and needed in {"always", verb}:
        reason = typer.prompt("Why?")
    body: dict[str, Any] = {"decision": verb, "digest": digest or approval["digest"], "revision": approval["revision"]}
    body |= _given({"reason": reason, "restored_at": approval.get("restored_at")}) | more
    answer = call("POST", f"/v1/approvals/{approval_id}/decisions", json=body)
    tell(answer, answer.get("state", "sent; the answer takes its time"), json=json)


def _question(verb: str, left_out: Sequence[str]) -> str:
    if left_out:
        return f"Approve without {', '.join(left_out)} and what touches the same?"
    return f"{verb.capitalize()} this call?"


def show_call(approval: dict[str, Any]) -> None:
    """Print what would run and why it is held, an argument per line."""
    out.print(approval["summary"], style="bold")
    over = {"state": approval["state"]} if approval["state"] != "pending" else {}
    facts = over | {"tool": approval["tool"], "rule": approval["rule"], "reason": approval["reason"]}
    facts |= {"for": approval["requester"], "agent": approval["agent"], "expires": approval["expires_at"]}
    show_fields(facts)
    _show_warnings(approval)
    if approval["tool"] == COMMIT_TOOL and _show_staged(approval):
        out.print(f"\ndigest {approval['digest'][:16]}, revision {approval['revision']}")
        return
    out.print("\narguments", style="bold")
    value = approval["call"]["arguments"]
    origins: dict[str, list[str]] = approval["call"].get("origins") or {}
    for path, leaf in leaves(value):
        said = leaf if isinstance(leaf, str) else readable_text(leaf)
        name, places = ".".join(path), origins.get(pointer(path))
        first, *others = [visible(line) for line in said.split("\n")]
        out.print(f"  {visible(name)}: {first}")
        for line in others:
            out.print(f"  {' ' * len(name)}| {line}")
        if places or (places is not None and is_target(said)):
            # On a line of its own: no value can end with words that look like it.
            out.print(f"  {' ' * len(name)}^ origin: {', '.join(places) or NONE}")
        for word, scripts in mixed_scripts(said):
            out.print(f"  ! {visible(name)}: the word {visible(word)!r} mixes alphabets ({', '.join(scripts)})")
        if acts(approval["category"]) and is_target(said) and (tools := from_tools_alone(places or ())):
            out.print(f"  ! {visible(name)}: only the output of {', '.join(tools)} named it, not the requester")
    if asked := approval.get("asked"):
        out.print("\nthe requester's message that led to it", style="bold")
        for line in asked.split("\n"):
            out.print(f"  > {visible(line)}")
    if not isinstance(value, dict):
        out.print(f"  {visible(approval['call']['arguments_text'] or 'not to be seen')}")
    out.print(f"\ndigest {approval['digest'][:16]}, revision {approval['revision']}")


def _show_warnings(approval: dict[str, Any]) -> None:
    """Say what whoever decides has to know first: it may have run before a restore, or such calls are stopped."""
    if approval["state"] == "pending" and approval.get("restored_at"):
        out.print("\n! restored from a backup after this was asked: see first whether it has run", style="bold")
    if approval["state"] != "pending" or approval["stopped"] is None:
        return
    out.print("\n! an administrator has stopped such calls: none is approved until that is lifted", style="bold")
    if approval["stopped"]:
        out.print(f"  {visible(approval['stopped'])}", markup=False)


def _show_staged(approval: dict[str, Any]) -> bool:
    """Print the entries of a commit; False where its workspace is not the newest of the conversation any more."""
    workspace = call("GET", f"/v1/conversations/{approval['conversation_id']}/workspace")
    entries = asked_entries(workspace, approval["call"]["arguments"] or {})
    if entries is None:
        return False
    out.print(f"\n{headline(workspace)}", style="bold")
    show_entries(entries)
    out.print(f"diffs: placet workspace diff {approval['conversation_id']}\n")
    return True
