"""Grants on real PostgreSQL: who may have one, what it lets through, how often, and what ends it.

`PLACET_TEST_RACE_ROUNDS` makes the races longer.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from placet.contracts.canonical import canonical_text
from placet.contracts.messages import ApprovalRequested, GrantAsked, ToolCallPermitted, ToolCallProposed
from placet.contracts.permit import verify_permit
from placet.contracts.signing import Signer, Verifier
from placet.policy.rules import CallFacts, Rulebook
from placet.policy.rules.grants import entry_digest
from placet.policy.store.grants import CONSIDERED_MAX, find_grants, use_grant
from tests.support.approval_keys import add_keys, revoke
from tests.support.house import Replica
from tests.support.policy_builders import a_grant_request, a_proposal, a_refusal, a_revocation, kinds
from tests.support.races import LONG_ENOUGH, ROUNDS

pytestmark = LONG_ENOUGH
Replicas = tuple[Replica, Replica]
_CHANGE = "UPDATE policy.grants SET "
PERMITTED, HELD = "ToolCallPermitted", "ApprovalRequested"


def a_shipment(rulebook: Rulebook, amount: float = 100, to: str = "bob", **changes: Any) -> ToolCallProposed:
    """Return the proposal to ship something."""
    return a_proposal(rulebook, "ship", arguments={"amount": amount, "to": to}, **changes)


def an_asked_grant(rulebook: Rulebook, signer: Signer, **changes: Any) -> GrantAsked:
    """Return what approval asks after somebody approved to ship 100 to bob."""
    return a_grant_request(a_shipment(rulebook).call, signer, **changes)


async def events(replica: Replica) -> list[tuple[str, str, str | None]]:
    """Return event, actor and reason of everything that happened to grants."""
    rows = await replica.rows("SELECT event, actor, detail FROM policy.history WHERE machine = 'grant' ORDER BY id")
    return [(row["event"], row["actor"], row["detail"].get("reason")) for row in rows]


async def uses_left(replica: Replica) -> list[int]:
    """Return what all grants have left."""
    return [row["uses_left"] for row in await replica.rows("SELECT uses_left FROM policy.grants ORDER BY grant_id")]


def permitted_calls(replica: Replica) -> list[str]:
    """Return the ids of calls that this replica permitted."""
    return [each.call.call_id for each in replica.all_sent(ToolCallPermitted)]


def held_calls(replica: Replica) -> list[str]:
    """Return the ids of calls that this replica held."""
    return [each.call.call_id for each in replica.all_sent(ApprovalRequested)]


async def test_a_granted_call_is_permitted_and_names_the_grant(
    limited_replica: Replica, limited: Rulebook, approver: Signer, verifier: Verifier
) -> None:
    """Policy signs the permit; verdict and history say which grant let the call through, and whose it is."""
    asked = an_asked_grant(limited, approver)
    await limited_replica.send(asked)
    proposed = a_shipment(limited, 40, conversation_id="conversation-2")
    permitted = (await limited_replica.send(proposed))[0]
    assert isinstance(permitted, ToolCallPermitted)
    permit = verify_permit(verifier, permitted.permit, proposed.call, pool="default")
    row = (await limited_replica.rows("SELECT * FROM policy.verdicts"))[0]
    assert ("policy", row["verdict_id"], f"grant:{asked.grant_id}") == (permit.iss, permit.reference, row["rule"])
    assert ("allow", True, True) == (row["effect"], "person:ada" in row["reason"], "'shipping'" in row["reason"])
    told = await limited_replica.rows(
        "SELECT subject_id, actor, detail FROM policy.history WHERE call_id = :call_id", call_id=proposed.call.call_id
    )
    detail = {"rule": "shipping", "uses_left": 2}
    assert [{"subject_id": asked.grant_id, "actor": "person:ada", "detail": detail}] == told


@pytest.mark.parametrize(
    "changes",
    [
        {"amount": 100.01},
        {"amount": -1},
        {"to": "eve"},
        {"tenant": "rival"},
        {"agent": "other"},
    ],
    ids=lambda changes: next(iter(changes)) + str(next(iter(changes.values()))),
)
async def test_a_call_beyond_the_grant_is_held(
    limited_replica: Replica, limited: Rulebook, approver: Signer, changes: dict[str, Any]
) -> None:
    """More than was approved, below zero, another argument, tenant or agent: people are asked, and no use is lost."""
    await limited_replica.send(an_asked_grant(limited, approver))
    assert [HELD] == kinds(await limited_replica.send(a_shipment(limited, **changes)))
    assert [3] == await uses_left(limited_replica)


@pytest.mark.parametrize(
    ("scope", "here", "elsewhere"), [("conversation", PERMITTED, HELD), ("agent", PERMITTED, PERMITTED)]
)
async def test_a_grant_holds_within_its_scope(
    limited_replica: Replica, limited: Rulebook, approver: Signer, scope: str, here: str, elsewhere: str
) -> None:
    """For one conversation, or for all conversations of the agent."""
    await limited_replica.send(an_asked_grant(limited, approver, scope=scope))
    sent = await limited_replica.send(a_shipment(limited))
    sent += await limited_replica.send(a_shipment(limited, conversation_id="conversation-2"))
    assert [here, elsewhere] == kinds(sent)


async def test_a_grant_is_used_up(limited_replica: Replica, limited: Rulebook, approver: Signer) -> None:
    """Three uses are three calls."""
    await limited_replica.send(an_asked_grant(limited, approver))
    sent = kinds(await limited_replica.send(*[a_shipment(limited) for _ in range(4)]))
    assert ([PERMITTED] * 3 + [HELD], [0]) == (sent, await uses_left(limited_replica))


@pytest.mark.parametrize(("kind", "left"), [("expired", 3), ("refused", 3), ("unknown", 2), ("staged", 2)])
async def test_a_use_comes_back_when_the_call_did_not_run(
    limited_replica: Replica, limited: Rulebook, approver: Signer, kind: str, left: int
) -> None:
    """Once, and only for ends that leave no effect behind."""
    await limited_replica.send(an_asked_grant(limited, approver))
    proposed = a_shipment(limited)
    await limited_replica.send(proposed)
    for _ in range(2):
        await limited_replica.send(a_refusal(proposed.call, kind))
    assert [left] == await uses_left(limited_replica)


async def test_a_grant_ends_with_the_key_that_it_was_given_with(
    limited_replica: Replica, limited: Rulebook, approver: Signer
) -> None:
    """Whoever is an operator by their key is none without it; a key that nobody knows covers nothing either."""
    await add_keys(limited_replica, "key-1")
    await limited_replica.send(an_asked_grant(limited, approver, key_id="unknown"))
    sent = await limited_replica.send(a_shipment(limited))
    await limited_replica.send(an_asked_grant(limited, approver, key_id="key-1"))
    sent += await limited_replica.send(a_shipment(limited))
    await revoke(limited_replica, "key-1")
    sent += await limited_replica.send(a_shipment(limited))
    assert [HELD, PERMITTED, HELD] == kinds(sent)


async def test_a_key_revoked_after_the_grant_was_found_stops_its_use(
    limited_replica: Replica, limited: Rulebook, approver: Signer
) -> None:
    """The use asks again under the grant's lock, and takes nothing."""
    await add_keys(limited_replica, "key-1")
    asked = an_asked_grant(limited, approver, key_id="key-1")
    await limited_replica.send(asked)
    await revoke(limited_replica, "key-1")
    async with limited_replica.units.begin() as work:
        used = await use_grant(work, asked.grant_id, "call-1")
    assert (None, [3]) == (used, await uses_left(limited_replica))


