"""The list of approvals over HTTP: what waits for the caller, filters, and parameters that make no sense."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from placet.domain.directory import Directory, Person
from tests.builders import a_call
from tests.support.gateway import House, a_conversation, a_delivery_row, an_approval_row, insert, open_house

DIRECTORY = Directory(
    people={"ada": Person("ada"), "bob": Person("bob"), "carl": Person("carl", active=False)},
    groups={"finance": frozenset({"ada", "carl"})},
    owners={"robot": frozenset({"ada"})},
)


@pytest.fixture
async def house(gateway_database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """One running gateway that knows who is in which group."""
    async with open_house(gateway_database_url, tmp_path, directory=lambda: DIRECTORY) as made:
        yield made


def waits(house: House, name: str, call: dict[str, Any] | None = None, **changes: Any) -> None:
    """Put an approval into the read view whose id is `name`; `rule` changes who may decide."""
    rule = {"approval_rule": changes.pop("rule", {})}
    insert(house.url, "approvals", **an_approval_row(a_call(**(call or {})), approval_id=name, **rule, **changes))


async def listed(house: House, secret: str, **query: Any) -> set[str]:
    """Return the ids that somebody gets for a query."""
    async with house.client(secret) as client:
        answer = (await client.get("/v1/approvals", params=query)).raise_for_status().json()
    return {item["id"] for item in answer["items"]}


def many(house: House) -> None:
    """Put approvals for all kinds of people into the view."""
    waits(house, "operators", rule={"approvers": ["operators"]})
    waits(house, "ada", rule={"approvers": ["person:ada"]})
    waits(house, "finance", rule={"approvers": ["group:finance"]})
    waits(house, "leads", rule={"approvers": ["group:leads", "person:dora"]})
    waits(house, "asked", {"requester": "person:ada"}, rule={"approvers": ["requester"]})
    waits(house, "not-asked", rule={"approvers": ["requester"]})
    waits(house, "excluded", {"requester": "person:ada"}, rule={"approvers": ["operators"], "exclude": ["requester"]})
    waits(house, "owned", {"agent": "robot"}, rule={"approvers": ["operators"], "exclude": ["agent_owner"]})
    waits(house, "over", rule={"approvers": ["operators"]}, state="approved", decided_by="person:bob")
    waits(house, "foreign", {"tenant": "rival"}, rule={"approvers": ["operators"]})


@pytest.mark.parametrize(
    ("person", "expected"),
    [
        ("ada", {"operators", "ada", "finance", "asked"}),
        ("bob", {"operators", "excluded", "owned"}),
        ("dora", {"operators", "leads", "excluded", "owned"}),
    ],
)
async def test_what_is_mine_names_me_and_four_eyes_do_not_exclude_me(
    house: House, person: str, expected: set[str]
) -> None:
    """By name, group, as operator or requester; nothing of other tenants."""
    many(house)
    assert expected == await listed(house, house.key("decide", person=person), mine="true")


async def test_what_the_visitor_of_my_conversation_asked_for_is_not_mine_to_decide(house: House) -> None:
    """Four eyes: who opened the conversation could have asked with its token, whichever of their keys they used."""
    key, other = house.key("chat", "decide", person="dora"), house.key("decide", person="eve")
    for secret, name in ((key, "hers"), (house.key("chat", person="dora"), "relayed")):
        async with house.client(secret) as client:
            conversation, _ = await a_conversation(client, visitor="v")
        rule = {"approvers": ["operators"], "exclude": ["requester"]}
        waits(house, name, {"conversation_id": conversation, "requester": "v"}, rule=rule)
    found = [await listed(house, secret, mine=True) for secret in (key, other)]
    async with house.client(key) as client:
        digest = (await client.get("/v1/approvals/hers")).json()["digest"]
        await client.post("/v1/approvals/hers/decisions", json={"decision": "approve", "digest": digest})
    assert [set(), {"hers", "relayed"}] == found
    assert ["person:dora"] == [claims.opened_by for claims in house.approvers.claims]


async def test_the_token_of_a_conversation_has_what_its_visitor_asked_for(house: House) -> None:
    """A token names nobody: only the requester's place is its own, and only where a chat is proof enough."""
    async with house.client(house.key("chat")) as client:
        conversation, token = await a_conversation(client, visitor="ada")
        requester = (await client.get(f"/v1/conversations/{conversation}")).json()["requester"]
    here = {"conversation_id": conversation, "requester": requester}
    waits(house, "own", here, rule={"approvers": ["requester", "operators"]})
    waits(house, "web", here, rule={"approvers": ["requester"], "min_strength": "web"})
    waits(house, "others", here, rule={"approvers": ["operators", "person:ada"]})
    waits(house, "elsewhere", {"requester": requester}, rule={"approvers": ["requester"]})
    assert {"own"} == await listed(house, token, mine="true")
    assert (set(), {"own", "web", "others"}) == (
        await listed(house, token, conversation="conversation-1"),
        await listed(house, token, conversation=conversation),
    )


