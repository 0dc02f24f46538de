"""Pages drawn from code are never stale."""

from __future__ import annotations

import pytest

from placet.deploy.docs import DOCS, pages
from placet.deploy.migrations import baseline


@pytest.mark.parametrize("name", ["states.md", "asyncapi.json"])
def test_the_page_is_what_the_code_says(name: str) -> None:
    """`make docs` would change nothing."""
    assert (DOCS / name).read_text() == pages()[name]


def test_the_baseline_is_what_the_tables_say() -> None:
    """`make docs` would change nothing: until the first release one migration creates everything."""
    assert baseline.FILE.read_text() == baseline.drawn()
