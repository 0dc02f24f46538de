"""What an erasure changes of one row: where Placet names or quotes the person, and nothing that is somebody else's."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.deploy.retention.forgetting import Forgetting, Line

ADA = Forgetting("person:ada", "erased-1")
#: Her words read like somebody's name and like a state.
WORDS = re.compile("person:bea|approved")
NEW = "person:erased-1"


def forgotten(value: Any, name: str, *, quoted: bool = False, keeps_data: bool = False) -> Any:
    """Return a column without her; `quoted`: it is about a call of which she said her words."""
    return Line(ADA, WORDS, WORDS if quoted else None, keeps_data=keeps_data).forget(value, name)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("requester", "person:ada", NEW),
        ("requester", "person:adam", "person:adam"),
        ("requester", "xperson:ada", "xperson:ada"),
        ("requester", "person:bea", "person:bea"),
        ("state", "approved", "approved"),
        ("relayed_by", "person:bea ~person:ada", f"person:bea ~{NEW}"),
        ("deciders", ["person:ada", "person:bea"], [NEW, "person:bea"]),
        ("reason", "Stopped by person:ada.", f"Stopped by {NEW}."),
        ("reason", "It must be approved.", "It must be approved."),
        ("reason", 'person:ada denied it: "person:bea".', f'{NEW} denied it: "[erased]".'),
        ("text", "[unread", "[unread"),
        ("author", '{"id": "ada", "kind": "person"}', '{"id":"erased-1","kind":"person"}'),
        ("author", '{"id": "ada", "kind": "visitor"}', '{"id": "ada", "kind": "visitor"}'),
    ],
)
def test_a_column_of_any_row(name: str, value: Any, expected: Any) -> None:
    """Exactly her name is replaced, and her words only in texts that name her."""
    assert expected == forgotten(value, name)


BEA_SAID = {"decided_by": "person:bea", "state": "approved", "reason": "approved"}
ARGUMENTS = {"call_id": "person:ada", "tool": "person:ada", "arguments": {"to": "person:ada"}, "digest": "person:ada"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"voters": {"person:ada": None, "person:bea": "k"}}, {"voters": {NEW: None, "person:bea": "k"}}),
        (BEA_SAID | {"decided_by": "person:ada"}, BEA_SAID | {"decided_by": NEW, "reason": "[erased]"}),
        (BEA_SAID, BEA_SAID),
        ({"by": {"person": "person:ada", "roles": []}, "to": "x"}, {"by": {"person": NEW, "roles": []}, "to": "x"}),
        ({"by": "person:ada", "votes": [BEA_SAID]}, {"by": NEW, "votes": [BEA_SAID]}),
        (ARGUMENTS, ARGUMENTS),
    ],
)
def test_fields_of_any_row(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    """Her words go where her name stands beside them; arguments, ids and what others said stay."""
    assert expected == json.loads(forgotten(json.dumps(fields), "data"))


def test_a_row_that_quotes_her_without_her_name() -> None:
    """What the model was told loses her words; what a user wrote, what a tool answered and states do not."""
    told = {
        "status": "error",
        "error": "Not run: approved",
        "kind": "approved",
        "data": {"text": "approved, person:ada"},
    }
    wrote = {"role": "user", "text": "is it approved?", "author": {"kind": "person", "id": "ada"}}
    found = forgotten(json.dumps([told, wrote]), "data", quoted=True, keeps_data=True)
    assert [
        told | {"error": "Not run: [erased]"},
        wrote | {"author": {"kind": "person", "id": "erased-1"}},
    ] == json.loads(found)


def test_what_cannot_be_read_or_written_as_json_is_no_reason_to_fail() -> None:
    """A dead letter may be nested without an end, and have half a character or a number without an end."""
    deep = "[" * 50_000 + '"person:ada"'
    half = '{"text":"\\ud800","by":"person:ada"}'
    for text in (deep, '{"by": "person:ada", "n": 1E400}'):
        assert text.replace("person:ada", NEW) == forgotten(text, "body")
    assert json.loads(half) | {"by": NEW} == json.loads(forgotten(half, "body").encode().decode())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["person:ada", "approved"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["by", "person", "decided_by", "kind", "id", "role", "reason", "data"]), inner, max_size=4
        )
    ),
)


@given(JSON)
def test_whatever_a_column_has_it_is_gone_through(value: Any) -> None:
    """No value stops an erasure in its middle, and what was forgotten once is not changed again."""
    once = forgotten(value, "data", quoted=True)
    assert once == forgotten(once, "data", quoted=True)
