"""Bodies that cannot mean what they say are refused at the door."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from placet.gateway.approvals.forms import DecisionIn
from placet.gateway.jobs.schemas import JobIn

EDIT = {"decision": "edit", "digest": "a" * 64}


def test_entries_are_left_out_or_arguments_are_given() -> None:
    """Both at once would mean that one of them is ignored."""
    with pytest.raises(ValidationError, match="'leave_out' stands in the place of 'arguments'"):
        DecisionIn.model_validate(EDIT | {"arguments": {"entries": ["c1", "c2"]}, "leave_out": ["c1"]})
    for alone in ({"arguments": {"entries": ["c1"]}}, {"leave_out": ["c1"]}):
        assert "edit" == DecisionIn.model_validate(EDIT | alone).decision


@pytest.mark.parametrize("labels", [{"a\0": "x"}, {"a": "x\0"}, {"": "x"}, {"a" * 65: "x"}, {"a": "x" * 257}])
def test_labels_of_jobs_are_those_of_conversations(labels: dict[str, Any]) -> None:
    """What no database keeps, or is too long, is refused before anything is paid for it."""
    with pytest.raises(ValidationError, match="labels"):
        JobIn.model_validate({"task": "Sum it up.", "labels": labels})
