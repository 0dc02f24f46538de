"""`placet purge` and `placet person erase`: beside the database, with the rights of the owner of the schemas."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from placet.cli.audit import DatabaseUrl, Keys, beside
from placet.cli.client import at_database, url_beside
from placet.cli.output import Json, fail, out, show_json, tell
from placet.deploy.retention import DAYS_MAX

person = typer.Typer(no_args_is_help=True, help="Erase a person's data.")

Data = Annotated[Path | None, typer.Option(help="Folder of a running `placet up`: its database.")]
Days = Annotated[int | None, typer.Option(min=0, max=DAYS_MAX, help="Days; left out: kept for ever.")]


def purge(  # noqa: PLR0913 - each is an option
    conversations: Days = None,
    jobs: Days = None,
    dead_letters: Days = None,
    history: Days = None,
    database: DatabaseUrl = "",
    data: Data = None,
    keys: Keys = None,
    *,
    stay: Annotated[bool, typer.Option("--stay", help="Do it again and again, as PLACET_RETENTION_… say.")] = False,
    json: Json = False,
) -> None:
    """Delete what is older than so many days, and erase the persons whom administrators asked for over HTTP.

    1 where the history was to be purged, and no public keys say which blocks the house has sealed.
    """
    from placet.deploy.retention.duty import purge_now, verifier_of
    from placet.deploy.retention.purging import Keep

    wanted = {"conversations": conversations, "jobs": jobs, "dead_letters": dead_letters, "history": history}
    given = {name: timedelta(days=days) for name, days in wanted.items() if days is not None}
    if "history" in given and given["history"] < given.get("conversations", timedelta.max):
        fail("keep the history at least as long as conversations: a receipt needs it", code=2)
    if stay and given:
        fail("with --stay PLACET_RETENTION_… say how long what is kept", code=2)

    database, keys = beside(data, database, keys)
    if stay:
        _stay(database, keys)
        return
    import structlog

    from placet.runtime.settings import Settings

    # What is told beside the counts goes where it is in nobody's way.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    verifier = verifier_of(keys or Settings().keys) if "history" in given else None
    gone = at_database(database, lambda found: purge_now(found, Keep(**given), verifier))
    counted = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in gone.items())
    tell(gone, f"{counted} deleted", json=json)
    if "history" in given and verifier is None:
        fail("the history stays: --keys, or PLACET_KEYS, names the folder of the public keys that verify its blocks")


def _stay(database: str, keys: Path | None) -> None:
    """Purge until the process is told to end, with health and metrics on their port where there is one."""
    from placet.deploy.retention.duty import purge_again_and_again
    from placet.deploy.retention.settings import RetentionSettings
    from placet.runtime.health import telling_health
    from placet.runtime.logging import set_up_logging
    from placet.runtime.settings import what_is_wrong

    try:
        settings = RetentionSettings() if keys is None else RetentionSettings(keys=keys)
    except ValueError as error:
        fail(what_is_wrong(error) or str(error), code=2)
    set_up_logging(settings.log_level, settings.log_format)

    async def purging(found: Any) -> None:
        async with telling_health(found.ready, settings):
            duty = asyncio.create_task(purge_again_and_again(found, settings))
            # Process 1 of a container ends by no signal that it does not ask for.
            for number in (signal.SIGTERM, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, duty.cancel)
            with suppress(asyncio.CancelledError):
                await duty

    at_database(database, purging)


@person.command("erase")
def erase_person(
    who: Annotated[
        str, typer.Argument(metavar="ID", help="As the directory has them; a visitor: TENANT/visitor:NAME.")
    ],
    database: DatabaseUrl = "",
    data: Data = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Delete a person's conversations, and put a pseudonym in their place everywhere else. It cannot be undone.

    1 where nothing has that name, or something of theirs still goes on.
    """
    from dataclasses import asdict

    from placet.deploy.retention.erasing import erase

    if not yes and not typer.confirm(f"Erase {who} for good?", default=False, err=json):
        fail("nothing was erased")
    database = database if data is None else url_beside(data)
    done = at_database(database, lambda found: erase(found, who))
    if not done.pseudonym and not done.left:
        fail(f"nothing here has the name {who}: nothing was erased")
    if json:
        show_json(asdict(done))
    else:
        if done.pseudonym:
            out.print(f"{done.conversations} conversations deleted; elsewhere they are {done.pseudonym} now")
        for place in done.left_to_visitors:
            out.print(f"opened with their key, and written in with its token: placet person erase {place}")
        for place in done.left:
            out.print(f"not deleted, because something goes on or waits there: {place}")
    if done.left:
        raise typer.Exit(1)
