"""Trials of rulebooks that somebody sent: what they take is bounded, and they find nothing of ours."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from placet.domain.directory import Directory
from placet.domain.trials import Simulation
from placet.policy import trial_process, trials
from placet.policy.rules.call import COLUMNS, CallFacts, kept_text
from placet.policy.rules.simulate import Kept
from placet.policy.trial_process import Limits, Trial
from tests.builders import NOON, a_call

TOOLS = """
tools:
  pay: {description: P., category: unsafe_api, parameters: {type: object, properties: {to: {type: string}}}}
"""
#: A process alone takes longer to begin than such a trial may take.
SCHEMA = "{type: object, properties: {a: {type: array, uniqueItems: true}}}"
UNIQUE = f"tools: {{t: {{description: T., category: safe_read, parameters: {SCHEMA}}}}}"

#: A past call of about 60 kB, which is many times that once it is read.
LARGE = a_call(tool="pay", arguments={"to": "x", "more": [{"n": number} for number in range(5_000)]})
KEPT = Kept(
    kept_text(LARGE, CallFacts.of(LARGE)).encode(),
    {name: getattr(LARGE, name) for name in COLUMNS},
    "require_approval",
    "default:unsafe_api",
    None,
    NOON,
)


def a_trial(kind: Any = "explain", limits: Limits | None = None, **what: Any) -> Trial:
    """Return a trial against a small active rulebook; `what` names its rulebook, cases or call."""
    texts = {"rulebook": "", "cases": "", "call": {"tool": "pay", "arguments": {"to": "x"}}} | what
    return Trial(kind=kind, active=TOOLS, directory=Directory(), limits=limits or Limits(), **texts)


async def test_a_trial_within_its_limits_is_answered() -> None:
    """The limits leave room for what people send."""
    found = await trials.run(a_trial())
    assert ("default:unsafe_api", []) == (found["report"]["rule"], found["problems"])


async def test_a_trial_that_takes_too_long_ends() -> None:
    """The work is another process's: calls are judged meanwhile."""
    call = {"tool": "t", "arguments": {"a": [{"n": number} for number in range(30_000)]}}
    begun = time.process_time()
    with pytest.raises(trials.TrialEnded, match=r"0\.2 by the clock"):
        await trials.run(a_trial(rulebook=UNIQUE, call=call, limits=Limits(clock_seconds=0.2)))
    assert time.process_time() - begun < 1.0


async def test_a_trial_that_works_for_too_long_ends() -> None:
    """Long before its time by the clock is over."""
    checks = "".join(
        f"  - {{name: r{each}, match: {{tool: t}}, when: 'true', effect: allow, reason: R}}\n" for each in range(3_000)
    )
    begun = time.monotonic()
    with pytest.raises(trials.TrialEnded, match="1 seconds of the processor"):
        await trials.run(a_trial("check", rulebook=f"{UNIQUE}\nrules:\n{checks}", limits=Limits(seconds=1)))
    assert time.monotonic() - begun < Limits().clock_seconds


async def test_a_trial_that_waits_does_not_end() -> None:
    """What others take of the processor, or of the database, is not its own: more seconds go by than it may work."""

    async def late() -> AsyncIterator[list[Kept]]:
        with suppress(TimeoutError):
            async with asyncio.timeout(3.5):
                await asyncio.Event().wait()
        yield [KEPT]

    found = await trials.run(a_trial("simulate", limits=Limits(seconds=3)), late())
    assert (1, []) == (found["report"]["calls"], found["problems"])


async def test_a_past_of_large_calls_is_replayed() -> None:
    """Each is read when its turn comes: what all of them say would not fit into the memory that there is."""

    async def past() -> AsyncIterator[list[Kept]]:
        for _ in range(10):
            yield [KEPT] * 16

    found = await trials.run(a_trial("simulate", limits=Limits(memory_bytes=160 * 2**20)), past())
    assert (160, True, []) == (found["report"]["calls"], found["report"]["complete"], found["problems"])


async def test_a_past_of_very_many_bytes_is_replayed_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest calls, and whoever asks is told that those were not all."""
    monkeypatch.setattr(trial_process, "REPLAYED_BYTES_MAX", 3 * len(KEPT.facts))
    found = trial_process.report(a_trial("simulate"), iter([[KEPT], [KEPT] * 2, [KEPT]]))
    assert isinstance(found, Simulation)
    assert (3, False) == (found.calls, found.complete)


async def test_a_trial_that_needs_too_much_memory_ends() -> None:
    """It gets none beyond its limit."""
    call = {"tool": "pay", "arguments": {"to": "x" * 60 * 2**20}}
    with pytest.raises(trials.TrialEnded, match="120 MiB"):
        await trials.run(a_trial(call=call, limits=Limits(memory_bytes=120 * 2**20)))


async def test_a_bomb_of_a_condition_is_a_problem_with_its_place() -> None:
    """Who sent it is told where it stands; nothing was evaluated."""
    condition = '"aaaaaaaaaa"' + '.replace("a", "aaaaaaaaaa")' * 9 + ".size() > 0"
    rulebook = (
        f"{TOOLS}rules:\n  - {{name: bomb, match: {{tool: pay}}, when: '{condition}', effect: deny, reason: B.}}\n"
    )
    report = (await trials.run(a_trial("check", rulebook=rulebook)))["report"]
    (problem,) = report["problems"]
    assert (5, True) == (problem["line"], problem["problem"].startswith("this costs too much"))


async def test_a_trial_finds_no_secret_in_its_environment() -> None:
    """What tries foreign rulebooks knows neither passwords nor addresses."""
    async with trials._process() as process:
        environment = await asyncio.to_thread(Path(f"/proc/{process.pid}/environ").read_bytes)
    assert {"PATH", "PYTHONPATH"} == {each.split(b"=")[0].decode() for each in environment.split(b"\0") if each}
