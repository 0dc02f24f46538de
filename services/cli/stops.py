"""`placet stop` and `placet resume`: the emergency stop."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from placet.cli.client import call
from placet.cli.output import Json, fail, tell
from placet.cli.resources import Id, Resource

stops = Resource("stops", "Stop calls at once, and list what is stopped.")
stops.list(
    "List emergency stops, newest first.",
    ["id", "state", "tenant", "tool", "agent", "reason", "stopped_by", "stopped_at", "resumed_by", "genuine"],
    states="active, resumed or all.",
    state="active",
)
app = stops.app


@app.callback(invoke_without_command=True, no_args_is_help=False)
def stop(  # noqa: PLR0913 - each is an option
    context: typer.Context,
    tool: Annotated[str, typer.Option(help="Calls of this tool, of your tenant.")] = "",
    agent: Annotated[str, typer.Option(help="Calls that this agent proposes, of your tenant.")] = "",
    tenant: Annotated[str, typer.Option(help="All calls of a tenant: your own, or any for the house.")] = "",
    reason: Annotated[str, typer.Option(help="Why; people read it.")] = "",
    *,
    everything: Annotated[bool, typer.Option("--all", help="All calls of everybody; for the house.")] = False,
    by_another: Annotated[bool, typer.Option(help="Only someone else may lift it.")] = False,
    anyway: Annotated[bool, typer.Option("--anyway", help="Stop it though no such name is known.")] = False,
    json: Json = False,
) -> None:
    """Let no such call begin to run from now on. What waits for people stays; what runs ends by itself."""
    named: dict[str, Any] = {"tool": tool, "agent": agent, "tenant": tenant, "all": everything}
    given = {name: value for name, value in named.items() if value}
    if context.invoked_subcommand:
        if given or reason:
            fail("list stops nothing: say what to stop, or list", code=2)
        return
    if len(given) != 1:
        fail("say what to stop: --tool NAME, --agent NAME, --tenant NAME or --all", code=2)
    if not reason.strip():
        fail("say why: --reason TEXT", code=2)
    asked = {**given, "reason": reason, "by_another": by_another, "anyway": anyway}
    made = call("POST", "/v1/stops", json=asked)
    tell(made, f"stopped; lift it with: placet resume {made['id']}", json=json)


def resume(
    stop_id: Id, *, reason: Annotated[str, typer.Option(help="Why, for the record.")] = "", json: Json = False
) -> None:
    """Lift an emergency stop: such calls may run again from now on."""
    lifted = call("POST", f"/v1/stops/{stop_id}/resume", json={"reason": reason})
    tell(lifted, f"{stop_id} is lifted", json=json)
