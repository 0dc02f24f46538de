"""Retention and erasure on a running installation: what is purged is gone whole, a person is named nowhere any more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from psycopg import sql

from placet.contracts.receipts import load_keys, verify
from placet.deploy.migrations.metadata import metadata
from placet.deploy.retention.rules import rule_of
from placet.gateway.identity.bootstrap import create_key
from placet.notifier.cards import from_json
from tests.e2e.test_embedded import Embedded, placet, running
from tests.e2e.test_receipts import ended, receipt_of
from tests.support.people import Caller, Visitor, a_visitor, is_result
from tests.support.system import SHOP_RULEBOOK, until

pytestmark = pytest.mark.timeout(240)

#: Characters that are shown before and after what should not be there.
AROUND = 40
PAY = "create a payment link over 299 TRY"
#: What two must agree to, of whom nobody asked for it.
PAY_MORE = "create a payment link over 5000 TRY"
FOUR_EYES = {
    "name": "four-eyes",
    "match": {"tool": "create_pay_link"},
    "when": "arguments.amount == 5000",
    "effect": "require_approval",
    "reason": "It is much money, and must be approved by two.",
    "approval": {"approvers": ["operators"], "approvals": 2, "exclude": ["requester"]},
}
#: A card in Slack, as the notifier keeps it.
SHOWN = """
    INSERT INTO notifier.deliveries (delivery_id, tenant, approval_id, call_id, channel, recipient, person, state,
        pending, rank, topic, urgent, alerted, revision, sent_revision, version, sent_version, card, attempt, fence,
        due_at, updated_at, error)
    VALUES ('shown', 'default', %s, %s, 'slack:#ops', '#ops', '', 'sent',
        false, 0, '', false, false, 1, 1, 1, 1, %s, 1, 1, now(), now(), '')
"""


@pytest.fixture
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A running embedded Placet whose invariants are asked when it ends."""
    with running(tmp_path_factory.mktemp("retention")) as made:
        yield made


def run(house: Embedded, *words: str) -> dict[str, Any]:
    """Run a command beside the database; return what it says."""
    done = placet(house, *words, "--database", house.database_url, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def audited(house: Embedded) -> dict[str, Any]:
    """Return what the chain of the tenant says."""
    keys = ("--keys", str(house.data / "keys"))
    found: dict[str, Any] = run(house, "audit", "verify", *keys)["tenants"]["default"]
    return found


def rows(house: Embedded, rule: str) -> dict[str, int]:
    """Return how many rows the tables of a rule have, those that have any."""
    tables = [each for each in metadata.tables if rule_of(each) == rule]
    with psycopg.connect(house.database_url) as connection:
        counts = {
            table: connection.execute(
                sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(*table.split(".")))
            ).fetchone()
            for table in tables
        }
    return {table: found[0] for table, found in counts.items() if found and found[0]}


def naming(house: Embedded, *words: str) -> list[str]:
    """Return the rows of every table that have one of these words."""
    found = []
    with psycopg.connect(house.database_url) as connection:
        for table in metadata.tables:
            every = sql.SQL("SELECT CAST(t AS text) FROM {} AS t").format(sql.Identifier(*table.split(".")))
            texts = (str(row[0]) for row in connection.execute(every))
            found += [
                f"{table}: {text[max(0, text.find(word) - AROUND) :][: 2 * AROUND]}"
                for text in texts
                for word in words
                if word in text
            ]
    return found


