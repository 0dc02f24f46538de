"""Signing keys for services that run apart: each signer gets a folder with its own private key and everybody's public.

`python -m placet.deploy.keys FOLDER [--owner UID]` keeps `FOLDER/<signer>/` for each signer and `FOLDER/public/` for
those who only verify. Each folder is one volume, so a service never sees another's private key. Existing keys stay.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from placet.contracts.errors import PlacetError
from placet.contracts.signing import SIGNERS, create_keys

PUBLIC = "public"
_PUBLIC_FILE = "public.json"


def create_folders(root: Path, owner: int | None = None) -> list[Path]:
    """Make what is missing under `root`, give it to user `owner`, and return the private keys that are new."""
    made = [path for signer in SIGNERS for path in create_keys(root / signer, [signer])]
    public = [key for signer in SIGNERS for key in _public_keys(root / signer)]
    (root / PUBLIC).mkdir(exist_ok=True)
    for name in (*SIGNERS, PUBLIC):
        _replace(root / name / _PUBLIC_FILE, json.dumps({"keys": public}, indent=1))
    if owner is not None:
        for path in (path for name in (*SIGNERS, PUBLIC) for path in (root / name, *(root / name).iterdir())):
            os.chown(path, owner, owner)
    return made


def _public_keys(folder: Path) -> list[dict[str, str]]:
    """Return the public half of the signer whose folder this is; `create_keys` has just drawn it from the private."""
    keys: list[dict[str, str]] = json.loads((folder / _PUBLIC_FILE).read_text())["keys"]
    return keys


def _replace(path: Path, text: str) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_text(text)
    temporary.chmod(0o644)
    temporary.replace(path)


def main(arguments: Sequence[str]) -> int:
    """Make the folders; return the exit code."""
    parser = argparse.ArgumentParser(description="Create signing keys, a folder per service.")
    parser.add_argument("folder", type=Path, help="holds a folder per signer, and `public`")
    parser.add_argument("--owner", type=int, help="user and group id that may read them")
    options = parser.parse_args(arguments)
    try:
        made = create_folders(options.folder, options.owner)
    except (PlacetError, OSError) as error:
        sys.stderr.write(f"placet: {error}\n")
        return 1
    sys.stdout.write(f"signing keys: {', '.join(path.name for path in made) or 'all there already'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
