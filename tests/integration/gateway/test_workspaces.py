"""Workspaces over HTTP, by the client and on the command line."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from placet.cli.approvals import app as approvals
from placet.cli.workspace import app as workspace
from placet.client import ApiError, AsyncClient
from placet.contracts.canonical import canonical_text
from placet.contracts.messages import DiscardChanges, ProposeChanges
from tests.integration.gateway.test_inbox_page import Form, signed_in
from tests.support.gateway import House, turn
from tests.support.staged_scene import (
    CONVERSATION,
    WORKSPACE,
    a_busy_turn,
    a_change,
    a_file,
    commit_arguments,
    propose,
    stage,
)


async def a_talk(house: House) -> None:
    """Let the conversation be there."""
    await house.append(CONVERSATION, turn("started"))


async def test_a_workspace_is_shown_with_its_entries_and_sums(house: House) -> None:
    """Each file counts once, whatever happened to it on the way; the diffs come one by one."""
    await a_talk(house)
    calls = stage(house, a_busy_turn(1))
    async with AsyncClient(house.gateways[0].url, house.key("chat")) as client:
        talk = client.conversation(CONVERSATION)
        shown = await talk.workspace()
        (changed,) = await talk.diff(calls[1])
    sums = (shown.created, shown.changed, shown.deleted, shown.calls)
    assert ((WORKSPACE, "open", (1, 2, 1, 2)), calls) == (
        (shown.id, shown.state, sums),
        [each.id for each in shown.entries],
    )
    assert ("change", {"to": "lin@example.org", "subject": "It is done"}) == (
        shown.entries[0].kind,
        shown.entries[-2].arguments,
    )
    assert (True, True) == ("-def total(lines):" in changed.diff, "+    return round(sum(lines), 2)" in changed.diff)


@pytest.mark.parametrize(("verb", "message"), [("propose", ProposeChanges), ("discard", DiscardChanges)])
async def test_a_person_has_it_decided_or_thrown_away(house: House, verb: str, message: type[Any]) -> None:
    """The agent is asked, and told who asked; where nothing waits, nobody is."""
    await a_talk(house)
    async with AsyncClient(house.gateways[0].url, house.key("chat")) as client:
        talk = client.conversation(CONVERSATION)
        with pytest.raises(ApiError) as nothing:
            await getattr(talk, verb)()
        stage(house, a_busy_turn(0))
        await getattr(talk, verb)()
        asked: Any = await asyncio.wait_for(house.posted.get(), 20)
        house.query("UPDATE read.workspaces SET state = 'committed', waiting = 0, ended_at = now()")
        with pytest.raises(ApiError) as over:
            await getattr(talk, verb)()
    assert (404, 409) == (nothing.value.status, over.value.status)
    assert (message, CONVERSATION, "person:ada") == (type(asked), asked.conversation_id, asked.by)


async def test_a_workspace_of_another_tenant_does_not_exist(house: House) -> None:
    """Nor its diffs; and a conversation's token sees its own conversation alone."""
    await a_talk(house)
    calls = stage(house, a_busy_turn(0))
    paths = [f"/v1/conversations/{CONVERSATION}/workspace{rest}" for rest in ("", f"/entries/{calls[0]}/diff")]
    async with house.client(house.key("chat", tenant="rival")) as rival:
        made = (await rival.post("/v1/conversations", json={})).json()
        async with house.client(made["token"]) as visitor:
            answers = [await each.get(path) for each in (rival, visitor) for path in paths]
    assert [404] * 4 == [each.status_code for each in answers]


async def test_what_is_over_is_not_proposed(house: House) -> None:
    """The sweeper has not thrown it away yet: nobody is asked about it any more, and whoever wants it is told why."""
    await a_talk(house)
    stage(house, a_busy_turn(0))
    house.query("UPDATE read.workspaces SET expires_at = now()")
    async with house.client(house.key("chat")) as client:
        answer = await client.post(f"/v1/conversations/{CONVERSATION}/workspace/propose")
    assert (409, "urn:placet:problem:time-over", True) == (
        answer.status_code,
        answer.json()["type"],
        house.posted.empty(),
    )


async def test_a_commit_of_a_foreign_workspace_shows_nothing_of_it(house: House) -> None:
    """Arguments that name another conversation's workspace lead to no entry of it."""
    calls = stage(house, a_busy_turn(0), conversation_id="another")
    row = propose(house, calls)
    async with house.client(house.key("decide")) as client:
        page = (await client.get(f"/inbox/{row['approval_id']}", headers={"accept": "text/html"})).text
        left_out = {"decision": "edit", "digest": row["digest"], "leave_out": [calls[0]]}
        answer = await client.post(f"/v1/approvals/{row['approval_id']}/decisions", json=left_out)
    assert (False, 400) == ("src/total.py" in page, answer.status_code)


