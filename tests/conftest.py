"""What every test may ask for: a marker by its folder, uvloop, and services of its own.

Services are found by `tests.support.services`; a test that needs one which is not there fails with the one
line that says what to run. Nothing here patches anything.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
import uvloop
from hypothesis import settings
from playwright.async_api import Browser, async_playwright, expect
from xdist.scheduler import LoadFileScheduling

from tests.support import services
from tests.support.postgres import Databases, Migrate
from tests.support.programs import CHROMIUM, MissingProgramError, apt, ensure
from tests.support.rabbitmq import VirtualHosts

# How fast a property is, `make bench` asks; here a busy machine is no failure. The examples of one state of the code
# are the same everywhere, so that what passes here passes in CI; `make test-races` looks for new ones.
settings.register_profile("placet", deadline=None, derandomize=True)
settings.register_profile("races", deadline=None, max_examples=1_000)
settings.load_profile("races" if "PLACET_TEST_RACE_ROUNDS" in os.environ else "placet")

TIERS = ("unit", "contract", "integration", "e2e")
HERE = Path(__file__).parent
#: Files of end-to-end tests that share no system, because each starts an embedded Placet of its own.
EMBEDDED = (
    *("test_a_job_as_a_tool.py", "test_administrators.py", "test_backups.py", "test_chat_page.py", "test_embedded.py"),
    *("test_job_commits.py", "test_job_page.py", "test_job_receipts.py", "test_key_rotation.py", "test_operator.py"),
    *("test_receipts.py", "test_retention.py", "test_rulebook_proposals.py", "test_stage.py", "test_verify.py"),
)
#: How long a page may take to show what a test expects of it, in seconds.
PAGE_SECONDS = 30.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with the name of its top folder; who waits longest, for whole systems, begins."""
    for item in items:
        tier = item.path.relative_to(HERE).parts[0] if item.path.is_relative_to(HERE) else ""
        if tier in TIERS:
            item.add_marker(tier)
    items.sort(key=lambda item: item.get_closest_marker("e2e") is None)


class _OneSystem(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives each worker whole files, and the files that share the distributed system all to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "the system" if file.startswith("tests/e2e/") and not file.endswith(EMBEDDED) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling | None:
    """Say who runs what where tests run at once: a dozen processes are started once, not by every worker."""
    return _OneSystem(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among thousands of tests: they stay, and looking takes a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run asynchronous tests on the loop that the services run on."""
    return {"uvloop": uvloop.new_event_loop}


def migrate(url: str) -> None:
    """Bring the database at `url` to the newest schema."""
    from placet.deploy import migrations  # noqa: PLC0415  # alembic takes its time, and most tests need none

    migrations.migrate(url)


@pytest.fixture(scope="session")
def postgres_url() -> str:
    """Return the admin URL of the PostgreSQL that tests use."""
    return _found(services.find_postgres, "PostgreSQL")


@pytest.fixture(scope="session")
def databases(postgres_url: str) -> Iterator[Databases]:
    """Keep the source of fresh databases."""
    source = Databases(postgres_url)
    yield source
    source.close()


@pytest.fixture
def fresh_database(databases: Databases) -> Iterator[Callable[[Migrate], str]]:
    """Lend a function from a `migrate` to the URL of an empty database that it made ready, for this test alone."""
    with ExitStack() as stack:
        yield lambda migrate: stack.enter_context(databases.lent(migrate))


@pytest.fixture
def database_url(fresh_database: Callable[[Migrate], str]) -> str:
    """Lend a migrated and empty database."""
    return fresh_database(migrate)


@pytest.fixture(scope="module")
def module_database_url(databases: Databases) -> Iterator[str]:
    """Make a migrated database that the tests of one module share."""
    with databases.fresh(migrate) as url:
        yield url


@pytest.fixture(scope="session")
def virtual_hosts() -> Iterator[VirtualHosts]:
    """Keep the source of fresh virtual hosts."""
    url = _found(services.find_rabbitmq, "RabbitMQ")
    administration = services.administration(os.environ, url)
    assert administration is not None, "find_rabbitmq returns only what can be administered"
    source = VirtualHosts(url, administration)
    yield source
    source.close()


@pytest.fixture
def rabbitmq_url(virtual_hosts: VirtualHosts) -> Iterator[str]:
    """Lend a virtual host that no other test has seen."""
    with virtual_hosts.lent() as url:
        yield url


@pytest.fixture(scope="module")
def module_rabbitmq_url(virtual_hosts: VirtualHosts) -> Iterator[str]:
    """Lend a virtual host that the tests of one module share."""
    with virtual_hosts.lent() as url:
        yield url


@pytest.fixture(scope="session")
def chromium() -> Path:
    """Find the browser for tests of pages, and let pages take their time on a busy machine."""
    expect.set_options(timeout=PAGE_SECONDS * 1_000)
    try:
        return ensure(CHROMIUM, apt())
    except MissingProgramError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="module")
async def module_browser(chromium: Path) -> AsyncIterator[Browser]:
    """Run a browser that the tests of one module share."""
    async with async_playwright() as playwright:
        made = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield made
        await made.close()


@pytest.fixture
async def browser(module_browser: Browser) -> AsyncIterator[Browser]:
    """Lend a browser without profiles; those that a test makes are closed after it.

    Ask for what pages are open on before the browser: it stops at once when nobody listens to it any more.
    """
    yield module_browser
    for context in module_browser.contexts:
        await context.close()


def _found(find: Callable[[Mapping[str, str]], str | None], service: str) -> str:
    try:
        url = find(os.environ)
    except services.UnreachableError as error:
        pytest.fail(str(error), pytrace=False)
    if url is None:
        command = "python -m tests.support.services python -m pytest …"
        pytest.fail(f"{service} is not running here: use `make test`, or `{command}`", pytrace=False)
    return url
