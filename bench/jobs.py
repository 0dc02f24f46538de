"""Jobs: the Towers of Hanoi with a model that errs, one move per task, as in Meyerson et al. (arXiv 2511.09030).

Every move that was decided is checked. Beside the number of attempts stands what the paper's formula expects for votes
whose errors all agree; where errors differ, fewer are needed. A bare call is the same question to the same model
through litellm, with nothing around it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter, process_time
from typing import Any

from bench.placet_system import Variant, a_placet
from bench.processor import ProcessorTime
from hanoi import model as hanoi
from placet.agent import llm
from placet.agent.model import ModelSettings
from placet.domain.reliability import expected_votes, least_k
from placet.jobs.rules.prompts import PLAIN_ANSWER
from tests.support.jobs import begin, ended, wrong_moves
from tests.support.people import Caller

#: Chance at most that any move of a run is wrong.
EPSILON = 0.01
#: Bare calls that are timed.
BARE_CALLS = 300
MODEL = "python/hanoi.model:reply"


@dataclass(frozen=True)
class Case:
    """A model."""

    name: str
    errors: float
    agree: float = 0.0
    malformed: float = 0.0

    @property
    def environment(self) -> dict[str, str]:
        """Settings of a Placet with this model."""
        shares = {"ERRORS": self.errors, "AGREE": self.agree, "MALFORMED": self.malformed}
        return {"PLACET_MODEL": MODEL, **{f"HANOI_{name}": str(share) for name, share in shares.items()}}


CASES = (
    Case("1 % wrong", 0.01),
    Case("5 % wrong", 0.05),
    Case("10 % wrong", 0.10),
    Case("10 % wrong, all agree", 0.10, agree=1.0),
    Case("10 % wrong, 5 % malformed", 0.10, malformed=0.05),
)


@dataclass(frozen=True)
class Run:
    """What was seen of one job."""

    name: str
    steps: int
    k: int
    wrong: int
    attempts: int
    thrown_out: int
    #: Attempts that the formula expects, malformed answers included.
    expected: float
    seconds: float
    cpu_seconds: float

    @property
    def cpu_ms_per_step(self) -> float:
        """CPU time of all processes for one step."""
        return self.cpu_seconds * 1000 / self.steps

    @property
    def cpu_ms_per_attempt(self) -> float:
        """CPU time of all processes for one attempt."""
        return self.cpu_seconds * 1000 / self.attempts


@dataclass(frozen=True)
class Seen:
    """What was measured."""

    bare_ms: float
    runs: list[Run] = field(default_factory=list)


async def measure(disks: int, cases: Sequence[Case] = CASES) -> Seen:
    """Run one job of 2**disks - 1 steps for each case, each on a fresh Placet."""
    bare = await _bare_call_ms()
    return Seen(bare, [await _run(case, disks) for case in cases])


async def _run(case: Case, disks: int) -> Run:
    p, steps = 1 - case.errors, 2**disks - 1
    plan: Mapping[str, Any] = {"p": p, "epsilon": EPSILON, "attempts_max": 100, "tasks_max": 5_000}
    variant = Variant(
        "jobs",
        agent="placet.agent",
        settings=case.environment,
        services={"gateway": 1, "agent": 1, "jobs": 1},
    )
    async with a_placet(variant) as system:
        ada = Caller(system.url, system.key("chat", person="ada"))
        # Whatever is loaded at first use is.
        await ended(ada, await begin(ada, **hanoi.job(1), tasks=hanoi.tasks(1), **plan))
        spent = ProcessorTime()
        began = perf_counter()
        with spent:
            job_id = await begin(ada, **hanoi.job(disks), tasks=hanoi.tasks(disks), **plan)
            await _over(ada, job_id)
            seconds = perf_counter() - began
        job = await ended(ada, job_id)
    if job["state"] != "done":
        raise RuntimeError(f"{case.name}: the job is {job['state']}: {job['reason']}")
    k = least_k(p, steps, EPSILON)
    return Run(
        case.name,
        steps,
        k,
        wrong_moves(job),
        job["attempts"],
        job["attempts_thrown_out"],
        steps * expected_votes(k, p) / (1 - case.malformed),
        seconds,
        spent.seconds,
    )


async def _over(caller: Caller, job_id: str) -> None:
    """Return when a job is over, asking seldom: looking is paid for by the processes that are measured."""
    while True:
        (job,) = [each for each in (await caller.get("/v1/jobs?limit=5"))["items"] if each["id"] == job_id]
        if job["ended_at"]:
            return
        await asyncio.sleep(1.0)


async def _bare_call_ms() -> float:
    """Return the CPU time of one question to the model through litellm, in milliseconds."""
    settings = ModelSettings(model=MODEL)
    told = "Your task:\nMake move 1 of 1 for 1 disks."
    function = {"name": "final_answer", "description": "-", "parameters": dict(PLAIN_ANSWER)}
    tools = [{"type": "function", "function": function}]

    async def nothing(*_: Any) -> None:
        pass

    async def ask() -> None:
        await llm.ask(settings, [{"role": "user", "content": told}], tools, on_text=nothing, on_reset=nothing)

    await ask()
    began = process_time()
    for _ in range(BARE_CALLS):
        await ask()
    return (process_time() - began) * 1000 / BARE_CALLS


def table(seen: Seen) -> str:
    """Return what was measured as text."""
    head = f"{'model':<27}{'steps':>6}{'k':>3}{'wrong':>7}{'attempts':>10}{'formula':>9}{'thrown':>8}{'steps/s':>9}"
    lines = [f"{head}{'CPU ms/step':>13}{'CPU ms/attempt':>16}"]
    for each in seen.runs:
        counted = f"{each.name:<27}{each.steps:>6}{each.k:>3}{each.wrong:>7}{each.attempts:>10}{each.expected:>9.0f}"
        timed = f"{each.steps / each.seconds:>9.1f}{each.cpu_ms_per_step:>13.1f}{each.cpu_ms_per_attempt:>16.1f}"
        lines.append(f"{counted}{each.thrown_out:>8}{timed}")
    return "\n".join([*lines, f"A bare call of the same model through litellm: {seen.bare_ms:.1f} ms CPU."])