async def test_a_revoked_grant_covers_nothing(limited_replica: Replica, limited: Rulebook, approver: Signer) -> None:
    """Revoking is final, also against the same request sent again; the history names who did it."""
    asked = an_asked_grant(limited, approver)
    await limited_replica.send(asked)
    await limited_replica.send(a_revocation(asked.grant_id, tenant="rival"))
    assert [PERMITTED] == kinds(await limited_replica.send(a_shipment(limited)))
    for _ in range(2):
        await limited_replica.send(a_revocation(asked.grant_id, by="person:grace"))
    await limited_replica.send(asked)
    assert [HELD] == kinds(await limited_replica.send(a_shipment(limited)))
    assert [
        ("given", "person:ada", None),
        ("used", "person:ada", None),
        ("revoked", "person:grace", None),
    ] == await events(limited_replica)


async def test_the_history_says_where_a_grant_was_and_is(
    limited_replica: Replica, limited: Rulebook, approver: Signer
) -> None:
    """Its states are those of its machine: a use that comes back opens what is used up, and nothing that is over."""
    asked = an_asked_grant(limited, approver, uses=1)
    first, second = a_shipment(limited), a_shipment(limited)
    await limited_replica.send(asked)
    await limited_replica.send(first)
    await limited_replica.send(a_refusal(first.call))
    await limited_replica.send(second)
    await limited_replica.send(a_revocation(asked.grant_id))
    await limited_replica.send(a_refusal(second.call))
    assert [
        ("given", None, "active"),
        ("used", "active", "used_up"),
        ("returned", "used_up", "active"),
        ("used", "active", "used_up"),
        ("revoked", "used_up", "revoked"),
        ("returned", "revoked", "revoked"),
    ] == [
        (row["event"], row["from_state"], row["to_state"])
        for row in await limited_replica.rows(
            "SELECT event, from_state, to_state FROM policy.history WHERE machine = 'grant' ORDER BY id"
        )
    ]


