"""Policy and workspaces on real PostgreSQL: permits to stage, and commits of what this conversation has staged."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from placet.contracts.canonical import canonical_text
from placet.contracts.ids import call_id
from placet.contracts.messages import (
    ApprovalRequested,
    CallApproved,
    EditJudged,
    EditProposed,
    Message,
    StagedCallPermitted,
    StagedCallsDropped,
    ToolCall,
    ToolCallPermitted,
    ToolCallProposed,
    ToolCallRefused,
    WorkspaceBase,
)
from placet.contracts.messages.tool_calls import Edited
from placet.contracts.permit import digest_of, issue_permit, verify_permit
from placet.contracts.signed import signed, verify_signed
from placet.contracts.signing import Signer, Verifier, load_signer
from placet.domain.house_tools import COMMIT_SPEC
from placet.policy.rulebook import load_rulebook
from placet.policy.rules import Rulebook
from placet.policy.service import build
from placet.policy.settings import PolicySettings
from tests.builders import NOON, a_call
from tests.support.house import Replica, a_replica
from tests.support.policy_builders import a_proposal

RULEBOOK = """\
permit_expires_after_seconds: 120
tools:
  write:
    description: Write.
    category: unsafe_write
    stage: "packs:files"
    pool: files
    parameters: &parameters {type: object, properties: {amount: {type: number}}}
  book: {description: Book., category: unsafe_api, pool: rooms, parameters: *parameters}
  look: {description: Look., category: safe_read, pool: rooms, parameters: *parameters}
rules:
  - name: bookings
    match: {tool: book, agent: default}
    effect: stage
    reason: They wait together.
    stage: {on_failure: go_on}
    approval: {approvers: [requester]}
  - name: free-bookings
    match: {tool: book, agent: free}
    effect: stage
    reason: Nobody need be asked.
  - name: one-a-day
    match: {tool: book, agent: counted}
    effect: stage
    reason: One of them a day.
    limits: [{count: 1, per: tenant, within: 1d}]
  - name: free-commits
    match: {tool: commit_changes, agent: free}
    effect: allow
    reason: Nobody need be asked.
"""
TREE = "b" * 64


@pytest.fixture(scope="module")
def own_settings(settings: PolicySettings, tmp_path_factory: pytest.TempPathFactory) -> PolicySettings:
    """Settings with a rulebook that stages."""
    path: Path = tmp_path_factory.mktemp("staging") / "rulebook.yaml"
    path.write_text(RULEBOOK)
    return PolicySettings(keys=settings.keys, rulebook=path)


@pytest.fixture
def rulebook(own_settings: PolicySettings) -> Rulebook:
    """What policy judges by."""
    return load_rulebook(own_settings.rulebook)


@pytest.fixture
async def replica(policy_url: str, own_settings: PolicySettings) -> AsyncIterator[Replica]:
    """A policy on an empty database."""
    async with a_replica("policy", policy_url, partial(build, own_settings), keys=own_settings.keys) as one:
        await one.empty_tables()
        await one.execute('DELETE FROM "read".api_keys')
        yield one


async def staged(replica: Replica, rulebook: Rulebook, tool: str = "book", **changes: Any) -> ToolCall:
    """Have policy let a call be staged; return it."""
    proposed = a_proposal(rulebook, tool, **changes)
    (permitted,) = await replica.send(proposed)
    assert isinstance(permitted, ToolCallPermitted)
    assert permitted.plan is not None
    return proposed.call


def a_commit(entries: Sequence[ToolCall], **changes: Any) -> ToolCallProposed:
    """Return the agent's proposal to commit entries."""
    arguments = {"workspace_id": "w1", "tree_digest": TREE, "entries": [each.call_id for each in entries]}
    fields = {"tool": COMMIT_SPEC.name, "schema_digest": COMMIT_SPEC.schema_digest, "arguments": arguments}
    call = a_call(**(fields | changes))
    return ToolCallProposed(tenant=call.tenant, call=call)


def today(rules: str, then: str = RULEBOOK) -> str:
    """Return the rulebook with more rules before its own."""
    return then.replace("rules:\n", f"rules:\n  - {rules}\n")


