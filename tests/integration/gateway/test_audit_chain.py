"""The audit chain: what somebody with all rights on the database does to sealed rows is found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg
import pytest
from structlog.testing import capture_logs

from placet.contracts.chain import seal
from placet.contracts.signing import create_keys, load_signer, load_verifier, public_keys, publish_keys
from placet.contracts.topology import SERVICES
from placet.deploy.retention.erasing import erase
from placet.deploy.retention.purging import Keep, purge
from placet.gateway.audit.sealing import BEYOND, LAG, Sealer
from placet.runtime.database import Database

INSERT = (
    "INSERT INTO {service}.history (tenant, machine, subject_id, event, to_state, actor, detail)"
    " VALUES (%s, 'call', 'c', 'began', 'open', 'person:ayşe', '{{\"n\": 1.50}}')"
)

#: What docs/operating.md says, of `approval` and the last id that was sealed before.
WAY_BACK = """
    SELECT setval('approval.history_id_seq', (SELECT CAST(upto ->> 'approval' AS bigint) FROM gateway.sealing));
    UPDATE approval.history SET id = DEFAULT
    WHERE id > 6 AND id < (SELECT CAST(upto ->> 'approval' AS bigint) FROM gateway.sealing)
"""
#: An id that no sequence comes to by itself.
FAR = 2**50
CUT = "DELETE FROM {service}.history WHERE at > (SELECT min(sealed_at) FROM gateway.checkpoints)"


@dataclass
class Chain:
    """A database, its sealer, and the command line."""

    url: str
    keys: Path
    sealer: Sealer
    folder: Path

    def write(self, service: str = "approval", tenant: str = "acme", times: int = 1) -> None:
        """Write rows of a history."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            for _ in range(times):
                connection.execute(INSERT.format(service=service), (tenant,))

    def tamper(self, statement: str) -> None:
        """Do what an administrator of the database can."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)

    def audit(self, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run `placet audit`."""
        command = [sys.executable, "-m", "placet.cli", "audit", *words, "--keys", str(self.keys)]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": "."} | settings
        )

    def problems(self, *words: str, **settings: str) -> list[str]:
        """Return what `placet audit verify` finds, in the database where nothing else is named."""
        done = self.audit("verify", *(words or ("--database", self.url)), "--json", **settings)
        found: dict[str, Any] = json.loads(done.stdout)
        assert done.returncode == (1 if found["problems"] else 0)
        return list(found["problems"])

    def rows(self) -> int:
        """Return how many rows of acme are sealed."""
        told = json.loads(self.audit("verify", "--database", self.url, "--json").stdout)["tenants"]["acme"]
        return int(told["rows"])

    def export(self) -> Path:
        """Write the chain of acme to a file."""
        file = self.folder / "acme.jsonl"
        file.write_text(self.audit("export", "--tenant", "acme", "--database", self.url).stdout)
        return file


@pytest.fixture
async def chain(database_url: str, tmp_path: Path) -> AsyncIterator[Chain]:
    """A chain of two blocks over two services and two tenants."""
    create_keys(tmp_path)
    database = Database(database_url, service="gateway")
    made = Chain(
        database_url, tmp_path, Sealer(database, load_signer(tmp_path, "gateway"), load_verifier(tmp_path)), tmp_path
    )
    for _ in range(2):
        made.write("approval", times=3)
        made.write("executor", times=2)
        made.write("agent", "rival")
        await made.sealer.seal()
    yield made
    await database.close()