async def test_what_is_purged_is_gone_whole_and_the_chain_holds(house: Embedded) -> None:
    """Tables of conversations have rows only of the one that waits; the history goes block by block."""
    admin = house.caller()
    calls = [await ended(admin, PAY, "create_pay_link", decision) for decision in ("approve", "deny")]
    calls.append(await ended(admin, "find red shoes under 500", "search_products"))
    for call_id in calls:
        await receipt_of(admin, call_id)
    waits = await a_visitor(admin)
    await waits.say(PAY)
    card = await waits.see_card()
    kept = run(house, "purge", "--conversations", "1", "--jobs", "0", "--dead-letters", "0")
    gone = 0

    async def over() -> bool:
        nonlocal gone
        gone += int(run(house, "purge", "--conversations", "0")["conversations"])
        return gone == len(calls)

    await until(over, "turns have ended")
    answers = [await admin.request("GET", f"/v1/tool-calls/{call_id}") for call_id in calls]
    left = rows(house, "conversation")
    assert {"conversations": 0, "jobs": 0, "dead_letters": 0, "persons": 0} == kept
    assert [404] * len(calls) == [each.status_code for each in answers]
    one = ("agent.conversations", "agent.tool_calls", "approval.approvals", "gateway.conversations", "policy.verdicts")
    assert [1] * len(one) == [left.get(each) for each in one]
    assert set() == {"executor.executions", "approval.decisions", "approval.edits"} & set(left)

    async def sealed() -> bool:
        return not audited(house)["unsealed"]

    # What is in no block yet is too young to go.
    await until(sealed, "the first rows of what waits are sealed")
    before = audited(house)
    keys = ("--keys", str(house.data / "keys"))
    cut = run(house, "purge", "--conversations", "0", "--history", "0", *keys)["history"]
    after = audited(house)
    # Whatever was sealed in the meantime may go too, or come after it.
    assert (True, True) == (cut >= before["rows"], after["purged_up_to_block"] >= before["blocks"])
    assert (await admin.decide(card, "deny")).status_code == 200
    answer = await admin.request("GET", f"/v1/tool-calls/{card['call_id']}/receipt")

    async def is_over() -> bool:
        nonlocal answer
        answer = await admin.request("GET", f"/v1/tool-calls/{card['call_id']}/receipt")
        return answer.json()["type"] not in {f"urn:placet:problem:{each}" for each in ("not-over", "not-sealed")}

    await until(is_over, "the call is over, and sealed")
    # Its first rows are gone: what is left of it proves nothing.
    assert (410, "urn:placet:problem:gone") == (answer.status_code, answer.json()["type"])


async def test_what_is_old_goes_by_itself(house: Embedded) -> None:
    """Nobody runs a command: a letter that was discarded two years ago is gone soon after a start, a new one stays."""
    letter = """
        INSERT INTO dead_letters.dead_letters VALUES (%s, 'default', 'q', 's', 'r', 'm', 't', '[]', '[]', 'discarded',
            now(), now() - %s * interval '1 day', 'ada')
    """
    with psycopg.connect(house.database_url) as connection:
        for name, days in (("old", 730), ("new", 30)):
            connection.execute(letter, (name, days))
    house.stop()
    house.start()

    async def gone() -> bool:
        with psycopg.connect(house.database_url) as connection:
            found = connection.execute("SELECT dead_letter_id FROM dead_letters.dead_letters").fetchall()
        return found == [("new",)]

    await until(gone, "the old letter is deleted")


async def test_what_others_were_shown_forgets_a_name_too(house: Embedded) -> None:
    """Cards, what visitors read of an operator, stops and what waits for them: no name, no address, no signed id."""
    with psycopg.connect(house.database_url) as connection:
        card = json.dumps({"names": {"person:ada.byron": "Ada Augusta"}, "outcome": "Ada Augusta denied it."})
        connection.execute(SHOWN, ("approval-1", "call-1", card))
        connection.execute(
            "INSERT INTO notifier.deliveries SELECT (d).* FROM (SELECT jsonb_populate_record(d, %s) AS d"
            " FROM notifier.deliveries AS d) AS each",
            [
                json.dumps(
                    {"delivery_id": "theirs", "recipient": "ada@example.org", "person": "person:ada.byron"}
                    | {"channel": "email", "state": "due", "pending": True, "sent_version": 0, "card": {}}
                )
            ],
        )
        connection.execute(
            "INSERT INTO agent.log (conversation_id, seq, tenant, type, data)"
            " VALUES ('talk', 1, 'default', 'holder', %s)",
            [json.dumps({"operator": "person:ada.byron", "text": "You are talking to ada.byron, a person."})],
        )
        connection.execute(
            "INSERT INTO agent.log (conversation_id, seq, tenant, type, data)"
            " VALUES ('talk', 2, 'default', 'turn', %s)",
            [json.dumps({"state": "stopped", "reason": "Stopped by person:ada.byron."})],
        )
        connection.execute(
            "INSERT INTO gateway.stops (stop_id, tenant, tool, reason, by_another, by_house, stopped_at, stopped_by,"
            " signature) VALUES ('s', 'default', 'gone', 'Ada said', false, false, now(), 'person:ada.byron',"
            " 'signed-by-her')"
        )
    run(house, "person", "erase", "ada.byron", "--yes")
    assert [] == naming(house, "ada.byron", "Ada Augusta", "Ada said", "ada@example.org", "signed-by-her")
    with psycopg.connect(house.database_url) as connection:
        waits = connection.execute("SELECT state FROM notifier.deliveries WHERE delivery_id = 'theirs'").fetchone()
        left = connection.execute("SELECT card, approval_id FROM notifier.deliveries").fetchall()
    # What becomes of the approval goes through all its cards still.
    assert [approval for _, approval in left] == [from_json(card).approval_id for card, _ in left]
    (stop,) = (await house.caller().get("/v1/stops"))["items"]
    assert (("given_up",), "active", None) == (waits, stop["state"], stop["genuine"])


