"""`placet audit`: the signed chain over the history, exported and verified; beside the database or offline."""

from __future__ import annotations

import json as jsons
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placet.cli.client import at_database, url_beside
from placet.cli.output import Json, fail, out, show_json

if TYPE_CHECKING:
    from placet.runtime.database import Database

app = typer.Typer(no_args_is_help=True, help="Export the history with its signed chain, and verify it.")

#: What every signed token begins with: its header, an object in base64.
_HEADER = "eyJ"
#: What the lines of an export have, and no other key: a reader may see what nothing verifies.
_OF_ROW, _OF_BLOCK = frozenset({"row", "salt", "said", "place"}), frozenset({"checkpoint"})

DatabaseUrl = Annotated[
    str, typer.Option("--database", envvar="PLACET_DATABASE_URL", help="PostgreSQL, as an administrator reads it.")
]
Keys = Annotated[Path | None, typer.Option(help="Folder with public.json; PLACET_KEYS by default.")]
Data = Annotated[Path | None, typer.Option(help="Folder of a running `placet up`: its database and its keys.")]


@app.command()
def export(
    tenant: Annotated[str, typer.Option(help="Whose history.")],
    database: DatabaseUrl = "",
    data: Data = None,
    keys: Keys = None,
) -> None:
    """Print every sealed row of a tenant with its place in the chain, and the signed checkpoints: JSON Lines.

    1 where no key verifies some blocks, whose rows are printed as they stand, and where somebody was erased a moment
    ago, and what says so is not sealed yet: nobody could verify that.
    """
    url, keys = beside(data, database, keys)
    check, unproved = _check_of(tenant, keys, {}), list[int]()

    async def run(house: Database) -> None:
        async with aclosing(_blocks(house, tenant, keys, unproved=True)) as blocks:
            async for token, rows, number, proved in blocks:
                check.follow(token, rows)
                unproved.extend(() if proved else (number,))
                for place, row in enumerate(rows):
                    told = {"row": row.line, "salt": row.salt, "said": row.said, "place": [number, place]}
                    typer.echo(jsons.dumps(told, ensure_ascii=False))
                typer.echo(jsons.dumps({"checkpoint": token}))

    at_database(url, run)
    if unproved:
        which = f"{len(unproved)} blocks from {unproved[0]} to {unproved[-1]}"
        fail(f"no key here verifies {which}: a copy of the public keys from before one was taken back does (--keys)")
    if check.unnamed:
        fail("an erasure is not sealed yet: export again in some seconds")


@app.command()
def verify(
    file: Annotated[Path | None, typer.Argument(help="What `placet audit export` has written.")] = None,
    database: DatabaseUrl = "",
    data: Data = None,
    kept: Annotated[Path | None, typer.Option(help="Export, checkpoints or JSON log, kept elsewhere.")] = None,
    purged_before: Annotated[
        datetime | None,
        typer.Option(
            metavar="MOMENT",
            help="With --kept: what is younger (UTC) may not be purged; by PLACET_RETENTION_HISTORY_DAYS otherwise.",
        ),
    ] = None,
    keys: Keys = None,
    *,
    json: Json = False,
) -> None:
    """Say whether any row was changed, deleted, inserted or moved since it was sealed; 1 where one was.

    A purge leaves what a deletion of the beginning leaves: only --kept tells one from the other.
    """
    checks: dict[str, Any] = {}
    database, keys = beside(data, database, keys)
    try:
        if file is not None:
            _verify_file(file, keys, checks)
        elif database:
            at_database(database, lambda house: _verify_database(house, keys, checks))
        else:
            fail("name a file, or a database with --database or --data", code=2)
        if kept:
            _compare(kept, purged_before, keys, checks)
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        # Whatever somebody has put there: it is no chain of Placet's, and that is the answer.
        fail(f"something was changed: there is what Placet never writes ({type(error).__name__}: {error})")
    for check in checks.values():
        check.finish()
    problems = [f"{tenant}: {problem}" for tenant, check in checks.items() for problem in check.problems]
    told = {tenant: _counts_of(check) for tenant, check in checks.items()}
    if json:
        show_json({"tenants": told, "problems": problems})
    else:
        for tenant, counts in told.items():
            _show_counts(tenant, counts, kept=kept is not None)
        for problem in problems:
            out.print(problem)
        out.print("something was changed" if problems else "nothing was changed")
    if problems:
        raise typer.Exit(1)


def _counts_of(check: Any) -> dict[str, Any]:
    """Return what is told of one chain."""
    return {
        "blocks": check.last.number if check.last else 0,
        "rows": check.rows,
        "erased": check.erased,
        "erasures": check.erasures,
        "purged_up_to_block": check.begins,
        "gone_of_unknown_age": check.ageless,
        "sealed_late": check.late,
        "unsealed": check.unsealed,
        "unsealed_seconds": check.unsealed_seconds,
    }


