"""Two replicas of approval on one database, and the gateway's key that signs decisions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest

from placet.approval.service import build
from placet.approval.settings import ApprovalSettings
from placet.contracts.signing import Signer, Verifier, create_keys, load_signer, load_verifier
from tests.support.approval_builders import Register
from tests.support.approval_keys import create_keys_view
from tests.support.house import Replica, a_replica, create_tables
from tests.support.postgres import Databases

_create_own = create_tables("approval")


def _create(url: str) -> None:
    """Make approval's tables, and a stand-in for what the gateway shows of its keys."""
    _create_own(url)
    create_keys_view(url)


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the signing keys of every issuer."""
    folder = tmp_path_factory.mktemp("keys")
    create_keys(folder)
    return folder


@pytest.fixture
def gateway(keys: Path) -> Signer:
    """The only signer of decisions."""
    return load_signer(keys, "gateway")


@pytest.fixture
def verifier(keys: Path) -> Verifier:
    """What executors verify permits with."""
    return load_verifier(keys)


@pytest.fixture(scope="module")
def approval_url(databases: Databases) -> Iterator[str]:
    """A database for the tests of one module; each finds it empty."""
    with databases.fresh(_create) as url:
        yield url


@pytest.fixture
def register() -> Register:
    """The directory of both replicas."""
    return Register()


@pytest.fixture
async def replicas(approval_url: str, keys: Path, register: Register) -> AsyncIterator[tuple[Replica, Replica]]:
    """Two processes of approval on one empty database."""
    settings = ApprovalSettings(keys=keys)
    async with AsyncExitStack() as stack:
        replicas = [
            await stack.enter_async_context(
                a_replica("approval", approval_url, partial(build, settings, directory=register), keys=settings.keys)
            )
            for _ in range(2)
        ]
        await replicas[0].empty_tables()
        await replicas[0].execute('DELETE FROM "read".api_keys')
        await replicas[0].execute('DELETE FROM "read".active_rulebook')
        yield replicas[0], replicas[1]


@pytest.fixture
def replica(replicas: tuple[Replica, Replica]) -> Replica:
    """One of them."""
    return replicas[0]
