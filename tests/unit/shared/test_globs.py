"""Globs for texts that may vary: what fits one, and which lies within another."""

from __future__ import annotations

import re
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.domain.globs import NARROWER_MAX, fits_glob, is_within

pieces = st.text("ab.@*?", max_size=5)


@pytest.mark.parametrize(
    ("glob", "text", "fits"),
    [
        ("*@shop.example", "ceo@shop.example", True),
        ("*@shop.example", "x@evil.example/@shop.example", False),
        ("*@shop.example", "eve@evil.example,a@shop.example", False),
        ("*@shop.example", "eve@evil.example a@shop.example", False),
        ("*@shop.example", "Eve <eve@evil.example>@shop.example", False),
        ("*@shop.example", "a\u200b@shop.example", False),
        ("*@shop.example", "a\uff20b@shop.example", False),
        ("*@shop.example", "eve\u2044x@shop.example", False),
        ("*@shop.example", "eve\u2215x@shop.example", False),
        ("*@shop.example", "eve\u29f8x@shop.example", False),
        ("caf\u00e9-\u2215-*", "caf\u00e9-\u2215-\u0928\u092e\u0938\u094d\u0924\u0947", True),
        ("/docs/*/*.md", "/docs/a/b.md", True),
        ("/docs/*", "/docs/../secret", False),
        ("/docs/*", "/docs/..", False),
        ("/docs/*", "/docs/.", False),
        ("/docs/*", "/docs/", False),
        ("/docs/.*", "/docs/..", False),
        ("/users/*/report", "/users/../report", False),
        ("c:??", "c:..", False),
        ("../docs/*", "../docs/a..b", True),
        ("*@shop.example", "@shop.example", False),
        ("INV-???", "INV-042", True),
        ("INV-???", "INV-04/", False),
        ("[a]*", "[a]b", True),
        ("a*b*c*", "a1b2b3c", True),
        ("a", "a", True),
        ("a", "ab", False),
    ],
)
def test_a_glob_stands_for_characters_of_one_name(glob: str, text: str, *, fits: bool) -> None:
    """Nothing can be put in front of an address or behind it that makes it another one, or several."""
    assert fits == fits_glob(text, glob)


def test_a_glob_of_many_stars_takes_no_time() -> None:
    """However a rule and a text are written, each place is tried once."""
    began = process_time()
    assert not fits_glob("a" * 50_000 + "b", "*a" * 60 + "*c")
    assert process_time() - began < 2


@pytest.mark.parametrize(
    ("narrow", "wide", "within"),
    [
        ("bob@example.org", "*@example.org", True),
        ("*b@example.org", "*@example.org", True),
        ("b*b@example.org", "*b@example.org", True),
        ("INV-20*", "INV-*", True),
        ("INV-???", "INV-*", True),
        ("INV-2??", "INV-???", True),
        ("*@*", "*@example.org", False),
        ("*@example.org", "*b@example.org", False),
        ("*@example.com", "*@example.org", False),
        ("/docs/*/a", "/docs/*", False),
        ("/docs/..", "/docs/*", False),
        ("bob@*", "*@example.org", False),
        ("INV-2*", "INV-?*", None),
        ("INV-*", "INV-?*", None),
        ("*\u0301", "*", None),
        ("a" * NARROWER_MAX + "b", "*", None),
        ("1*", "abcdefghijklmnopqrstuvwxyz*", None),
    ],
)
def test_a_glob_may_lie_within_another(narrow: str, wide: str, *, within: bool | None) -> None:
    """Where that is plain to tell; None says that it is not."""
    assert within is is_within(narrow, wide)


@given(pieces, pieces, st.lists(st.text("abz.@", max_size=3), min_size=5, max_size=5))
def test_what_lies_within_fits_no_more(narrow: str, wide: str, names: list[str]) -> None:
    """Whatever stands for the stars and the question marks of the narrow one."""
    others = iter(names)
    text = re.sub(r"[*?]", lambda _: next(others), narrow)
    if is_within(narrow, wide) and fits_glob(text, narrow):
        assert fits_glob(text, wide)