def _show_counts(tenant: str, counts: dict[str, Any], *, kept: bool) -> None:
    """Say of one tenant what its chain has, and what nothing here can tell."""
    erased = f", of which {counts['erased']} were erased" if counts["erased"] else ""
    purged = counts["purged_up_to_block"]
    cut = f"; blocks 1 to {purged} were purged" if purged else ""
    out.print(f"{tenant}: {counts['rows']} rows in {counts['blocks'] - purged} blocks{erased}{cut}")
    for each in counts["erasures"]:
        out.print(f"{tenant}: an erasure of {each['rows']} rows at {each['at']}, now {each['pseudonym']}")
    if purged and not kept:
        out.print(f"{tenant}: only a kept checkpoint (--kept) tells this purge of {purged} blocks from a deletion")
    if late := counts["sealed_late"]:
        places = f"{len(late)} blocks, the first of them {min(late)}"
        out.print(f"{tenant}: rows of {places}, waited up to {max(late.values())} s to be sealed, changeable unseen")
    if unsealed := counts["unsealed"]:
        out.print(f"{tenant}: {unsealed} rows are not sealed yet, the oldest for {counts['unsealed_seconds']} s")
    if ageless := counts["gone_of_unknown_age"]:
        out.print(f"{tenant}: {ageless} kept blocks are gone, and no kept row says how old they were")


def beside(data: Path | None, database: str, keys: Path | None) -> tuple[str, Path | None]:
    """Return the database and the keys that are meant: those of a `placet up`, where its folder is named."""
    return (database, keys) if data is None else (url_beside(data), keys or data / "keys")


def _compare(kept: Path, purged_before: datetime | None, keys: Path | None, checks: dict[str, Any]) -> None:
    """Compare the chains with what was kept elsewhere.

    An export has rows before their checkpoint, or checkpoints alone; a log has the digest of each block, and its time,
    among lines of any kind.
    """
    before = _purged_before() if purged_before is None else purged_before.replace(tzinfo=purged_before.tzinfo or UTC)
    written: dict[str, datetime] = {}
    newest: datetime | None = None
    compared = False
    for number, entry in _entries(kept, among_others=True):
        where = f"{kept}:{number}"
        if "row" in entry:
            at = _moment(entry, where)
            newest = at if newest is None else max(at, newest)
            continue
        if token := entry.get("checkpoint"):
            block = _block_of(token, keys)
            tenant, place, digest = block.tenant, block.number, block.digest
        else:
            tenant, place, digest = str(entry.get("tenant")), entry.get("number"), str(entry.get("digest"))
            if not isinstance(place, int):
                fail(f"{where} names no block")
            newest = _moment(entry, where)
        if newest is not None:
            written[tenant] = max(newest, written.get(tenant, newest))
        _check_of(tenant, keys, checks).kept(place, digest, written.get(tenant), before)
        newest, compared = None, True
    if not compared:
        fail(f"{kept}: no line has a checkpoint of an export, or the event audit.sealed of a JSON log", code=2)
    for check in checks.values():
        if check.missing:
            blocks = f"blocks {min(check.missing)} to {max(check.missing)} are missing"
            why = f"they are younger than {before:%Y-%m-%d %H:%M} UTC" if before else "the history is kept for ever"
            check.problems.append(f"{blocks}: {why}")


def _purged_before() -> datetime | None:
    """Return from before when the settings let a history be purged; None: it is kept for ever."""
    from placet.deploy.retention.settings import RetentionSettings
    from placet.runtime.settings import what_is_wrong

    try:
        days = RetentionSettings().retention_history_days
    except ValueError as error:
        fail(what_is_wrong(error) or str(error), code=2)
    return datetime.now(UTC) - timedelta(days=days) if days else None


def _moment(entry: dict[str, Any], where: str) -> datetime:
    try:
        at: str = jsons.loads(entry["row"])["at"] if "row" in entry else entry["timestamp"]
        return datetime.fromisoformat(at).astimezone(UTC)
    except (ValueError, LookupError, TypeError):
        fail(f"{where} is neither a row nor a checkpoint")


@cache
def _verifier(keys: Path | None) -> Any:
    from placet.contracts.errors import PlacetError
    from placet.contracts.signing import load_verifier
    from placet.runtime.settings import Settings

    try:
        return load_verifier(keys or Settings().keys)
    except PlacetError as error:
        fail(str(error), code=2)


def _check_of(tenant: str, keys: Path | None, checks: dict[str, Any]) -> Any:
    """Return the check of a tenant, which begins where nothing of it was seen yet."""
    from placet.contracts.chain import Check

    if tenant not in checks:
        checks[tenant] = Check(_verifier(keys), tenant)
    return checks[tenant]


def _block_of(token: str, keys: Path | None) -> Any:
    from placet.contracts.chain import read_checkpoint
    from placet.contracts.signing import BadSignature

    try:
        return read_checkpoint(_verifier(keys), token)
    except BadSignature as error:
        fail(f"a checkpoint: {error}")


