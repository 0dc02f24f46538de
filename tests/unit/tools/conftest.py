"""A root of files, and the example's tools for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from placet.testing import TestedTools, open_tools
from tests.support.file_roots import CODER, SECRET


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root with a secret beside it."""
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "root").mkdir()
    monkeypatch.setenv("FILES_ROOT", str(tmp_path / "root"))
    return tmp_path / "root"


@pytest.fixture
async def tools(root: Path) -> AsyncIterator[TestedTools]:
    """The example's tools."""
    async with open_tools(CODER) as opened:
        yield opened