async def test_a_conversation_has_what_surfaces_in_it(house: House) -> None:
    """What people are asked in a job that a call of it waits for; not for its token, which decides about no job."""
    async with house.client(house.key("chat")) as client:
        calling, token = await a_conversation(client)
    waits(house, "own", {"conversation_id": calling})
    waits(house, "of-its-job", {"conversation_id": "acme_job"})
    waits(house, "of-another-job", {"conversation_id": "acme_job"})
    told = [("tool_call", {"call_id": "inner", "caller": "outer"}), ("approval", {"call_id": "inner"})]
    for seq, (kind, data) in enumerate(told, 1):
        item = data | {"approval_id": "of-its-job"}
        insert(house.url, "log", tenant="acme", conversation_id=calling, seq=seq, type=kind, data=item)
    grace, here = house.key("decide", person="grace"), {"conversation": calling}
    asked: list[dict[str, Any]] = [{}, {"mine": "true"}, {"sort": "risk"}]
    assert [{"own", "of-its-job"}] * 3 == [await listed(house, grace, **here, **more) for more in asked]
    assert {"own"} == await listed(house, token, **here)


async def test_filters_must_all_fit(house: House) -> None:
    """Each filter alone, and together with others and the state."""
    old = datetime.now(UTC) - timedelta(hours=2)
    waits(
        house,
        "link",
        {"tool": "create_pay_link", "arguments": {"to": "lin@example.org"}},
        summary="Create a payment link over 299 TRY?",
    )
    waits(
        house, "old", {"tool": "deploy", "agent": "robot", "arguments": {}}, summary="Deploy the shop?", created_at=old
    )
    run = {"tool": "run", "requester": "person:lin", "arguments": {"paths": ["/srv/a"], "dry": True}}
    over = {"state": "denied", "decided_by": "person:eve"}
    waits(house, "exec", run, category="unsafe_exec", summary="Run the payment job?", **over)
    house.query("UPDATE read.approvals SET rule = %s WHERE approval_id = %s", "jobs", "exec")
    secret = house.key("decide", person="bob")
    expected: list[tuple[dict[str, Any], set[str]]] = [
        ({"tool": "deploy"}, {"old"}),
        ({"agent": "default"}, {"link", "exec"}),
        ({"category": "unsafe_exec"}, {"exec"}),
        ({"category": "unsafe_exec", "state": "pending"}, set()),
        ({"older_than": 3600}, {"old"}),
        ({"older_than": 3600, "tool": "run"}, set()),
        ({"q": "PAYMENT"}, {"link", "exec"}),
        ({"q": "payment -job"}, {"link"}),
        ({"q": '"the shop" or "299 TRY"'}, {"link", "old"}),
        ({"q": "pay"}, set()),
        ({"q": "Páyment", "state": "denied"}, {"exec"}),
        ({"q": "299 try"}, {"link"}),
        ({"q": '"try 299"'}, set()),
        ({"q": "shop or job or over", "state": "pending"}, {"link", "old"}),
        ({"q": "-payment"}, {"old"}),
        ({"q": "shop or -link"}, {"old", "exec"}),
        ({"q": "shop or -link", "mine": "true"}, {"old"}),
        ({"q": "payment job"}, {"exec"}),
        ({"q": "nothing payment"}, set()),
        ({"q": "payment", "mine": "true"}, {"link"}),
        ({"q": "lin@example.org"}, {"link"}),
        ({"q": "srv"}, {"exec"}),
        ({"q": "true"}, set()),
        ({"q": "pay*"}, {"link", "exec"}),
        ({"q": "pay* exa*"}, {"link"}),
        ({"q": "job ex* or sho*"}, {"old"}),
        ({"q": "-pay*"}, {"old"}),
        ({"q": "nothing*"}, set()),
        ({"q": "pay*", "mine": "true"}, {"link"}),
        ({"rule": "jobs"}, {"exec"}),
        ({"requester": "person:lin", "state": "denied"}, {"exec"}),
        ({"requester": "person:lin", "mine": "true"}, set()),
        ({"decided_by": "person:eve", "q": "payment"}, {"exec"}),
        ({"decided_by": "person:bob"}, set()),
        ({"opened_before": (old + timedelta(hours=1)).isoformat()}, {"old"}),
        ({"opened_after": (old + timedelta(hours=1)).isoformat()}, {"link", "exec"}),
        ({"mine": "true", "older_than": 3600, "tool": "deploy", "agent": "robot", "q": "shop"}, {"old"}),
    ]
    assert expected == [(query, await listed(house, secret, **query)) for query, _ in expected]