def replicas_of(
    settings: PolicySettings, policy_url: str, folder: Path, *texts: str
) -> Sequence[AbstractAsyncContextManager[Replica]]:
    """Return policies by these rulebooks, which are kept in `folder` by their numbers."""
    replicas = []
    for number, text in enumerate(texts):
        (path := folder / f"{number}.yaml").write_text(text)
        by = partial(build, settings.model_copy(update={"rulebook": path}))
        replicas.append(a_replica("policy", policy_url, by, keys=settings.keys))
    return replicas


def an_approved(commit: ToolCall, approver: Signer) -> CallApproved:
    """Return what approval sends of a commit that people said yes to."""
    now = datetime.now(UTC)
    permit = issue_permit(
        approver, commit, pool="rooms", reference="approval-1", now=now, lifetime_seconds=60, mode="commit"
    )
    return CallApproved(tenant=commit.tenant, pool="rooms", call=commit, permit=permit, rule="default:commit_changes")


async def test_a_staged_call_gets_a_permit_to_stage_and_nothing_else(
    replica: Replica, rulebook: Rulebook, verifier: Verifier
) -> None:
    """Its plan goes with it, and the verdict keeps what its own permit will have to say."""
    proposed = a_proposal(rulebook, "book")
    (permitted,) = await replica.send(proposed)
    assert isinstance(permitted, ToolCallPermitted)
    permit = verify_permit(verifier, permitted.permit, proposed.call, pool="rooms", modes=("stage",))
    row = (await replica.rows("SELECT effect, rule, terms FROM policy.verdicts"))[0]
    assert ("stage", "go_on", "stage", "bookings") == (
        permit.mode,
        permitted.plan and permitted.plan.on_failure,
        row["effect"],
        row["rule"],
    )
    assert '"pool":"rooms","message_id":"message-1","changes":false' in row["terms"]


def an_answer(rulebook: Rulebook, *tools: str) -> list[ToolCallProposed]:
    """Return the calls of one answer of the model as the agent proposes them."""
    found: list[ToolCallProposed] = []
    for position, tool in enumerate(tools):
        named = a_proposal(rulebook, tool, turn_id="turn-1", step=1, position=position)
        call = named.call.model_copy(update={"call_id": call_id("turn-1", 1, position)})
        found.append(named.model_copy(update={"call": call, "earlier": list(range(position))}))
    return found


def waits_for(verifier: Verifier, *sent: Any) -> dict[int, list[int]]:
    """Return of permits to stage which calls of their answer they come after, by places."""
    places = {call_id("turn-1", 1, position): position for position in range(9)}
    return {
        each.call.position: [
            places[name]
            for name in verify_permit(verifier, each.permit, each.call, pool="rooms", modes=("stage",)).after
        ]
        for each in sent
        if isinstance(each, ToolCallPermitted) and each.plan is not None
    }


async def test_staged_calls_of_one_answer_keep_its_order(
    replica: Replica, rulebook: Rulebook, verifier: Verifier
) -> None:
    """Each is staged after the nearest before it that is staged; what runs, waits or is denied is passed over."""
    sent = await replica.send(*an_answer(rulebook, "book", "look", "book", "book"))
    assert {0: [], 2: [0], 3: [2]} == waits_for(verifier, *sent)


async def test_the_order_holds_over_envelopes_that_come_in_any_order(
    replica: Replica, rulebook: Rulebook, verifier: Verifier
) -> None:
    """What stands before a call in another envelope is waited for by name: nobody knows yet what becomes of it."""
    answer = an_answer(rulebook, "book", "look", "book", "book")
    sent = [message for each in reversed(answer) for message in await replica.send(each)]
    assert {0: [], 2: [0, 1], 3: [0, 1, 2]} == waits_for(verifier, *sent)


async def test_the_room_of_what_never_took_effect_comes_back(replica: Replica, rulebook: Rulebook) -> None:
    """As soon as the agent says so, for its tenant alone; until then what is staged counts."""
    entry = await staged(replica, rulebook, agent="counted")
    dropped = StagedCallsDropped(
        tenant="globex", conversation_id=entry.conversation_id, call_ids=[entry.call_id], outcome="left_out"
    )
    sent = []
    for tenant in ("globex", "acme"):
        await replica.send(dropped.model_copy(update={"tenant": tenant}))
        sent += await replica.send(a_proposal(rulebook, "book", agent="counted"))
    assert [ApprovalRequested, ToolCallPermitted] == [type(each) for each in sent]
    kept = await replica.rows("SELECT call_id, released_as FROM policy.reservations WHERE released_at IS NOT NULL")
    assert [{"call_id": entry.call_id, "released_as": "left_out"}] == kept


