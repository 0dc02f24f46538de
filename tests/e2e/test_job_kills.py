"""Kill -9 of any one service while a job goes on: it ends as it would have, and what was paid twice is said.

The model is outside the system and counts its questions; each of its answers is one call, so that what a job says that
its attempts called is what it says that it paid, beside what was asked again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import migrate
from tests.e2e.test_job_commits import card, decide, line, lines
from tests.support.jobs import begin, ended
from tests.support.model_process import ModelProcess, a_model
from tests.support.model_script import Answer, Call, Rule, Script
from tests.support.people import Caller
from tests.support.postgres import Databases
from tests.support.rabbitmq import VirtualHosts
from tests.support.system import System, running, until
from tests.support.workspaces import FILE_TOOLS

pytestmark = pytest.mark.timeout(300)

SERVICES = ("agent", "policy", "approval", "executor", "jobs", "gateway", "notifier", "dead_letters")
#: Votes that a winner is ahead by; the model makes no errors, so that each task takes so many attempts.
K = 3
WORDS = ("one", "two", "three")
#: What an attempt asks: what stands in the file, what should, and its answer.
QUESTIONS = 3
TOKENS = Answer().input_tokens + Answer().output_tokens
AGAIN = re.compile(r"asked again (?:once|(\d+) times) after a worker died")
APPROVALS = "SELECT count(*) FROM read.approvals"


def _call(name: str, /, **arguments: Any) -> Answer:
    return Answer(calls=(Call(name=name, arguments=arguments),))


def _rules(path: str, gate: str | None = None) -> Iterator[Rule]:
    """Yield what the model does in the job that writes a file: its second task waits at the gate, if there is one."""
    for number, word in enumerate(WORDS):
        task = f"Add the line {word} to {path}."
        before, after = ("".join(f"{each}\n" for each in WORDS[:end]) for end in (number, number + 1))
        read = _call("read_file", path=path)
        yield Rule(user=task, answer=read.model_copy(update={"gate": gate if word == "two" else None}))
        contain = before.strip().replace("\n", "\\n")
        write = _call("write_file", path=path, content=after)
        yield Rule(user=task, after_results_of=("read_file",), results_contain=contain, answer=write)
        yield Rule(user=task, after_results_of=("write_file",), answer=_call("final_answer", answer="done"))


SCRIPT = Script(
    rules=tuple(
        rule
        for service in SERVICES
        for rule in (*_rules(f"{service}-asking.txt", service), *_rules(f"{service}-acting.txt"))
    )
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the rulebook, the script and the files are."""
    made = tmp_path_factory.mktemp("job-kills")
    (made / "files").mkdir()
    (made / "rulebook.yaml").write_text(yaml.safe_dump({"version": 1, "tools": FILE_TOOLS}))
    return made


@pytest.fixture(scope="module")
def model(folder: Path) -> Iterator[ModelProcess]:
    """The model, which outlives all that is killed."""
    with a_model(SCRIPT, folder) as made:
        yield made


@pytest.fixture(scope="module")
def house(folder: Path, model: ModelProcess, databases: Databases, virtual_hosts: VirtualHosts) -> Iterator[System]:
    """A system with one process of each service, whose agents write files."""
    environment = {
        **model.environment,
        "PLACET_AGENT_LEASE_SECONDS": "4",
        "PLACET_EXECUTOR_POOLS": "*",
        "PLACET_EXECUTOR_LEASE_SECONDS": "3",
        "PLACET_EXECUTOR_SWEEP_SECONDS": "0.5",
        "FILES_ROOT": str(folder / "files"),
    }
    with databases.fresh(migrate) as database_url, virtual_hosts.lent() as rabbitmq_url:
        made = System(folder, database_url, rabbitmq_url, folder / "rulebook.yaml", environment)
        with running(made, dict.fromkeys(SERVICES, 1)):
            yield made


