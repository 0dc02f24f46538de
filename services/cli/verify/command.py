"""The command: it sets the scene, runs the attacks, asks the rows, and tells what held."""

from __future__ import annotations

import secrets
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, NoReturn

import httpx
import typer

from placet.cli.client import TIMEOUT_SECONDS, address, api_key, problem_line, url_beside
from placet.cli.output import Json, fail, out, progress, show_json, show_table
from placet.cli.verify import calls, doors, kills
from placet.cli.verify.scene import Row, Scene, judged, not_tried, opened
from placet.contracts.ids import new_id
from placet.runtime.urls import redacted_url

_SAY = "This is placet verify. Please answer with OK, and use no tool."
#: Exit code where what was asked for by --kill could not be tried.
_KILL_NOT_TRIED = 3
_COLUMNS = ["kind", "attack", "outcome", "found"]
_REVOKE = "UPDATE gateway.api_keys SET revoked_at = now(), revoked_by = 'set-up' WHERE revoked_at IS NULL AND"
#: Keys of runs that never came to their end; one that still goes on keeps its own.
_LEFT_OVER = (
    "created_by = 'set-up' AND tenant ~ '^verify-[0-9a-f]{8}$' AND person IN ('verify', tenant || '-colleague')"
    " AND created_at < now() - interval '1 day'"
)
#: Violations that a row of the table names; the others are as many more.
_NAMED_MAX = 3


def verify(  # noqa: PLR0913 - each is an option
    say: Annotated[
        str, typer.Option(help="What is written in the conversation: let it make the agent ask for a call that waits.")
    ] = _SAY,
    agent: Annotated[str, typer.Option(help="Whom it is written to.")] = "default",
    wait: Annotated[float, typer.Option(min=1, max=600, help="Seconds that the agent has to answer.")] = 60,
    database: Annotated[
        str, typer.Option(metavar="URL", help="Asks the invariants of the database too, and uses a throw-away tenant.")
    ] = "",
    data: Annotated[
        Path | None, typer.Option(help="The same, of a running `placet up` in this folder, which has the key too.")
    ] = None,
    kill: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COMMAND",
            help="Run by a shell while a message is answered: let it end a service and start it again. May come again.",
        ),
    ] = None,
    settled_after: Annotated[
        float, typer.Option(min=0, help="Seconds that services have for what follows of what another did.")
    ] = 120,
    *,
    json: Json = False,
) -> None:
    """Attack your own running installation and say row by row what held. Approves nothing; kills what --kill kills.

    Exit code 1 if something did not hold, else 3 if a command of --kill could not be tried.
    """
    if database and data is not None:
        fail("--data has a database of its own: give one of --data and --database", code=2)
    database = database if data is None else url_beside(data)
    # Whoever ends the command ends what it has opened.
    for number in (signal.SIGTERM, signal.SIGHUP):
        # Who ignores that a terminal is closed, as under nohup, goes on.
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _end)
    try:
        with (
            progress("attacking", quiet=json),
            httpx.Client(base_url=address(data), timeout=TIMEOUT_SECONDS + wait) as http,
        ):
            rows = list(_attack(http, api_key(data), say, agent, wait, database, kill or []))
    except httpx.HTTPError as error:
        fail(f"no answer from {redacted_url(address(data))} (PLACET_URL says where Placet is): {error}")
    if database:
        with progress("asking the database", quiet=json):
            rows += _invariants(database, settled_after)
    counted = Counter(row.outcome for row in rows)
    numbers = {"held": counted["held"], "broken": counted["broken"], "not_tried": counted["not tried"]}
    told = [asdict(row) for row in rows]
    if json:
        show_json({**numbers, "rows": told})
    else:
        show_table(told, _COLUMNS)
        out.print(", ".join(f"{number} {name.replace('_', ' ')}" for name, number in numbers.items()))
    if numbers["broken"]:
        raise typer.Exit(1)
    if any(row.attack in (kill or []) and row.outcome == "not tried" for row in rows):
        raise typer.Exit(_KILL_NOT_TRIED)


def _end(number: int, _: object) -> NoReturn:
    raise SystemExit(128 + number)


