"""`placet rulebook`: checking rules before they decide anything."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from services.placet.cli.output import Json, out, show_json

app = typer.Typer(no_args_is_help=True, help="Check rulebooks.")


@app.callback()
def rulebook() -> None:
    """Check rulebooks."""


@app.command()
def check(file: Annotated[Path, typer.Argument(metavar="FILE", help="The rulebook.")], *, json: Json = False) -> None:
    """Check a rulebook; problems are printed as FILE:LINE:COLUMN: what is wrong."""
    from services.policy.check import check as check_file

    report = check_file(file)
    if json:
        show_json(report.as_json())
    elif report.problems:
        sys.stderr.write("".join(f"{problem}\n" for problem in report.problems))
    else:
        out.print(f"{file}: {report.tools} tools, {report.rules} rules, no problems", markup=False)
    if report.problems:
        raise typer.Exit(1)
