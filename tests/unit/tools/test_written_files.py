"""What a commit makes of files: all of them or none, and never with rights that were not shown."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from placet.testing import TestedTools, TestedWorkspace
from placet.tools import CannotApply, ToolError
from tests.support.file_roots import names_in


@pytest.fixture
def as_ordinary_user() -> Iterator[None]:
    """Let the system ask what a user may do for whom rights are no word: root may write anywhere."""
    user = os.getuid()
    if not user:
        os.setreuid(65534, -1)
    yield
    if not user:
        os.setreuid(user, -1)


@pytest.mark.parametrize("tool", ["create_file", "delete_file"])
async def test_a_folder_that_cannot_be_written_leaves_all_as_it_is(
    root: Path, tools: TestedTools, tool: str, as_ordinary_user: None
) -> None:
    """Nothing before it is made, nothing behind it, and nothing is left of the attempt."""
    del as_ordinary_user
    (root / "fixed").mkdir()
    (root / "fixed" / "old").write_text("x")
    for folder, mode in ((root, 0o777), (root / "fixed", 0o555)):
        folder.chmod(mode)
    path = {"create_file": "fixed/new/b.txt", "delete_file": "fixed/old"}[tool]
    workspace = TestedWorkspace()
    await tools.stage("create_file", workspace, path="a.txt", content="x")
    given: dict[str, Any] = {"content": "x"} if tool == "create_file" else {}
    await tools.stage(tool, workspace, path=path, **given)
    await tools.stage("create_file", workspace, path="z.txt", content="x")
    with pytest.raises(CannotApply, match=f"'{path}' could not be written: Permission denied"):
        await tools.commit("create_file", workspace)
    (root / "fixed").chmod(0o755)
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


async def test_a_call_that_runs_at_once_says_that_it_wrote_nothing(
    root: Path, tools: TestedTools, as_ordinary_user: None
) -> None:
    """No doubt remains where no folder was touched."""
    del as_ordinary_user
    (root / "fixed").mkdir(0o555)
    for folder, mode in ((root, 0o777), (root / "fixed", 0o555)):
        folder.chmod(mode)
    with pytest.raises(ToolError) as refused:
        await tools.call("create_file", path="fixed/b.txt", content="x")
    assert ("not_writable", ["fixed"]) == (refused.value.code, names_in(root))
