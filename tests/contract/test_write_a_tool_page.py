"""docs/write-a-tool.md works when it is followed word by word."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "write-a-tool.md").read_text()
#: (name, content) in the order of the page; a name that comes again is replaced.
FILES = re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```\n", PAGE, re.DOTALL)


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
    parts = ((FILES[:3], "1 tools, 0 rules"), (FILES[3:6], "2 tools, 1 rules"), (FILES[6:], "1 tools, 0 rules"))
    for part, counted in parts:
        for name, content in part:
            (tmp_path / name).write_text(content)
        rulebook = part[1][0]
        said = run(tmp_path, "-m", "placet.cli", "rulebook", "check", rulebook, "--import", "--tools", ".")
        assert f"{rulebook}: {counted}, no problems\n" == said
        assert " passed" in run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    run(tmp_path, "-c", "import script; assert callable(script.model)")
