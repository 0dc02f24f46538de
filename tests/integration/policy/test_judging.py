"""Policy on real PostgreSQL: each proposed call gets one verdict and one message, whatever is delivered how often."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from placet.contracts.messages import (
    ApprovalRequested,
    Message,
    ToolCall,
    ToolCallPermitted,
    ToolCallProposed,
    ToolCallRefused,
)
from placet.contracts.permit import verify_permit
from placet.contracts.signing import Verifier
from placet.domain.yaml_source import RulebookInvalid
from placet.policy.rules import Rulebook
from placet.policy.service import build
from placet.policy.settings import PolicySettings
from tests.builders import an_abandonment, an_event
from tests.support.house import Replica
from tests.support.policy_builders import a_proposal


def changed(proposed: ToolCallProposed, **changes: Any) -> ToolCallProposed:
    """Return a proposal whose call was changed after its digest was taken."""
    return proposed.model_copy(update={"call": proposed.call.model_copy(update=changes)})


async def only_answer(replica: Replica, proposed: ToolCallProposed) -> Message:
    """Have a proposal judged; return the one message that follows."""
    sent = await replica.send(proposed)
    assert len(sent) == 1
    return sent[0]


async def verdicts(replica: Replica) -> list[tuple[str, str, str]]:
    """Return call, effect and rule of every verdict."""
    rows = await replica.rows("SELECT call_id, effect, rule FROM policy.verdicts ORDER BY call_id")
    return [(row["call_id"], row["effect"], row["rule"]) for row in rows]


async def test_an_allowed_call_gets_a_permit_for_its_pool(
    replica: Replica, rulebook: Rulebook, verifier: Verifier
) -> None:
    """Signed by policy, good for the rulebook's seconds, and it names the verdict behind it."""
    proposed = a_proposal(rulebook, "search", arguments={})
    permitted = await only_answer(replica, proposed)
    assert isinstance(permitted, ToolCallPermitted)
    permit = verify_permit(verifier, permitted.permit, proposed.call, pool="reading")
    row = (await replica.rows("SELECT * FROM policy.verdicts"))[0]
    assert ("policy", row["verdict_id"], 120) == (permit.iss, permit.reference, permit.exp - permit.iat)
    assert ("allow", "default:safe_search", rulebook.digest, proposed.call.schema_digest) == (
        row["effect"],
        row["rule"],
        row["rulebook_digest"],
        row["schema_digest"],
    )


async def test_a_held_call_is_passed_on_with_its_card(replica: Replica, rulebook: Rulebook) -> None:
    """People get the summary in the conversation's language, redacted, with the rule that asks them."""
    proposed = a_proposal(rulebook, "pay", language="de", arguments={"amount": 299, "to": "secret"})
    held = await only_answer(replica, proposed)
    assert isinstance(held, ApprovalRequested)
    expected = proposed.call.model_copy(update={"shown_arguments": '{"amount":299,"to":"•••"}'})
    assert (expected, "payments", 120) == (held.call, held.pool, held.permit_expires_after_seconds)
    assert "299 an ••• zahlen?" == held.summary
    assert ("payments", "It costs money.", rulebook.digest) == (held.rule, held.reason, held.rulebook_digest)
    assert (["requester", "operators"], 60) == (held.approval.approvers, held.approval.expires_after_seconds)


@pytest.mark.parametrize(
    ("tool", "changes", "effect", "reason"),
    [
        ("erase", {}, "deny", "erasing is not possible here"),
        ("vanished", {}, "deny", "there is no tool named 'vanished'"),
        ("search", {"schema_digest": "c" * 64}, "deny", "it has changed since"),
    ],
)
async def test_a_call_that_may_not_run_is_refused_with_a_reason(
    replica: Replica, rulebook: Rulebook, tool: str, changes: dict[str, Any], effect: str, reason: str
) -> None:
    """The model is told in one sentence that nothing ran, and no permit leaves policy."""
    proposed = a_proposal(rulebook, tool, **changes)
    refused = await only_answer(replica, proposed)
    assert isinstance(refused, ToolCallRefused)
    assert ("refused", proposed.call.call_id, "") == (refused.kind, refused.call_id, refused.decided_by)
    assert (True, True) == (refused.reason.startswith("The call did not run: "), reason in refused.reason)
    assert effect == (await verdicts(replica))[0][1]


