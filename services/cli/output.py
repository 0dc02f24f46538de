"""How commands speak: tables for people, JSON for programs, one line on standard error for what went wrong.

After `--json` that line is a JSON object too.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from placet.domain.card_text import visible

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

# Never markup: what is printed was written by models and strangers, and brackets of theirs must not hide or break it.
#: Wide where nobody looks at a screen, so that ids stay whole for grep and cut.
_PIPE_WIDTH = 400
out = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)
err = Console(stderr=True, highlight=False, markup=False)


def at_terminal() -> bool:
    """Tell whether somebody can read what is printed and answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def fail(message: str, *, code: int = 1) -> NoReturn:
    """Say on standard error what went wrong and stop with `code`."""
    tell_error(message)
    raise typer.Exit(code)


def tell_error(message: str) -> None:
    """Say on standard error what went wrong: one line, and after `--json` one JSON object `{"error": …}`.

    Looks at what was typed, because a command may fail before its options are understood.
    """
    line = visible(" ".join(message.split()))
    asked_for_json = "--json" in sys.argv[1:]
    sys.stderr.write(json.dumps({"error": line}, ensure_ascii=False) + "\n" if asked_for_json else f"placet: {line}\n")


def show_json(value: Any) -> None:
    """Print a JSON value."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")


def tell(answer: Any, line: str, *, json: bool) -> None:
    """Print what was answered to a request: as JSON for programs, as a line for people."""
    show_json(answer) if json else out.print(line)


def show_table(rows: Sequence[dict[str, Any]], columns: Sequence[str]) -> None:
    """Print rows as a table; an empty list says so."""
    if not rows:
        out.print("nothing here")
        return
    table = Table(box=None, header_style="bold")
    for column in columns:
        table.add_column(column.replace("_", " "), overflow="fold", no_wrap=column == "id")
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    out.print(table)


def show_fields(row: dict[str, Any]) -> None:
    """Print one thing, a line per field."""
    width = max((len(name) for name in row), default=0)
    for name, value in row.items():
        out.print(f"{name.replace('_', ' '):<{width}}  ", end="", style="bold")
        out.print(_cell(value))


def show_whole(thing: dict[str, Any], parts: Sequence[str], tables: Mapping[str, Sequence[str]]) -> None:
    """Print one thing: its fields, its `parts` as fields of their own, its lists as tables by name -> columns.

    Parts and lists that are not there, or empty, are left out.
    """
    apart = {*parts, *tables}
    show_fields({name: value for name, value in thing.items() if name not in apart})
    for name in parts:
        if fields := thing.get(name):
            out.print(f"\n{name}", style="bold")
            show_fields(fields)
    for name, columns in tables.items():
        if rows := thing.get(name):
            out.print(f"\n{name}", style="bold")
            show_table(rows, columns)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return visible(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def spoken(text: str) -> str:
    """Return what somebody says as a terminal may print it: lines stay lines, nothing else steers the screen."""
    # Marks that join or turn letters stay: some languages are written with them. Controls and half characters never.
    steering = {char for char in set(text) - {"\n", "\t"} if unicodedata.category(char) in {"Cc", "Cs"}}
    return "".join(visible(char) if char in steering else char for char in text)


@contextmanager
def progress(text: str, *, quiet: bool) -> Iterator[None]:
    """Show that long work goes on, on a terminal only."""
    if quiet or not err.is_terminal:
        yield
        return
    with err.status(text):
        yield
