"""Jobs that attempts of other jobs have done: they share what is left to the attempt, and count as what it used."""

from __future__ import annotations

from typing import Any

import pytest

from placet.agent import attempts
from placet.agent.accomplish import NOTHING_LEFT, budget_of
from placet.agent.conversation import Answer
from placet.agent.rules import Behaviour, Result
from placet.agent.turns import Said
from placet.contracts import messages as m
from placet.domain.agents import AccomplishEntry
from placet.domain.catalog import Catalog
from placet.domain.house_tools import ACCOMPLISH_SPEC
from tests.support.agents import says
from tests.unit.agent.test_attempts import DONE, NOTHING_MEANWHILE, Try

OFFER = AccomplishEntry(depth_max=2, k=1)
BEHAVIOUR = Behaviour("", steps_max=4, final_answer=False, accomplish=OFFER)
WISH = (ACCOMPLISH_SPEC.name, '{"task": "Tidy up."}')
#: What a question takes here: three tokens read and five written.
ASKED = 8


class Part(Try):
    """An attempt whose agent may have jobs done."""

    def says(self, *calls: tuple[str, str], text: str = "") -> None:
        """Let the model answer the newest claim."""
        assert self.now.attempt is not None
        tools = attempts.offered(Catalog([ACCOMPLISH_SPEC]), self.now.attempt)
        self.does("settle", self.claims[-1], Said(says(text, *calls), *NOTHING_MEANWHILE, tools, BEHAVIOUR, 0.25))

    def permit(self, call: m.ToolCall) -> None:
        """Let the permit of a call come."""
        permitted = m.ToolCallPermitted(tenant="acme", pool=m.JOBS_POOL, call=call, permit="signed")
        self.does("take_permitted", permitted, BEHAVIOUR, refused="", expired=False)

    def answer(self, call: m.ToolCall, data: dict[str, Any] | None) -> None:
        """Let the job of a call end."""
        self.does("take_result", Answer(call.call_id, Result("succeeded", data=data)), BEHAVIOUR)

    @property
    def budgets(self) -> list[int | None]:
        """Tokens of the jobs that were begun."""
        return [each.budget.tokens for each in self.sent if isinstance(each, m.RunJob)]

    @property
    def money(self) -> list[float | None]:
        """What the jobs that were begun may cost."""
        return [each.budget.cost and round(each.budget.cost, 2) for each in self.sent if isinstance(each, m.RunJob)]

    @property
    def used(self) -> list[tuple[int, float | None]]:
        """Tokens and cost that jobs was told of its end."""
        return [(each.input_tokens + each.output_tokens, each.cost) for each in self.ended]


def test_jobs_of_one_step_share_what_is_left_to_their_attempt() -> None:
    """Each has an equal part; a permit that comes twice reserves nothing more; what they used is the attempt's."""
    part = Part(tokens_max=1_000)
    part.says(WISH, WISH)
    one, two = part.calls()
    part.permit(one)
    part.permit(one)
    part.permit(two)
    assert [496, 496, 496] == part.budgets
    part.answer(one, {"state": "done", "tokens": 100, "cost": 0.5})
    part.answer(two, {"state": "done", "tokens": 200, "cost": 0.25})
    part.says(WISH)
    part.permit(part.calls()[-1])
    assert [1_000 - 300 - 2 * ASKED] == part.budgets[3:]
    part.answer(part.calls()[-1], {"state": "done", "tokens": 0, "cost": 0.0})
    part.says(DONE)
    assert [(300 + 3 * ASKED, 1.5)] == part.used


def test_jobs_of_one_step_share_the_money_of_their_attempt() -> None:
    """Each has the part of it that it has of the tokens, after what was used; where no price is known none begins."""
    part = Part(tokens_max=1_000, cost_max=2.25)
    part.says(WISH, WISH)
    one, two = part.calls()
    part.permit(one)
    part.permit(two)
    assert [1.0, 1.0] == part.money
    part.answer(one, {"state": "done", "tokens": 100, "cost": 0.75})
    part.answer(two, {"state": "done", "tokens": 100, "cost": None})
    part.says(WISH)
    part.permit(part.calls()[-1])
    assert [1.0, 1.0] == part.money


def test_an_attempt_whose_jobs_used_up_its_share_is_thrown_out() -> None:
    """What its jobs used counts as if its own model had used it."""
    part = Part(tokens_max=1_000)
    part.says(WISH)
    part.permit(part.calls()[0])
    part.answer(part.calls()[0], {"state": "done", "tokens": 990, "cost": None})
    part.says(DONE)
    assert [["token_limit"]] == [each.flags for each in part.ended]
    assert [(990 + 2 * ASKED, None)] == part.used


def test_a_job_for_which_too_little_is_left_is_not_begun() -> None:
    """The model is told so, and its attempt goes on."""
    part = Part(tokens_max=9)
    part.says(WISH)
    part.permit(part.calls()[0])
    result = part.now.calls[part.calls()[0].call_id].result
    assert ([], NOTHING_LEFT, []) == (part.budgets, result and result["reason"], part.ended)


@pytest.mark.parametrize("stopped", [True, False])
def test_a_job_that_does_not_say_what_it_used_counts_whole(*, stopped: bool) -> None:
    """It goes on while the attempt is stopped, or its answer was lost: it may have used all that it might."""
    part = Part(tokens_max=1_000)
    part.says(WISH)
    part.permit(part.calls()[0])
    if stopped:
        part.does("take_withdrawn", m.AttemptWithdrawn(tenant="acme", conversation_id="c1", by="jobs"))
        assert [True] == [each.reason.endswith(attempts.COUNTED_WHOLE) for each in part.ended]
    else:
        part.answer(part.calls()[0], None)
        part.says(DONE)
    assert [(1_000 + (0 if stopped else ASKED), None)] == part.used


@pytest.mark.parametrize(
    ("offer", "left", "expected"),
    [
        (AccomplishEntry(tokens=400_000), None, (400_000, 20_000)),
        (AccomplishEntry(tokens=400_000), 100_000, (100_000, 20_000)),
        (AccomplishEntry(tokens=50_000), 100_000, (50_000, 16_666)),
        (AccomplishEntry(k=3), 20_000, (20_000, 5_000)),
        (AccomplishEntry(), 1, None),
    ],
)
def test_a_job_has_room_for_a_division_and_the_first_votes(
    offer: AccomplishEntry, left: int | None, expected: tuple[int, int] | None
) -> None:
    """What an attempt may give bounds it, and the shares of its own attempts fit in."""
    budget = budget_of(offer, left)
    assert expected == (budget and (budget.tokens, budget.tokens_per_attempt))
