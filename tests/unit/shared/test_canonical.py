"""What makes two calls the same call."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from placet.contracts.canonical import (
    ARGUMENTS_BYTES_MAX,
    NotStrictJson,
    call_digest,
    canonical_text,
    parse_arguments,
    parse_strictly,
    readable_text,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcXYZ", max_size=3), inner, max_size=4),
    max_leaves=10,
)


def digest(arguments: str) -> str:
    """Return the digest of a call with these arguments."""
    return call_digest(tenant="acme", conversation_id="c", tool="t", schema_digest="0" * 64, arguments=arguments)


@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), JSON, min_size=2, max_size=4))
def test_keys_in_another_order_give_the_same_text(value: dict[str, Any]) -> None:
    """The order of keys does not change the canonical text, so it does not change the digest."""
    turned = dict(reversed(value.items()))
    assert canonical_text(value) == canonical_text(turned)


@given(JSON, JSON)
def test_equal_digest_means_equal_value(left: Any, right: Any) -> None:
    """Two values have the same digest exactly when JSON readers read them as the same value."""
    same = json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
    assert same == (digest(canonical_text(left)) == digest(canonical_text(right)))


@given(JSON)
def test_canonical_text_is_read_back_as_the_same_value(value: Any) -> None:
    """Parsing the canonical text strictly gives the value it was made from."""
    assert value == parse_strictly(canonical_text(value))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"a":1,"a":2}', "duplicate key 'a'"),
        ('{"a":NaN}', "NaN is not JSON"),
        ('{"a":-Infinity}', "-Infinity is not JSON"),
        ("", "Expecting value: line 1 column 1 (char 0)"),
        ('{"a":', "Expecting value: line 1 column 6 (char 5)"),
        ("[1]", "arguments must be a JSON object"),
        ("null", "arguments must be a JSON object"),
        ('{"a":' + "9" * 5000 + "}", "an integer is beyond 2^53"),
        ('{"a":1}{"b":2}', "Extra data: line 1 column 8 (char 7)"),
    ],
)
def test_arguments_that_two_readers_could_read_differently_are_refused(text: str, complaint: str) -> None:
    """Arguments must be one strict JSON object; the refusal says what is wrong."""
    with pytest.raises(NotStrictJson) as caught:
        parse_arguments(text)
    assert complaint == str(caught.value)


def test_arguments_beyond_the_size_limit_are_refused() -> None:
    """One byte over the limit is too much."""
    text = json.dumps({"a": "x" * (ARGUMENTS_BYTES_MAX - 8)})
    assert len(text) == ARGUMENTS_BYTES_MAX + 1
    with pytest.raises(NotStrictJson):
        parse_arguments(text)


def test_deeply_nested_arguments_are_refused() -> None:
    """A thousand nested arrays end in a clear error, not in a crash."""
    with pytest.raises(NotStrictJson) as caught:
        parse_strictly("[" * 100_000 + "]" * 100_000)
    assert str(caught.value) == "nested deeper than 32 levels"


@pytest.mark.parametrize("value", [2**53 + 1, 1e20, [-(2.0**53)], float("inf"), "\ud800", {"\ud800": 1}])
def test_values_without_a_canonical_form_are_refused(value: Any) -> None:
    """Integers beyond 2^53, also written with an exponent, infinities and lone surrogates have no canonical text."""
    with pytest.raises(NotStrictJson):
        canonical_text(value)


@given(st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([1e15, 1e16, 1e20, 1e21, 2.0**53 - 1]))
def test_a_number_that_has_a_canonical_form_has_it_again_when_it_is_read(number: float) -> None:
    """Whoever reads the text of a call can make the same text: cards, edits and digests begin with it."""
    try:
        text = canonical_text([number, "1234567890123456789"])
    except NotStrictJson:
        assert 2**53 <= abs(number) < 1e21
    else:
        assert text == canonical_text(parse_strictly(text))


@pytest.mark.parametrize("value", [2**53, 10**30, float("nan"), "\ud800", {"\ud800": [1.5]}])
def test_every_value_can_be_shown(value: Any) -> None:
    """What has no canonical form is plain JSON in ASCII; what has one is shown in it."""
    shown = readable_text([value])
    assert (True, repr([value])) == (shown.isascii(), repr(json.loads(shown)))
    assert canonical_text({"b": 1.0, "a": "é"}) == readable_text({"b": 1.0, "a": "é"})


@pytest.mark.parametrize("field", ["tenant", "conversation_id", "tool", "schema_digest", "arguments"])
def test_each_bound_field_changes_the_digest(field: str) -> None:
    """Tenant, conversation, tool, schema and arguments are all bound."""
    fields = {"tenant": "a", "conversation_id": "b", "tool": "c", "schema_digest": "d", "arguments": "{}"}
    changed = fields | {field: "other"}
    assert call_digest(**fields) != call_digest(**changed)


@given(st.fixed_dictionaries(dict.fromkeys(("tenant", "conversation_id", "tool", "schema_digest", "arguments"), TEXT)))
def test_a_digest_is_over_the_rfc_8785_form(fields: dict[str, str]) -> None:
    """Whatever the texts are: controls, quotes, astral characters."""
    text = b"placet.call.v1\n" + rfc8785.dumps(fields)
    assert hashlib.sha256(text).hexdigest() == call_digest(**fields)


def test_text_that_is_no_utf_8_has_no_digest() -> None:
    """A lone surrogate is an error and no other text."""
    with pytest.raises(ValueError, match="surrogates not allowed"):
        digest("\ud800")
