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
from fnmatch import fnmatchcase
from functools import partial
from typing import IO, Any

from placet.contracts.messages.rulebook import TrialKind
from placet.domain.directory import Directory
from placet.domain.trials import CasesReport, Explanation, Report, Simulation
from placet.domain.yaml_source import Problem, RulebookInvalid, YamlSource, parse_yaml
from placet.policy.rulebook import names_directory, rulebook_from
from placet.policy.rulebook.check import check_source
from placet.policy.rules import Rulebook
from placet.policy.rules.cases import Case, cases_from, run_cases
from placet.policy.rules.explain import CallEntry, call_from, explain
from placet.policy.rules.simulate import Kept, Replay

#: Past proposals that one simulation replays at most, and the bytes that are kept of them.
REPLAYED_MAX = 20_000
REPLAYED_BYTES_MAX = 64 << 20
#: How a text that was sent is called in problems.
RULEBOOK, CASES, CALL = "rulebook", "cases", "call"
#: What is said to others than the house: in place of people, and of a call that names another tenant.
NOBODY = (
    "Who is who is told to administrators of the house alone. "
    "Nobody is listed here: groups have no members, and people no attributes."
)
NOT_OWN = "a call of another tenant is tried by administrators of the house alone"
#: Niceness of the process: judging comes first.
_NICE = 10


@dataclass(frozen=True, slots=True)
class Limits:
    """What a trial may take: one that waits until another ended is answered within the time that the gateway waits."""

    #: Of the processor, so that trials at the same moment take nothing from each other.
    seconds: float = 12.0
    #: By the clock, for what waits and does nothing.
    clock_seconds: float = 120.0
    memory_bytes: int = 384 << 20

    def apply(self) -> None:
        """Bind this process to them; it is killed where it takes more time, and gets no more memory.

        The clock is watched from outside.
        """
        seconds = max(1, round(self.seconds))
        for limit, value in (
            (resource.RLIMIT_CPU, seconds),
            (resource.RLIMIT_AS, self.memory_bytes),
            (resource.RLIMIT_FSIZE, 0),
            (resource.RLIMIT_CORE, 0),
        ):
            # Not every system bounds everything.
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
    #: Of a sender outside of the house: theirs are the calls, and they see no people. Empty: the house's.
    tenant: str = ""

    @property
    def people(self) -> Directory:
        """Whom a text that was sent means by a `directory`: nobody, where its sender may not see them."""
        return Directory() if self.tenant else self.directory


def report(trial: Trial, past: Iterator[Sequence[Kept]]) -> Report:
    """Return what a trial comes to; raise RulebookInvalid with what is wrong in what was sent."""
    if trial.kind == "check":
        read = partial(_source, RULEBOOK, trial.rulebook)
        return check_source(read, RULEBOOK, trial.people, unseen=NOBODY if trial.tenant else "")
    rulebook, unseen = _rulebook(trial)
    found: Explanation | CasesReport | Simulation
    match trial.kind:
        case "explain":
            call = _own(call_from(trial.call, rulebook, CALL), trial, Problem(CALL, 1, 1, NOT_OWN))
            found = explain(call, rulebook, tell_people=not unseen)
        case "test":
            _, cases = cases_from(_source(CASES, trial.cases))
            found = run_cases([_own_case(each, trial) for each in cases], rulebook)
        case "simulate":
            found = _simulated(rulebook, past)
    return found.model_copy(update={"notes": [*found.notes, unseen]}) if unseen else found


def _own_case(case: Case, trial: Trial) -> Case:
    call = _own(case.entry.call, trial, Problem(CASES, case.line, 1, NOT_OWN))
    return replace(case, entry=case.entry.model_copy(update={"call": call}))


def _own(call: CallEntry, trial: Trial, problem: Problem) -> CallEntry:
    """Return a call of the sender's tenant; raise RulebookInvalid with `problem` where it may not be another's."""
    if not trial.tenant:
        return call
    if "tenant" in call.model_fields_set and call.tenant != trial.tenant:
        raise RulebookInvalid([problem])
    return call.model_copy(update={"tenant": trial.tenant})


def _simulated(rulebook: Rulebook, past: Iterator[Sequence[Kept]]) -> Simulation:
    replay, size = Replay(rulebook), 0
    for page in past:
        size += sum(len(each.facts) for each in page)
        if replay.calls + len(page) > REPLAYED_MAX or size > REPLAYED_BYTES_MAX:
            return replay.report(complete=False)
        replay.add(page)
    return replay.report()


def _rulebook(trial: Trial) -> tuple[Rulebook, str]:
    """Return the rulebook that was sent, or the active one, and what stands in place of people whom nobody may see.

    A file that the text names is never opened. Of the active one others than the house see rules for their tenant.
    """
    if trial.rulebook:
        source = _source(RULEBOOK, trial.rulebook)
        unseen = NOBODY if trial.tenant and names_directory(source) else ""
        return rulebook_from(source, trial.people, lenient=bool(unseen)), unseen
    active = rulebook_from(_source(RULEBOOK, trial.active), trial.directory, lenient=True)
    active = replace(active, directory=trial.people)
    if not trial.tenant:
        return active, ""
    return replace(active, rules=tuple(rule for rule in active.rules if fnmatchcase(trial.tenant, rule.tenant))), NOBODY


def _source(name: str, text: str) -> YamlSource:
    return parse_yaml(name, text.encode())


def _pages(stream: IO[bytes]) -> Iterator[Sequence[Kept]]:
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
