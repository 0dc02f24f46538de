"""Two replicas of policy on one database, judging by a small rulebook."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from placet.contracts.signing import Signer, Verifier, create_keys, load_signer, load_verifier
from placet.policy.rulebook import load_rulebook
from placet.policy.rules import Rulebook
from placet.policy.service import build
from placet.policy.settings import PolicySettings
from tests.support.approval_keys import create_keys_view
from tests.support.house import Replica, a_replica, create_tables
from tests.support.policy_builders import LIMITED
from tests.support.postgres import Databases

_create_own = create_tables("policy")
_RULEBOOK = """\
permit_expires_after_seconds: 120
tools:
  search:
    description: Look something up.
    category: safe_search
    pool: reading
    parameters: &parameters {type: object, properties: {amount: {type: number}, to: {type: string}}}
  pay:
    description: Pay somebody.
    category: unsafe_api
    pool: payments
    redact: [/to]
    summary: {en: "Pay {amount} to {to}?", de: "{amount} an {to} zahlen?"}
    parameters: *parameters
  write: {description: Write something down., category: unsafe_write, parameters: *parameters}
  mail: {description: Send a mail., category: unsafe_api, parameters: *parameters}
  erase: {description: Erase something., category: unsafe_exec, parameters: *parameters}
rules:
  - name: never-erase
    match: {tool: erase}
    effect: deny
    reason: Erasing is for people.
    model_reason: erasing is not possible here.
  - name: small-payments
    match: {tool: pay}
    when: arguments.amount < 100
    effect: allow
    reason: Small.
  - name: named
    match: {tool: mail}
    when: origin(arguments.to) == "user"
    effect: allow
    reason: The requester named the recipient.
  - name: payments
    match: {tool: pay}
    effect: require_approval
    reason: It costs money.
    approval: {approvers: [requester, operators], expires_after_seconds: 60}
"""


def _create(url: str) -> None:
    """Make policy's tables, and a stand-in for what the gateway shows of its keys."""
    _create_own(url)
    create_keys_view(url)


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> PolicySettings:
    """Settings that name a folder of keys and the rulebook."""
    folder = tmp_path_factory.mktemp("policy")
    create_keys(folder)
    (folder / "rulebook.yaml").write_text(_RULEBOOK)
    # Who gives grants without a key is known by the directory alone.
    people = "people: {ada: {name: Ada}, bob: {name: Bob}}\ngroups: {operators: [ada, bob]}\n"
    (folder / "people.yaml").write_text(people)
    return PolicySettings(keys=folder, rulebook=folder / "rulebook.yaml")


@pytest.fixture
def rulebook(settings: PolicySettings) -> Rulebook:
    """What policy judges by."""
    return load_rulebook(settings.rulebook)


@pytest.fixture
def verifier(settings: PolicySettings) -> Verifier:
    """What executors verify permits with."""
    return load_verifier(settings.keys)


@pytest.fixture
def bad_rulebook(tmp_path: Path) -> Path:
    """A rulebook that is not used."""
    path = tmp_path / "bad.yaml"
    path.write_text("tools:\n  search: {category: nonsense}\n")
    return path


@pytest.fixture(scope="module")
def policy_url(databases: Databases) -> Iterator[str]:
    """A database for the tests of one module; each finds it empty."""
    with databases.fresh(_create) as url:
        yield url


def settings_with(settings: PolicySettings, name: str, rules: str) -> PolicySettings:
    """Return settings that name a rulebook of these rules, with the same people."""
    path = settings.keys / f"{name}.yaml"
    path.write_text(f"directory: {settings.keys}/people.yaml\n{rules}")
    return settings.model_copy(update={"rulebook": path})


@asynccontextmanager
async def two_replicas(url: str, settings: PolicySettings) -> AsyncIterator[tuple[Replica, Replica]]:
    """Run two processes of policy on one database that they find empty."""
    async with AsyncExitStack() as stack:
        replicas = [
            await stack.enter_async_context(a_replica("policy", url, partial(build, settings), keys=settings.keys))
            for _ in range(2)
        ]
        await replicas[0].empty_tables()
        await replicas[0].execute('DELETE FROM "read".api_keys')
        yield replicas[0], replicas[1]


@pytest.fixture
async def replicas(policy_url: str, settings: PolicySettings) -> AsyncIterator[tuple[Replica, Replica]]:
    """Two processes of policy on one empty database."""
    async with two_replicas(policy_url, settings) as replicas:
        yield replicas


@pytest.fixture(scope="session")
def limited_settings(settings: PolicySettings) -> PolicySettings:
    """Settings that name the rulebook with limits and grants."""
    return settings_with(settings, "limited", LIMITED)


@pytest.fixture
def limited(limited_settings: PolicySettings) -> Rulebook:
    """The rulebook with limits and grants."""
    return load_rulebook(limited_settings.rulebook)


@pytest.fixture
async def limited_replicas(policy_url: str, limited_settings: PolicySettings) -> AsyncIterator[tuple[Replica, Replica]]:
    """Two processes of policy that judge with limits and grants."""
    async with two_replicas(policy_url, limited_settings) as replicas:
        yield replicas


@pytest.fixture
def limited_replica(limited_replicas: tuple[Replica, Replica]) -> Replica:
    """One of them."""
    return limited_replicas[0]


@pytest.fixture
def approver(settings: PolicySettings) -> Signer:
    """Approval's key, which asks for grants."""
    return load_signer(settings.keys, "approval")


@pytest.fixture
def replica(replicas: tuple[Replica, Replica]) -> Replica:
    """One of them."""
    return replicas[0]
