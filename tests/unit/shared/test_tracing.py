"""Spans continue the trace that an event carries, and cost nothing where nobody exports them."""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections.abc import Iterator, Sequence
from threading import Event

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from placet.runtime.span_exports import TellingOnce
from placet.runtime.tracing import Tracing

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    """Return what keeps finished spans."""
    return InMemorySpanExporter()


@pytest.fixture
def tracing(exporter: InMemorySpanExporter) -> Iterator[Tracing]:
    """Return tracing that hands each span over as it ends."""
    tracing = Tracing()
    tracing.export("policy", exporter, at_once=True)
    yield tracing
    tracing.stop()


def test_without_an_exporter_the_traceparent_stays() -> None:
    """Events then carry the trace that they came with."""
    with Tracing().span("anything", PARENT) as carried:
        assert PARENT == carried


def test_a_span_continues_the_trace_of_its_event(tracing: Tracing, exporter: InMemorySpanExporter) -> None:
    """Its parent is the span that sent the event, and what it causes continues from itself."""
    with tracing.span("handle", PARENT, "consumer", call_id="c-1") as carried:
        pass
    (span,) = exporter.get_finished_spans()
    assert span.context is not None
    assert span.parent is not None
    assert PARENT == f"00-{span.parent.trace_id:032x}-{span.parent.span_id:016x}-01"
    assert carried == f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-01"
    assert {"placet.call_id": "c-1"} == dict(span.attributes or {})


def test_an_event_without_a_trace_begins_one(tracing: Tracing, exporter: InMemorySpanExporter) -> None:
    """A frontend on RabbitMQ need not send a traceparent."""
    with tracing.span("handle", ""):
        pass
    (span,) = exporter.get_finished_spans()
    assert span.parent is None


def test_an_error_marks_the_span(tracing: Tracing, exporter: InMemorySpanExporter) -> None:
    """Who looks for what went wrong finds its type among the spans, and nothing that it says: that may be a secret."""
    with pytest.raises(LookupError), tracing.span("handle", PARENT):
        raise LookupError("card 5550") from ValueError("pin 4929")
    (span,) = exporter.get_finished_spans()
    assert ("ERROR", "LookupError", ()) == (span.status.status_code.name, span.status.description, tuple(span.events))


def test_who_is_cancelled_has_made_no_error(tracing: Tracing, exporter: InMemorySpanExporter) -> None:
    """A client that leaves its stream ends a span as it ends the request."""
    with pytest.raises(CancelledError), tracing.span("request", PARENT):
        raise CancelledError
    (span,) = exporter.get_finished_spans()
    assert "UNSET" == span.status.status_code.name


def test_a_span_takes_whatever_attribute(tracing: Tracing, exporter: InMemorySpanExporter) -> None:
    """Also one that is called as a parameter is."""
    with tracing.span("request", PARENT, "server", name="a", kind="b"):
        tracing.describe("GET /admin/{name}", name="grants", traceparent="c")
    (span,) = exporter.get_finished_spans()
    assert ("GET /admin/{name}", {"placet.name": "grants", "placet.kind": "b", "placet.traceparent": "c"}) == (
        span.name,
        dict(span.attributes or {}),
    )


class Slow(SpanExporter):
    """A collector that takes what it is sent, and answers after five seconds."""

    def __init__(self) -> None:
        self.taken: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Answer late."""
        Event().wait(5)
        self.taken += spans
        return SpanExportResult.SUCCESS


def test_a_collector_that_does_not_answer_holds_up_no_end() -> None:
    """A service that is told to stop has promised until when it has."""
    tracing, exporter = Tracing(), Slow()
    tracing.export("policy", exporter)
    with tracing.span("handle", PARENT):
        pass
    tracing.stop(flush_seconds=0.01)
    assert ([], False) == (exporter.taken, tracing.on)


class Failing(SpanExporter):
    """A collector that is away for some batches, of each of which the exporter says several things."""

    def __init__(self, words: logging.Logger, arrives: str) -> None:
        self._words = words
        self._arrives = list(arrives)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write why it tries again, and that it gives up."""
        if self._arrives.pop(0) == "y":
            return SpanExportResult.SUCCESS
        self._words.warning("%d spans refused.", len(spans))
        self._words.error("Given up.")
        return SpanExportResult.FAILURE


def test_a_collector_that_is_away_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """One line with the cause when spans begin to be lost, and one when they arrive again; no other from anybody."""
    words = logging.getLogger("tests.exporter")
    exporter = TellingOnce(Failing(words, "ynnyyn"), words)
    with capture_logs() as logs:
        for _ in range(6):
            exporter.export([])
    lost = ("traces.lost", "0 spans refused.")
    assert [lost, ("traces.arrive_again", None), lost] == [(each["event"], each.get("reason")) for each in logs]
    assert [] == caplog.records