async def test_a_visitor_without_a_name_is_not_whoever_opened_the_conversation(house: Embedded) -> None:
    """Whose key opened it wrote nothing: their erasure takes its token and no words; the visitor's own takes all."""
    keeper = key_of(house, "keeper")
    visitor, silent = await a_visitor(keeper), await a_visitor(keeper)
    await visitor.say("find red shoes under 500")
    call_id = (await visitor.see(is_result("search_products")))["data"]["call_id"]
    await visitor.see_answer()
    gone = run(house, "person", "erase", "keeper", "--yes")
    answer = await house.caller().request("GET", f"/v1/tool-calls/{call_id}")
    opened = "SELECT created_by FROM gateway.conversations WHERE conversation_id = %s"
    assert (0, [], [f"default/visitor:{visitor.conversation}"], 200, 401) == (
        gone["conversations"],
        gone["left"],
        gone["left_to_visitors"],
        answer.status_code,
        (await Caller(house.caller().url, silent.token).request("GET", silent.path)).status_code,
    )
    assert [f"person:{gone['pseudonym']}"] == told(house, opened, visitor.conversation)
    assert 1 == run(house, "person", "erase", f"default/visitor:{visitor.conversation}", "--yes")["conversations"]


async def test_a_visitor_with_something_open_is_erased_once_it_has_ended(house: Embedded) -> None:
    """Until then the request stays as it was asked, and says what it waits for, as the command does."""
    admin = house.caller()
    visitor = await a_visitor(admin, visitor="qwertz")
    await visitor.say(PAY)
    card = await visitor.see_card()
    await admin.post("/v1/erasures", {"who": "default/visitor:qwertz"})
    purged = placet(house, "purge", "--database", house.database_url)
    (waits,) = (await admin.get("/v1/erasures"))["items"]
    expected = ("default/visitor:qwertz", None, [visitor.conversation])
    assert expected == (waits["who"], waits["done_at"], waits["waits_for"])
    assert (0, True) == (purged.returncode, "erasure.waits" in purged.stderr and visitor.conversation in purged.stderr)
    assert (await visitor.decide(card, "deny")).status_code == 200
    assert (await admin.request("POST", f"{visitor.path}/end")).status_code == 204

    async def over() -> bool:
        run(house, "purge")
        return bool((await admin.get("/v1/erasures"))["items"][0]["done_at"])

    await until(over, "their conversation is deleted")
    assert ([], []) == (naming(house, "qwertz"), (await admin.get("/v1/erasures"))["items"][0]["waits_for"])


