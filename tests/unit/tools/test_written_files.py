"""What a commit makes of files: all of them or none, and never with rights that were not shown."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from placet.testing import TestedTools, TestedWorkspace
from placet.tools import CannotApply, ToolError
from tests.support.file_roots import names_in


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A root that every user of the system reaches: pytest's own folders are for their owner only."""
    with TemporaryDirectory() as outer:
        Path(outer).chmod(0o755)
        (folder := Path(outer, "root")).mkdir()
        monkeypatch.setenv("FILES_ROOT", str(folder))
        yield folder


@contextmanager
def ordinary_user(root: Path) -> Iterator[None]:
    """Act as somebody who may write in a root and not in its folder "fixed": the system's own root may anywhere."""
    root.chmod(0o777)
    (root / "fixed").chmod(0o555)
    user = os.geteuid()
    if not user:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        (root / "fixed").chmod(0o755)


@pytest.mark.parametrize("tool", ["create_file", "delete_file"])
async def test_a_folder_that_cannot_be_written_leaves_all_as_it_is(root: Path, tools: TestedTools, tool: str) -> None:
    """Nothing before it is made, nothing behind it, and nothing is left of the attempt."""
    (root / "fixed").mkdir()
    (root / "fixed" / "old").write_text("x")
    path = {"create_file": "fixed/new/b.txt", "delete_file": "fixed/old"}[tool]
    workspace = TestedWorkspace()
    await tools.stage("create_file", workspace, path="a.txt", content="x")
    given: dict[str, Any] = {"content": "x"} if tool == "create_file" else {}
    await tools.stage(tool, workspace, path=path, **given)
    await tools.stage("create_file", workspace, path="z.txt", content="x")
    with (
        ordinary_user(root),
        pytest.raises(CannotApply, match=f"'{path}' could not be written: Permission denied"),
    ):
        await tools.commit("create_file", workspace)
    assert ["fixed"] == [name for name in names_in(root) if not name.startswith(".placet-")]
    assert ["old"] == names_in(root / "fixed")


async def test_a_change_says_that_a_file_lends_nobody_its_rights_any_more(root: Path, tools: TestedTools) -> None:
    """Who runs it and who may write it stays, setuid and the like go: the line says both modes."""
    (root / "su").write_text("one\n")
    (root / "su").chmod(0o4755)
    workspace = TestedWorkspace()
    (told,) = await tools.stage("edit_file", workspace, path="su", old="one", new="two")
    assert [] == await tools.commit("edit_file", workspace)
    assert ("Change su (+1 -1, mode 4755 → 755)", 0o755) == (told.summary, (root / "su").stat().st_mode & 0o7777)


async def test_a_call_that_runs_at_once_says_that_it_wrote_nothing(root: Path, tools: TestedTools) -> None:
    """No doubt remains where no folder was touched."""
    (root / "fixed").mkdir()
    with ordinary_user(root), pytest.raises(ToolError) as refused:
        await tools.call("create_file", path="fixed/b.txt", content="x")
    assert ("not_writable", ["fixed"]) == (refused.value.code, names_in(root))
