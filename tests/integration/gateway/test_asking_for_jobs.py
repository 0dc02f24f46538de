"""Asking for jobs is bounded like posting messages, and a costly schema of answers costs nothing."""

from __future__ import annotations

from pathlib import Path

from tests.support.gateway import open_house


async def test_jobs_count_as_messages(gateway_database_url: str, tmp_path: Path) -> None:
    """The third of a key in a minute is 429 with Retry-After, whatever became of the others."""
    costly = {"type": "object", "properties": {"a": {"pattern": "^(a|b){1,900}" * 30}}}
    async with (
        open_house(gateway_database_url, tmp_path, gateway_key_messages_per_minute=2) as house,
        house.client(house.key("chat")) as client,
    ):
        asked = [await client.post("/v1/jobs", json={"task": "T", "answer_schema": costly}) for _ in range(3)]
    schema, rate = "urn:placet:problem:invalid-schema", "urn:placet:problem:rate-limited"
    assert [(422, schema), (422, schema), (429, rate)] == [(each.status_code, each.json()["type"]) for each in asked]
    assert (str(asked[2].json()["retry_after_seconds"]), True) == (
        asked[2].headers["retry-after"],
        1 <= asked[2].json()["retry_after_seconds"] <= 30,
    )