async def test_a_commit_asks_people_with_every_staged_call(
    replica: Replica, rulebook: Rulebook, verifier: Verifier
) -> None:
    """To the pool of the changes; of the calls each what its permit must say, in the order of the workspace."""
    entries = [await staged(replica, rulebook, tool) for tool in ("book", "write", "book")]
    proposed = a_commit(entries)
    (held,) = await replica.send(proposed)
    assert isinstance(held, ApprovalRequested)
    verify_signed(verifier, held, None)
    assert ("files", "Apply 1 change and run 2 calls") == (held.pool, held.summary)
    assert (["requester"], True) == (held.approval.approvers, held.approval.edits)
    assert [(entries[at].call_id, entries[at].digest, "rooms", "go_on") for at in (0, 2)] == [
        (each.call_id, each.digest, each.pool, each.on_failure) for each in held.staged
    ]


@pytest.mark.parametrize("place", [{"tenant": "globex"}, {"conversation_id": "conversation-2"}])
async def test_nobody_commits_what_another_staged(replica: Replica, rulebook: Rulebook, place: dict[str, str]) -> None:
    """Another tenant's or conversation's entry is none here, and people are not even asked."""
    mine, others = await staged(replica, rulebook), await staged(replica, rulebook, **place)
    (refused,) = await replica.send(a_commit([mine, others]))
    assert isinstance(refused, ToolCallRefused)
    assert f"call {others.call_id} was never staged in this conversation" in refused.reason


async def test_people_are_asked_as_long_as_the_work_is_there(replica: Replica, rulebook: Rulebook) -> None:
    """A rule keeps staged work for a day, and most of it is over: what is left is the deadline."""
    entry = await staged(replica, rulebook)
    await replica.execute("UPDATE policy.verdicts SET judged_at = judged_at - interval '86000 s'")
    (held,) = await replica.send(a_commit([entry]))
    assert isinstance(held, ApprovalRequested)
    assert 300 < held.approval.expires_after_seconds <= 400


async def test_a_rule_that_lets_a_commit_through_permits_its_calls_in_order(
    replica: Replica, rulebook: Rulebook, verifier: Verifier
) -> None:
    """Policy signs the commit's permit and one for each staged call, each after the one before it."""
    entries = [await staged(replica, rulebook, agent="free") for _ in range(2)]
    proposed = a_commit(entries, agent="free")
    sent = await replica.send(proposed)
    commit, *calls = sent
    assert isinstance(commit, ToolCallPermitted)
    assert "commit" == verify_permit(verifier, commit.permit, proposed.call, pool="rooms", modes=("commit",)).mode
    permits = [
        verify_permit(verifier, each.permit, entry, pool="rooms", modes=("staged_call",))
        for each, entry in zip(calls, entries, strict=True)
        if isinstance(each, StagedCallPermitted)
    ]
    assert [([proposed.call.call_id], "stop"), ([entries[0].call_id], "stop")] == [
        (permit.after, permit.on_failure) for permit in permits
    ]
    assert {proposed.call.call_id} == {permit.commit for permit in permits}


async def test_entries_are_left_out_with_policys_word(
    replica: Replica, rulebook: Rulebook, own_settings: PolicySettings, verifier: Verifier
) -> None:
    """An edit of a held commit is judged by what was staged, and answered under policy's signature."""
    entries = [await staged(replica, rulebook) for _ in range(2)]
    proposed = a_commit(entries)
    (held,) = await replica.send(proposed)
    assert isinstance(held, ApprovalRequested)
    kept = canonical_text({"workspace_id": "w1", "tree_digest": "c" * 64, "entries": [entries[1].call_id]})
    edited = Edited(person="person:ada", proposed=proposed.call.arguments, proposed_digest=proposed.call.digest)
    call = proposed.call.model_copy(update={"arguments": kept, "shown_arguments": "", "edited": edited})
    call = call.model_copy(update={"digest": digest_of(call)})
    asked = EditProposed(tenant="acme", edit_id="e1", approval_id="a1", rule=held.rule, call=call)
    (judged,) = await replica.send(signed(asked, load_signer(own_settings.keys, "approval"), NOON))
    assert isinstance(judged, EditJudged)
    verify_signed(verifier, judged, None)
    assert (True, "Run 1 call", kept) == (judged.accepted, judged.summary, judged.shown_arguments)