async def test_an_untouched_chain_verifies_here_and_offline(chain: Chain) -> None:
    """Nothing is found in the database, nor in an export without it, and rows to come are sealed once."""
    assert [] == chain.problems()
    lines = [json.loads(line) for line in chain.export().read_text().splitlines()]
    assert [[1, place] for place in range(5)] == [line["place"] for line in lines[:5]]
    assert 12 == len(lines)
    assert [] == chain.problems(str(chain.export()))
    assert 0 == await chain.sealer.seal()
    assert lines == [json.loads(line) for line in chain.export().read_text().splitlines()]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE approval.history SET actor = 'person:eve' WHERE id = 2",
        "UPDATE approval.history SET detail = '{\"n\": 1.5}' WHERE id = 2",
        "DELETE FROM executor.history WHERE id = 2",
        "DELETE FROM executor.history",
        "UPDATE approval.history SET tenant = 'rival' WHERE id = 1",
        "UPDATE approval.history SET id = DEFAULT WHERE id = 1",
        "DELETE FROM gateway.checkpoints WHERE tenant = 'acme' AND number = 1",
        "DELETE FROM gateway.checkpoints WHERE tenant = 'acme' AND number = 2",
        "DELETE FROM gateway.checkpoints WHERE tenant = 'acme'",
        "UPDATE gateway.checkpoints SET token = replace(token, '.', 'A.') WHERE number = 1",
        "UPDATE gateway.checkpoints SET number = number + 7 WHERE number = 2",
    ],
    ids=lambda statement: " ".join(statement.split()[:3]),
)
async def test_what_was_sealed_and_changed_is_found(chain: Chain, statement: str) -> None:
    """Changed, deleted, moved, inserted: each is named, whichever table it is done to."""
    chain.tamper(statement)
    assert chain.problems()


#: The view as it is, but for the row's actor; and the texts that were hashed, kept from before.
LYING_VIEW = """
CREATE TABLE kept AS SELECT service, id, line, salt, said FROM read.history;
ALTER VIEW read.history RENAME TO history_0;
UPDATE approval.history SET actor = 'person:eve' WHERE id = 2;
CREATE VIEW read.history AS
SELECT h.service, h.id, h.tenant, h.machine, h.subject_id, h.call_id, h.event, h.from_state, h.to_state, h.actor,
       h.message_id, h.at, h.detail, kept.salt, kept.said, kept.line
FROM read.history_0 AS h LEFT JOIN kept USING (service, id)
"""


async def test_a_view_that_says_another_text_than_it_shows_is_found(chain: Chain) -> None:
    """What is verified is what readers are shown, not what stands beside it."""
    chain.tamper(LYING_VIEW)
    assert ["acme: rows of block 1 are not those that were sealed"] == chain.problems()


#: A database that writes the details of a row as they were, as whoever administers it may teach it.
LYING_CAST = """
CREATE TABLE kept AS SELECT concat(detail) AS was FROM approval.history WHERE id = 2;
UPDATE approval.history SET detail = '{"n": 9}' WHERE id = 2;
CREATE FUNCTION public.lie(jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS
    $$ SELECT CASE concat($1) WHEN '{"n": 9}' THEN (SELECT was FROM public.kept) ELSE concat($1) END $$;
CREATE CAST (jsonb AS text) WITH FUNCTION public.lie(jsonb)
"""


async def test_a_database_that_writes_another_text_is_found(chain: Chain) -> None:
    """The text that was sealed is made of the columns by who verifies, and not by the database."""
    chain.tamper(LYING_CAST)
    assert "acme: rows of block 1 are not those that were sealed" in chain.problems()


#: Every kind of character and of value that JSON writes in a way of its own.
ODD = r"""
INSERT INTO approval.history (tenant, machine, subject_id, event, from_state, to_state, actor, at, detail)
SELECT 'acme', E'q"\\\b\f\n\r\t\x01\x1f\x7f/', E'ünï 😀 \u2028', 'e', NULL, 's', E'person:"\\ş',
    at, '{"b": [1.50, 1e400, -0, null, true], "a": {"x": "\u0007 \u2028 é"}, "": ""}'
FROM (VALUES ('2026-01-02 03:04:05.000006+03'::timestamptz), ('0987-01-01'), ('2026-12-31 23:59:60')) AS times (at)
"""


async def test_whoever_verifies_writes_rows_as_the_database_seals_them(chain: Chain) -> None:
    """Odd characters, numbers and times: the text that is made anew is the one that was sealed."""
    chain.tamper(ODD)
    await chain.sealer.seal()
    assert [] == chain.problems()


#: What an erasure leaves of a row.
ERASE = (
    "UPDATE approval.history AS h SET actor = '{actor}', salt = NULL,"
    " detail = jsonb_build_object('erased', CAST(r.line AS json) ->> 'said'{more})"
    " FROM read.history AS r WHERE r.service = 'approval' AND r.id = h.id AND h.id = 2"
)


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        (ERASE.format(actor="person:eve", more=""), "rows of block 1 are not those that were sealed"),
        (ERASE.format(actor="erased", more=", 'verb', 'deny'"), "rows of block 1 are not those that were sealed"),
        (ERASE.format(actor="erased", more=""), "1 rows say that they were erased, and no erasure names them"),
    ],
    ids=["another name", "other details", "nothing else"],
)
async def test_a_row_that_only_looks_erased_is_found(chain: Chain, statement: str, found: str) -> None:
    """It says nothing but that it was erased, and a row of the chain has to name it."""
    chain.tamper(statement)
    assert f"acme: {found}" in chain.problems()


