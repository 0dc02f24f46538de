"""Pages drawn from code are never stale."""

from __future__ import annotations

import pytest

from deploy.docs import DOCS, pages


@pytest.mark.parametrize("name", ["states.md", "asyncapi.json"])
def test_the_page_is_what_the_code_says(name: str) -> None:
    """`make docs` would change nothing."""
    assert (DOCS / name).read_text() == pages()[name]