async def test_what_is_staged_is_judged_again_with_its_commit(
    replica: Replica, rulebook: Rulebook, approver: Signer
) -> None:
    """People's yes under another rulebook is handed on, until an entry's tool is another by now: that one is named."""
    entries = [await staged(replica, rulebook) for _ in range(3)]
    call = a_commit(entries).call
    approved = an_approved(call, approver)
    (handed_on,) = await replica.send(approved)
    changed = entries[1].call_id
    another = "UPDATE policy.verdicts SET schema_digest = repeat('0', 64) WHERE call_id = :changed"
    await replica.execute(another, changed=changed)
    (refused,) = await replica.send(approved)
    assert isinstance(refused, ToolCallRefused)
    assert (ToolCallPermitted, (changed,), True) == (
        type(handed_on),
        refused.entries,
        "it has changed since" in refused.reason,
    )


@pytest.mark.parametrize(
    ("agent", "approval", "answer"),
    [
        ("default", "", ToolCallRefused),
        ("free", "", ToolCallRefused),
        ("default", ", judged_again: false", ApprovalRequested),
    ],
)
async def test_a_commit_is_judged_by_the_rules_of_its_proposal(
    own_settings: PolicySettings, policy_url: str, tmp_path: Path, agent: str, approval: str, answer: type[Message]
) -> None:
    """What a rule denies since it was staged is named and goes; unless the rule that staged it keeps its word."""
    closed = '{name: closed, match: {tool: book}, when: "size(arguments) < 9", effect: deny, reason: It is late.}'
    then = RULEBOOK.replace("{approvers: [requester]}", f"{{approvers: [requester]{approval}}}")
    before, after = replicas_of(own_settings, policy_url, tmp_path, then, today(closed, then))
    async with before as replica:
        rulebook = load_rulebook(tmp_path / "0.yaml")
        entries = [await staged(replica, rulebook, tool, agent=agent) for tool in ("book", "write")]
    async with after as replica:
        (sent,) = await replica.send(a_commit(entries, agent=agent))
    gone = sent.entries if isinstance(sent, ToolCallRefused) else ()
    assert (answer, [entries[0].call_id] if answer is ToolCallRefused else []) == (type(sent), list(gone))


_THIRD = (
    "{name: third, match: {tool: book}, when: history.calls_last_day >= 2, effect: deny, reason: r, model_reason: m}"
)
_NO_ROOM = "{name: none, match: {tool: book}, effect: stage, reason: r, limits: [{count: 9, per: tenant, within: 1d}]}"
_CLOSED = '{name: closed, match: {tool: book}, when: "size(arguments) < 9", effect: deny, reason: r, model_reason: m}'
_FEW = "{name: few, match: {tool: book}, when: history.requester_calls_last_hour > 9, effect: stage, reason: r}"


@pytest.mark.parametrize(
    ("rules", "gone"),
    [([_THIRD], [2]), ([_FEW, _CLOSED], [0, 1, 2]), ([_NO_ROOM, _CLOSED], [0, 1, 2]), ([_FEW], [])],
)
@pytest.mark.parametrize("place", ["conversation-1", "job"])
async def test_what_is_staged_is_judged_by_all_that_the_rules_of_today_ask(
    own_settings: PolicySettings,
    policy_url: str,
    tmp_path: Path,
    approver: Signer,
    rules: list[str],
    gone: list[int],
    place: str,
) -> None:
    """Nothing was counted then, and a limit that is not an entry's own hides no denial below it."""
    before, after = replicas_of(own_settings, policy_url, tmp_path, RULEBOOK, today("\n  - ".join(rules)))
    base: dict[str, Any] = {"base": WorkspaceBase(conversation_id="job", entries=0)} if place == "job" else {}
    async with before as replica:
        await replica.empty_tables()
        rulebook = load_rulebook(tmp_path / "0.yaml")
        entries = [await staged(replica, rulebook, **base) for _ in range(3)]
    async with after as replica:
        commit = a_commit(entries, conversation_id=(base and "job") or entries[0].conversation_id)
        (approved,) = await replica.send(an_approved(commit.call, approver))
        (proposed,) = await replica.send(commit)
    told = [list(each.entries) if isinstance(each, ToolCallRefused) else [] for each in (approved, proposed)]
    assert [[entries[at].call_id for at in gone]] * 2 == told