async def test_an_erased_person_is_named_nowhere_and_receipts_hold(house: Embedded) -> None:
    """Their name, words and signatures are gone from every table; the chain and receipts, old and new ones, verify."""
    admin, keys = house.caller(), load_keys((house.data / "keys" / "public.json").read_text())
    with psycopg.connect(house.database_url) as connection:
        key = create_key(connection, tenant="default", person="ada.byron", scopes=["chat", "decide"])
    ada = Caller(admin.url, key)
    visitor = await a_visitor(admin)
    await visitor.say(PAY)
    card = await visitor.see_card()
    assert (await ada.decide(card, "deny", "Ada says her own words")).status_code == 200
    path = f"/v1/approvals/{card['approval_id']}"
    await ada.post(f"{path}/comments", {"text": 'Ada asks "what for?" in her own words'})
    with psycopg.connect(house.database_url) as connection:
        said = {"comments": [{"person": "person:ada.byron", "words": 'Ada asks "what for?" in her own words'}]}
        connection.execute(SHOWN, (card["approval_id"], card["call_id"], json.dumps(said)))
    own = await ended(ada, "find red shoes under 500", "search_products")
    before = await receipt_of(admin, card["call_id"])
    await receipt_of(ada, own)
    assert naming(house, "person:ada.byron")
    asked = await admin.post("/v1/erasures", {"who": "ada.byron"})
    again = await ada.request("POST", "/v1/erasures", json={"who": "ada.byron"})

    async def over() -> bool:
        run(house, "purge")
        return bool((await admin.get("/v1/erasures"))["items"][0]["done_at"])

    await until(over, "their conversation is deleted")
    once_more = placet(house, "person", "erase", "ada.byron", "--yes", "--data", str(house.data))
    after = await receipt_of(admin, card["call_id"])
    words = ("ada.byron", "her own words", "what for?")
    assert ([], False) == (naming(house, *words), any(word in json.dumps(after) for word in words))
    assert [] == [each for found in (before, after) for each in verify(found, keys) if not each.holds]
    assert after["votes"][0]["person"].startswith("person:erased-")
    assert audited(house)["erased"] > 0
    assert (None, 403, 1) == (asked["done_at"], again.status_code, once_more.returncode)
    assert "nothing here has the name ada.byron: nothing was erased" in once_more.stderr


async def test_a_name_that_nothing_has_is_no_erasure(house: Embedded) -> None:
    """Somebody else would stay who is thought to be erased: it is said, and not counted."""
    admin = house.caller()
    before = {each["id"] for each in (await admin.get("/v1/erasures"))["items"]}
    asked = await admin.post("/v1/erasures", {"who": "no-such-person"})
    purged = run(house, "purge")
    (done,) = [each for each in (await admin.get("/v1/erasures"))["items"] if each["id"] not in before]
    typed = placet(house, "person", "erase", "default/visitor:nobody", "--yes", "--data", str(house.data))
    assert (asked["id"], "", 0) == (done["id"], done["who"], purged["persons"])
    assert (1, True) == (typed.returncode, "nothing here has the name default/visitor:nobody" in typed.stderr)


def key_of(house: Embedded, person: str, tenant: str = "default") -> Caller:
    """Return somebody with a key of their own."""
    with psycopg.connect(house.database_url) as connection:
        return Caller(
            house.caller().url, create_key(connection, tenant=tenant, person=person, scopes=["chat", "decide"])
        )


def told(house: Embedded, statement: str, *values: Any) -> list[Any]:
    """Return the first column of what a statement finds."""
    with psycopg.connect(house.database_url) as connection:
        return [row[0] for row in connection.execute(statement.encode(), values)]


