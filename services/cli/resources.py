"""What administrators list, show and act on: each noun of the command line is one `Resource` of the API.

A list comes in pages. An action is one request and one line that says what happens; with `--json` the answer itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any
from urllib.parse import quote

import typer

from placet.cli.client import call
from placet.cli.output import Json, out, show_json, show_table, show_whole, tell

Limit = Annotated[int, typer.Option(min=1, max=200, help="How many at most.")]
After = Annotated[str, typer.Option("--cursor", help="Where the last page ended.")]
Id = Annotated[str, typer.Argument(metavar="ID")]

#: Rows of a page where nobody says another number.
LIMIT = 50
_NONE: Mapping[str, Sequence[str]] = MappingProxyType({})


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


@dataclass(frozen=True)
class Resource:
    """One kind of thing at `/v1/<path>`, and its commands."""

    path: str
    help: str
    app: typer.Typer = field(init=False)

    def __post_init__(self) -> None:
        """Make the group of commands."""
        object.__setattr__(self, "app", typer.Typer(no_args_is_help=True, help=self.help))

    def list(self, summary: str, columns: Sequence[str], *, states: str = "", state: str = "") -> None:
        """Add `list`; `states` explains the option `--state`, `state` is its default. `all` asks for every state."""
        path = f"/v1/{self.path}"
        if not states:

            @self.app.command("list", help=summary)
            def list_all(*, json: Json = False) -> None:
                page = call("GET", path)
                show_json(page) if json else show_table(page["items"], columns)

            return
        wanted = state

        @self.app.command("list", help=summary)
        def list_page(
            state: Annotated[str, typer.Option(help=states)] = wanted,
            limit: Limit = LIMIT,
            cursor: After = "",
            *,
            json: Json = False,
        ) -> None:
            asked = {"state": "" if state == "all" else state}
            show_page(path, asked, columns, limit=limit, cursor=cursor, json=json)

    def show(self, summary: str, parts: Sequence[str] = (), tables: Mapping[str, Sequence[str]] = _NONE) -> None:
        """Add `show`; `parts` and `tables` are what `show_whole` prints apart."""

        @self.app.command("show", help=summary)
        def show_one(thing: Id, *, json: Json = False) -> None:
            found = call("GET", self._place(thing))
            show_json(found) if json else show_whole(found, parts, tables)

    def _place(self, thing: str) -> str:
        """Return the path of one thing, whatever stands in its id."""
        return f"/v1/{self.path}/{quote(thing, safe='')}"

    def act(
        self, name: str, summary: str, said: str | Callable[[dict[str, Any]], str], *, method: str = "POST"
    ) -> None:
        """Add a command that does one thing; `said` is the line, or makes it of the answer. `{id}` names the thing."""
        suffix = "" if method == "DELETE" else f"/{name}"

        @self.app.command(name, help=summary)
        def act_on(thing: Id, *, json: Json = False) -> None:
            answer = call(method, self._place(thing) + suffix)
            line = (said if isinstance(said, str) else said(answer)).replace("{id}", thing)
            tell(answer or {"id": thing, "state": f"{name}d" if name[-1] == "e" else f"{name}ed"}, line, json=json)
