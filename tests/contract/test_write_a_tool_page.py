"""docs/write-a-tool.md works when it is followed word by word."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "write-a-tool.md").read_text()
#: (name, content) in the order of the page; a name that comes again is replaced.
FILES = re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```\n", PAGE, re.DOTALL)
OVERRIDES = re.findall(r"```yaml\n(services:\n.*?)```\n", PAGE, re.DOTALL)


def run(folder: Path, *command: str) -> str:
    """Run Python in a folder as a reader would; return what it printed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PLACET_")}
    environment["PYTHONPATH"] = str(ROOT)
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout


def test_each_state_of_the_page_passes_its_own_tests(tmp_path: Path) -> None:
    """First without resources, then with secrets and an unknown outcome, then with changes that wait, and a script."""
    names = [name for name, _ in FILES]
    alarms = ["alarms.py", "alarms.yaml", "test_alarms.py"]
    assert [*["forecasts.py", "rulebook.yaml", "test_forecasts.py"] * 2, *alarms, "script.py"] == names
    parts = ((FILES[:3], "1 tool, 0 rules"), (FILES[3:6], "2 tools, 1 rule"), (FILES[6:], "1 tool, 0 rules"))
    for part, counted in parts:
        for name, content in part:
            (tmp_path / name).write_text(content)
        rulebook = part[1][0]
        said = run(tmp_path, "-m", "placet.cli", "rulebook", "check", rulebook, "--import", "--tools", ".")
        assert f"{rulebook}: {counted}, no problems\n" == said
        assert " passed" in run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    run(tmp_path, "-c", "import script; assert callable(script.model)")


def test_no_container_sees_the_settings_of_another() -> None:
    """Secrets stand outside of the folders that are mounted, and copied into an image, as a whole."""
    found = re.findall(r"(?m)^(RULES|TOOLS|SETTINGS)_FOLDER=(\S+)", PAGE)
    folders = {name: Path(folder) for name, folder in found}
    assert {"RULES", "TOOLS", "SETTINGS"} == folders.keys()
    assert {folders["RULES"], folders["TOOLS"]}.isdisjoint([folders["SETTINGS"], *folders["SETTINGS"].parents])


def test_no_container_sees_the_data_of_the_trial() -> None:
    """Its keys stand outside of the tools' folder, and an image takes code alone."""
    (data,) = re.findall(r"placet up .* --data ~/(\S+)", PAGE)
    (ignored,) = re.findall(r"```text\n(\*\n.*?)```", PAGE, re.DOTALL)
    assert "weather" != Path(data).parts[0]
    assert ["*", "!**/*.py", "!requirements.txt"] == ignored.splitlines()


def test_the_overrides_change_what_compose_has() -> None:
    """An image of one's own is not built over by Placet's, and an executor of its own pool has the way out."""
    packages, way_out = (yaml.safe_load(re.sub(r"!\w+", "", text))["services"] for text in OVERRIDES)
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    own, its = packages["executor"]["volumes"], compose["services"]["executor"]["volumes"]
    assert "build: !reset null" in OVERRIDES[0]
    assert set(own) < {each.replace(":-./deploy", "") for each in its}
    assert "executor" == way_out["executor-weather"]["extends"]["service"]
    assert set(way_out["executor-weather"]["networks"]) <= compose["networks"].keys()
