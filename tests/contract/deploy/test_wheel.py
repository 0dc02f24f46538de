"""What is installed: one top-level package, the demo in it, and no name of anybody else's taken."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[3]
OLD_NAMES = ("services", "shared", "deploy")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Placet as it is installed."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def run(folder: Path, *arguments: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder that is no checkout, with `path` first on its import path."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PLACET_")}
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), str(path)])
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_placet_is_the_only_top_level_name(wheel: Path) -> None:
    """Beside what describes the wheel itself."""
    names = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {"placet"} == {name for name in names if not name.endswith(".dist-info")}


def test_what_is_not_python_is_there_too(wheel: Path) -> None:
    """The demo's rulebook and products, mails, the baseline of the database, names of settings, the mark of types."""
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        "placet/deploy/rulebook.yaml",
        "placet/deploy/migrations/baseline.sql",
        "placet/examples/shop/catalogue.yaml",
        "placet/py.typed",
        "placet/runtime/setting_names.txt",
    }
    assert wanted <= names


def test_the_client_brings_none_of_the_services_libraries(wheel: Path) -> None:
    """`placet[client]` is for programs that only talk to Placet."""
    described = zipfile.ZipFile(wheel)
    (name,) = (each for each in described.namelist() if each.endswith(".dist-info/METADATA"))
    asked = Parser().parsestr(described.read(name).decode()).get_all("Requires-Dist", [])
    requirements = map(Requirement, asked)
    wanted = {each.name for each in requirements if each.marker is None or each.marker.evaluate({"extra": "client"})}
    assert {"pydantic", "httpx", "httpx-sse"} == wanted


def test_packages_of_a_users_own_break_nothing(wheel: Path, tmp_path: Path) -> None:
    """A `services` of theirs that cannot even be imported is never touched, and the demo's rulebook is in the wheel."""
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    own = tmp_path / "own"
    for name in OLD_NAMES:
        (own / name).mkdir(parents=True)
        (own / name / "__init__.py").write_text("raise RuntimeError('not yours')\n")
    rulebook = installed / "placet" / "deploy" / "rulebook.yaml"
    done = run(own, "-m", "placet.cli", "rulebook", "check", str(rulebook), path=installed)
    assert (0, "") == (done.returncode, done.stderr)
    where = run(own, "-c", "import placet; print(placet.__file__)", path=installed)
    assert str(installed / "placet" / "__init__.py") == where.stdout.strip()
