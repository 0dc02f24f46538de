"""A commit's subject names its area and says what it does."""

from __future__ import annotations

import pytest

from placet.deploy.commits import areas_of, problems

FILES = (
    *("services/executor/worker.py", "services/dead_letters/settings.py", "services/gateway/approvals/inbox.py"),
    *("docs/rulebook.md", "shared/domain/rulebook.yaml", "tests/unit/odd.py", "compose.yaml", ".ci/run", "a/b.py"),
)
AREAS = areas_of(FILES)


def test_areas_are_what_stands_at_the_top_and_what_is_code() -> None:
    """Whoever looks for a change finds the place by its subject; a folder of tests is no area of its own."""
    top = {"services", "shared", "docs", "tests", "compose", "ci", "a", "build", "git"}
    code = {"executor", "worker", "dead_letters", "settings", "gateway", "approvals", "inbox", "domain", "rulebook"}
    assert top | code == AREAS


@pytest.mark.parametrize(
    "subject",
    [
        *("executor: keep FIFO between envelopes", "dead_letters: name it so", "dead-letters: name it so"),
        *("docs/rulebook: pass by", "gateway,tests: pass by", "a: " + "b" * 69),
    ],
)
def test_a_good_subject_passes(subject: str) -> None:
    """An area, an order, 72 characters at most."""
    assert [] == problems([subject], AREAS)


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        ("a: " + "b" * 70, "73 characters"),
        ("Let no envelope pass", "write `area: imperative`"),
        ("executor: Keep order", "write `area: imperative`"),
        ("executor: keep order.", "write `area: imperative`"),
        ("executor: fixes order", "'fixes' is no imperative"),
        ("executor: fixing order", "'fixing' is no imperative"),
        ("bogusarea: add order", "'bogusarea' is no area"),
        ("executor,unit: add order", "'unit' is no area"),
    ],
)
def test_a_bad_subject_is_told_in_one_line(subject: str, why: str) -> None:
    """It says what is wrong; what no rule of spelling tells is left to people."""
    found = problems([subject], AREAS)
    assert bool(why) == bool(found)
    assert all(why in line for line in found)
