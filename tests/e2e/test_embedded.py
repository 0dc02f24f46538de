"""The embedded footing: one command, the built-in demo model, and a kill -9 that loses nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from hanoi import model as hanoi
from tests.e2e.conftest import Stage
from tests.e2e.scenes import rulebook
from tests.support.jobs import MODEL, SURE, begin, decided, ended, wrong_moves
from tests.support.orphans import end_with_parent
from tests.support.people import Caller, Visitor, a_visitor, is_card, is_result, is_turn_end
from tests.support.ports import free_port
from tests.support.system import ROOT, SHOP_RULEBOOK, assert_invariants, until

pytestmark = pytest.mark.timeout(240)


@dataclass
class Embedded:
    """`placet up` on a data folder."""

    data: Path
    port: int
    environment: dict[str, str]
    arguments: tuple[str, ...] = ()
    running: subprocess.Popen[str] | None = None

    def start(self) -> str:
        """Start it; return its ready line."""
        command = [sys.executable, "-m", "placet.cli", "up", "--port", str(self.port), "--data", str(self.data)]
        command += self.arguments
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PLACET_")}
        # Rulebooks of tests name the shop's tools.
        environment["PLACET_TOOLS"] = str(ROOT / "examples")
        with (self.data.parent / "embedded.log").open("a") as log:
            self.running = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment | self.environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                preexec_fn=end_with_parent,  # noqa: PLW1509 - it only asks the kernel for a signal
            )
        assert self.running.stdout is not None
        return self.running.stdout.readline().strip()

    def kill(self) -> None:
        """End it at once, and its PostgreSQL with it, as a power cut would."""
        assert self.running is not None
        self.running.kill()
        self._ended()
        self.kill_postgres()

    def kill_postgres(self) -> None:
        """End its PostgreSQL at once."""
        postmaster = self.data / "postgres" / "postmaster.pid"
        os.kill(int(postmaster.read_text().split()[0]), signal.SIGKILL)

    @property
    def database_url(self) -> str:
        """Where its database is while it runs."""
        return f"postgresql://postgres:@/placet?host={self.data / 'postgres'}"

    def stop(self) -> int:
        """Ask it to end, once all invariants were found to hold; return its exit code."""
        assert self.running is not None
        if self.running.poll() is None:
            assert_invariants(self.database_url)
        self.running.terminate()
        return self._ended()

    def _ended(self) -> int:
        """Wait for the process and close what was read from it; return its exit code."""
        assert self.running is not None
        assert self.running.stdout is not None
        # It finishes what its slots are at, which takes its time on a busy machine.
        code = self.running.wait(120)
        self.running.stdout.close()
        return code

    def caller(self) -> Caller:
        """Return the administrator."""
        return Caller(f"http://127.0.0.1:{self.port}", (self.data / "admin.key").read_text().strip())


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Embedded]:
    """An embedded Placet that is not started yet."""
    made = Embedded(tmp_path / "data", free_port(), {})
    made.data.mkdir()
    yield made
    if made.running is not None and made.running.poll() is None:
        made.stop()
    if made.running is not None and made.running.stdout is not None:
        made.running.stdout.close()


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[Embedded]:
    """Run an embedded Placet while the block runs; neither it nor its PostgreSQL is there afterwards."""
    made = Embedded(folder / "data", free_port(), {}, arguments)
    made.data.mkdir()
    made.start()
    yield made
    assert (0, False) == (made.stop(), (made.data / "postgres" / "postmaster.pid").exists())


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A running embedded Placet for tests that leave it running."""
    with running(tmp_path_factory.mktemp("house")) as made:
        yield made