async def test_a_use_comes_back_once(limited_replica: Replica, limited: Rulebook, approver: Signer) -> None:
    """However often it is told that its call did not run, a grant lets through no more calls than it was given for."""
    await limited_replica.send(an_asked_grant(limited, approver))
    first, second = a_shipment(limited), a_shipment(limited)
    await limited_replica.send(first)
    await limited_replica.send(second)
    for _ in range(2):
        await limited_replica.send(a_refusal(first.call))
    assert [2] == await uses_left(limited_replica)


async def test_another_tenant_returns_no_use(limited_replica: Replica, limited: Rulebook, approver: Signer) -> None:
    """What another tenant tells of a call by its id gives no use back; what its own tenant tells does."""
    await limited_replica.send(an_asked_grant(limited, approver))
    call = a_shipment(limited).call
    await limited_replica.send(ToolCallProposed(tenant=call.tenant, call=call))
    left = []
    for tenant in ("rival", "acme"):
        await limited_replica.send(a_refusal(call.model_copy(update={"tenant": tenant})))
        left += await uses_left(limited_replica)
    assert [2, 3] == left


async def test_an_expired_grant_covers_nothing(limited_replica: Replica, limited: Rulebook, approver: Signer) -> None:
    """The database's clock says when it is over."""
    await limited_replica.send(an_asked_grant(limited, approver))
    await limited_replica.execute(
        "UPDATE policy.grants SET given_at = given_at - interval '2 hours', expires_at = clock_timestamp()"
    )
    assert [HELD] == kinds(await limited_replica.send(a_shipment(limited)))


@pytest.mark.parametrize("change", [f"{name} = repeat('0', 64)" for name in ("schema_digest", "tool_digest", "rule")])
async def test_a_grant_for_another_tool_or_rule_covers_nothing(
    limited_replica: Replica, limited: Rulebook, approver: Signer, change: str
) -> None:
    """A changed schema, a changed entry of the tool or another rule: nobody has allowed that."""
    await limited_replica.send(an_asked_grant(limited, approver))
    await limited_replica.execute(_CHANGE + change)
    assert [HELD] == kinds(await limited_replica.send(a_shipment(limited)))