async def test_a_condition_that_fails_holds_the_call(replica: Replica, rulebook: Rulebook) -> None:
    """An amount that is missing is no small amount."""
    held = await only_answer(replica, a_proposal(rulebook, "pay", arguments={}))
    assert isinstance(held, ApprovalRequested)
    assert ("small-payments", ["operators"]) == (held.rule, held.approval.approvers)


@pytest.mark.parametrize(
    ("origins", "rule"),
    [({"/to": ["tool:read_inbox"]}, "default:unsafe_api"), ({}, "default:unsafe_api"), (None, "named")],
)
async def test_a_target_that_nobody_named_is_held(
    replica: Replica, rulebook: Rulebook, origins: dict[str, list[str]] | None, rule: str
) -> None:
    """People get the call with where its values stood; where nobody looked, the rule that asks for it holds it."""
    proposed = a_proposal(rulebook, "mail", arguments={"to": "eve@evil.example"}, origins=origins, asked="Read my mail")
    held = await only_answer(replica, proposed)
    assert isinstance(held, ApprovalRequested)
    assert (rule, origins, "Read my mail") == (held.rule, held.call.origins, held.call.asked)


async def test_a_target_that_the_requester_named_runs(replica: Replica, rulebook: Rulebook) -> None:
    """A rule that asks for it lets such a call through, and whoever runs it gets nothing of the conversation."""
    told = {"origins": {"/to": ["user"]}, "asked": "Write to bob@shop.example"}
    permitted = await only_answer(replica, a_proposal(rulebook, "mail", arguments={"to": "bob@shop.example"}, **told))
    assert isinstance(permitted, ToolCallPermitted)
    assert ("", None) == (permitted.call.asked, permitted.call.origins)


async def test_a_second_proposal_of_the_call_gets_no_second_answer(
    replicas: tuple[Replica, Replica], rulebook: Rulebook
) -> None:
    """The first answer was committed with the verdict; a permit is never signed anew."""
    proposed = a_proposal(rulebook, "search")
    assert [ToolCallPermitted] == [type(message) for message in await replicas[0].send(proposed)]
    assert [] == await replicas[1].send(proposed)
    assert ([], 1) == (replicas[1].dead, len(await verdicts(replicas[0])))


async def test_the_same_event_at_two_replicas_is_answered_once(
    replicas: tuple[Replica, Replica], rulebook: Rulebook
) -> None:
    """Duplicates, in one envelope and in two processes at once, meet the inbox."""
    for _ in range(20):
        event = an_event(a_proposal(rulebook, "search"))
        sent = await asyncio.gather(*[replica.send_events(event, event) for replica in replicas])
        assert [1] == [len(messages) for messages in sent if messages]


async def test_two_proposals_of_a_call_at_once_are_answered_once(
    replicas: tuple[Replica, Replica], rulebook: Rulebook
) -> None:
    """Two events with the same call race for the verdict; the later one waits and finds it taken."""
    for _ in range(50):
        proposed = a_proposal(rulebook, "search")
        sent = await asyncio.gather(*[replica.send(proposed) for replica in replicas])
        assert [ToolCallPermitted] == [type(message) for messages in sent for message in messages]
    assert [[], []] == [replica.dead for replica in replicas]


async def test_a_call_proposed_again_with_other_contents_is_an_attack(replica: Replica, rulebook: Rulebook) -> None:
    """One id is one call: what was judged once is not exchanged later."""
    first = a_proposal(rulebook, "search")
    await replica.send(first)
    assert [] == await replica.send(a_proposal(rulebook, "pay", call_id=first.call.call_id))
    assert [True] == ["with other contents" in reason for reason in replica.dead]
    assert [(first.call.call_id, "allow", "default:safe_search")] == await verdicts(replica)