async def test_the_longest_filters_fit_into_one_request(house: House) -> None:
    """All at once, in letters that are written as twelve each."""
    lengths = {"agent": 128, "requester": 256, "rule": 128, "decided_by": 256, "q": 200}
    query: dict[str, Any] = {name: "\U0001d4b6" * length for name, length in lengths.items()}
    query |= {"tool": "t" * 64, "conversation": "c" * 64, "category": "unsafe_write", "state": "withdrawn"}
    query |= {"opened_after": "2026-01-01T00:00:00+00:00", "opened_before": "2027-01-01T00:00:00+00:00"}
    async with house.client(house.key("decide")) as client:
        answer = await client.get("/v1/approvals", params=query)
    assert (200, []) == (answer.status_code, answer.json()["items"])


async def test_pages_of_mine_follow_each_other(house: House) -> None:
    """Page by page everything comes once, newest first, also what two names bring."""
    now = datetime.now(UTC)
    for number in range(7):
        rule = {"approvers": ["operators", "requester"] if number % 2 else ["group:finance", "requester"]}
        call = {"requester": "person:ada"} if number % 3 else {}
        waits(house, f"a{number}", call, rule=rule, created_at=now - timedelta(seconds=number))
    seen: list[str] = []
    query: dict[str, Any] = {"mine": "true", "limit": 2}
    async with house.client(house.key("decide", person="ada")) as client:
        while "cursor" not in query or query["cursor"]:
            page = (await client.get("/v1/approvals", params=query)).raise_for_status().json()
            seen += [item["id"] for item in page["items"]]
            query["cursor"] = page["next"]
    assert [f"a{number}" for number in range(7)] == seen


def voted(
    house: House, approval: str, person: str, key_id: str | None = None, *, closes: bool = True, **changes: Any
) -> None:
    """Put a counted decision into the read views; `closes`: approval has no more to ask its maker for now."""
    row: dict[str, Any] = {"tenant": "acme", "verb": "approve", "outcome": "accepted", "proof": "api_key"}
    row |= {"counted_revision": 2, "decided_at": datetime.now(UTC), "decision_id": f"{approval}-{person}"}
    row |= {"reason": "", "digest": "0" * 64, "arguments_revision": 1} | changes
    insert(house.url, "decisions", approval_id=approval, person=person, key_id=key_id, **row)
    if row["arguments_revision"] != 1:
        return
    visitor = row.get("details", {}).get("opened_by") or f"visitor:{person.removeprefix('visitor:')}"
    vote = Jsonb({visitor if row["proof"] == "conversation_token" else person: key_id})
    cast = "UPDATE read.approvals SET voters = voters || %s, closed_to = closed_to || %s WHERE approval_id = %s"
    with psycopg.connect(house.url, autocommit=True) as connection:
        connection.execute(cast, (vote, vote if closes else Jsonb({}), approval))


def revoked_key(house: House) -> str:
    """Return the id of a key that works no more."""
    key_id = house.key("decide", person="dora").split("_")[1]
    with psycopg.connect(house.url, autocommit=True) as connection:
        done = "UPDATE gateway.api_keys SET revoked_at = now(), revoked_by = 'person:root' WHERE key_id = %s"
        connection.execute(done, (key_id,))
    return key_id