async def test_what_denies_the_commit_itself_takes_no_entry(
    own_settings: PolicySettings, policy_url: str, tmp_path: Path
) -> None:
    """Earlier calls are counted before anybody asks whether it is denied, so nothing else is called the reason."""
    late = "{name: late, match: {tool: commit_changes}, when: history.calls_last_day < 1, effect: deny, reason: r}"
    before, after = replicas_of(own_settings, policy_url, tmp_path, RULEBOOK, today(f"{late}\n  - {_CLOSED}"))
    async with before as replica:
        entries = [await staged(replica, load_rulebook(tmp_path / "0.yaml"))]
    async with after as replica:
        (refused,) = await replica.send(a_commit(entries))
    assert isinstance(refused, ToolCallRefused)
    assert (False, "The call did not run: a rule does not allow it.") == (bool(refused.entries), refused.reason)


async def test_a_commit_does_not_run_unasked_with_what_cannot_be_judged(
    own_settings: PolicySettings, policy_url: str, tmp_path: Path, approver: Signer
) -> None:
    """A rule lets commits through, and one of today fails on an entry: people decide; their yes stands then."""
    when = "\"conversation.labels.vip == 'yes'\""
    failing = f"{{name: vip, match: {{tool: book}}, when: {when}, effect: deny, reason: r, model_reason: m}}"
    before, after = replicas_of(own_settings, policy_url, tmp_path, RULEBOOK, today(failing))
    async with before as replica:
        entries = [await staged(replica, load_rulebook(tmp_path / "0.yaml"), agent="free")]
    async with after as replica:
        commit = a_commit(entries, agent="free")
        (held,) = await replica.send(commit)
        (handed_on,) = await replica.send(an_approved(commit.call, approver))
    assert isinstance(held, ApprovalRequested)
    assert ("free-commits", ["operators"], ToolCallPermitted) == (held.rule, held.approval.approvers, type(handed_on))
    assert "Rule 'vip' could not be evaluated" in held.reason


async def test_what_was_left_out_goes_with_what_is_denied_by_now(
    replica: Replica, rulebook: Rulebook, approver: Signer
) -> None:
    """People were told that it is thrown away: it is not proposed again with the rest."""
    entries = [await staged(replica, rulebook) for _ in range(3)]
    proposed = a_commit(entries).call
    edited = Edited(person="person:ada", proposed=proposed.arguments, proposed_digest=proposed.digest)
    call = a_commit(entries[1:]).call.model_copy(update={"edited": edited, "call_id": proposed.call_id})
    approved = an_approved(call, approver)
    another = "UPDATE policy.verdicts SET schema_digest = repeat('0', 64) WHERE call_id = :changed"
    await replica.execute(another, changed=entries[1].call_id)
    (refused,) = await replica.send(approved)
    assert isinstance(refused, ToolCallRefused)
    assert (entries[1].call_id, entries[0].call_id) == refused.entries


async def test_a_job_commits_what_its_attempts_staged_and_they_do_not(replica: Replica, rulebook: Rulebook) -> None:
    """Where the workspace of a call is committed is said when it is staged; no other conversation commits it."""
    base = WorkspaceBase(conversation_id="job", entries=0)
    places = ("attempt-1", "attempt-2")
    calls = [await staged(replica, rulebook, conversation_id=each, base=base) for each in places]
    (own,) = await replica.send(a_commit(calls[:1], conversation_id="attempt-1"))
    assert isinstance(own, ToolCallRefused)
    (other,) = await replica.send(a_commit(calls, conversation_id="job-2"))
    assert isinstance(other, ToolCallRefused)
    (held,) = await replica.send(a_commit(calls, conversation_id="job"))
    assert isinstance(held, ApprovalRequested)