async def asked(caller: Caller, wish: str = PAY) -> tuple[Visitor, dict[str, Any]]:
    """Return a visitor of a new conversation and the card of what they wish for."""
    visitor = await a_visitor(caller)
    await visitor.say(wish)
    return visitor, await visitor.see_card()


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[Embedded]:
    """A running embedded Placet in which two must agree to larger payments."""
    content = yaml.safe_load(SHOP_RULEBOOK.read_text())
    content["rules"].insert(0, FOUR_EYES)
    (tmp_path / "rulebook.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    with running(tmp_path, "--rulebook", str(tmp_path / "rulebook.yaml")) as made:
        yield made


async def test_a_visitor_whom_limits_and_vetoes_know_is_named_nowhere(tmp_path: Path) -> None:
    """These outlive the conversation, and have the name as the frontend gave it, also of who denied it."""
    content = yaml.safe_load(SHOP_RULEBOOK.read_text())
    rule = next(each for each in content["rules"] if each["name"] == "payment-links")
    rule["limits"] = [{"count": 5, "per": "requester", "within": "1d"}]
    rule["approval"] |= {"veto_window_seconds": 3600, "veto_within": "requester"}
    (tmp_path / "rulebook.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    with running(tmp_path, "--rulebook", str(tmp_path / "rulebook.yaml")) as watching:
        visitor = await a_visitor(watching.caller(), visitor="qwertz")
        await visitor.say(PAY)
        assert (await visitor.decide(await visitor.see_card(), "deny")).status_code == 200
        await visitor.see(is_result("create_pay_link"))
        await visitor.see_answer()
        named = {each.partition(":")[0] for each in naming(watching, "qwertz")}
        run(watching, "person", "erase", "default/visitor:qwertz", "--yes")
        assert {"policy.counters", "policy.watched_calls"} <= named
        assert [] == naming(watching, "qwertz")


async def test_what_an_erased_person_wrote_is_nobody_elses_name(strict: Embedded) -> None:
    """Reasons that read like a person, a state or a tool: others stay who they are, here and in another tenant."""
    admin, keys = strict.caller(), load_keys((strict.data / "keys" / "public.json").read_text())
    names = ("bea", "xena", "yuri", "walt")
    bea, xena, yuri, walt = (key_of(strict, name) for name in names)
    rex = key_of(strict, "rex", "rival")
    # Bea asks for one call, and votes on another; who is erased has to do with neither.
    own, once = (await asked(bea, PAY_MORE))[1], (await asked(admin, PAY_MORE))[1]
    assert (await bea.decide(once, "approve", "I saw person:xena do it")).json()["state"] == "pending"
    searched = await ended(admin, "find red shoes under 500", "search_products")
    quoting = (await asked(admin))[1]
    assert (await xena.decide(quoting, "deny", "person:bea")).status_code == 200
    visitor, approved = await asked(admin)
    assert (await yuri.decide(approved, "approve", "approved")).status_code == 200
    await visitor.see(is_result("create_pay_link"))
    assert (await walt.decide((await asked(admin))[1], "deny", "search_products")).status_code == 200
    foreign = (await asked(key_of(strict, "opener", "rival")))[1]
    assert (await rex.decide(foreign, "deny", "person:bea")).status_code == 200
    decided = "SELECT person FROM approval.decisions WHERE approval_id = %s ORDER BY decided_at"
    tools = "SELECT DISTINCT tool FROM agent.tool_calls ORDER BY 1"
    before = {call: await receipt_of(admin, call) for call in (searched, approved["call_id"])}
    for name in names[1:]:
        run(strict, "person", "erase", name, "--yes")

    after = {call: await receipt_of(admin, call) for call in before}
    sealed = [row for row in after[approved["call_id"]]["history"] if '"result_came"' in row["line"]]
    assert [] == [each for call in before for each in verify(after[call], keys) if not each.holds]
    assert [before[call]["result"] for call in before] == [after[call]["result"] for call in before]
    assert [True] == [row["salt"] is not None for row in sealed]
    assert (["create_pay_link", "search_products"], "approved") == (
        told(strict, tools),
        after[approved["call_id"]]["approval"]["state"],
    )
    assert ["person:bea"] == told(strict, decided, once["approval_id"])
    assert ["person:rex"] == told(strict, decided, foreign["approval_id"])
    quoted = "SELECT reason FROM approval.decisions WHERE person IN ('person:rex', 'person:bea') ORDER BY 1"
    assert ["I saw person:xena do it", "person:bea"] == told(strict, quoted)
    # Of what xena wrote nothing is left where it was told.
    results = "SELECT result::text FROM agent.tool_calls WHERE call_id = %s AND result::text LIKE '%%person:bea%%'"
    logs = "SELECT data::text FROM agent.log WHERE data ->> 'call_id' = %s AND data::text LIKE '%%person:bea%%'"
    assert [] == [*told(strict, results, quoting["call_id"]), *told(strict, logs, quoting["call_id"])]
    # Four eyes are four: who asked may not decide, and who voted has one vote.
    mine, again = await bea.decide(own, "approve", "mine"), await bea.decide(once, "approve", "again")
    assert (403, "pending") == (mine.status_code, again.json()["state"])
