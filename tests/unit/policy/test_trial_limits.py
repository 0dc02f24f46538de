"""Trials of rulebooks that somebody sent: what they take is bounded, and they find nothing of ours."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from placet.domain.directory import Directory
from placet.policy import trials
from placet.policy.trial_process import Limits, Trial

TOOLS = """
tools:
  pay: {description: P., category: unsafe_api, parameters: {type: object, properties: {to: {type: string}}}}
"""
#: A process alone takes longer to begin than such a trial may take.
SCHEMA = "{type: object, properties: {a: {type: array, uniqueItems: true}}}"
UNIQUE = f"tools: {{t: {{description: T., category: safe_read, parameters: {SCHEMA}}}}}"


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
    with pytest.raises(trials.TrialEnded, match=r"0\.2 seconds"):
        await trials.run(a_trial(rulebook=UNIQUE, call=call, limits=Limits(seconds=0.2)))
    assert time.process_time() - begun < 1.0


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