async def test_an_erasure_is_sealed_and_told(chain: Chain) -> None:
    """It verifies before and after its own row is sealed, and says when how many rows were erased."""
    asked = "VALUES ('acme', 'erasure', 'e-1', 'asked', 'asked', 'person:ayşe', '{}')"
    chain.tamper(f"INSERT INTO gateway.history (tenant, machine, subject_id, event, to_state, actor, detail) {asked}")
    await chain.sealer.seal()
    database = Database(chain.url, service="gateway")
    done = await erase(database, "ayşe")
    await database.close()
    assert (13, []) == (done.history, chain.problems())
    await chain.sealer.seal()
    assert [] == chain.problems(str(chain.export()))
    told = json.loads(chain.audit("verify", "--database", chain.url, "--json").stdout)["tenants"]["acme"]
    ((pseudonym, rows),) = [(each["pseudonym"], each["rows"]) for each in told["erasures"]]
    assert "ayşe" not in chain.export().read_text()
    assert (done.pseudonym, 11, 11) == (pseudonym, rows, told["erased"])


async def test_an_inserted_row_is_found(chain: Chain) -> None:
    """A row that takes the place of a deleted one, or of an id that a roll-back left free, is found."""
    chain.tamper("SELECT setval('approval.history_id_seq', 20)")
    chain.write()
    await chain.sealer.seal()
    assert [] == chain.problems()
    chain.tamper(
        "INSERT INTO approval.history (id, tenant, machine, subject_id, event, to_state, actor) OVERRIDING SYSTEM VALUE"
        " VALUES (15, 'acme', 'call', 'c', 'began', 'open', 'person:eve')"
    )
    assert ["acme: block 3 has 2 rows, 1 were sealed"] == chain.problems()


FORGED = (
    "INSERT INTO approval.history (id, tenant, machine, subject_id, event, to_state, actor) OVERRIDING SYSTEM VALUE"
    " VALUES ({id}, '{tenant}', 'call', 'c', 'approve', 'approved', 'person:grace')"
)


async def test_a_row_beyond_the_sequence_is_told_and_not_followed(chain: Chain) -> None:
    """What the service writes afterwards is sealed all the same, and the metrics speak until the row is gone."""
    seconds = [0.0]
    chain.sealer = replace(chain.sealer, monotonic=lambda: seconds[0], _seen=defaultdict(deque))
    chain.tamper(FORGED.format(id=FAR, tenant="acme"))
    with capture_logs() as lines:
        for seconds[0] in (0.0, 30.0, 90.0):
            await chain.sealer.seal()
        told = LAG._value.get() > 0, BEYOND.labels("approval")._value.get()
        chain.write("approval")
        await chain.sealer.seal()
    assert (True, FAR - 6) == told
    assert [("audit.beyond", 6, FAR, 6)] == [
        (e["event"], e["last"], e["highest"], e["sealed"]) for e in lines if e["log_level"] != "info"
    ]
    assert 11 == chain.rows()
    chain.tamper("UPDATE approval.history SET actor = 'person:eve' WHERE id = 7")
    assert ["acme: rows of block 3 are not those that were sealed"] == chain.problems()
    chain.tamper(f"DELETE FROM approval.history WHERE id = {FAR}")  # noqa: S608 - ours
    await chain.sealer.seal()
    assert (0, 0) == (LAG._value.get(), BEYOND.labels("approval")._value.get())


