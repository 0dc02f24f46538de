"""What people type into a search, as web search engines take it."""

from __future__ import annotations

import pytest

from placet.gateway.approvals.search import Alternative, alternatives


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("PAYMENT", [(["payment"], ["% payment %"], [])]),
        ("payment -job", [(["payment"], ["% payment %"], ["% job %"])]),
        ('"299 TRY" pay', [(["299", "try", "pay"], ["% 299 try %", "% pay %"], [])]),
        (
            '"the shop" or "299 TRY"',
            [(["the", "shop"], ["% the shop %"], []), (["299", "try"], ["% 299 try %"], [])],
        ),
        ("order-10482 -x_y", [(["order", "10482"], ["% order 10482 %"], ["% x y %"])]),
        ('pay -"to bob" OR', [(["pay"], ["% pay %"], ["% to bob %"])]),
        ("pay pay", [(["pay"], ["% pay %", "% pay %"], [])]),
        ('"open end', [(["open", "end"], ["% open end %"], [])]),
        ("-test", [([], [], ["% test %"])]),
        ("or", [(["or"], ["% or %"], [])]),
        ('"or"', [(["or"], ["% or %"], [])]),
        ("%_ 5%", [(["5"], ["% 5 %"], [])]),
        ("--- ?!", []),
        ("", []),
    ],
)
def test_a_search_is_words_phrases_and_alternatives(
    typed: str, expected: list[tuple[list[str], list[str], list[str]]]
) -> None:
    """All of a part must be there, none of what has a minus; `or` begins another part; no letter is a wildcard."""
    assert [Alternative(*each) for each in expected] == alternatives(typed)


def test_a_star_looks_for_the_beginning_of_a_word() -> None:
    """Of a phrase only the last word goes on; without a star nothing does, and what is unwanted may begin so too."""
    asked = [alternatives(typed) for typed in ("pay*", "order-10* shop", "-te*")]
    expected = [
        [Alternative([], ["% pay%"], [], ["pay"])],
        [Alternative(["order", "shop"], ["% order 10%", "% shop %"], [], ["10"])],
        [Alternative([], [], ["% te%"])],
    ]
    assert expected == asked