@pytest.mark.parametrize("to", ["bob", 'a NUL \0, a \\u0000 and a "'])
async def test_grants_of_other_arguments_hide_none(
    limited_replica: Replica, limited: Rulebook, approver: Signer, to: str
) -> None:
    """However many there are that end before the one that covers a call, as where each customer has one."""
    await limited_replica.send(a_grant_request(a_shipment(limited, to=to).call, approver))
    for other in range(CONSIDERED_MAX):
        soon = datetime.now(UTC) + timedelta(minutes=20)
        await limited_replica.send(a_grant_request(a_shipment(limited, to=f"{other}").call, approver, expires_at=soon))
    assert [PERMITTED] == kinds(await limited_replica.send(a_shipment(limited, 40, to)))


@pytest.mark.parametrize(
    ("bounds", "arguments", "found"),
    [
        ([], {"to": "bob", "order": {"total": 9}}, True),
        ([], {"to": "bob", "order": {"total": 8}}, False),
        (["order.total"], {"to": "bob", "order": {"total": 8}}, True),
        (["order.total"], {"to": "eve", "order": {"total": 8}}, False),
        (["order.total", "to=*.a=b"], {"to": "eve", "order": {}}, True),
        (["to"], {"to": "bob", "order": {"total": 9}, "more": None}, False),
    ],
)
async def test_grants_are_found_by_the_arguments_that_none_of_their_bounds_names(
    limited_replica: Replica,
    limited: Rulebook,
    approver: Signer,
    bounds: list[str],
    arguments: dict[str, Any],
    found: bool,  # noqa: FBT001
) -> None:
    """A bound may lie inside an argument or have a glob; what varies within it is compared afterwards."""
    await limited_replica.send(an_asked_grant(limited, approver))
    values = {"bounds": canonical_text(bounds), "arguments": '{"order":{"total":9.0},"to":"bob"}'}
    await limited_replica.execute(_CHANGE + "bounds = CAST(:bounds AS jsonb), arguments = :arguments", **values)
    call, spec = CallFacts.of(a_proposal(limited, "ship", arguments=arguments).call), limited.tools["ship"]
    async with limited_replica.units.begin() as work:
        assert found == bool(await find_grants(work, "shipping", call, spec, entry_digest(spec)))


