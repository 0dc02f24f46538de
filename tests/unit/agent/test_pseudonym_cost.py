"""What hiding costs against the size of what is hidden: whoever writes must not stop an agent for minutes."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice, product

import pytest

from placet.agent.hiding import in_json
from placet.agent.personal import DATA, Personal
from placet.agent.pseudonyms import Entry, Pseudonyms
from tests.support.cost import BOUND, FACTOR, growth

RECOGNISE = Personal(["name"], {"customer": "K-[0-9]{3,}", "six": "[0-9]{6}"}, "DE").recognise_in({"name": "王小明"})


def addresses(number: int) -> str:
    """Return as many addresses, each a text of its own."""
    return json.dumps([f"a{each}@b.cc" for each in range(number)])


def customers(number: int) -> str:
    """Return values that all begin alike, in one text."""
    return json.dumps(" ".join(f"K-{each + 100}" for each in range(number * 2)))


def spellings(number: int) -> str:
    """Return one address in as many spellings."""
    letters = islice(product(*((each, each.upper()) for each in "abcdefghijklmnop")), number)
    return json.dumps(" ".join("".join(each) + "@example.org" for each in letters))


def layouts(number: int) -> str:
    """Return one phone number with its parts apart in as many ways, and beginnings of its pseudonym."""
    gaps = islice(product(*([["", " ", "-", "/"]] * 9)), number)
    numbers = ["+49" + "".join(map("".join, zip(gap, "171123456", strict=True))) + "7" for gap in gaps]
    return json.dumps("; ".join(numbers) + " 9990001" * number)


def digits(number: int) -> str:
    """Return one long word that data are found in again and again."""
    return json.dumps("x" + "1234567" * number)


def baits(number: int) -> str:
    """Return pseudonyms that somebody wrote, and addresses that are to have others."""
    written = [f"person-{each}@example.invalid" for each in range(1, number)]
    return json.dumps(" ".join(written + [f"a{each}@b.cc" for each in range(number)]))


@pytest.mark.parametrize("shape", [addresses, customers, spellings, layouts, digits, baits])
def test_hiding_costs_no_more_than_its_text(shape: Callable[[int], str]) -> None:
    """Eight times as much personal data takes about eight times as long, hidden for the first time and restored."""

    def hide(text: str) -> None:
        table = Pseudonyms((), RECOGNISE, avoid=text)
        hidden = in_json(text, table.hide)
        assert text == in_json(hidden, table.restore)

    small, large = shape(100), shape(100 * FACTOR)
    assert growth(lambda: hide(small), lambda: hide(large)) <= BOUND


def crowded(number: int) -> tuple[Pseudonyms, str]:
    """Return a table whose texts all begin alike and end otherwise, and a text that begins like them everywhere."""
    known = [Entry("a " * each + "b", f"data-{each}", DATA, f"{each}", each) for each in range(1, number)]
    return Pseudonyms(known, lambda _: []), "a " * number * 20 + "b c"


def test_where_known_texts_crowd_all_of_the_text_is_hidden() -> None:
    """It is looked at for so long and no longer, shows nothing, and comes back to the letter."""
    table, text = crowded(400)
    hidden = table.hide(text)
    assert ("data-400", text, "data-400") == (hidden, table.restore(hidden), table.hide(text))


def test_what_crowds_costs_no_more_than_its_text() -> None:
    """Also where nothing but many known texts of many lengths come into question."""
    (few, small), (many, large) = crowded(100), crowded(100 * FACTOR)
    assert growth(lambda: few.hide(small), lambda: many.hide(large)) <= BOUND