async def test_what_is_sealed_beyond_the_sequence_is_told_and_has_a_way_back(chain: Chain) -> None:
    """Moved beyond it, the sequence gives ids that are sealed; rows that were passed over get such ids too."""
    chain.tamper(f"SELECT setval('approval.history_id_seq', {FAR - 1})")
    chain.write("approval")
    await chain.sealer.seal()
    chain.tamper("SELECT setval('approval.history_id_seq', 6)")
    chain.write("approval", times=2)
    with capture_logs() as lines:
        await chain.sealer.seal()
        await chain.sealer.seal()
    assert ["audit.beyond", "audit.fell_back"] == [each["event"] for each in lines]
    assert (8, FAR, 8, FAR) == (*(lines[0][name] for name in ("last", "sealed")), lines[1]["last"], lines[1]["seen"])
    assert FAR - 8 == BEYOND.labels("approval")._value.get()
    assert ["acme: block 3 has 3 rows, 1 were sealed"] == chain.problems()
    chain.tamper(WAY_BACK)
    await chain.sealer.seal()
    assert (0, []) == (BEYOND.labels("approval")._value.get(), chain.problems())
    chain.write("approval")
    await chain.sealer.seal()
    assert (14, []) == (chain.rows(), chain.problems())


@pytest.mark.parametrize("row_id", [-(2**63), -5, 0])
@pytest.mark.parametrize("tenant", ["acme", "nobody"])
async def test_a_row_that_was_inserted_before_the_first_is_found(chain: Chain, row_id: int, tenant: str) -> None:
    """Ids begin at 1; a row with a lower one is in no block, also where the tenant has no chain."""
    chain.tamper(FORGED.format(id=row_id, tenant=tenant))
    found = f"{tenant}: 1 rows of approval stand before the beginning of the chain: they were inserted"
    assert [found] == chain.problems()


async def test_a_row_that_was_inserted_where_others_were_purged_is_found(chain: Chain) -> None:
    """The ids of blocks whose checkpoints went with them are nobody's any more."""
    chain.write("approval")
    await chain.sealer.seal()
    await purge(chain.sealer.database, Keep(history=timedelta(0)), chain.sealer.verifier)
    assert [] == chain.problems()
    chain.tamper(FORGED.format(id=2, tenant="acme"))
    found = "acme: 1 rows of approval stand before the beginning of the chain: they were inserted"
    assert [found] == chain.problems()


#: Lets two rows of a history change places; done again it undoes it.
EXCHANGE = """
    ALTER TABLE {service}.history ALTER COLUMN id SET GENERATED BY DEFAULT;
    UPDATE {service}.history SET id = -id WHERE id IN ({one}, {other});
    UPDATE {service}.history SET id = {one} + {other} + id WHERE id IN (-{one}, -{other})
"""


@pytest.mark.parametrize(
    ("service", "one", "other", "blocks"),
    [*((service, 3, 4, [4]) for service in SERVICES), ("approval", 2, 3, [3, 4])],
)
async def test_rows_in_another_order_are_found(
    chain: Chain, service: str, one: int, other: int, blocks: list[int]
) -> None:
    """Two rows of any service's history that change places are not those that were sealed, here and offline."""
    with psycopg.connect(chain.url) as connection:
        found = connection.execute(f"SELECT coalesce(max(id), 0) FROM {service}.history").fetchone()  # noqa: S608 - ours
    assert found is not None
    for _ in range(2):
        chain.write(service, times=2)
        await chain.sealer.seal()
    exchange = EXCHANGE.format(service=service, one=found[0] + one, other=found[0] + other)
    chain.tamper(exchange)
    told = [f"acme: rows of block {number} are not those that were sealed" for number in blocks]
    assert (told, told) == (chain.problems(), chain.problems(str(chain.export())))
    chain.tamper(exchange)
    assert [] == chain.problems()


async def test_a_tail_that_was_cut_is_found_by_what_was_kept(chain: Chain) -> None:
    """Rows and checkpoints are gone together, the sealer's place too: only a checkpoint kept elsewhere tells."""
    kept = chain.export()
    chain.tamper("DELETE FROM gateway.checkpoints WHERE number = 2")
    for service in ("approval", "executor", "agent"):
        chain.tamper(CUT.format(service=service))
    chain.tamper("UPDATE gateway.sealing SET upto = '{}'")
    assert [] == chain.problems()
    found = chain.problems("--database", chain.url, "--kept", str(kept))
    assert ["acme: block 2, whose checkpoint was kept, is not in the chain"] == found


async def delete_beginning(chain: Chain) -> None:
    """Leave what a purge of everything leaves: the newest checkpoint, and no row before it."""
    for service in ("approval", "executor"):
        chain.tamper(f"DELETE FROM {service}.history WHERE tenant = 'acme'")  # noqa: S608 - ours
    chain.tamper("DELETE FROM gateway.checkpoints WHERE tenant = 'acme' AND number < 2")


