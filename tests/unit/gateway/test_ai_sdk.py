"""The AI SDK's chunks, as far as its own client cannot tell them apart."""

from __future__ import annotations

from services.gateway.dialects.ai_sdk import AiSdk, Assembly
from services.gateway.dialects.moves import CallMade, CallProgressed, Move


def test_how_far_a_call_is_passes_by() -> None:
    """A report reaches the page while the call runs, and stands in no message."""
    writer, assembly = AiSdk(), Assembly()
    moves: list[Move] = [CallMade("k", "deploy", {}), CallProgressed("k", 0.5, "half")]
    chunks = [*writer.begin("m"), *(chunk for move in moves for chunk in writer.chunks(move))]
    for chunk in chunks:
        assembly.add(chunk)
    report = {"call_id": "k", "fraction": 0.5, "text": "half"}
    assert {"type": "data-progress", "id": "k", "data": report, "transient": True} == chunks[-1]
    assert ["dynamic-tool"] == [part["type"] for part in assembly.message()["parts"]]
