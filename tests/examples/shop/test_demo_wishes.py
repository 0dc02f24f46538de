"""What the demo model hears in a message."""

import pytest

from shop.model.shopping import Add, PayLink, Search, number
from shop.model.wishes import Escalate, Lead, Talk, Wish, understand


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("find red shoes under 500", Search(text="red shoes", max_price=500)),
        ("hi, can you find me sandals below 20 EUR?", Search(text="sandals", max_price=20)),
        (
            "Please show me red shoes that are on sale and in stock",
            Search("red shoes", on_sale=True, in_stock_only=True),
        ),
        ("show on sale", Search(on_sale=True)),
        ("what's on sale?", Search(on_sale=True)),
        ("in stock only", Search(in_stock_only=True, refine=True)),
        ("only those under 1,299.50 TRY", Search(max_price=1299.5, refine=True)),
        ("show me everything in the shoes category", Search(category="shoes")),
        ("search boots and show those in stock", Search("boots", in_stock_only=True)),
        ("I want red shoes", Search("red shoes")),
        ("add two of them to my cart", Add(2)),
        ("add it", Add()),
        ("I'll take the second one", Add(place=1)),
        ("add the last one", Add(place=-1)),
        ("add the Runner in size 42", Add(name="Runner", variant="42")),
        ("add 3 x Runner in black", Add(3, "Runner", variant="black")),
        ("order two Runner size 41", Add(2, "Runner", variant="41")),
        ('buy "Red Runner"', Add(name="Red Runner")),
        ("create a payment link over 299 TRY", PayLink(299, "TRY")),
        ("pay link for €49.90 with note: deposit", PayLink(49.9, "EUR", "deposit")),
        ("make a payment link over 1.299,50 lira", PayLink(1299.5, "TRY")),
        ("a payment link over 100 SEK please", PayLink(100, "SEK")),
        ("create a payment link", PayLink()),
        ("create a payment link over 20", PayLink(20)),
        ("create a payment link over 20 for the deposit", PayLink(20)),
        ("my mail is ada@example.org", Lead(email="ada@example.org")),
        ("My name is Ada Lovelace, phone +90 532 123 45 67", Lead("Ada Lovelace", "", "+90 532 123 45 67")),
        ("I want to talk to a person", Escalate("I want to talk to a person")),
        ("connect me to a human please", Escalate("connect me to a human please")),
        ("Hello!", Talk("greeting")),
        ("who are you?", Talk("about")),
        ("are you an AI?", Talk("about")),
        ("what can you do?", Talk("help")),
        ("thanks a lot", Talk("thanks")),
    ],
)
def test_one_wish_is_understood(message: str, expected: Wish) -> None:
    """Each phrase the demo claims to understand means one thing."""
    assert [expected] == understand(message)


@pytest.mark.parametrize("message", ["", "qwertz", "42", "the weather is nice", "..."])
def test_anything_else_is_no_wish(message: str) -> None:
    """What is not understood is left out instead of guessed."""
    assert [] == understand(message)


def test_several_wishes_in_one_message_come_in_their_order() -> None:
    """Commas, "and" and full stops end a wish only where another one begins."""
    message = (
        "Find red shoes under 500 and add two of them to my cart, create a payment link over 299.50 TRY."
        " My mail is ada@example.org and I want to talk to a person!"
    )

    expected: list[Wish] = [
        Search("red shoes", max_price=500),
        Add(2),
        PayLink(299.5, "TRY"),
        Escalate("I want to talk to a person"),
        Lead(email="ada@example.org"),
    ]
    assert expected == understand(message)


def test_two_names_are_two_wishes() -> None:
    """Two products need two calls."""
    assert [Add(name="Walker"), Add(name="Runner")] == understand("buy Walker and Runner")


def test_contact_details_all_over_a_message_are_one_wish() -> None:
    """One lead, not three."""
    message = "My name is Ada. My mail is ada@example.org, my phone is 0532 123 45 67."

    assert [Lead("Ada", "ada@example.org", "0532 123 45 67")] == understand(message)


def test_small_talk_gives_way_to_a_wish() -> None:
    """A greeting before a wish needs no answer of its own."""
    assert [Search("boots")] == understand("Hello! Find boots. Thanks.")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("299", 299.0),
        ("299.5", 299.5),
        ("1,299", 1299.0),
        ("1.299", 1299.0),
        ("1,299.50", 1299.5),
        ("1.299,50", 1299.5),
    ],
)
def test_numbers_are_read_in_both_customs(text: str, expected: float) -> None:
    """A mark before three digits separates thousands, before one or two it separates cents."""
    assert expected == number(text)
