"""`placet audit verify` beside a running system, as an auditor would run it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.system import ROOT


def audited(database_url: str, keys: Path) -> dict[str, Any]:
    """Return what the chains of all tenants say: their `tenants`, and the `problems`, of which its exit code tells."""
    command = [sys.executable, "-m", "placet.cli", "audit", "verify", "--database", database_url]
    command += ["--keys", str(keys), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in {0, 1}, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert bool(found["problems"]) == bool(done.returncode)
    return found