async def test_a_deletion_that_looks_like_a_purge_is_found_by_what_was_kept(chain: Chain) -> None:
    """Nothing so young is purged; without the kept file it is said that nobody can tell."""
    kept = chain.export()
    await delete_beginning(chain)
    plain = chain.audit("verify", "--database", chain.url)
    told = "acme: only a kept checkpoint (--kept) tells this purge of 2 blocks from a deletion"
    assert (0, True) == (plain.returncode, told in plain.stdout)
    (found,) = chain.problems("--database", chain.url, "--kept", str(kept))
    assert found.startswith("acme: blocks 1 to 2 are missing: they are younger than 20")
    for_ever = {"PLACET_RETENTION_HISTORY_DAYS": "0"}
    assert ["acme: blocks 1 to 2 are missing: the history is kept for ever"] == chain.problems(
        "--database", chain.url, "--kept", str(kept), **for_ever
    )


async def test_a_purge_of_what_was_old_is_no_deletion(chain: Chain) -> None:
    """Whoever purged earlier than the setting says so, and blocks from before that moment may be gone."""
    kept = chain.export()
    await purge(chain.sealer.database, Keep(history=timedelta(0)), chain.sealer.verifier)
    verify = ("--database", chain.url, "--kept", str(kept), "--purged-before")
    later, earlier = ((datetime.now(UTC) + timedelta(days=days)).strftime("%Y-%m-%d") for days in (2, -1))
    assert [] == chain.problems(*verify, later)
    missing = f"acme: blocks 1 to 2 are missing: they are younger than {earlier} 00:00 UTC"
    assert [missing] == chain.problems(*verify, earlier)


async def test_a_checkpoint_alone_does_not_say_how_old_it_is(chain: Chain) -> None:
    """Nothing is claimed of it but that; behind rows that were kept it is no older than these."""
    lines = chain.export().read_text().splitlines()
    await delete_beginning(chain)
    kept = chain.folder / "kept.jsonl"
    kept.write_text(lines[-1] + "\n")
    told = chain.audit("verify", "--database", chain.url, "--kept", str(kept))
    note = "acme: 1 kept blocks are gone, and no kept row says how old they were"
    assert (0, True) == (told.returncode, note in told.stdout)
    kept.write_text("\n".join([*lines[:6], lines[-1]]) + "\n")
    (found,) = chain.problems("--database", chain.url, "--kept", str(kept))
    assert found.startswith("acme: blocks 1 to 2 are missing: they are younger than")


async def test_the_log_of_the_sealer_is_a_kept_file(chain: Chain) -> None:
    """It names each block's digest and says when, among lines of any kind; a file that names none is no kept file."""
    at = datetime.now(UTC).isoformat()
    lines = [json.loads(line) for line in chain.export().read_text().splitlines()]
    digests = [sha256(line["checkpoint"].encode()).hexdigest() for line in lines if "checkpoint" in line]
    sealed = [
        {"event": "audit.sealed", "tenant": "acme", "number": number, "digest": digest, "timestamp": at}
        for number, digest in enumerate(digests, 1)
    ]
    kept, verify = chain.folder / "log.jsonl", ("--database", chain.url, "--kept", str(chain.folder / "log.jsonl"))
    said = ["placet: starting PostgreSQL", '"quoted"', '{"event": "cut of', json.dumps({"event": "service.ready"})]
    kept.write_bytes(b"\xff\n" + "\n".join([*said, *map(json.dumps, sealed)]).encode() + b"\n")
    assert [] == chain.problems(*verify)
    await delete_beginning(chain)
    (found,) = chain.problems(*verify)
    assert found.startswith("acme: blocks 1 to 2 are missing: they are younger than")
    kept.write_text(json.dumps(sealed[0] | {"number": 3}) + "\n")
    assert ["acme: block 3, whose checkpoint was kept, is not in the chain"] == chain.problems(*verify)
    kept.write_text('placet: ready\n{"event": "service.ready"}\n')
    told = chain.audit("verify", *verify)
    assert (2, True) == (told.returncode, "log.jsonl: no line has a checkpoint of an export" in told.stderr)


