"""Unicode's normal forms: as the library has them, and never for long."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.domain.normal_form import normalized
from placet.domain.words import searched_card
from placet.gateway.approvals.consent import may_consent
from placet.tools.files.paths import fold
from tests.support.cost import BOUND, FACTOR, growth

FORMS: tuple[Literal["NFC", "NFKC", "NFD", "NFKD"], ...] = ("NFC", "NFKC", "NFD", "NFKD")
#: Marks in runs that are no longer than any language's.
TEXTS = st.text(st.sampled_from("ae\u0300\u0315\u0334\u05b0\uff76\uff9e\u0f73한ﬁ"), max_size=25)
NUMBER = 1_000
USES: dict[str, Callable[[str], object]] = {
    "consent": may_consent,
    "paths": fold,
    "words": lambda text: searched_card(text, "{}"),
    **{form: lambda text, form=form: normalized(form, text) for form in FORMS},  # type: ignore[misc]
}


@given(TEXTS)
def test_a_text_that_somebody_writes_is_as_the_library_has_it(text: str) -> None:
    """Whatever stands in it, as long as no thirty marks follow each other."""
    assert [unicodedata.normalize(form, text) for form in FORMS] == [normalized(form, text) for form in FORMS]


@pytest.mark.parametrize("mark", ["\u0334", "\uff9e", "\u0f73"])
@pytest.mark.parametrize("use", USES)
def test_marks_cost_no_more_than_their_number(use: str, mark: str) -> None:
    """Eight times as many marks, in the wrong order, cost about eight times the time."""
    small, large = (f"a{chr(0x315) * number}{mark * number}" for number in (NUMBER, NUMBER * FACTOR))
    assert growth(lambda: USES[use](small), lambda: USES[use](large)) <= BOUND


def test_what_begins_with_a_mark_in_any_form_is_known() -> None:
    """Whatever is a mark, or becomes one, ends up in no run beyond thirty."""
    starts = (chr(each) for each in range(0x80, 0x1F000) if not 0xD800 <= each < 0xE000)
    marks = [each for each in starts if unicodedata.combining(unicodedata.normalize("NFKD", each)[0])]
    assert [] == [each for each in marks if "\u034f" not in normalized("NFC", f"a{each * 31}")]