async def _blocks(
    database: Database, tenant: str, keys: Path | None, *, unproved: bool = False
) -> AsyncGenerator[tuple[str, list[Any], int, bool]]:
    """Yield each token with its rows, its number, and whether a key verifies it; rows of others where asked for."""
    from placet.contracts.chain import Row, read_checkpoint
    from placet.contracts.signing import BadSignature
    from placet.gateway.audit import store

    verifier, passed = _verifier(keys), dict[str, int]()
    async with database.transaction() as connection:
        await store.read_whole(connection)
        async for number, token in store.each_token(connection, tenant):
            try:
                block = read_checkpoint(verifier, token)
            except BadSignature:
                upto = _upto_said(token) if unproved else {}
                yield token, await store.load_rows(connection, tenant, passed, upto), number, False
                passed |= {service: max(row_id, passed.get(service, 0)) for service, row_id in upto.items()}
                continue
            passed = dict(block.upto)
            if block.number != number:
                # Under another number than was signed: no row fits it.
                yield token, [Row("", None, None)], block.number, True
                continue
            yield token, await store.load_rows(connection, tenant, block.after, block.upto), block.number, True


def _upto_said(token: str) -> dict[str, int]:
    """Return how far a block reaches that nobody verifies, as it says; nothing where it cannot be read."""
    from contextlib import suppress

    from placet.contracts.chain import peek_checkpoint

    with suppress(ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        return {service: min(int(row_id), 2**63 - 1) for service, row_id in peek_checkpoint(token).upto.items()}
    return {}


async def _verify_database(database: Database, keys: Path | None, checks: dict[str, Any]) -> None:
    from placet.gateway.audit import store

    async with database.transaction() as connection:
        # Before the chains: what is sealed meanwhile is in them then.
        await store.read_whole(connection)
        passed, tenants = await store.sealed_upto(connection), await store.list_tenants(connection)
    for tenant in tenants:
        check = _check_of(tenant, keys, checks)
        async with aclosing(_blocks(database, tenant, keys)) as blocks:
            async for token, rows, *_ in blocks:
                check.follow(token, rows)
        async with database.transaction() as connection:
            strays = await store.count_strays(connection, tenant, check.first.after if check.first else {})
            upto = check.last.upto if check.last else {}
            # Sealed or not: erasures are among what the gateway wrote since.
            check.note_erasures(await store.load_rows(connection, tenant, upto, {"gateway": 2**63 - 1}))
            unsealed = await store.load_rows(connection, tenant, upto, passed)
            check.unsealed, check.unsealed_seconds = await store.count_unsealed(connection, tenant, passed)
        check.problems += [
            f"{count} rows of {service} stand before the beginning of the chain: they were inserted"
            for service, count in strays.items()
        ]
        if unsealed:
            check.problems.append(f"{len(unsealed)} rows stand before the end of the chain and are in no block")


def _verify_file(file: Path, keys: Path | None, checks: dict[str, Any]) -> None:
    from placet.contracts.chain import Row

    rows: list[Row] = []
    places: list[Any] = []
    tenant = ""
    for number, entry in _entries(file):
        if more := entry.keys() - (_OF_ROW if "row" in entry else _OF_BLOCK):
            fail(f"{file}:{number} has what no export has: {', '.join(sorted(more))}")
        if "row" in entry:
            rows.append(Row(str(entry["row"]), entry.get("salt"), entry.get("said")))
            places.append(entry.get("place"))
        elif "checkpoint" in entry:
            tenant = tenant or _block_of(entry["checkpoint"], keys).tenant
            check = _check_of(tenant, keys, checks)
            check.follow(entry["checkpoint"], rows)
            block = check.last.number if check.last else 0
            # As text: 1, 1.0 and true are equal, and no reader shows them as the same.
            if jsons.dumps(places) != jsons.dumps([[block, place] for place in range(len(rows))]):
                check.problems.append(f"rows of block {block} do not stand in their places")
            rows, places = [], []
        else:
            fail(f"{file}:{number} is neither a row nor a checkpoint")
    if rows or not checks:
        fail(f"{file} ends without a checkpoint")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of a file; raise ValueError where it says one thing twice: a reader may see the other one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a line says one thing twice")
    return found


def _is_ours(line: bytes) -> bool:
    """Tell whether a line of any kind has the form of a row or a checkpoint of an export, or is of the sealer's log."""
    try:
        entry = jsons.loads(line.decode())
    except (ValueError, RecursionError):
        return False
    if not isinstance(entry, dict):
        return False
    if entry.keys() == _OF_BLOCK:
        return str(entry["checkpoint"]).startswith(_HEADER)
    return entry.keys() == _OF_ROW or entry.get("event") == "audit.sealed"


def _entries(file: Path, *, among_others: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the lines of a file that may be larger than memory, each with its number; `among_others`: only ours."""
    try:
        # A row may have what a text file takes for the end of a line, and JSON does not.
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                if among_others and not _is_ours(line):
                    continue
                try:
                    entry = jsons.loads(line.decode(), object_pairs_hook=_once)
                except ValueError as error:
                    fail(f"{file}:{number}: {error}")
                if not isinstance(entry, dict):
                    fail(f"{file}:{number} is neither a row nor a checkpoint")
                yield number, entry
    except OSError as error:
        fail(f"{file}: {error.strerror}", code=2)
