"""Images: what is in them, pinned, and for whom."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from placet.contracts.topology import SERVICES
from tests.support.image_imports import missing

ROOT = Path(__file__).parents[3]
LOCKS = ROOT / "deploy" / "locks"
IMAGES = (*SERVICES, "cli")


def pinned(path: Path) -> dict[str, set[str]]:
    """Read a lock file: requirement without its marker -> hashes."""
    blocks = re.split(r"(?m)^(?=[A-Za-z0-9])", path.read_text())[1:]
    return {re.split(r" [;\\]", block)[0]: set(re.findall(r"--hash=(sha256:\w+)", block)) for block in blocks}


def names(requirements: list[str]) -> set[str]:
    """Return the package names of requirement lines."""
    return {re.split(r"[^A-Za-z0-9._-]", line)[0].lower().replace("_", "-") for line in requirements}


def test_each_image_has_a_lock_file() -> None:
    """And no lock file is left over from an image that is gone."""
    assert sorted(f"{image}.lock" for image in IMAGES) == sorted(path.name for path in LOCKS.iterdir())


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_pins_what_the_whole_pins(image: str) -> None:
    """Same versions and same hashes as requirements.lock, so tests run with what images carry."""
    whole, part = pinned(ROOT / "requirements.lock"), pinned(LOCKS / f"{image}.lock")
    assert part
    assert {line: whole.get(line) for line in part} == part
    assert all(part.values())


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_has_what_its_service_asks_for(image: str) -> None:
    """The lock follows pyproject: what every service needs, and the service's own extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = names([*project["dependencies"], *extras["service"], *extras[image]]) - {"placet"}
    assert wanted <= names(list(pinned(LOCKS / f"{image}.lock")))


@pytest.fixture
def folder(image: str, tmp_path: Path) -> Path:
    """Return what the image holds of Placet, as image.sh gathers it."""
    subprocess.run(["sh", "deploy/image.sh", image, str(tmp_path)], cwd=ROOT, check=True)
    return tmp_path


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_has_every_module_that_one_of_its_modules_imports(folder: Path) -> None:
    """Inside of functions too: a command that imports late ends as late."""
    assert [] == missing(folder)


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_has_what_its_modules_import(image: str, folder: Path) -> None:
    """With this checkout hidden and every package that the image lacks, all that it runs is imported."""
    probe = [sys.executable, "-m", "tests.support.image_imports", image, str(folder)]
    done = subprocess.run(probe, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr[-500:])


def test_a_module_that_an_image_lacks_is_found(tmp_path: Path) -> None:
    """Without its purge, the command line is said to lack each module of it."""
    subprocess.run(["sh", "deploy/image.sh", "cli", str(tmp_path)], cwd=ROOT, check=True)
    shutil.rmtree(tmp_path / "deploy" / "retention")
    assert "placet.deploy.retention.erasing" in missing(tmp_path)


def test_only_the_agent_carries_the_model_library() -> None:
    """It is big, slow to import, and other people's code: no other service needs it."""
    carriers = [image for image in IMAGES if "litellm" in names(list(pinned(LOCKS / f"{image}.lock")))]
    assert ["agent"] == carriers


@pytest.mark.parametrize("image", IMAGES)
def test_no_lock_file_names_an_address(image: str) -> None:
    """No index, mirror, link or path of the machine that wrote it."""
    text = (LOCKS / f"{image}.lock").read_text()
    assert not re.findall(r"https?://\S+|--index-url|--find-links|file:\S+|^\s*#.*\s/\S+", text)


@pytest.mark.parametrize("image", SERVICES)
def test_an_image_holds_the_code_of_its_service_only(image: str, folder: Path) -> None:
    """What image.sh gathers: the service, what is shared, the rulebook, the health check."""
    assert {image} == {path.name for path in (folder / "services").iterdir()}
    assert {"__init__.py", "readiness.py", "rulebook.yaml"} == {path.name for path in (folder / "deploy").iterdir()}