async def test_what_is_mine_meets_the_rules_condition(house: House) -> None:
    """A condition on the person, on the call, on both; one without an answer lets nobody decide."""
    conditions = {
        "in-finance": '"finance" in person.groups',
        "elsewhere": '"sales" in person.groups',
        "not-self": "person.id != call.requester",
        "cheap": "call.arguments.amount < 300",
        "dear": "call.arguments.amount > 300",
        "labelled": 'call.labels["shop"] == "berlin"',
        "broken": 'person.attributes["none"] == "x"',
        "no-answer": "call.arguments.nothing == 1",
    }
    for name, condition in conditions.items():
        rule = {"approvers": ["operators"], "condition": condition}
        waits(house, name, {"requester": "person:bob"}, rule=rule, labels={"shop": "berlin"})
    assert ({"in-finance", "not-self", "cheap", "labelled"}, {"cheap", "labelled"}) == (
        await listed(house, house.key("decide", person="ada"), mine="true"),
        await listed(house, house.key("decide", person="bob"), mine="true"),
    )


async def test_a_condition_on_what_nobody_may_see_is_left_to_approval(house: House) -> None:
    """The gateway has no hidden arguments, so it lists the approval; a condition on the person alone it can judge."""
    for name, condition in {"arguments": "call.arguments.amount > 300", "person": 'person.id == "person:bob"'}.items():
        rule = {"approvers": ["operators"], "condition": condition}
        waits(house, name, rule=rule, arguments_masked=True)
    assert {"arguments"} == await listed(house, house.key("decide", person="ada"), mine="true")


async def test_what_somebody_voted_on_is_not_theirs_any_more(house: House) -> None:
    """Unless the arguments changed, or the key that proved them was revoked; other people's votes take nothing away."""
    for name in ("new", "voted", "abstained", "edited", "void", "of-others", "by-visitor", "not-counted"):
        waits(house, name, rule={"approvers": ["operators"], "approvals": 2})
    voted(house, "voted", "person:ada", house.key("decide", person="ada").split("_")[1])
    voted(house, "abstained", "person:ada", verb="abstain")
    voted(house, "edited", "person:ada", arguments_revision=0)
    voted(house, "void", "person:ada", counted_revision=2)
    voted(house, "void", "person:ada", revoked_key(house), counted_revision=3, decision_id="void-later")
    voted(house, "of-others", "person:bob")
    voted(house, "by-visitor", "person:ada", proof="conversation_token")
    voted(house, "not-counted", "person:ada", arguments_revision=None, counted_revision=None, outcome="stale")
    expected = {"new", "edited", "void", "of-others", "by-visitor", "not-counted"}
    assert expected == await listed(house, house.key("decide", person="ada"), mine="true")


async def test_a_place_given_to_somebody_is_theirs_until_its_owner_votes(house: House) -> None:
    """And no longer where its owner's key was revoked, or its owner is not active any more."""

    def given(by: str, key_id: str | None = None) -> list[dict[str, Any]]:
        voter: dict[str, Any] = {
            "person": f"person:{by}",
            "roles": [],
            "proof": "api_key",
            "conversation_id": None,
            "key_id": key_id,
        }
        return [{"by": voter, "to": "person:dora"}]

    works, gone = house.key("decide", person="ada").split("_")[1], revoked_key(house)
    places = {"open": given("ada", works), "voted": given("ada"), "void": given("ada", gone), "inactive": given("carl")}
    for name, delegations in places.items():
        waits(
            house,
            name,
            rule={"approvers": ["group:finance"]},
            delegations=delegations,
            deciders="{group:finance,person:dora}",
        )
    voted(house, "voted", "person:ada")
    assert {"open"} == await listed(house, house.key("decide", person="dora"), mine="true")


async def test_a_vote_that_counts_no_more_is_asked_for_again(house: House) -> None:
    """Ada could not decide when others voted; bob's vote counted; a place came to her after her own vote, or before."""
    given = [{"by": {"person": "person:bob", "roles": ["operators"], "proof": "api_key"}, "to": "person:ada"}]
    leads = {"approvers": ["person:ada"], "approvals": 2, "alternatives": [{"approvers": ["person:bob"]}]}
    cases: dict[str, dict[str, Any]] = {
        "void": {"seats": {"person:ada": [], "person:bob": [0]}},
        "counts": {"seats": {"person:ada": [0], "person:bob": []}},
        "over": {"seats": {"person:ada": []}, "state": "expired", "closed_at": datetime.now(UTC)},
        "never-kept": {"seats": None},
        "new-place": {"seats": {"person:ada": [0]}, "rule": leads, "delegations": given},
        "old-place": {"seats": {"person:ada": [0, 1]}, "rule": leads, "delegations": given},
    }
    for name, changes in cases.items():
        waits(house, name, **({"rule": {"approvers": ["person:ada", "person:bob"], "approvals": 2}} | changes))
        voted(house, name, "person:ada", closes=name not in {"void", "new-place"})
    secret = house.key("decide", person="ada")
    async with house.client(secret) as client:
        stories = {name: (await client.get(f"/v1/approvals/{name}")).json() for name in ("void", "counts", "over")}
    assert {"void", "new-place"} == await listed(house, secret, mine="true")
    assert [False] == [each["counts"] for each in stories.pop("over")["decisions"]]
    assert {"void": (0, [False]), "counts": (1, [True])} == {
        name: (story["panels"][0]["counted"], [each["counts"] for each in story["decisions"]])
        for name, story in stories.items()
    }


