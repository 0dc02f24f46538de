"""How browser libraries get from npm's folder to the one the gateway serves."""

from __future__ import annotations

from pathlib import Path

import pytest

from placet.deploy.frontend.install import copy_files
from placet.deploy.install import SetupError

FILES = {"lib/dist/lib.min.js": "lib.min.js", "lib/LICENSE": "lib.LICENSE.txt"}


def a_modules_folder(folder: Path) -> Path:
    """Return a `node_modules` with one small library."""
    (folder / "lib" / "dist").mkdir(parents=True)
    (folder / "lib" / "dist" / "lib.min.js").write_text("new")
    (folder / "lib" / "LICENSE").write_text("free")
    return folder


def test_files_of_an_older_version_are_removed(tmp_path: Path) -> None:
    """The vendor folder holds exactly the listed files afterwards, whatever lay there before."""
    vendor = tmp_path / "vendor"
    vendor.mkdir()
    (vendor / "old.js").write_text("old")
    copy_files(a_modules_folder(tmp_path / "node_modules"), vendor, FILES)
    expected = {"lib.min.js": "new", "lib.LICENSE.txt": "free"}
    assert expected == {path.name: path.read_text() for path in vendor.iterdir()}


def test_a_file_that_is_gone_upstream_keeps_the_old_ones(tmp_path: Path) -> None:
    """A library that no longer has a listed file stops set-up by name, before anything is removed."""
    vendor = tmp_path / "vendor"
    vendor.mkdir()
    (vendor / "old.js").write_text("old")
    with pytest.raises(SetupError, match=r"lib/dist/gone\.js"):
        copy_files(a_modules_folder(tmp_path / "node_modules"), vendor, {"lib/dist/gone.js": "gone.js"})
    assert (vendor / "old.js").exists()
