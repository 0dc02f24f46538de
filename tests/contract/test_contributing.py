"""CONTRIBUTING teaches by examples; an example that the code no longer follows teaches what nobody does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = re.findall(r"(?s)```python\n(.+?)```", (ROOT / "CONTRIBUTING.md").read_text())
CODE = [path.read_text() for folder in ("services", "shared", "tests") for path in (ROOT / folder).rglob("*.py")]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_stands_in_the_code(example: str) -> None:
    """Each example is found word for word."""
    assert any(example in text for text in CODE)