async def test_what_is_overdue_is_nobodys(house: House) -> None:
    """Its expiry is on its way; no decision would count."""
    waits(house, "overdue", rule={"approvers": ["operators"]}, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    assert set() == await listed(house, house.key("decide", person="ada"), mine="true")


async def test_no_page_of_mine_is_empty_while_there_is_more(house: House) -> None:
    """Ten of a hundred calls meet the condition: every page but the last is full, and each comes once, newest first."""
    now = datetime.now(UTC)
    rule = {"approvers": ["operators"], "condition": "call.arguments.amount == 7"}
    for number in range(100):
        call = {"arguments": {"amount": number % 10}}
        waits(house, f"a{number:02}", call, rule=rule, created_at=now - timedelta(seconds=number))
    pages: list[list[str]] = []
    query: dict[str, Any] = {"mine": "true", "limit": 4}
    async with house.client(house.key("decide", person="ada")) as client:
        while "cursor" not in query or query["cursor"]:
            page = (await client.get("/v1/approvals", params=query)).raise_for_status().json()
            pages.append([item["id"] for item in page["items"]])
            query["cursor"] = page["next"]
    wanted = [f"a{number:02}" for number in range(7, 100, 10)]
    assert [wanted[:4], wanted[4:8], wanted[8:]] == pages


async def test_what_nobody_can_approve_says_so(house: House) -> None:
    """In the list and in the approval itself; what is over says nothing."""
    rule = {"approvers": ["group:finance"], "approvals": 2}
    waits(house, "stuck", rule=rule)
    waits(house, "fine", rule=rule | {"approvals": 1})
    waits(house, "over", rule=rule, state="expired")
    why = "cannot be decided: 2 of group:finance must approve, and 1 can"
    async with house.client(house.key("decide", person="ada")) as client:
        items = (await client.get("/v1/approvals")).json()["items"]
        shown = (await client.get("/v1/approvals/stuck")).json()
    assert {"stuck": why, "fine": None, "over": None} == {item["id"]: item["undecidable"] for item in items}
    assert why == shown["undecidable"]


async def test_who_was_asked_later_is_shown_among_the_approvers(house: House) -> None:
    """From an escalation on whom it names may approve, and the approval says so."""
    rule = {"approvers": ["group:finance"], "escalations": [{"after_seconds": 60, "approvers": ["person:bob"]}]}
    waits(house, "fresh", rule=rule)
    waits(house, "escalated", rule=rule, steps_done=1)
    async with house.client(house.key("decide")) as client:
        items = (await client.get("/v1/approvals")).json()["items"]
    assert {"fresh": ["group:finance"], "escalated": ["group:finance", "person:bob"]} == {
        item["id"]: item["approvers"] for item in items
    }


async def test_the_vote_of_somebody_who_left_is_shown_and_does_not_count(house: House) -> None:
    """Carl voted, and is not active any more: the story of what waits says that it does not count."""
    waits(house, "two", rule={"approvers": ["operators"], "approvals": 2})
    for person in ("person:ada", "person:carl"):
        fields = {"decision_id": person, "tenant": "acme", "approval_id": "two", "person": person, "verb": "approve"}
        more = {"reason": "", "digest": "0" * 64, "proof": "api_key", "details": {}, "outcome": "accepted"}
        now = datetime.now(UTC)
        at = {"arguments_revision": 1, "counted_revision": 2, "decided_at": now, "roles": ["operators"]}
        insert(house.url, "decisions", **fields, **more, **at)
    told = await story(house, "two")
    assert ({"person:ada": True, "person:carl": False}, [(2, 1)]) == counted_in(told)


#: What a decision with the conversation's token says of its maker.
TOKEN: dict[str, Any] = {"proof": "conversation_token", "conversation_id": "conversation-1", "roles": ["requester"]}


async def story(house: House, approval: str) -> dict[str, Any]:
    """Return an approval's whole story."""
    async with house.client(house.key("decide", person="eve")) as client:
        found: dict[str, Any] = (await client.get(f"/v1/approvals/{approval}")).raise_for_status().json()
    return found


def counted_in(told: dict[str, Any]) -> tuple[dict[str, bool], list[tuple[int, int]]]:
    """Return whose votes count in a story, and for each panel the approvals that decide and those that count."""
    counts = {each["id"].removeprefix(f"{told['id']}-"): each["counts"] for each in told["decisions"]}
    panels = [(panel["approvals"], panel["counted"]) for panel in told["panels"]]
    return {name: counts[name] for name in sorted(counts)}, panels


async def test_a_visitor_called_like_a_person_is_counted_beside_her(house: House) -> None:
    """A visitor's id proves nobody: Ada's vote stands though `person:ada` spoke after her with a token."""
    waits(house, "two", {"requester": "person:ada"}, rule={"approvers": ["group:finance", "requester"], "approvals": 2})
    voted(house, "two", "person:ada")
    voted(house, "two", "person:ada", **TOKEN, decision_id="two-visitor", counted_revision=3)
    assert ({"person:ada": True, "visitor": True}, [(2, 2)]) == counted_in(await story(house, "two"))


async def test_a_token_and_the_key_of_who_opened_the_conversation_are_one_vote(house: House) -> None:
    """Who holds both counts once, by what they said last."""
    waits(house, "two", {"requester": "v"}, rule={"approvers": ["operators", "requester"], "approvals": 2})
    voted(house, "two", "v", **TOKEN, details={"opened_by": "person:dora"})
    voted(house, "two", "person:dora", roles=["operators"], counted_revision=3)
    assert ({"person:dora": True, "v": False}, [(2, 1)]) == counted_in(await story(house, "two"))


async def test_a_vote_counts_by_key_group_four_eyes_and_condition(house: House) -> None:
    """A revoked key, somebody of no group, the requester and who fails the condition: each is shown, none counts."""
    rule = {"approvers": ["group:finance", "person:dora", "person:bob"], "approvals": 3}
    limits = {"exclude": ["requester"], "condition": "person.id != 'person:bob'"}
    waits(house, "three", {"requester": "person:dora"}, rule=rule | limits)
    voted(house, "three", "person:ada")
    voted(house, "three", "person:bob")
    voted(house, "three", "person:dora")
    voted(house, "three", "person:eve")
    others = dict.fromkeys(("person:bob", "person:dora", "person:eve"), False)
    before = counted_in(await story(house, "three"))
    voted(house, "three", "person:ada", revoked_key(house), decision_id="three-later", counted_revision=3)
    after = counted_in(await story(house, "three"))
    assert ({"person:ada": True, **others}, [(3, 1)]) == before
    assert ({"later": False, "person:ada": False, **others}, [(3, 0)]) == after


async def test_places_alternatives_and_escalations_are_counted(house: House) -> None:
    """Bob votes in Ada's place, and whom an escalation asked counts in every panel."""
    by: dict[str, Any] = {
        "person": "person:ada",
        "roles": [],
        "proof": "api_key",
        "conversation_id": None,
        "key_id": None,
    }
    later = {"escalations": [{"after_seconds": 60, "approvers": ["person:dora"]}]}
    rule = {"approvers": ["group:finance"], "approvals": 2} | later
    ways = {"alternatives": [{"approvers": ["person:eve"], "approvals": 2}]}
    waits(house, "two", rule=rule | ways, steps_done=1, delegations=[{"by": by, "to": "person:bob"}])
    voted(house, "two", "person:bob")
    given = counted_in(await story(house, "two"))
    voted(house, "two", "person:dora")
    assert ({"person:bob": True}, [(2, 1), (2, 0)]) == given
    assert ({"person:bob": True, "person:dora": True}, [(2, 2), (2, 1)]) == counted_in(await story(house, "two"))


async def test_what_is_over_was_decided_by_people_as_they_were(house: House) -> None:
    """Carl left after his vote had decided: the story still says that it counted, and how far it is means nothing."""
    waits(house, "over", rule={"approvers": ["operators"]}, state="approved", decided_by="person:carl")
    voted(house, "over", "person:carl", roles=["operators"])
    told = await story(house, "over")
    assert (None, [True]) == (told["panels"], [each["counts"] for each in told["decisions"]])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mine", "perhaps"),
        ("tool", "no tool"),
        ("agent", ""),
        ("agent", "a\x00b"),
        ("conversation", "a b"),
        ("category", "dangerous"),
        ("older_than", "-1"),
        ("older_than", "1e3"),
        ("older_than", str(10**12)),
        ("q", ""),
        ("q", "!&|()"),
        ("q", "a\x00b"),
        ("q", "a" * 201),
        ("q", " or ".join("abcdefghi")),
        ("cursor", "x"),
    ],
)
async def test_a_parameter_that_makes_no_sense_is_named(house: House, name: str, value: str) -> None:
    """400 with problem details, never an unfiltered list."""
    async with house.client(house.key("decide")) as client:
        answer = await client.get("/v1/approvals", params={name: value})
    assert (400, "urn:placet:problem:invalid-request", name) == (
        answer.status_code,
        answer.json()["type"],
        answer.json()["errors"][0]["parameter"],
    )