def _changed(lines: list[str]) -> Iterator[list[str]]:
    yield [lines[0].replace("began", "ended"), *lines[1:]]
    yield lines[1:]
    yield [lines[0], *lines]
    yield [lines[1], lines[0], *lines[2:]]
    yield lines[6:]
    # No row at all, and one that says that it is an erasure.
    yield ['{"row": "garbage", "salt": null, "said": null, "place": [1, 0]}', *lines[1:]]
    yield ['{"row": "\\"machine\\" : \\"erasure\\"", "salt": "s", "said": "1", "place": [1, 0]}', *lines[1:]]


async def test_a_changed_export_is_found_offline(chain: Chain) -> None:
    """Changed, cut, doubled, moved lines, and a first block that is missing."""
    file = chain.export()
    lines = file.read_text().splitlines()
    for number, changed in enumerate(_changed(lines)):
        file.write_text("\n".join(changed) + "\n")
        assert chain.problems(str(file)), number
    for garbage in (
        '{"row": 5, "salt": 5, "said": []}',
        '{"row": "\\ud800", "salt": "s", "said": "s"}',
        '{"checkpoint": 5}',
    ):
        file.write_text("\n".join([garbage, *lines]) + "\n")
        told = chain.audit("verify", str(file))
        assert (1, "") == (told.returncode, told.stdout if told.stderr else ""), garbage
        assert "Traceback" not in told.stderr
    row = json.loads(lines[0])
    for line in (
        {**row, "salt": row["salt"] + row["said"], "said": ""},
        {**row, "salt": row["salt"] + row["said"][:24], "said": row["said"][24:]},
        {**row, "actor": "person:eve"},
        {**row, "checkpoint": "x"},
    ):
        file.write_text("\n".join([json.dumps(line), *lines[1:]]) + "\n")
        assert 1 == chain.audit("verify", str(file)).returncode, line
    # A reader may see the other one.
    file.write_text("\n".join(['{"row": "", ' + lines[0].removeprefix("{"), *lines[1:]]) + "\n")
    told = chain.audit("verify", str(file))
    assert (1, True) == (told.returncode, "a line says one thing twice" in told.stderr)


async def test_whoever_holds_sealing_up_is_seen(chain: Chain) -> None:
    """The log says so meanwhile, and the signed block how long its rows had waited: not what the rows say of that."""
    seconds = [0.0]
    chain.sealer = replace(chain.sealer, monotonic=lambda: seconds[0])
    with psycopg.connect(chain.url) as slow, capture_logs() as lines:
        slow.execute("SELECT FROM gateway.sealing FOR UPDATE")
        chain.write("approval")
        for seconds[0] in (0.0, 30.0, 90.0, 95.0):
            await chain.sealer.seal()
            # How far it was sealed is no row that anybody has signed: said otherwise for a moment, it resets nothing.
            for upto in (7, 6):
                slow.execute("UPDATE gateway.sealing SET upto = jsonb_set(upto, '{approval}', %s)", [str(upto)])
                slow.commit()
                slow.execute("SELECT FROM gateway.sealing FOR UPDATE")
        waiting = json.loads(chain.audit("verify", "--database", chain.url, "--json").stdout)["tenants"]["acme"]
        chain.tamper("UPDATE approval.history SET at = now() WHERE id > 6")
    await chain.sealer.seal()
    sealed = json.loads(chain.audit("verify", "--database", chain.url, "--json").stdout)["tenants"]["acme"]
    assert [("audit.late", 90)] == [(each["event"], each.get("seconds")) for each in lines]
    assert [(1, {}), (0, {"3": 95})] == [(each["unsealed"], each["sealed_late"]) for each in (waiting, sealed)]


@pytest.mark.parametrize("said", ["1000000000", "(SELECT max(id) FROM approval.history)"])
async def test_whoever_says_that_more_is_sealed_than_is_is_seen(chain: Chain, said: str) -> None:
    """No checkpoint signs for it: log and metric count what waits, and the block says so once it is sealed."""
    seconds = [0.0]
    beginning = replace(chain.sealer, monotonic=lambda: seconds[0], _signed={}, _seen=defaultdict(deque))
    chain.write("approval")
    chain.tamper(f"UPDATE gateway.sealing SET upto = upto || jsonb_build_object('approval', {said})")  # noqa: S608 - ours
    with capture_logs() as lines:
        for seconds[0] in (0.0, 30.0, 90.0):
            await beginning.seal()
    assert [("audit.late", 90, ["approval"])] == [(e["event"], e["seconds"], e["services"]) for e in lines]
    assert LAG._value.get() > 0
    chain.tamper("UPDATE gateway.sealing SET upto = upto || '{\"approval\": 6}'")
    await beginning.seal()
    sealed = json.loads(chain.audit("verify", "--database", chain.url, "--json").stdout)["tenants"]["acme"]
    assert ({"3": 90}, []) == (sealed["sealed_late"], chain.problems())


