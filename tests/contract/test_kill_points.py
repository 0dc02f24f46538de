"""Every transaction, publish and act of the services passes through a named kill point, or says why it need not."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from placet.contracts.topology import QUEUES, SERVICES
from placet.deploy.rabbitmq.rights import SENDERS
from placet.runtime.points import POINTS
from tests.contract.steps import STEPS, STORING, Function, functions, ways_out
from tests.support.kill_points import AT

ROOT = Path(__file__).parents[2]
SOURCES = [path for folder in ("services", "shared") for path in sorted((ROOT / folder).rglob("*.py"))]
#: What people's commands, clients and users' tests do: they see whether it ended.
COMMANDS = tuple(ROOT / folder for folder in ("services/cli", "shared/client", "shared/testing"))
LIST: dict[str, Any] = yaml.safe_load((ROOT / "tests/contract/kill_points.yaml").read_text())
LISTED = {f"{file}:{name}": entry for file, found in LIST["steps"].items() for name, entry in found.items()}


def is_command(path: Path) -> bool:
    """Tell whether a file is of commands, clients or users' tests."""
    return any(path.is_relative_to(folder) for folder in COMMANDS)


def found() -> Iterator[tuple[str, Function]]:
    """Yield every function of the services that has a step."""
    for path in SOURCES:
        for function in functions(path.read_text(), STORING if is_command(path) else STEPS):
            yield f"{path.relative_to(ROOT)}:{function.name}", function


def test_every_step_has_a_point_or_a_reason() -> None:
    """A new transaction, publish or act without one fails here; so does a reason for what is gone."""
    assert sorted(name for name, entry in LISTED.items() if "why" in entry) == sorted(
        name for name, function in found() if function.points < function.steps
    )


def test_every_function_does_what_is_listed() -> None:
    """One that has a point or a reason gets no other step, and waits for nothing else, before somebody looks at it."""
    assert {name: entry["does"] for name, entry in LISTED.items()} == {
        name: ", ".join(function.does) for name, function in found()
    }


def test_every_way_out_is_listed() -> None:
    """A file that takes a library by which something goes out, or another one that nobody knows, fails here."""
    assert LIST["ways out"] == {
        str(path.relative_to(ROOT)): libraries
        for path in SOURCES
        if not is_command(path) and (libraries := ways_out(path.read_text(), LIST["harmless"]))
    }


@pytest.mark.parametrize(
    "planted",
    [
        "async with database.transaction() as connection:\n        pass",
        "async with database.single() as connection:\n        pass",
        "await bus.publish('x')",
        "send = bus.publish\n    await send('x')",
        "return lambda: bus.publish('x')",
        "await getattr(bus, 'publish')('x')",
        "if send := getattr(bus, 'publish', None):\n        await send('x')",
        "await methodcaller('publish', 'x')(bus)",
        "from operator import methodcaller as by\n    await by('publish', 'x', headers={})(bus)",
        "await bus.__getattribute__('publish')('x')",
        "await bus.retry(delivery)",
        "await channel.send(card)",
        "await way.send(card)",
        "await post.relay.send(mail)",
        "await channel.say('tenant', 'recipient', 'subject', 'words')",
        "await client.chat_postMessage(text='x')",
        "await client.api_call('chat.update')",
        "await poster.post(endpoint, event_id, body)",
        "await client.post('https://sms.example')",
        "await client.request('PUT', 'https://crm.example')",
        "async with client.stream('POST', 'https://crm.example') as answer:\n        pass",
        "await self._model.ask([])",
        "await litellm.acompletion()",
        "await tool.run({})",
        "await function.run({})",
        "await tool.plan({}, context)",
        "await pack.prepare(changes, context)",
        "await pack.apply(changes, context)",
        "await asyncpg.connect(url)",
        "subprocess.run(['x'])",
        "await asyncio.create_subprocess_exec('x')",
        "from asyncio import create_subprocess_exec as begin\n    await begin('x')",
        "from httpx import post as tell\n    tell('https://sms.example')",
        "from aiosmtplib import send as _s\n    await _s(mail)",
        "import os as o\n    await asyncio.to_thread(o.posix_spawn, 'x')",
        "from os import system\n    system('x')",
        "from shutil import copy\n    await asyncio.to_thread(copy, 'x', 'y')",
        "os.popen('x')",
        "await loop.subprocess_exec(protocol, 'x')",
        "await asyncio.open_unix_connection('/x')",
        "await loop.create_datagram_endpoint(protocol)",
        "async with database._pool.acquire() as raw:\n        pass",
        "async with database._acquired() as raw:\n        pass",
        "from sqlmodel import create_engine\n    create_engine(url)",
        "with engine.begin() as connection:\n        pass",
        "session.commit()",
        "await raw.copy_records_to_table('x', records=[])",
        "from prometheus_client import push_to_gateway\n    push_to_gateway('h', 'j', None)",
        "importlib.import_module('httpx')",
        "Path('/x').write_text('y')",
        "Path('/x').unlink()",
        "Path('/x').rename('y')",
        "await asyncio.to_thread(path.unlink, missing_ok=True)",
        "path.replace(other)",
        "import os\n    os.symlink('x', 'y')",
        "with open('/x', 'w') as file:\n        pass",
        "with Path('/x').open(mode='ab') as file:\n        pass",
        "with open('/x', mode) as file:\n        pass",
        "with path.open(mode=MODE) as file:\n        pass",
        "path.mkdir()",
        "await asyncio.to_thread(path.touch)",
        "path.chmod(0o600)",
        "import os\n    os.makedirs('/x')",
        "import os\n    os.write(held, b'x')",
        "import os\n    os.kill(1, 9)",
        "from tempfile import mkstemp\n    mkstemp()",
        "self._writer.write(b'x')",
        "await say('x')",
        "await attrgetter('publish')(bus)('x')",
        "await attrgetter('address', 'bus.publish')(self)[1]('x')",
        "@broker.publisher('placet.permits')\n    async def planted(): ...",
        "from concurrent.futures import ProcessPoolExecutor\n    ProcessPoolExecutor()",
        "import concurrent.futures\n    concurrent.futures.ProcessPoolExecutor()",
        "import logging.handlers\n    logging.handlers.SMTPHandler('relay', 'a@x', ['b@x'], 'subject')",
        "from logging.handlers import HTTPHandler\n    HTTPHandler('crm.example', '/pay', 'POST')",
        "import logging\n    logging.FileHandler('/x')",
        "import zipfile\n    zipfile.ZipFile('/x', 'w')",
        "import tarfile\n    tarfile.open('/x', 'w:gz')",
        "import shelve\n    shelve.open('/x')",
        "import ctypes\n    ctypes.CDLL(None)",
        "import webbrowser\n    webbrowser.open('https://x')",
        "from pathlib import Path\n    Path.replace('x', 'y')",
        "@database.transaction()\n    def planted(): ...",
        "async def planted(send=bus.publish): ...",
    ],
)
def test_a_planted_step_is_seen(planted: str) -> None:
    """Database, broker, tools, packs, models, channels, requests and programs, on whatever they are called."""
    assert [(1, 0)] == [(each.steps, each.points) for each in functions(f"async def f():\n    {planted}\n")]


