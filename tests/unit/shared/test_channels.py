"""Channels that a rulebook names and nobody has set up."""

from __future__ import annotations

from typing import Any

from placet.domain.channels import not_set_up


def test_each_place_is_named_at_which_a_channel_is_missing() -> None:
    """A kind stands for all its channels; what the head declares is no use of a channel."""
    approval: dict[str, Any] = {"channels": ["slack:#ops", "email"], "escalations": [{"channels": ["apprise:ops"]}]}
    rulebook: dict[str, Any] = {
        "channels": ["pigeon"],
        "rules": [{"name": "mails", "approval": approval}],
        "defaults": {"unsafe_api": {"approval": {"channels": ["webhook:crm"]}}},
        "fallback": {"channels": ["log", "slack"]},
    }
    assert [
        (("rules", 0, "approval", "channels", 1), "email"),
        (("rules", 0, "approval", "escalations", 0, "channels", 0), "apprise:ops"),
        (("defaults", "unsafe_api", "approval", "channels", 0), "webhook:crm"),
    ] == list(not_set_up(rulebook, {"log", "slack", "apprise:other"}))
