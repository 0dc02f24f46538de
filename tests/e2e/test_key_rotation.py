"""Signing keys change while a call waits: what was signed stays good, the call runs, and its receipt verifies."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.contracts.signing import SIGNERS
from placet.deploy import keys
from tests.e2e.test_embedded import Embedded, placet
from tests.e2e.test_receipts import PARTS, receipt_of, verified
from tests.support.people import a_visitor, is_result
from tests.support.ports import free_port

pytestmark = pytest.mark.timeout(240)


async def test_a_call_that_waits_outlives_new_keys_of_every_signer(tmp_path: Path) -> None:
    """Held and announced under the old keys, approved under the new ones: it runs once, and all of it verifies."""
    house = Embedded(tmp_path / "data", free_port(), {})
    house.data.mkdir()
    house.start()
    visitor = await a_visitor(house.caller())
    await visitor.say("create a payment link over 299 TRY")
    card = await visitor.see_card()
    house.stop()
    for signer in SIGNERS:
        keys.rotate(house.data / "keys", signer)
    house.start()
    house.stop()
    for signer in SIGNERS:
        keys.rotate(house.data / "keys", signer, restarted=True)
    house.start()
    admin = house.caller()
    assert 200 == (await admin.decide(card, "approve")).status_code
    result = (await visitor.see(is_result("create_pay_link")))["data"]
    assert "success" == result["status"]
    receipt = await receipt_of(admin, result["call_id"])
    assert (0, PARTS) == verified(receipt, house.data / "keys", tmp_path)
    url, folder = f"{house.database_url}", str(house.data / "keys")
    checked = placet(house, "audit", "verify", "--database", url, "--keys", folder)
    assert (0, True) == (checked.returncode, "nothing was changed" in checked.stdout), checked.stdout + checked.stderr
    assert 0 == house.stop()
