"""The model that makes the edit which a message names, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from placet.agent.proposed_edit import STAGED, UNKNOWN, reply

EDIT = {"path": "rulebook.yaml", "old": "- name: a\n", "new": "- name: b\n- name: a\n"}


def said(content: str, role: str = "user") -> Any:
    """Return the answer to a conversation whose newest message this is."""
    return reply([{"role": "system", "content": "-"}, {"role": role, "content": content}], [], "auto")


def test_the_edit_that_a_message_names_is_the_call() -> None:
    """The words before the blank line are for people; the arguments are passed on as they stand."""
    (call,) = said(f"Add rule b above a.\n\n{json.dumps(EDIT)}")["tool_calls"]
    assert ("edit_file", EDIT) == (call["function"]["name"], json.loads(call["function"]["arguments"]))


@pytest.mark.parametrize(
    "content",
    ["Delete everything.", "x\n\nnot JSON", "x\n\n[1]", "x\n\n{}", f"x\n\n{json.dumps(EDIT | {'every': True})}"],
)
def test_what_names_no_edit_makes_no_call(content: str) -> None:
    """Whatever else is written gets a sentence."""
    answer = said(content)
    assert (UNKNOWN, []) == (answer["content"], answer["tool_calls"])


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ("staged", STAGED),
        ("succeeded", "The change has ended: succeeded."),
        ("denied", "The change has ended: denied."),
    ],
)
def test_what_became_of_it_is_said(result: str, expected: str) -> None:
    """After a result there is a sentence and no second call."""
    answer = said(json.dumps({"result": result}), "tool")
    assert (expected, []) == (answer["content"], answer["tool_calls"])
