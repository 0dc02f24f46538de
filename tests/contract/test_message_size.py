"""What the docs ask of the broker is enough for the largest that is sent."""

from __future__ import annotations

import re
from pathlib import Path

from placet.contracts.canonical import ARGUMENTS_BYTES_MAX
from placet.contracts.messages import AttemptRequested
from placet.policy.trials import REPORT_BYTES_MAX
from placet.runtime.outbox import ENVELOPE_BYTES_MAX
from placet.tools.replies import REPLY_BYTES_MAX

ROOT = Path(__file__).parents[2]
#: Bytes that one character takes at most in JSON: where it is spelt as an escape.
ESCAPED_BYTES = 6
#: What an event says beside what makes it long.
ATTRIBUTES_BYTES = 64 * 1024


def test_the_limit_that_the_docs_ask_of_the_broker_is_enough() -> None:
    """Of replies, edited arguments, trials, tasks and envelopes the largest is below it."""
    (limit,) = map(int, re.findall(r"`max_message_size` of (\d+)", (ROOT / "docs" / "operating.md").read_text()))
    (longest,) = (
        each.max_length for each in AttemptRequested.model_fields["text"].metadata if hasattr(each, "max_length")
    )
    largest = {
        "envelope": ENVELOPE_BYTES_MAX,
        # As proposed, and as it ran.
        "reply": REPLY_BYTES_MAX + 2 * ESCAPED_BYTES * ARGUMENTS_BYTES_MAX,
        "trial": REPORT_BYTES_MAX,
        "attempt": ESCAPED_BYTES * longest,
    }
    assert {} == {name: size for name, size in largest.items() if size + ATTRIBUTES_BYTES > limit}