async def test_entries_are_left_out_over_http(house: House) -> None:
    """The gateway makes the arguments: what shares a key goes along, and the tree's digest is that of the rest."""
    calls = stage(house, a_busy_turn(1))
    row = propose(house, calls)
    path = f"/v1/approvals/{row['approval_id']}/decisions"
    body = {"decision": "edit", "digest": row["digest"]}
    async with house.client(house.key("decide")) as client:
        strange = await client.post(path, json=body | {"leave_out": ["nothing"]})
        everything = await client.post(path, json=body | {"leave_out": calls})
        other_verb = await client.post(path, json=body | {"decision": "approve", "leave_out": calls[:1]})
        nothing = await client.post(path, json=body | {"leave_out": []})
        stale = await client.post(path, json=body | {"leave_out": [calls[2]], "digest": "0" * 64})
        answer = await client.post(path, json=body | {"leave_out": [calls[2]]})
    assert (400, "This edit changes nothing.") == (nothing.status_code, nothing.json()["title"])
    assert "" == house.approvers.claims.pop(0).arguments
    assert 409 == stale.status_code
    kinds = [each.json()["type"].rpartition(":")[2] for each in (strange, everything, other_verb)]
    assert (["no-such-entry", "nothing-left", "invalid-request"], 200) == (kinds, answer.status_code)
    expected = canonical_text(commit_arguments([calls[0], *calls[3:]]))
    assert [expected] == [claims.arguments for claims in house.approvers.claims]


async def test_an_edit_that_would_lose_everything_is_refused(house: House) -> None:
    """Another digest, another order, a torn change, a foreign entry: each is a 400 on every way, nothing is sent."""
    calls = stage(house, a_busy_turn(1))
    row = propose(house, calls)
    path = f"/v1/approvals/{row['approval_id']}/decisions"
    good = commit_arguments(calls)
    wrong = [
        good | {"tree_digest": "0" * 64},
        commit_arguments([calls[1], calls[0], *calls[2:]]),
        commit_arguments([each for each in calls if each != calls[2]]),
        commit_arguments([*calls, "foreign"]),
        good | {"workspace_id": "another"},
        {"entries": calls[:1]},
    ]
    path_of_page = f"/inbox/{row['approval_id']}"
    typed = {"decision": "edit", "arguments": canonical_text(wrong[0])}
    async with house.client(house.key("decide")) as client, signed_in(house, "ada") as browser:
        bodies = [{"decision": "edit", "digest": row["digest"], "arguments": each} for each in wrong]
        answers = [await client.post(path, json=body) for body in bodies]
        fields = Form(path_of_page, (await browser.get(path_of_page)).text).fields
        page = await browser.post(path_of_page, data=fields | typed)
    kinds = [each.json()["type"].rpartition(":")[2] for each in answers]
    expected = ["another-tree", "another-tree", "torn-change", "no-such-entry", "invalid-decision", "invalid-decision"]
    assert (expected, 400) == (kinds, page.status_code)
    assert [] == house.approvers.claims


async def run(house: House, app: Any, *arguments: str) -> Result:
    """Run a command as ada, beside the gateway."""
    environment = {"PLACET_URL": house.gateways[0].url, "PLACET_KEY": house.key("chat", "decide")}
    return await asyncio.to_thread(CliRunner().invoke, app, list(arguments), env=environment)


async def test_the_terminal_shows_diffs_and_decides(house: House) -> None:
    """Entries and sums, a diff, leaving one out, and asking for the decision."""
    await a_talk(house)
    entries = [a_change(a_file("src/a\x1b[2Jb.py", base="one\n", after="two\n")), *a_busy_turn(0)]
    calls = stage(house, entries)
    row = propose(house, calls)
    shown = await run(house, workspace, "show", CONVERSATION)
    diff = await run(house, workspace, "diff", CONVERSATION, calls[0])
    card = await run(house, approvals, "show", row["approval_id"])
    left = await run(house, approvals, "approve", row["approval_id"], "--leave-out", calls[-1])
    as_json = await run(house, workspace, "propose", CONVERSATION, "--json")
    assert [0] * 5 == [each.exit_code for each in (shown, diff, card, left, as_json)]
    assert "3 changed, 1 deleted, 2 calls" in shown.stdout
    assert (True, True, False) == (
        "-one" in diff.stdout,
        "+two" in diff.stdout,
        "\x1b[2J" in diff.stdout + shown.stdout,
    )
    assert "3 changed, 1 deleted, 2 calls" in card.stdout
    assert [canonical_text(commit_arguments(calls[:-1]))] == [claims.arguments for claims in house.approvers.claims]
    assert "propose" == json.loads(as_json.stdout)["asked"]