def placet(embedded: Embedded, *arguments: str, key: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command line against it, as its administrator or with a key."""
    url = f"http://127.0.0.1:{embedded.port}"
    environment = os.environ | {"PLACET_URL": url, "PLACET_DATA": str(embedded.data), "PLACET_KEY": key}
    command = [sys.executable, "-m", "placet.cli", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_a_second_person_gets_a_key_beside_the_database(embedded: Embedded) -> None:
    """Made in the data folder of a running system it is theirs at once; where none runs a line says so."""
    command = [sys.executable, "-m", "placet.cli", "keys", "create", "--bootstrap", "--data", str(embedded.data)]
    command += ["--person", "grace", "--scope", "decide"]
    without = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (2, f"placet: no `placet up` runs in {embedded.data}\n") == (without.returncode, without.stderr)
    embedded.start()
    key = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    address = f"http://127.0.0.1:{embedded.port}/v1/approvals"
    answer = httpx.get(address, headers={"authorization": f"Bearer {key}"})
    assert (200, []) == (answer.status_code, answer.json()["items"])


def test_the_first_sign_in_is_where_browsers_are_sent(embedded: Embedded) -> None:
    """A browser that came by the machine's own address would have its forms refused as foreign."""
    embedded.environment["PLACET_PUBLIC_URL"] = "https://placet.example/"
    (link,) = re.findall(r"sign in once with (.+)\)", embedded.start())
    address, path, token = link.partition("/sign-in/")
    answer = httpx.get(f"http://127.0.0.1:{embedded.port}{path}{token}")
    assert ("https://placet.example", 303) == (address, answer.status_code)


async def test_the_main_job_survives_a_kill(embedded: Embedded) -> None:
    """A person asks, a call waits, the power goes; afterwards it still waits, is approved, runs once and answers."""
    line = embedded.start()
    assert re.match(rf"Placet is ready: http://127\.0\.0\.1:{embedded.port} ", line)
    visitor = await a_visitor(embedded.caller())
    await visitor.say("find red shoes under 500")
    assert (await visitor.see(is_result("search_products")))["data"]["status"] == "success"
    await visitor.see_answer()
    await visitor.say("create a payment link over 299 TRY")
    card = await visitor.see_card()
    embedded.kill()
    embedded.start()
    admin = embedded.caller()
    (waiting,) = (await admin.get("/v1/approvals?state=pending"))["items"]
    assert waiting["id"] == card["approval_id"]
    assert (await admin.decide(card, "approve")).status_code == 200
    result = (await visitor.see(is_result("create_pay_link")))["data"]
    assert (result["status"], result["data"]["amount"]) == ("success", 299)
    assert await visitor.see_answer()
    assert embedded.stop() == 0


async def test_a_killed_postgres_is_started_again(house: Embedded) -> None:
    """A call waits, PostgreSQL is killed alone; Placet starts it again and the call is decided, run and answered."""
    admin = house.caller()
    visitor = await a_visitor(admin)
    await visitor.say("create a payment link over 299 TRY")
    card = await visitor.see_card()
    house.kill_postgres()

    async def decided() -> bool:
        return (await admin.decide(card, "approve")).status_code in {200, 202}

    await until(decided, "the decision", seconds=60)
    result = (await visitor.see(is_result("create_pay_link")))["data"]
    assert (result["status"], result["data"]["amount"]) == ("success", 299)
    assert await visitor.see_answer()


async def test_a_job_ends_with_a_final_answer(embedded: Embedded, stage: Stage, tmp_path: Path) -> None:
    """D2, E3: another provider and no streaming: the loop runs, `final_answer` ends it with success and confidence."""
    embedded.environment = {
        "PLACET_MODEL": "anthropic/scripted",
        "PLACET_MODEL_API_BASE": f"http://127.0.0.1:{stage.model_port}",
        "PLACET_MODEL_API_KEY": "scripted-key",
        "PLACET_MODEL_STREAM": "false",
        "PLACET_AGENT_FINAL_ANSWER": "true",
        "PLACET_TEST_LEDGER": stage.environment["PLACET_TEST_LEDGER"],
    }
    embedded.arguments = ("--rulebook", str(rulebook(tmp_path)))
    embedded.start()
    visitor = await a_visitor(embedded.caller())
    await visitor.say("accomplish the task")
    ended = (await visitor.see(is_turn_end))["data"]
    assert ended["final_answer"] == {"success": True, "result": "the task is done", "confidence": 0.9}
    assert len(stage.begun("read_status", visitor.conversation)) == 1
    assert stage.model_log()["rejected"] == 0


async def test_the_demo_model_understands_a_shopper(house: Embedded) -> None:
    """Every wish ends in the right tool, and several wishes in one message run together."""
    visitor = await a_visitor(house.caller())
    wishes = [
        ("find red shoes under 500", {"search_products"}),
        ("add two of them to my cart", {"add_to_cart"}),
        ("my mail is ada@example.org", {"collect_lead"}),
        ("find blue bags and my mail is ada@example.org", {"search_products", "collect_lead"}),
    ]
    for text, tools in wishes:
        start = len(visitor.items)
        await visitor.say(text)
        await visitor.see_answer()
        used = {item["data"]["tool"] for item in visitor.items[start:] if item["type"] == "tool_call"}
        assert (text, used) == (text, tools)
    await visitor.say("create a payment link over 299 TRY")
    await visitor.see(is_card)
    helped = await a_visitor(house.caller())
    await helped.say("I want to talk to a person")
    assert (await helped.see(is_result("escalate_to_human")))["data"]["status"] == "success"


def test_a_second_start_on_the_same_folder_is_refused_in_one_line(house: Embedded) -> None:
    """Two processes never share a data folder; the second says why it stops."""
    command = [sys.executable, "-m", "placet.cli", "up", "--port", str(free_port()), "--data", str(house.data)]
    second = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (second.returncode, second.stderr.count("\n")) == (2, 1)
    assert "another process" in second.stderr


def test_no_commit_takes_the_data_along(house: Embedded) -> None:
    """Keys and passwords are in the folder, which may lie in somebody's repository."""
    subprocess.run(["git", "init", "--quiet", str(house.data.parent)], check=True)
    found = subprocess.run(
        ["git", "-C", str(house.data.parent), "status", "--porcelain", "--", house.data.name],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "" == found.stdout


async def test_a_changed_rulebook_takes_over_and_may_be_tried_before(embedded: Embedded, tmp_path: Path) -> None:
    """What a new rulebook would have changed is told beforehand; put in place, it decides without a restart.

    Also where that is a link which leads to another folder now, as Kubernetes changes mounted files.
    """
    rules, versions = tmp_path / "rulebook.yaml", tmp_path / "..data"
    for folder in ("v1", "v2"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "rulebook.yaml").write_text(SHOP_RULEBOOK.read_text())
    versions.symlink_to("v1")
    rules.symlink_to("..data/rulebook.yaml")
    embedded.arguments = ("--rulebook", str(rules))
    embedded.start()
    visitor, admin = await a_visitor(embedded.caller()), embedded.caller()
    await visitor.say("create a payment link over 299 TRY")
    await visitor.see_card()
    stricter = tmp_path / "v2" / "rulebook.yaml"
    stricter.write_text(rules.read_text().replace("arguments.amount > 10000", "arguments.amount > 100"))
    told = placet(embedded, "rulebook", "simulate", str(stricter), "--since", "1h", "--json")
    (change,) = json.loads(told.stdout)["changes"]
    assert ("require_approval", "deny", 1) == (change["before"]["effect"], change["after"]["effect"], change["count"])
    (tmp_path / "next").symlink_to("v2")
    (tmp_path / "next").replace(versions)

    async def took_over() -> bool:
        return len((await admin.get("/v1/rulebook/activations"))["items"]) == 2

    await until(took_over, "the changed rulebook takes over")
    other = await a_visitor(embedded.caller())
    await other.say("create a payment link over 299 TRY")
    refused = (await other.see(is_result("create_pay_link")))["data"]
    assert ("error", "refused") == (refused["status"], refused["kind"])


async def test_the_command_line_lists_and_decides(house: Embedded) -> None:
    """`placet approvals` shows what waits and approves it; a second decision is one line with who decided."""
    visitor: Visitor = await a_visitor(house.caller())
    await visitor.say("create a payment link over 299 TRY")
    card = await visitor.see_card()
    listed = json.loads(placet(house, "approvals", "list", "--json").stdout)["items"]
    assert [item["id"] for item in listed if item["conversation_id"] == visitor.conversation] == [card["approval_id"]]
    assert placet(house, "approvals", "approve", card["approval_id"]).returncode == 0
    second = placet(house, "approvals", "deny", card["approval_id"])
    assert (second.returncode, "decided_by" in second.stderr) == (1, True)
    assert await visitor.see_answer()


async def test_a_job_survives_a_power_cut(embedded: Embedded) -> None:
    """Everything goes at once in the middle of it; started again it goes on to a right end."""
    embedded.environment |= MODEL
    embedded.start()
    ada = embedded.caller()
    job_id = await begin(ada, **hanoi.job(5), **SURE)
    await until(lambda: decided(ada, job_id, 4), "the job went on")
    embedded.kill()
    embedded.start()
    job = await ended(ada, job_id)
    assert ("done", 0) == (job["state"], wrong_moves(job))


async def test_a_step_that_takes_too_long_is_ended(embedded: Embedded) -> None:
    """What keeps everybody waiting is a problem for who asked for it, and the next one is answered."""
    embedded.environment = {"PLACET_STEP_SECONDS": "0.05"}
    embedded.start()
    caller = embedded.caller()
    # To draw the whole API for the first time takes several times as long.
    dear = await caller.request("GET", "/openapi.json")
    next_one = await caller.request("GET", "/healthz")
    assert (422, "urn:placet:problem:too-dear", 200) == (dear.status_code, dear.json()["type"], next_one.status_code)