async def test_a_checkpoint_that_nobody_signed_proves_nothing(chain: Chain) -> None:
    """Neither one of another key nor any other text makes what was never sealed be taken for sealed."""
    create_keys(chain.folder / "other")
    forged = seal(
        load_signer(chain.folder / "other", "gateway"), "zzz", None, [b""], {"approval": 99}, at=datetime.now(UTC)
    )
    for number, token in enumerate((forged.token, "a.b.c"), 1):
        chain.tamper(f"INSERT INTO gateway.checkpoints (tenant, number, token) VALUES ('z{number}', 1, '{token}')")  # noqa: S608
    chain.tamper("UPDATE gateway.sealing SET upto = upto || '{\"approval\": 99}'")
    chain.write("approval")
    await chain.sealer.seal()
    assert LAG._value.get() > 0


async def test_who_has_sealed_reads_no_heads_for_it(chain: Chain) -> None:
    """What this process has signed itself it knows: with many tenants there are many checkpoints to read."""
    chain.write("approval")
    await chain.sealer.seal()
    with psycopg.connect(chain.url) as connection:
        (upto,) = connection.execute("SELECT upto FROM gateway.sealing").fetchone() or ({},)
    assert upto == {service: chain.sealer._signed[service] for service in upto}


async def test_sealing_goes_on_where_the_key_was_taken_back(chain: Chain) -> None:
    """Nothing of the chain verifies any more: the log says so, once, and what comes is sealed with the new key."""
    create_keys(new := chain.folder / "new")
    chain.sealer = Sealer(chain.sealer.database, load_signer(new, "gateway"), load_verifier(new))
    for _ in range(2):
        chain.write("approval")
        with capture_logs() as lines:
            await chain.sealer.seal()
    chain.sealer = Sealer(chain.sealer.database, load_signer(new, "gateway"), load_verifier(new))
    with capture_logs() as later:
        await chain.sealer.seal()
    assert (["audit.sealed"], [], 0) == ([e["event"] for e in lines], later, LAG._value.get())
    # Who has kept the old public key follows the chain from its beginning.
    publish_keys(chain.keys, [*public_keys(chain.keys), *public_keys(new)])
    assert (12, []) == (chain.rows(), chain.problems())


@pytest.mark.parametrize("beside", ["rival", "x.y.z"])
async def test_sealing_goes_on_where_another_key_was_taken_back_before(chain: Chain, beside: str) -> None:
    """A tenant that was idle since has a checkpoint that verifies and is old; one that cannot be read says nothing."""
    if beside != "rival":
        chain.tamper(f"UPDATE gateway.checkpoints SET token = '{beside}' WHERE tenant = 'rival'")  # noqa: S608 - ours
    create_keys(second := chain.folder / "second")
    create_keys(third := chain.folder / "third")
    publish_keys(second, [*public_keys(chain.keys), *public_keys(second)])
    chain.sealer = Sealer(chain.sealer.database, load_signer(second, "gateway"), load_verifier(second))
    chain.write("approval")
    await chain.sealer.seal()
    publish_keys(third, [*public_keys(chain.keys), *public_keys(third)])
    chain.sealer = Sealer(chain.sealer.database, load_signer(third, "gateway"), load_verifier(third))
    chain.write("approval")
    with capture_logs() as lines:
        await chain.sealer.seal()
        await chain.sealer.seal()
    assert (["audit.unproved", "audit.sealed"], 0) == ([each["event"] for each in lines], LAG._value.get())


async def test_a_running_sealer_believes_nobody(chain: Chain) -> None:
    """Who writes a checkpoint of another key and how far it reaches has nothing taken for sealed."""
    create_keys(other := chain.folder / "other")
    running = replace(chain.sealer, _signed={}, _has_looked=True)
    chain.write("approval")
    await Sealer(chain.sealer.database, load_signer(other, "gateway"), load_verifier(chain.keys)).seal()
    with capture_logs() as lines:
        await running.seal()
    assert ([], True) == ([each["event"] for each in lines], LAG._value.get() > 0)