@pytest.mark.parametrize(
    "changes",
    [
        {"digest": "0" * 64},
        {"arguments": '{"amount":1}'},
        {"conversation_id": "conversation-2"},
        {"tool": "pay"},
        {"tenant": "other"},
    ],
    ids=lambda changes: next(iter(changes)),
)
async def test_a_call_that_is_not_what_its_digest_says_is_an_attack(
    replica: Replica, rulebook: Rulebook, changes: dict[str, Any]
) -> None:
    """It is buried with an alert and has no verdict; its neighbour is judged."""
    good = a_proposal(rulebook, "search")
    sent = await replica.send(changed(a_proposal(rulebook, "search"), **changes), good)
    assert [ToolCallPermitted] == [type(message) for message in sent]
    assert [True] == [reason.startswith("security:") for reason in replica.dead]
    assert [good.call.call_id] == [call_id for call_id, _, _ in await verdicts(replica)]


@pytest.mark.parametrize("arguments", ['{"amount":1,"amount":2}', "[1]", "{", ""])
async def test_arguments_that_are_not_strict_json_are_an_attack(
    replica: Replica, rulebook: Rulebook, arguments: str
) -> None:
    """The agent refuses such arguments at its door, so only an attacker sends them on."""
    assert [] == await replica.send(a_proposal(rulebook, "search", arguments=arguments))
    assert [True] == ["never passed the agent's door" in reason for reason in replica.dead]


async def test_a_call_of_another_tenant_with_a_known_id_is_an_attack(replica: Replica, rulebook: Rulebook) -> None:
    """A tenant can neither read nor replace another tenant's verdict by guessing a call's id."""
    first = a_proposal(rulebook, "search")
    await replica.send(first)
    again: ToolCall = a_proposal(rulebook, "search", call_id=first.call.call_id, tenant="other").call
    assert [] == await replica.send(ToolCallProposed(tenant="other", call=again))
    assert [True] == [reason.startswith("security:") for reason in replica.dead]


async def test_an_invalid_rulebook_builds_no_service(
    replica: Replica, settings: PolicySettings, bad_rulebook: Path
) -> None:
    """Policy does not start with rules that it cannot read."""
    with pytest.raises(RulebookInvalid):
        build(settings.model_copy(update={"rulebook": bad_rulebook}), replica.service.runtime)


def test_an_invalid_rulebook_ends_the_process_with_its_lines(settings: PolicySettings, bad_rulebook: Path) -> None:
    """Code 2, and on standard error each problem with file, line and column."""
    environment = os.environ | {"PLACET_RULEBOOK": str(bad_rulebook), "PLACET_KEYS": str(settings.keys)}
    command = [sys.executable, "-m", "placet.policy"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    lines = done.stderr.splitlines()
    assert (2, f"placet policy: {bad_rulebook}:2:3: key 'description' is missing") == (done.returncode, lines[0])
    assert [True] * 3 == [f"{bad_rulebook}:2:" in line for line in lines]


async def test_a_call_whose_proposal_was_given_up_fails_and_is_not_judged_any_more(
    replicas: tuple[Replica, Replica], rulebook: Rulebook
) -> None:
    """The model is told once that nothing ran, people who gave it up, and a second copy of the proposal is too late."""
    proposed = a_proposal(rulebook, "search")
    abandoned = an_abandonment("policy.tool-calls", proposed.call)
    (refused,) = await replicas[0].send(abandoned)
    assert isinstance(refused, ToolCallRefused)
    assert ("failed", proposed.call.call_id, "acme") == (refused.kind, refused.call_id, refused.tenant)
    assert "The call did not run: it could not be judged, and an operator gave it up." == refused.reason
    assert [] == await replicas[1].send(abandoned)
    assert [] == await replicas[1].send(proposed)
    (row,) = await replicas[0].rows("SELECT effect, rule, reason FROM policy.verdicts")
    assert ("deny", "dead-letter-discarded", True) == (row["effect"], row["rule"], "person:grace" in row["reason"])
    assert ([], []) == (replicas[0].dead, replicas[1].dead)


async def test_a_call_that_was_judged_all_the_same_is_not_given_up(replica: Replica, rulebook: Rulebook) -> None:
    """What followed from its verdict is on its way and stands."""
    proposed = a_proposal(rulebook, "search")
    await replica.send(proposed)
    assert [] == await replica.send(an_abandonment("policy.tool-calls", proposed.call))
    assert ["allow"] == [effect for _, effect, _ in await verdicts(replica)]
