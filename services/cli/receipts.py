"""`placet receipt`: the receipt of one call, shown, saved and verified; the last one offline."""

from __future__ import annotations

import json as jsons
from pathlib import Path
from typing import Annotated, Any

import typer

from placet.cli.client import call
from placet.cli.output import Json, fail, out, show_json, show_table, spoken
from placet.cli.resources import Id

app = typer.Typer(no_args_is_help=True, help="What proves what became of a call: show it, save it, verify it offline.")

Keys = Annotated[Path | None, typer.Option(help="public.json, or its folder; PLACET_KEYS by default.")]


@app.command()
def show(call_id: Id, *, json: Json = False) -> None:
    """Show what a receipt says: the call, its verdict, who decided, its run and its result."""
    receipt = _load(call_id)
    if json:
        show_json(receipt)
        return
    proposal, execution = receipt["proposal"], receipt["execution"]
    for name in ("call_id", "tool", "arguments", "digest", "proposed_at"):
        out.print(f"{name.replace('_', ' '):<12} {spoken(str(proposal[name]))}")
    if verdict := receipt["verdict"]:
        out.print(f"{'verdict':<12} {verdict['effect']} by rule {spoken(verdict['rule'])}: {spoken(verdict['reason'])}")
    if execution:
        out.print(f"{'execution':<12} {execution['state']} in pool {execution['pool']}, attempt {execution['attempt']}")
    out.print(f"{'result':<12} {receipt['result']['kind']}, {receipt['result']['answered_at']}")
    out.print(f"{'chain':<12} {len(receipt['history'])} changes of state in {len(receipt['checkpoints'])} blocks")
    if votes := receipt["votes"]:
        show_table(votes, ["person", "verb", "outcome", "known_by", "decided_at", "reason"])


@app.command()
def save(call_id: Id, file: Annotated[Path | None, typer.Argument(help="receipt-ID.json by default.")] = None) -> None:
    """Save the receipt of a call to a file."""
    target, receipt = file or Path(f"receipt-{call_id}.json"), _load(call_id)
    try:
        target.write_text(jsons.dumps(receipt, ensure_ascii=False, indent=1) + "\n", "utf-8")
    except OSError as error:
        fail(f"{target}: {error.strerror}")
    out.print(f"{target}; verify it with: placet receipt verify {target} --keys public.json")


@app.command()
def verify(file: Annotated[Path, typer.Argument()], keys: Keys = None, *, json: Json = False) -> None:
    """Say whether a receipt holds, part by part and offline; 1 where anything of it was changed."""
    from placet.contracts.receipts import NotVerifiable, load_keys, load_receipt
    from placet.contracts.receipts import verify as verify_receipt
    from placet.runtime.settings import Settings

    public = keys or Settings().keys
    public = public / "public.json" if public.is_dir() else public
    try:
        found = verify_receipt(load_receipt(file.read_text("utf-8")), load_keys(public.read_text("utf-8")))
    except (NotVerifiable, OSError, UnicodeDecodeError) as error:
        fail(str(error), code=2)
    rows = [{"part": each.part, "holds": each.holds, "said": each.said} for each in found]
    holds = all(each.holds for each in found)
    if json:
        show_json({"holds": holds, "parts": rows})
    else:
        show_table([{**row, "holds": "yes" if row["holds"] else "NO"} for row in rows], ["part", "holds", "said"])
    if not holds:
        raise typer.Exit(1)


def _load(call_id: str) -> dict[str, Any]:
    found: dict[str, Any] = call("GET", f"/v1/tool-calls/{call_id}/receipt")
    return found