@pytest.mark.parametrize("garbage", ["a.b.c", "", "{}"])
async def test_a_chain_of_garbage_proves_nothing(chain: Chain, garbage: str) -> None:
    """Where no checkpoint can be read, nothing is taken for sealed."""
    beginning = replace(chain.sealer, _signed={})
    chain.tamper(f"UPDATE gateway.checkpoints SET token = '{garbage}'")  # noqa: S608 - ours
    chain.write("approval")
    await beginning.seal()
    assert LAG._value.get() > 0


async def test_what_commits_late_is_sealed_once_and_in_its_place(chain: Chain) -> None:
    """A row that got its id first and commits last holds the chain up: nothing behind it is sealed before it."""
    with psycopg.connect(chain.url) as slow:
        slow.execute(INSERT.format(service="approval"), ("acme",))
        chain.write("approval")
        await chain.sealer.seal()
        await chain.sealer.seal()
        assert 12 == len(chain.export().read_text().splitlines())
        assert LAG._value.get() > 0
        slow.commit()
    await chain.sealer.seal()
    await chain.sealer.seal()
    assert 15 == len(chain.export().read_text().splitlines())
    assert [] == chain.problems()


async def test_a_database_that_falls_back_loses_no_row_that_comes(chain: Chain) -> None:
    """A standby that lagged takes over while the gateway runs: what services write there is sealed, and it is told."""
    with psycopg.connect(chain.url) as before:
        (upto,) = before.execute("SELECT upto FROM gateway.sealing").fetchone() or ({},)
    with psycopg.connect(chain.url) as slow, capture_logs() as lines:
        chain.write("approval", times=100)
        slow.execute(INSERT.format(service="approval"), ("acme",))
        await chain.sealer.seal()
        slow.rollback()
        chain.tamper("DELETE FROM approval.history WHERE id > 6; SELECT setval('approval.history_id_seq', 6)")
        chain.tamper("DELETE FROM gateway.checkpoints WHERE number > 2")
        chain.tamper(f"UPDATE gateway.sealing SET upto = '{json.dumps(upto)}'")  # noqa: S608 - ours
        slow.execute(INSERT.format(service="approval"), ("acme",))
        chain.write("approval")
        await chain.sealer.seal()
        slow.commit()
        chain.write("approval", times=3)
        for _ in range(2):
            await chain.sealer.seal()
    assert (15, []) == (chain.rows(), chain.problems())
    assert [("audit.fell_back", 8)] == [(e["event"], e["last"]) for e in lines if e["log_level"] != "info"]


@pytest.mark.parametrize("rows", [True, False], ids=["with its rows", "alone"])
async def test_nothing_is_sealed_over_a_block_that_was_taken_out(chain: Chain, *, rows: bool) -> None:
    """The process that sealed it knows: what comes waits, and the metric says so."""
    chain.tamper("DELETE FROM gateway.checkpoints WHERE number = 2")
    for service in ("approval", "executor", "agent") if rows else ():
        chain.tamper(CUT.format(service=service))
    with capture_logs() as lines:
        for _ in range(2):
            chain.write("approval")
            await chain.sealer.seal()
    gone = [(each["event"], each["tenant"], each["number"]) for each in lines]
    assert [("audit.lost", "acme", 2), ("audit.lost", "rival", 2)] == gone
    assert LAG._value.get() > 0


async def test_a_block_that_was_taken_out_is_told_of_each_tenant(chain: Chain) -> None:
    """Others' of the same moment sign for its rows too, so that more is sealed: the log alone tells."""
    chain.write("executor", tenant="rival")
    chain.write("executor")
    await chain.sealer.seal()
    numbers = {each.tenant: each.number for each in chain.sealer._own}
    assert {"acme", "rival"} == set(numbers)
    for tenant, number in numbers.items():
        chain.tamper(f"DELETE FROM gateway.checkpoints WHERE tenant = '{tenant}' AND number = {number}")  # noqa: S608 - ours
    with capture_logs() as lines:
        await chain.sealer.seal()
    assert [("audit.lost", "acme"), ("audit.lost", "rival")] == [(each["event"], each["tenant"]) for each in lines]