def _attack(
    http: httpx.Client, own: str, say: str, agent: str, wait: float, database: str, kill: Sequence[str]
) -> Iterator[Row]:
    keys, scene = _keys_of_a_tenant(database), None
    foreign, colleague = keys
    try:
        yield from _prepared(foreign, database)
        scene = _scene(http, own, foreign, colleague, agent)
        yield from doors.forging(scene)
        yield from doors.reaching(scene, agent)
        yield from doors.strangers(scene)
        yield from doors.bad_bodies(scene)
        yield from calls.unknown_tools(scene)
        yield from doors.replaying(scene, say, wait)
        yield from calls.deciding(scene, wait)
        yield from doors.expiring(scene)
        yield from kills.killing(scene, kill, agent, say, wait)
        yield from calls.ending(scene, wait)
    finally:
        try:
            if scene is not None:
                scene.ask("POST", f"{scene.path}/end")
        finally:
            _revoke(database, keys)


def _revoke(database: str, keys: Sequence[str]) -> None:
    """Take keys back where they are kept: no gateway has to answer for it."""
    if ids := [key.split("_")[1] for key in keys if key]:
        import psycopg

        with psycopg.connect(database) as connection:
            connection.execute(f"{_REVOKE} key_id = ANY (%s)", (ids,))


def _scene(http: httpx.Client, own: str, foreign: str, colleague: str, agent: str) -> Scene:
    """Open the conversation: of the throw-away tenant where agents speak with it, else of the key's."""
    # A key that sees no conversation at all, its own neither, shows nothing of tenants.
    seen = http.get(f"/v1/conversations/{new_id()}", headers={"authorization": f"Bearer {own}"})
    if seen.status_code != httpx.codes.NOT_FOUND:
        fail(f"no conversation can be opened: {problem_line(seen)}")
    found = opened(http, foreign, agent) if foreign else None
    if isinstance(found, Scene):
        return replace(found, stranger=own, colleague=colleague, throw_away=True)
    found = opened(http, own, agent)
    if not isinstance(found, Scene):
        fail(f"no conversation can be opened: {problem_line(found)}")
    return replace(found, stranger=foreign)


def _keys_of_a_tenant(database: str) -> tuple[str, str]:
    """Return keys of two people of a tenant that nobody has; empty where none can be made."""
    if not database:
        return "", ""
    import psycopg

    from placet.deploy.postgres.redaction import redacted_error
    from placet.gateway.identity.bootstrap import create_key

    tenant, scopes = f"verify-{secrets.token_hex(4)}", ["chat", "decide", "operate", "admin"]
    try:
        with psycopg.connect(database) as connection:
            connection.execute(f"{_REVOKE} {_LEFT_OVER}")
            key = create_key(connection, tenant=tenant, person="verify", scopes=scopes)
            return key, create_key(connection, tenant=tenant, person=f"{tenant}-colleague", scopes=["decide"])
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction):
        return "", ""
    except psycopg.Error as error:
        fail(f"the database cannot be asked: {redacted_error(error)}", code=2)


def _prepared(foreign: str, database: str) -> Iterator[Row]:
    if database and not foreign:
        why = "no key can be made in this database: what follows is in a conversation of your own tenant"
        yield not_tried("tenant", "a throw-away tenant", why)


def _invariants(database: str, settled_after: float) -> Iterator[Row]:
    """Yield a row for each invariant that the database can tell of."""
    import psycopg

    from placet.cli.invariants import QUERY_SECONDS, check
    from placet.deploy.postgres.redaction import redacted_error

    try:
        found = check(database, settled_after_seconds=settled_after)
    except psycopg.Error as error:
        fail(f"the database cannot be asked: {redacted_error(error)}", code=2)
    for invariant, broken in found.items():
        if broken is None:
            yield not_tried("rows", invariant.name, f"it takes longer than {QUERY_SECONDS:.0f} s")
            continue
        named = "; ".join(f"{each.subject}: {each.found}" for each in broken[:_NAMED_MAX])
        more = f"; {len(broken) - _NAMED_MAX} more" if len(broken) > _NAMED_MAX else ""
        yield judged("rows", invariant.name, named + more if broken else invariant.sentence, held=not broken)
