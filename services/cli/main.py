"""The command itself: `placet up`, `run`, `migrate`, and the nouns."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import placet
from placet.cli import approvals, audit, jobs, receipts, retention, rulebook, slack, stops, workspace
from placet.cli.administration import NOUNS
from placet.cli.backup.command import backup, restore
from placet.cli.chat import chat
from placet.cli.output import Json, fail, progress, show_json, tell, tell_error
from placet.cli.verify.command import verify

app = typer.Typer(
    name="placet",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Placet: an approval queue between AI agents and the tools they call.",
)
app.add_typer(approvals.app, name="approvals")
app.add_typer(audit.app, name="audit")
for _name, _noun in NOUNS.items():
    app.add_typer(_noun.app, name=_name)
app.add_typer(jobs.jobs.app, name="jobs")
app.add_typer(receipts.app, name="receipt")
app.add_typer(retention.person, name="person")
app.add_typer(rulebook.app, name="rulebook")
app.add_typer(slack.app, name="slack")
app.add_typer(stops.app, name="stop")
app.add_typer(workspace.app, name="workspace")
app.command()(chat)
app.command()(backup)
app.command()(restore)
app.command()(verify)
app.command()(stops.resume)
app.command()(retention.purge)

#: Typer shows its own wording errors in a box of several lines; its base class is not exported by name.
_UsageError: Any = typer.BadParameter.__mro__[1]
#: The demo's rulebook; its tools and its model stand beside the package, or in it where a wheel was installed.
_RULEBOOK = Path(placet.__file__).parent / "deploy" / "rulebook.yaml"
_EXAMPLES = (Path(placet.__file__).parent / "examples", Path(placet.__file__).resolve().parents[1] / "examples")


@app.command()
def up(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the API and the page.")] = 8080,
    data: Annotated[Path, typer.Option(help="Folder that keeps everything.")] = Path(".data"),
    rules: Annotated[
        Path | None, typer.Option("--rulebook", envvar="PLACET_RULEBOOK", help="Rulebook; the demo shop's by default.")
    ] = None,
    tools: Annotated[
        Path | None, typer.Option(envvar="PLACET_TOOLS", help="Folder of your own tools; the demo's with its rulebook.")
    ] = None,
    *,
    json: Json = False,
) -> None:
    """Run everything in one process, with its own PostgreSQL. Stop with Ctrl-C."""
    import uvloop

    from placet.contracts.errors import PlacetError
    from placet.embedded import system as embedded
    from placet.runtime.logging import set_up_logging

    _refuse_unknown_settings()
    set_up_logging(os.environ.get("PLACET_LOG_LEVEL", "warning"), os.environ.get("PLACET_LOG_FORMAT", "console"))
    if rules is None and tools is None:
        tools = next(filter(Path.is_dir, _EXAMPLES), None)
    # Not resolved: a link may lead to another version later, as Kubernetes does with mounted files.
    wanted = embedded.Embedded(port, data.resolve(), (rules or _RULEBOOK).absolute(), tools and tools.absolute())

    def ready(link: str) -> None:
        if json:
            show_json({"url": wanted.url, "sign_in": link, "admin_key_file": str(wanted.data / "admin.key")})
        else:
            sys.stdout.write(f"Placet is ready: {wanted.url} (sign in once with {link})\n")
        sys.stdout.flush()

    def say(line: str) -> None:
        sys.stderr.write(f"placet: {line}\n")

    try:
        uvloop.run(embedded.run(wanted, say, ready))
    except (PlacetError, OSError) as error:
        fail(str(error), code=2)


@app.command()
def run(
    service: Annotated[
        str, typer.Argument(help="gateway, agent, policy, approval, notifier, executor, jobs or dead-letters.")
    ],
    pool: Annotated[list[str] | None, typer.Option(help="Executor only: the pools to serve.")] = None,
) -> None:
    """Run one service of the distributed footing until it is told to stop."""
    from placet.contracts.topology import SERVICES

    service = service.replace("-", "_")
    if service not in SERVICES:
        fail(f"no service is called {service!r}; there are {', '.join(SERVICES)}", code=2)
    if pool and service != "executor":
        fail("--pool is for the executor", code=2)
    if pool:
        os.environ["PLACET_EXECUTOR_POOLS"] = ",".join(pool)
    # In place of this process: a command line weighs 8 MB, which a service would carry for as long as it runs.
    os.execv(sys.executable, [sys.executable, "-m", f"placet.{service}"])  # noqa: S606 - no shell


@app.command()
def migrate(*, json: Json = False) -> None:
    """Bring the database at PLACET_DATABASE_URL to the newest schema, and create missing signing keys."""
    import psycopg
    import sqlalchemy.exc

    from placet.contracts.errors import PlacetError
    from placet.contracts.signing import create_keys
    from placet.deploy.migrations import migrate as bring_up
    from placet.deploy.postgres.redaction import redacted_error
    from placet.runtime.settings import Settings

    _refuse_unknown_settings()
    settings = Settings()
    try:
        with progress("migrating", quiet=json):
            before, after = bring_up(settings.database_url.get_secret_value())
            made = create_keys(settings.keys)
    except (psycopg.Error, sqlalchemy.exc.SQLAlchemyError, PlacetError, OSError) as error:
        fail(redacted_error(error))
    was = "" if before == after else f" (was {before or 'empty'})"
    told = {"before": before, "after": after, "signing_keys_created": [path.name for path in made]}
    tell(told, f"database at {after}{was}", json=json)


def _refuse_unknown_settings() -> None:
    from placet.runtime.settings import UnknownSetting, refuse_unknown

    try:
        refuse_unknown(os.environ)
    except UnknownSetting as error:
        fail(str(error), code=2)


def main() -> None:
    """Run the command; what was typed wrongly is one line too."""
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
    except OSError as error:
        # One that names a file is no error of printing, and none that a command expects.
        if error.filename is not None:
            raise
        # Nor is one of a connection, of which many have no number.
        if error.errno is None or (isinstance(error, ConnectionError) and not isinstance(error, BrokenPipeError)):
            tell_error(f"{type(error).__name__}: {error}")
            raise SystemExit(1) from error
        _drop_output()
        if not isinstance(error, BrokenPipeError):
            tell_error(f"cannot print: {error.strerror}")
        raise SystemExit(1) from error
    except _UsageError as error:
        tell_error(error.format_message())
        raise SystemExit(2) from error
    except typer.Abort:
        raise SystemExit(130) from None
    except UnicodeEncodeError as error:
        # Not 1, with which `receipt verify` says that something was changed.
        tell_error(f"cannot print in the encoding {error.encoding}: set PYTHONIOENCODING=utf-8")
        raise SystemExit(2) from error
    except ValueError as error:
        from placet.runtime.settings import what_is_wrong

        told = what_is_wrong(error)
        if told is None:
            raise
        tell_error(told)
        raise SystemExit(2) from error
    raise SystemExit(code if isinstance(code, int) else 0)


def _drop_output() -> None:
    """Let what is still to be printed go nowhere: the interpreter would try it again, and complain, at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


if __name__ == "__main__":
    main()
