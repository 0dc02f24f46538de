"""The browser libraries in the gateway's bill of materials."""

from __future__ import annotations

import json
from pathlib import Path

from placet.deploy.frontend.install import FILES
from placet.deploy.frontend.parts import add

PYTHON = {"bom-ref": "fastapi==1", "type": "library", "name": "fastapi", "version": "1"}


def test_each_library_of_which_a_file_is_served_is_named_as_it_is_pinned(tmp_path: Path) -> None:
    """Beside the packages that are there, once, with version, licence and digest; nothing that is not served."""
    document = tmp_path / "sbom.cdx.json"
    document.write_text(json.dumps({"components": [PYTHON], "dependencies": [{"ref": "fastapi==1"}]}))
    add(document)
    once = document.read_text()
    add(document)
    assert once == document.read_text()
    first, *ours = json.loads(once)["components"]
    assert (PYTHON, {file.split("/")[0] for file in FILES}) == (first, {each["name"] for each in ours})
    assert all(
        (f"pkg:npm/{each['name']}@{each['version']}", "SHA-512", 128)
        == (each["purl"], each["hashes"][0]["alg"], len(each["hashes"][0]["content"]))
        for each in ours
    )
    assert len(json.loads(once)["dependencies"]) == len(ours) + 1