@pytest.mark.parametrize(
    "planted",
    [
        "from placet.agent.llm import ask\n    await ask()",
        "@router.post('/x')\n    def planted(): ...",
        "with open('/x') as file:\n        pass",
        "with path.open(mode='rb') as file:\n        pass",
        "sys.stdout.write('x')",
        "text.replace('a', 'w')",
        "return getattr(request, 'path', 'none')",
        "lock.acquire(timeout=1)",
        "async with units.begin() as work:\n        pass",
    ],
)
def test_what_only_looks_like_a_step_is_none(planted: str) -> None:
    """Our own functions, which have their steps in themselves, routes, what reads, and what has its points."""
    assert [] == list(functions(f"async def f():\n    {planted}\n"))


@pytest.mark.parametrize("path", [path for path in SOURCES if str(path.relative_to(ROOT)) in LIST["steps"]], ids=str)
def test_a_step_more_is_seen_in_every_listed_function(path: Path) -> None:
    """Also in one that has more points than steps, and in one with a reason."""
    names = STORING if is_command(path) else STEPS
    for name, entry in LIST["steps"][str(path.relative_to(ROOT))].items():
        tree = ast.parse(path.read_text())
        planted_in(tree, name, "async with database.transaction() as connection:\n    await store.forget(connection)")
        changed = {each.name: ", ".join(each.does) for each in functions(tree, names)}
        assert changed[name].startswith("database.transaction, store.forget")
        assert changed[name] != entry["does"]


def planted_in(tree: ast.Module, name: str, statement: str) -> None:
    """Put a statement at the beginning of a function, or of a class."""
    scope: Any = tree
    for part in name.split(".") if name != "<module>" else ():
        scope = next(each for each in ast.walk(scope) if getattr(each, "name", None) == part)
    scope.body.insert(0, ast.parse(statement).body[0])


@pytest.mark.parametrize(
    ("planted", "library"),
    [
        ("import httpx", "httpx"),
        ("from urllib.request import urlopen", "urllib.request"),
        ("from http import client", "http.client"),
        ("import asyncpg", "asyncpg"),
        ("import twilio.rest", "twilio"),
        ("from placet.client import Client", "placet.client"),
    ],
)
def test_a_planted_way_out_is_seen(planted: str, library: str) -> None:
    """A library that nobody has judged is one, too."""
    assert [library] == ways_out(f"def f():\n    {planted}\n", LIST["harmless"])


def named_in(paths: Iterable[Path]) -> set[str]:
    """Return the points that stand in files."""
    return {
        node.args[0].value
        for path in paths
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "points.reached"
        if isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
    }


def test_every_point_is_reached_somewhere_and_no_other() -> None:
    """The names in the code are those of the table."""
    assert set(POINTS) == named_in(SOURCES)


#: Whose points those of the runtime are: of who has a queue, who may publish, and who writes anything.
RUNTIME = {
    "consumer": {spec.service for spec in QUEUES} | {"executor"},
    "outbox": {service for senders in SENDERS.values() for service in senders},
    "work": {*SERVICES},
}


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_is_killed_at_every_point_that_it_can_reach(service: str) -> None:
    """Its own, and those of the runtime by what it is brought and may send: a pair without a kill fails here."""
    of_runtime = {file for file, services in RUNTIME.items() if service in services}
    own = [path for path in SOURCES if path.is_relative_to(ROOT / "services" / service)]
    assert named_in([*own, *(ROOT / f"shared/runtime/{file}.py" for file in of_runtime)]) == {*AT[service]}


def test_every_point_outside_of_the_services_is_somebodys() -> None:
    """A file of the runtime with points that no service is said to reach fails here."""
    files = [path for path in SOURCES if path.is_relative_to(ROOT / "shared") and named_in([path])]
    assert {f"shared/runtime/{file}.py" for file in RUNTIME} == {str(path.relative_to(ROOT)) for path in files}
    assert {*SERVICES} == AT.keys()
