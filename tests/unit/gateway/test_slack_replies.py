"""Replies in Slack's threads: what an event tells of, and what somebody wrote as plain text."""

from __future__ import annotations

from typing import Any

import pytest

from placet.gateway.slack.interactions import Place, Sender
from placet.gateway.slack.replies import Reply, plain_words, read_reply

EVENT: dict[str, Any] = {
    "type": "message",
    "user": "U0ADA",
    "team": "T0ACME",
    "channel": "C0OPS0000",
    "thread_ts": "1.1",
    "ts": "1.2",
    "text": "Why?",
}
PAYLOAD = {"type": "event_callback", "team_id": "T0ACME", "event": EVENT}
REPLY = Reply(Sender("T0ACME", "T0ACME", "U0ADA"), Place("C0OPS0000", "1.1"), "1.2", "Why?")


def test_a_reply_is_read() -> None:
    """Who wrote what, under which message; who comes from another workspace is told apart by it."""
    shared = {**PAYLOAD, "event": EVENT | {"user_team": "T0OTHER", "subtype": "thread_broadcast"}}
    assert (REPLY, "T0OTHER") == (read_reply(PAYLOAD), getattr(read_reply(shared), "sender", REPLY.sender).home)


@pytest.mark.parametrize(
    "changes",
    [
        {"thread_ts": None},
        {"thread_ts": "1.2"},
        {"bot_id": "B0BOT"},
        {"subtype": "bot_message"},
        {"subtype": "message_changed", "hidden": True},
        {"user": ""},
        {"type": "reaction_added"},
        {"ts": 7},
    ],
)
def test_what_is_no_reply_of_a_person_is_nothing(changes: dict[str, Any]) -> None:
    """Messages of the channel, those of programs, changes, and whatever else Slack tells."""
    assert None is read_reply({**PAYLOAD, "event": EVENT | changes})


@pytest.mark.parametrize("payload", [{}, {"type": "event_callback"}, {"type": "url_verification"}, {"event": EVENT}])
def test_other_payloads_are_nothing(payload: dict[str, Any]) -> None:
    """They tell of no message."""
    assert None is read_reply(payload)


@pytest.mark.parametrize(
    ("words", "plain"),
    [
        ("Why &lt;here&gt; &amp; now?", "Why <here> & now?"),
        ("Ask <@U0ADA> or <@U0EVE|eve>", "Ask @ada or @U0EVE"),
        ("<!here> <!channel> <!subteam^S0ALL|@all>", "@here @channel @all"),
        ("See <#C0OPS0000|ops> <#C0X|>", "See #ops #C0X"),
        (
            "<https://x.example/?a&amp;b> <https://x.example|a page>",
            "https://x.example/?a&b a page (https://x.example)",
        ),
        ("<mailto:ada@x.example|ada@x.example>", "ada@x.example"),
        ("&lt;@U0ADA&gt; is text", "<@U0ADA> is text"),
    ],
)
def test_what_slack_put_in_is_plain_text(words: str, plain: str) -> None:
    """People by their ids here, links with where they lead, and nothing that Slack would read again."""
    assert plain == plain_words(words, lambda user: {"U0ADA": "ada"}.get(user, ""))
