"""What exports spans: imported only where traces are exported, because it loads OpenTelemetry's exporter."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from opentelemetry.exporter.otlp.proto.http import trace_exporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from placet.runtime.outages import Outages


def exporter_to(endpoint: str) -> SpanExporter:
    """Return what sends spans to a collector, OTLP over HTTP, such as http://collector:4318."""
    exporter = trace_exporter.OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces")
    return TellingOnce(exporter, logging.getLogger(trace_exporter.__name__))


class TellingOnce(SpanExporter):
    """An exporter of which one line says that spans are lost, and one that they arrive again.

    The exporter writes several for each batch, and a batch is due every five seconds.
    """

    def __init__(self, exporter: SpanExporter, words: logging.Logger) -> None:
        """Keep to itself what `exporter` writes to `words`."""
        self._exporter = exporter
        self._outages = Outages("traces.lost", "traces.arrive_again")
        #: What the exporter said first of the newest batch: the later ones name no cause.
        self._why = ""
        words.addFilter(self._hear)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send a batch."""
        self._why = ""
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self._outages.meet()
        else:
            self._outages.miss(reason=self._why)
        return result

    def shutdown(self) -> None:
        """Send nothing more."""
        self._exporter.shutdown()

    def _hear(self, record: logging.LogRecord) -> bool:
        self._why = self._why or record.getMessage()
        return False