async def test_what_is_over_waits_for_nobody(house: House) -> None:
    """`mine` with another state than pending contradicts itself."""
    async with house.client(house.key("decide")) as client:
        answer = await client.get("/v1/approvals", params={"mine": "true", "state": "denied"})
    assert (400, "state") == (answer.status_code, answer.json()["errors"][0]["parameter"])


@pytest.mark.parametrize("query", ["'", "((", "a & | b", ":*", '"open', "-", "<->", "a:b!c\\"])
async def test_no_search_breaks_the_query(house: House, query: str) -> None:
    """Whatever the words are, they are looked for or refused: never an error of the server."""
    async with house.client(house.key("decide")) as client:
        assert (await client.get("/v1/approvals", params={"q": query})).status_code in {200, 400}


async def test_the_documents_name_every_filter(house: House) -> None:
    """OpenAPI lists the parameters, and the category of an approval."""
    async with house.client() as client:
        document = (await client.get("/openapi.json")).json()
    names = {each["name"] for each in document["paths"]["/v1/approvals"]["get"]["parameters"]}
    wanted = {"state", "mine", "tool", "agent", "conversation", "category", "older_than", "q", "limit", "cursor"}
    wanted |= {"requester", "rule", "decided_by", "opened_after", "opened_before", "sort"}
    assert (wanted, True) == (names, "category" in document["components"]["schemas"]["ApprovalOut"]["properties"])


