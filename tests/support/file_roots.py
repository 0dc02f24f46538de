"""What tests of the file tools look at beneath a root, and beside it."""

from __future__ import annotations

from pathlib import Path

#: The rulebook of the example that works on files.
CODER = Path(__file__).parents[2] / "examples" / "coder" / "rulebook.yaml"
#: What stands in the file beside the root.
SECRET = "what nobody may read"


def names_in(folder: Path) -> list[str]:
    """Return what is in a folder."""
    return sorted(path.name for path in folder.iterdir())