async def test_a_grant_of_more_uses_than_the_rule_gives_now_covers_nothing(
    limited_replica: Replica, limited: Rulebook, approver: Signer
) -> None:
    """What it was given for counts, not what is left: its author may take uses back as they may anything else."""
    await limited_replica.send(an_asked_grant(limited, approver))
    await limited_replica.execute(_CHANGE + "uses = 4")
    assert [HELD] == kinds(await limited_replica.send(a_shipment(limited)))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"scope": "tenant"}, "the scope 'tenant' is wider than the rule's 'agent'"),
        ({"bounds": ["amount", "to"]}, "the rule does not let to vary"),
        ({"uses": 4}, "4 uses are more than the rule's 3"),
        ({"expires_at": datetime.now(UTC) + timedelta(hours=3)}, "it would not end within the rule's 3600 seconds"),
        ({"expires_at": datetime.now(UTC) - timedelta(hours=3)}, "it would not end within the rule's 3600 seconds"),
        ({"rule": "payments"}, "the rule 'payments' lets nobody grant anything"),
        ({"rule": "vanished"}, "the rule 'vanished' lets nobody grant anything"),
        ({"owner": "visitor:1"}, "somebody without a key can allow things in their own conversation only"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_more_than_the_rule_lets_people_grant_is_refused(
    limited_replica: Replica, limited: Rulebook, approver: Signer, changes: dict[str, Any], reason: str
) -> None:
    """Policy checks anew what approval asked; the history says why there is no grant."""
    await limited_replica.send(an_asked_grant(limited, approver, **changes))
    expected = [("refused", changes.get("owner", "person:ada"), reason)]
    assert (expected, []) == (await events(limited_replica), await uses_left(limited_replica))


async def test_a_changed_tool_cannot_be_granted(limited_replica: Replica, limited: Rulebook, approver: Signer) -> None:
    """The approved call was one of another schema."""
    call = a_shipment(limited, schema_digest="c" * 64).call
    await limited_replica.send(a_grant_request(call, approver))
    assert [("refused", "person:ada", "the tool 'ship' is gone or has changed")] == await events(limited_replica)


@pytest.mark.parametrize("change", ["unsigned", "uses", "owner", "call", "foreign"])
async def test_a_forged_request_is_an_attack(
    limited_replica: Replica, limited: Rulebook, approver: Signer, change: str
) -> None:
    """Unsigned, or changed after it was signed: a dead letter and an alert."""
    asked = an_asked_grant(limited, approver)
    forged: dict[str, dict[str, Any]] = {
        "unsigned": {"signature": "none"},
        "uses": {"uses": 2},
        "owner": {"owner": "person:eve"},
        "call": {"call": a_shipment(limited, 99).call},
        "foreign": {"tenant": "rival"},
    }
    assert [] == await limited_replica.send(asked.model_copy(update=forged[change]))
    assert [True] == [reason.startswith("security:") for reason in limited_replica.dead]
    assert ([], []) == (await events(limited_replica), await uses_left(limited_replica))


@pytest.mark.parametrize("change", [{"digest": "0" * 64}, {"tenant": "rival"}], ids=["digest", "tenant"])
async def test_a_request_for_a_call_that_is_not_what_its_digest_says_is_an_attack(
    limited_replica: Replica, limited: Rulebook, approver: Signer, change: dict[str, str]
) -> None:
    """Whoever signed it: what people were shown is known by the digest, and it is of one tenant."""
    call = a_shipment(limited).call.model_copy(update=change)
    sent = await limited_replica.send(a_grant_request(call, approver, tenant="acme"))
    assert ([], [True]) == (sent, [reason.startswith("security: the digest") for reason in limited_replica.dead])
    assert ([], []) == (await events(limited_replica), await uses_left(limited_replica))


async def test_one_approval_gives_one_grant(limited_replica: Replica, limited: Rulebook, approver: Signer) -> None:
    """A second request of the same approval, under another id, gives nothing."""
    first, second = (an_asked_grant(limited, approver, approval_id="approval-1") for _ in range(2))
    await limited_replica.send(first)
    await limited_replica.send(second)
    assert [3] == await uses_left(limited_replica)


async def test_what_is_redacted_never_shows(limited_replica: Replica, limited: Rulebook, approver: Signer) -> None:
    """The stored arguments that people may see are masked like on the card."""
    await limited_replica.send(an_asked_grant(limited, approver))
    rows = await limited_replica.rows("SELECT shown_arguments FROM policy.grants")
    assert [{"shown_arguments": '{"amount":100,"to":"•••"}'}] == rows


async def test_many_calls_at_once_use_a_grant_exactly_as_often_as_it_may(
    limited_replicas: Replicas, limited: Rulebook, approver: Signer
) -> None:
    """Ten calls race through two replicas for three uses."""
    for _ in range(max(1, ROUNDS // 20)):
        await limited_replicas[0].execute("DELETE FROM policy.grant_uses")
        await limited_replicas[0].execute("DELETE FROM policy.grants")
        await limited_replicas[0].send(an_asked_grant(limited, approver))
        proposals = [a_shipment(limited) for _ in range(10)]
        await asyncio.gather(*(limited_replicas[turn % 2].send(each) for turn, each in enumerate(proposals)))
        wanted = {proposed.call.call_id for proposed in proposals}
        permitted, held = [
            [each for replica in limited_replicas for each in ended(replica) if each in wanted]
            for ended in (permitted_calls, held_calls)
        ]
        assert (3, 7, [0]) == (len(permitted), len(held), await uses_left(limited_replicas[0]))


@pytest.mark.parametrize(
    "change",
    [
        "given_at = given_at - interval '2 hours', expires_at = clock_timestamp()",
        "revoked_at = clock_timestamp(), revoked_by = 'person:ada'",
        "uses_left = 0",
    ],
)
async def test_a_grant_that_ends_while_a_call_waits_for_it_covers_nothing(
    limited_replicas: Replicas, limited: Rulebook, approver: Signer, change: str
) -> None:
    """The call found the grant in time and waits for its lock; what counts is what the grant is when it has it."""
    await limited_replicas[0].send(an_asked_grant(limited, approver))
    async with limited_replicas[1].units.database.transaction() as connection:
        await connection.execute(sa.text(_CHANGE + change))
        waiting = asyncio.ensure_future(limited_replicas[0].send(a_shipment(limited)))
        await limited_replicas[1].until_waiting(1)
    assert [HELD] == kinds(await waiting)
    assert [] == await limited_replicas[0].rows("SELECT call_id FROM policy.grant_uses")


async def test_a_revocation_and_a_use_at_once_have_one_truth(
    limited_replicas: Replicas, limited: Rulebook, approver: Signer
) -> None:
    """A call is let through only by a grant that was not revoked: uses and permits agree, whoever is first."""
    for turn in range(ROUNDS):
        asked = an_asked_grant(limited, approver)
        proposed = a_shipment(limited)
        await limited_replicas[0].send(asked)
        actions = [
            partial(limited_replicas[0].send, proposed),
            partial(limited_replicas[1].send, a_revocation(asked.grant_id)),
        ]
        if turn % 10 < 2:
            for action in actions[:: 1 - 2 * (turn % 2)]:
                await action()
        else:
            await asyncio.gather(*(action() for action in actions))
        rows = await limited_replicas[0].rows(
            "SELECT uses_left, revoked_at > used_at AS in_time FROM policy.grants LEFT JOIN policy.grant_uses"
            " USING (grant_id) WHERE grant_id = :grant_id",
            grant_id=asked.grant_id,
        )
        permitted = proposed.call.call_id in permitted_calls(limited_replicas[0])
        assert [{"uses_left": 2, "in_time": True} if permitted else {"uses_left": 3, "in_time": None}] == rows


@pytest.mark.parametrize(
    ("requester", "askers", "makers", "expected"),
    [
        ("visitor-1", "", [], PERMITTED),
        ("visitor-1", "person:front person:bob", [], PERMITTED),
        ("visitor-1", "person:front person:ada", [], HELD),
        ("visitor-1", "- ~person:ada", [], HELD),
        ("person:robot", "~person:ada", [], HELD),
        ("person:robot", "", [("person:ada", None, None)], HELD),
        ("person:robot", "", [("person:ada", "now()", None)], HELD),
        ("person:robot", "", [("person:ada", "now() - interval '2 days'", None)], PERMITTED),
        ("person:robot", "", [("person:ada", None, "now() - interval '29 days'")], HELD),
        ("person:robot", "", [("person:ada", None, "now() - interval '31 days'")], PERMITTED),
        ("person:robot", "", [("person:bob", None, None)], PERMITTED),
    ],
)
async def test_a_grant_covers_nothing_that_its_owner_may_have_asked_for(
    limited_replica: Replica,
    limited: Rulebook,
    approver: Signer,
    *,
    requester: str,
    askers: str,
    makers: list[tuple[str, str | None, str | None]],
    expected: str,
) -> None:
    """Under four eyes: with a conversation's token in their hands, or with a key that they made for somebody else."""
    await limited_replica.execute("DELETE FROM read.askers")
    await limited_replica.execute("DELETE FROM read.key_makers")
    asking = a_shipment(limited, 40, requester=requester, agent="careful")
    await limited_replica.execute(
        "INSERT INTO read.askers VALUES ('acme', :place, :people, :wrote)",
        place=asking.call.conversation_id,
        people=askers,
        wrote=askers if "~" in askers else "",
    )
    for maker, *moments in makers:
        taken_over, revoked = (moment or "NULL" for moment in moments)
        await limited_replica.execute(
            f"INSERT INTO read.key_makers VALUES ('acme', 'robot', :maker, {taken_over}, {revoked})",  # noqa: S608
            maker=maker,
        )
    given = a_shipment(limited, requester="visitor-2", agent="careful").call
    await limited_replica.send(a_grant_request(given, approver, rule="four-eyes"))
    assert [expected] == kinds(await limited_replica.send(asking))
