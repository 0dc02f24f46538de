"""How the evidence of where values come from is kept beside a call, and read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.contracts.canonical import canonical_text
from placet.domain.json_pointer import pointer
from placet.domain.origins import by_text, from_tools_alone, is_target, texts_in, unchanged

JSON = st.recursive(
    st.text(max_size=5) | st.integers(0, 9) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def test_text_without_evidence_stood_nowhere() -> None:
    """Of each text conditions read the first place where it stood, `none` where nothing is known of it."""
    arguments = {"to": "bob@x.example", "cc": ["eve@x.example", "x"], "n": 1}
    origins = {"/to": ["user", "tool:find"], "/cc/0": ["tool:read"]}
    assert {"bob@x.example": "user", "eve@x.example": "tool:read", "x": "none"} == by_text(origins, arguments)


def test_same_text_with_and_without_evidence_has_it() -> None:
    """One text at two places of the arguments is one text: what was found of it counts for both."""
    assert {"a": "user"} == by_text({"/x": ["user"]}, {"x": "a", "y": "a"})


def test_edited_text_has_no_evidence() -> None:
    """What people wrote into the arguments keeps nothing of what stood there before, and what they left keeps it."""
    before, after = '{"cc":["a","b"],"to":"c"}', '{"cc":["a","x"],"to":"c"}'
    origins = {"/to": ["user"], "/cc/0": ["agent"], "/cc/1": ["user"]}
    assert {"/to": ["user"], "/cc/0": ["agent"]} == unchanged(origins, before, after)
    assert unchanged(None, before, after) is None
    assert {} == unchanged(origins, before, "no JSON")


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=3))
def test_arguments_left_as_they_are_keep_all(arguments: dict[str, object]) -> None:
    """Arguments that nobody changed keep all evidence."""
    origins = {at: ["user"] for at, _ in texts_in(arguments)}
    text = canonical_text(arguments)
    assert origins == unchanged(origins, text, text)


def test_pointers_are_those_of_the_house() -> None:
    """Texts are named as every other JSON pointer here is."""
    assert [(pointer(("a/b", "~", "0")), "x")] == list(texts_in({"a/b": {"~": ["x"]}}))


@pytest.mark.parametrize(
    ("places", "tools"),
    [(["tool:a", "tool:b"], ["a", "b"]), (["user", "tool:a"], []), (["quoted", "tool:a"], []), ([], [])],
)
def test_only_tools(places: list[str], tools: list[str]) -> None:
    """A text stood in tools' outputs alone where it stood in some, and nowhere else."""
    assert tools == from_tools_alone(places)


@pytest.mark.parametrize(
    "text",
    ["bob@x.example", "Bob<bob@x.example>", "https://x.example/a b", "x.example/a", "DE89 3704 0044 0532 0130 00"],
)
def test_addresses_are_targets(text: str) -> None:
    """Mail addresses, places on the net and accounts are targets; a link with a space in it is none."""
    assert (" b" not in text) == is_target(text)


@pytest.mark.parametrize("text", ["Main Street 5", "ORD-20311", "Hello. Write me", "300", "5 @ 3", "q3.report final"])
def test_other_texts_are_none(text: str) -> None:
    """Names, numbers of orders, sentences and amounts are no targets."""
    assert not is_target(text)