@dataclass
class Killing:
    """A job that writes a file in three tasks, each of which needs the one before; and who is killed meanwhile."""

    house: System
    model: ModelProcess
    file: Path
    process: str
    job_id: str = ""
    #: Approvals of earlier jobs.
    earlier: int = 0

    @property
    def ada(self) -> Caller:
        """Who has the job done."""
        return Caller(self.house.url, self.house.key("chat"))

    @property
    def grace(self) -> Caller:
        """Who decides."""
        return Caller(self.house.url, self.house.key("decide", person="grace"))

    async def begin(self) -> None:
        """Have the job done."""
        self.earlier = self.house.count(APPROVALS)
        tasks = [line(word, self.file.name, *WORDS[:number][-1:]) for number, word in enumerate(WORDS)]
        self.job_id = await begin(self.ada, task="Write a list.", tasks=tasks, k=K)

    async def asked(self, word: str, number: int) -> None:
        """Return when the model was asked so many questions for a task."""

        async def is_so() -> bool:
            return len(await self.model.asked(f"Add the line {word} to {self.file.name}.")) >= number

        await until(is_so, f"the model is asked {number} questions for task {word}")

    def kill(self) -> None:
        """End the service at once."""
        self.house.processes[self.process].kill()

    async def start_again(self) -> None:
        """Start it again."""
        await self.house.start_again(self.process)

    async def written(self) -> Paid:
        """Return what was paid when all is as if nobody had been killed: one card, each line once, no attempt more."""
        job = await ended(self.ada, self.job_id)
        assert ("done", "committed", "") == (job["state"], job["changes"], job["reason"])
        assert "one\ntwo\nthree\n" == self.file.read_text()
        assert self.earlier + 1 == self.house.count(APPROVALS)
        attempts = [each for task in job["tasks"] for each in task["attempts"]]
        assert ["voted"] * K * len(WORDS) == [each["state"] for each in attempts]
        settled, again = (sum(each[what] for each in attempts) for what in ("calls", "asked_again"))
        assert (K * len(WORDS) * QUESTIONS, (settled + again) * TOKENS) == (settled, job["tokens"])
        said = [AGAIN.search(each) for each in await lines(self.ada, self.job_id)]
        assert again == sum(int(each[1] or 1) for each in said if each)
        return Paid(settled, again, len(await self.model.asked(f"to {self.file.name}.")))


@dataclass(frozen=True)
class Paid:
    """Questions to the model: those whose answers a job has, those that it says were asked again, and all."""

    settled: int
    again: int
    asked: int


@pytest.fixture
def killing(request: pytest.FixtureRequest, house: System, model: ModelProcess, folder: Path) -> Killing:
    """The job of this test."""
    service, when = request.param
    return Killing(house, model, folder / "files" / f"{service}-{when}.txt", f"{service}-1")


def _each(when: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("killing", [(each, when) for each in SERVICES], ids=SERVICES, indirect=True)


@_each("asking")
async def test_a_job_survives_the_kill_of_a_service_while_models_and_people_are_asked(killing: Killing) -> None:
    """What was paid is exactly what the job says: the questions under way when the agent died, and no other, twice."""
    await killing.begin()
    await killing.asked("two", K)
    killing.kill()
    await killing.model.open(killing.process.removesuffix("-1"))
    await killing.start_again()
    asked = await card(killing.grace)
    killing.kill()
    await killing.start_again()
    assert (asked, False) == (await card(killing.grace), killing.file.exists())
    await decide(killing.grace, asked, "approve")
    paid = await killing.written()
    assert Paid(paid.settled, K if killing.process == "agent-1" else 0, paid.settled + paid.again) == paid


@_each("acting")
async def test_a_job_survives_the_kill_of_a_service_in_the_act(killing: Killing) -> None:
    """Killed with the calls of attempts in hand, and with the commit: no question was paid twice that is not said."""
    await killing.begin()
    await killing.asked("two", K + 1)
    killing.kill()
    await killing.start_again()
    await decide(killing.grace, await card(killing.grace), "approve")
    killing.kill()
    await killing.start_again()
    paid = await killing.written()
    assert killing.process == "agent-1" or 0 == paid.again
    assert paid.settled <= paid.asked <= paid.settled + paid.again