def test_the_image_runs_as_nobody_special() -> None:
    """Not root, stopped by SIGTERM, asked for its readiness, and without the build stage's tools."""
    final = (ROOT / "deploy" / "Dockerfile").read_text().split("\nFROM ")[-1]
    assert re.search(r"(?m)^USER 10001:10001$", final)
    assert re.search(r"(?m)^STOPSIGNAL SIGTERM$", final)
    assert re.search(r'(?m)^HEALTHCHECK .*"placet\.deploy\.readiness"\]$', final)
    assert not re.search(r"apt-get|pip install", final)


def test_an_image_holds_its_list_of_parts() -> None:
    """Of all its packages, in what is copied into it; the gateway's browser libraries come in when they are fetched."""
    build, final = (ROOT / "deploy" / "Dockerfile").read_text().split("\nFROM ")[1:]
    made = build.index("cyclonedx-py environment /opt/placet/bin/python")
    assert re.search(r"--output-file /opt/placet/sbom\.cdx\.json$", build[made:], re.MULTILINE)
    assert build.index("--requirement packages.lock") < made < build.index("placet.deploy.frontend.install")
    assert re.search(
        r"frontend\.install \\\n +&& \S+ -m placet\.deploy\.frontend\.parts /opt/placet/sbom\.cdx\.json", build
    )
    assert "COPY --from=build /opt/placet /opt/placet\n" in final


def test_the_build_context_holds_no_secrets() -> None:
    """Everything is left out but what images are made of."""
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    assert ["LICENSE", "deploy", "placet", "services", "shared"] == [line[1:] for line in lines if line.startswith("!")]


#: Stands for Docker's command line: every image has been pulled, and its digest is that of its name.
DOCKER = """#!/bin/sh
[ "$1" = image ] || exit 0
for name; do :; done
echo "${name%%:*}@sha256:$(printf %s "$name" | sha256sum | cut -d' ' -f1)"
"""
FROM_ELSEWHERE = ("PLACET_IMAGE_POSTGRES", "PLACET_IMAGE_PYTHON", "PLACET_IMAGE_RABBITMQ")


def test_images_from_elsewhere_are_pinned_by_their_digests(tmp_path: Path) -> None:
    """Each that compose.yaml names, once, in place of the pin before; what else stands in the file stays."""
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    env = tmp_path / "env"
    env.write_text("PLACET_DATABASE_PASSWORD_ADMIN=x\nPLACET_IMAGE_PYTHON=python:3.11@sha256:old\n")
    asked = {**os.environ, "DOCKER": str(tmp_path / "docker")}
    for _ in range(2):
        subprocess.run([ROOT / "deploy" / "pin-images.sh", env], env=asked, check=True, capture_output=True)
    lines = sorted(env.read_text().splitlines())
    assert ["PLACET_DATABASE_PASSWORD_ADMIN", *FROM_ELSEWHERE] == [line.partition("=")[0] for line in lines]
    assert all(re.fullmatch(r"\w+=\w+:[\w.-]+@sha256:[0-9a-f]{64}", line) for line in lines[1:])


def test_an_image_without_a_digest_is_said(tmp_path: Path) -> None:
    """One that was made here was never in a registry: nothing is pinned, and it says which."""
    (tmp_path / "docker").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "docker").chmod(0o755)
    asked = {**os.environ, "DOCKER": str(tmp_path / "docker")}
    done = subprocess.run(
        [ROOT / "deploy" / "pin-images.sh", tmp_path / "env"], env=asked, check=False, capture_output=True, text=True
    )
    assert (1, "postgres:17: the registry gave it no digest\n", "") == (
        done.returncode,
        done.stderr,
        (tmp_path / "env").read_text(),
    )


def test_everything_from_elsewhere_can_be_pinned() -> None:
    """No image of compose.yaml is ours or a variable's; every build takes its base from one."""
    compose = (ROOT / "compose.yaml").read_text()
    names = set(re.findall(r"(?m)^    image: (\S+)", compose))
    assert {each for each in names if not each.startswith(("placet-", "${PLACET_IMAGE_"))} == set()
    assert compose.count("dockerfile: deploy/Dockerfile") == compose.count("BASE: *base}")
