"""Receipts on a running system: made for every end of a call, and verified by the one file alone."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_embedded import Embedded, placet, running
from tests.support.people import a_visitor, is_result
from tests.support.system import ROOT, until

pytestmark = pytest.mark.timeout(240)

PARTS = ["receipt", "chain", "proposal", "verdict", "votes", "permit", "execution", "result"]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A running embedded Placet."""
    with running(tmp_path_factory.mktemp("receipts")) as made:
        yield made


async def receipt_of(house: Embedded, call_id: str, folder: Path) -> Path:
    """Save the receipt of a call once it is sealed."""
    file = folder / f"{call_id}.json"

    async def is_sealed() -> bool:
        return placet(house, "receipt", "save", call_id, str(file)).returncode == 0

    await until(is_sealed, "the call is sealed")
    return file


def verified(house: Embedded, file: Path, folder: Path) -> tuple[int, list[str]]:
    """Verify a file with the script alone, in a folder that has nothing of Placet's."""
    script = folder / "receipts.py"
    shutil.copy(ROOT / "shared" / "contracts" / "receipts.py", script)
    command = [sys.executable, "-I", str(script), str(file), "--keys", str(house.data / "keys" / "public.json")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


async def ended(house: Embedded, said: str, tool: str, decision: str = "") -> str:
    """Have a call asked for, decided where it is held, and ended; return its id."""
    admin = house.caller()
    visitor = await a_visitor(admin)
    await visitor.say(said)
    if decision:
        answer = await admin.decide(await visitor.see_card(), decision)
        assert answer.status_code == 200, answer.text
    call: dict[str, Any] = (await visitor.see(is_result(tool)))["data"]
    return str(call["call_id"])


async def test_every_end_has_a_receipt_that_verifies_alone(house: Embedded, tmp_path: Path) -> None:
    """Allowed, approved and denied: the script says of each part that it holds."""
    calls = [
        await ended(house, "find red shoes under 500", "search_products"),
        await ended(house, "create a payment link over 299 TRY", "create_pay_link", "approve"),
        await ended(house, "create a payment link over 299 TRY", "create_pay_link", "deny"),
    ]
    for call_id in calls:
        file = await receipt_of(house, call_id, tmp_path)
        code, lines = verified(house, file, tmp_path)
        assert (0, PARTS) == (code, [line.split()[1] for line in lines])
