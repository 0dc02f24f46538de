"""One trial in a process of its own: what somebody sent may take long or much memory there, and nowhere else.

Reads a pickled `Trial` from its standard input and, for a simulation, pages of past proposals behind it; writes one
JSON object, {report, problems}. It has no secrets in its environment, opens no file, and dies at its limits.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import IO, Any

from placet.contracts.messages.rulebook import TrialKind
from placet.domain.directory import Directory
from placet.domain.trials import Report
from placet.domain.yaml_source import RulebookInvalid, YamlSource, parse_yaml
from placet.policy.rulebook import rulebook_from
from placet.policy.rulebook.check import check_source
from placet.policy.rules import Rulebook
from placet.policy.rules.cases import cases_from, run_cases
from placet.policy.rules.explain import call_from, explain
from placet.policy.rules.simulate import Past, Replay

#: Past proposals that one simulation replays at most.
REPLAYED_MAX = 20_000
#: How a text that was sent is called in problems.
RULEBOOK, CASES, CALL = "rulebook", "cases", "call"
#: Niceness of the process: judging comes first.
_NICE = 10


@dataclass(frozen=True, slots=True)
class Limits:
    """What a trial may take."""

    #: By the clock, and of the processor.
    seconds: float = 15.0
    memory_bytes: int = 1 << 30

    def apply(self) -> None:
        """Bind this process to them; it is killed where it takes more time, and gets no more memory."""
        seconds = max(1, round(self.seconds))
        for limit, value in (
            (resource.RLIMIT_CPU, seconds),
            (resource.RLIMIT_AS, self.memory_bytes),
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_CORE, 0),
        ):
            # Not every system bounds everything; the clock is watched from outside.
            with suppress(ValueError, OSError):
                resource.setrlimit(limit, (value, value))
        os.nice(_NICE)


@dataclass(frozen=True, slots=True)
class Trial:
    """What is tried, and the active rulebook with the people of this moment."""

    kind: TrialKind
    #: YAML, empty for the active one.
    rulebook: str
    cases: str
    call: dict[str, Any]
    active: str
    directory: Directory
    limits: Limits


def report(trial: Trial, past: Iterator[Sequence[Past]]) -> Report:
    """Return what a trial comes to; raise RulebookInvalid with what is wrong in what was sent."""
    match trial.kind:
        case "check":
            return check_source(lambda: _source(RULEBOOK, trial.rulebook), RULEBOOK, trial.directory)
        case "explain":
            rulebook = _rulebook(trial)
            return explain(call_from(trial.call, rulebook, CALL), rulebook)
        case "test":
            _, cases = cases_from(_source(CASES, trial.cases))
            return run_cases(cases, _rulebook(trial))
        case "simulate":
            return _simulated(_rulebook(trial), past)


def _simulated(rulebook: Rulebook, past: Iterator[Sequence[Past]]) -> Report:
    replay = Replay(rulebook)
    for page in past:
        if replay.calls + len(page) > REPLAYED_MAX:
            return replay.report(complete=False)
        replay.add(page)
    return replay.report()


def _rulebook(trial: Trial) -> Rulebook:
    """Return the rulebook that was sent, or the active one. A file that the text names is never opened."""
    if trial.rulebook:
        return rulebook_from(_source(RULEBOOK, trial.rulebook), trial.directory)
    active = rulebook_from(_source(RULEBOOK, trial.active), trial.directory, lenient=True)
    return replace(active, directory=trial.directory)


def _source(name: str, text: str) -> YamlSource:
    return parse_yaml(name, text.encode())


def _pages(stream: IO[bytes]) -> Iterator[Sequence[Past]]:
    with suppress(EOFError):
        while True:
            yield pickle.load(stream)  # noqa: S301 - from policy, which started this process


def main(stream: IO[bytes]) -> str:
    """Return the JSON text of what the trial in `stream` comes to."""
    trial: Trial = pickle.load(stream)  # noqa: S301 - from policy, which started this process
    trial.limits.apply()
    try:
        return json.dumps({"report": report(trial, _pages(stream)).as_json(), "problems": []})
    except RulebookInvalid as error:
        return json.dumps({"report": {}, "problems": [problem.as_json() for problem in error.problems]})


if __name__ == "__main__":
    sys.stdout.write(main(sys.stdin.buffer))
