"""What the gateway sees of grants, on the migrated database: policy writes, the view shows, nobody else's tables."""

from __future__ import annotations

from functools import partial

from placet.contracts.signing import Signer
from placet.gateway.admin.store import GRANTS, find, list_page
from placet.policy.rules import Rulebook
from placet.policy.service import build
from placet.policy.settings import PolicySettings
from tests.support.house import a_replica
from tests.support.policy_builders import a_grant_request, a_proposal, a_revocation

_EXPIRE = (
    "UPDATE policy.grants SET given_at = given_at - interval '2 hours', expires_at = clock_timestamp()"
    " WHERE grant_id = :grant_id"
)


async def test_the_view_tells_each_state_of_a_grant(
    module_database_url: str, limited_settings: PolicySettings, limited: Rulebook, approver: Signer
) -> None:
    """Active, used up, expired, revoked; the arguments are shown redacted and another tenant sees nothing."""
    arguments = {"amount": 100, "to": "bob"}
    conversations = ["active", "used_up", "expired", "revoked"]
    proposals = [a_proposal(limited, "ship", arguments=arguments, conversation_id=each) for each in conversations]
    asked = [a_grant_request(each.call, approver, scope="conversation", uses=1) for each in proposals]
    async with a_replica(
        "policy", module_database_url, partial(build, limited_settings), keys=limited_settings.keys
    ) as replica:
        await replica.send(*asked)
        await replica.send(a_proposal(limited, "ship", arguments=arguments, conversation_id="used_up"))
        await replica.execute(_EXPIRE, grant_id=asked[2].grant_id)
        await replica.send(a_revocation(asked[3].grant_id))
        async with replica.units.database.single() as connection:
            shown = await list_page(connection, GRANTS, "acme", after=None, limit=10, owner="person:ada")
            one = await find(connection, GRANTS, "acme", asked[0].grant_id)
            foreign = await list_page(connection, GRANTS, "rival", after=None, limit=10)
        assert [] == replica.dead
    assert {each: each for each in conversations} == {row["subject"]: row["state"] for row in shown}
    assert one is not None
    assert ('{"amount":100,"to":"•••"}', ["amount"], 1) == (one["arguments"], one["bounds"], one["uses_left"])
    assert [] == list(foreign)
