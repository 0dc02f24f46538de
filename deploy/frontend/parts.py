"""Names the browser libraries that the gateway serves in its image's bill of materials, beside its Python packages.

`python -m placet.deploy.frontend.parts /opt/placet/sbom.cdx.json`: CycloneDX, with what `package-lock.json` pins.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from placet.deploy.frontend.install import FILES, HERE


def served() -> list[Mapping[str, Any]]:
    """Return a component for each library of which a file is served, as the lock pins it."""
    pinned = json.loads((HERE / "package-lock.json").read_text())["packages"]
    return [_component(name, pinned[f"node_modules/{name}"]) for name in sorted(_libraries())]


def _libraries() -> set[str]:
    # A library of a scope has two parts: @scope/name.
    return {"/".join(file.split("/")[: 2 if file.startswith("@") else 1]) for file in FILES}


def _component(name: str, pinned: Mapping[str, str]) -> Mapping[str, Any]:
    purl = f"pkg:npm/{quote(name)}@{pinned['version']}"
    algorithm, _, digest = pinned["integrity"].partition("-")
    return {
        "bom-ref": purl,
        "type": "library",
        "name": name,
        "version": pinned["version"],
        "licenses": [{"license": {"name": pinned["license"]}}],
        "hashes": [{"alg": f"SHA-{algorithm.removeprefix('sha')}", "content": base64.b64decode(digest).hex()}],
        "purl": purl,
    }


def add(document: Path) -> None:
    """Add them to a bill of materials; twice does no harm."""
    bill = json.loads(document.read_text())
    ours = served()
    refs = {each["bom-ref"] for each in ours}
    bill["components"] = [each for each in bill.get("components", []) if each.get("bom-ref") not in refs] + ours
    listed = [each for each in bill.get("dependencies", []) if each["ref"] not in refs]
    bill["dependencies"] = listed + [{"ref": ref} for ref in sorted(refs)]
    document.write_text(json.dumps(bill, indent=2) + "\n")


if __name__ == "__main__":
    add(Path(sys.argv[1]))
