"""Lists that come in pages: the same two options for all of them, and a line that says where the next page begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from services.placet.cli.client import call
from services.placet.cli.output import out, show_json, show_table

Limit = Annotated[int, typer.Option(min=1, max=200, help="How many at most.")]
After = Annotated[str, typer.Option("--cursor", help="Where the last page ended.")]

#: Rows of a page where nobody says another number.
LIMIT = 50


def show_page(
    path: str, asked: Mapping[str, Any], columns: Sequence[str], *, limit: int, cursor: str, json: bool
) -> None:
    """Print one page of a list, and where the next one begins. What is empty in `asked` is not asked."""
    query = {"limit": limit} | {name: value for name, value in {**asked, "cursor": cursor}.items() if value}
    page = call("GET", path, params=query)
    if json:
        show_json(page)
        return
    show_table(page["items"], columns)
    tell_next(page)


def tell_next(page: Mapping[str, Any]) -> None:
    """Say where the next page begins, if there is one."""
    if page.get("next"):
        out.print(f"more: --cursor {page['next']}")