async def test_what_nobody_was_told_of_says_so(house: House) -> None:
    """Cards given up, kept back, or put off; one that is shown or on its way, what is over, another tenant's: not."""
    later, cards = {"due_at": datetime.now(UTC) + timedelta(hours=1)}, "untold kept hushed told sent due foreign over"
    states: dict[str, list[dict[str, Any]]] = {
        "untold": [{"state": "given_up"}, {"state": "given_up"}],
        "kept": [{"state": "kept"}, {"state": "given_up"}],
        "hushed": [{"state": "due", **later}],
        "told": [{"state": "kept"}, {"state": "sent", "sent_revision": 2}],
        "sent": [{"state": "due", "sent_revision": 1, **later}],
        "due": [{"state": "due"}, {"state": "kept"}],
        "foreign": [{"state": "given_up", "tenant": "rival"}],
        "over": [{"state": "given_up"}],
    }
    for name in cards.split():
        waits(house, name, state="approved" if name == "over" else "pending")
        for number, changes in enumerate(states[name]):
            insert(
                house.url, "deliveries", **a_delivery_row(f"{name}-{number}", name, recipient=str(number), **changes)
            )
    async with house.client(house.key("decide")) as client:
        answer = (await client.get("/v1/approvals")).raise_for_status().json()
        alone = {name: (await client.get(f"/v1/approvals/{name}")).json()["untold"] for name in cards.split()}
        page = (await client.get("/v1/approvals", params={"state": "pending"})).json()
    wanted = {name: name in {"untold", "kept", "hushed"} for name in cards.split()}
    assert wanted == {item["id"]: item["untold"] for item in answer["items"]} == alone
    assert 7 == len(page["items"])
