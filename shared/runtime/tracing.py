"""Traces, exported by OpenTelemetry where one setting says where to; else a span costs one comparison.

A trace follows a call across the broker: each event carries the span that sent it as its W3C `traceparent`, whoever
handles it continues there. OpenTelemetry is imported only where traces are exported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Thread
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

Kind = Literal["internal", "server", "consumer", "client"]

#: How long the end of a process waits for a collector, in seconds: what is left of a trace is worth no more.
FLUSH_SECONDS = 2.0


class Tracing:
    """Where the spans of this process go; one for each process, see `TRACING`."""

    def __init__(self) -> None:
        self._provider: TracerProvider | None = None

    @property
    def on(self) -> bool:
        """Whether spans are exported."""
        return self._provider is not None

    def export(self, service: str, exporter: SpanExporter, *, at_once: bool = False) -> None:
        """Export the spans of `service` from now on, in batches in the background; `at_once` is for tests."""
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - only where traces are exported
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor  # noqa: PLC0415

        self._provider = TracerProvider(resource=Resource.create({"service.name": f"placet-{service}"}))
        self._provider.add_span_processor(SimpleSpanProcessor(exporter) if at_once else BatchSpanProcessor(exporter))

    def stop(self, flush_seconds: float = FLUSH_SECONDS) -> None:
        """Export nothing more; send what is left, as far as the collector takes it within some seconds."""
        provider, self._provider = self._provider, None
        if provider is not None:
            # It would wait for 30 s, and takes no other word for it. A process that ends leaves the thread behind.
            flushing = Thread(target=provider.shutdown, name="traces", daemon=True)
            flushing.start()
            flushing.join(flush_seconds)

    def current(self) -> str:
        """Return the traceparent of the span that is open here; empty where none is."""
        if self._provider is None:
            return ""
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

        carrier: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carrier)
        return carrier.get("traceparent", "")

    def describe(self, name: str, /, **attributes: str | float) -> None:
        """Name the open span by what is known only now, and say more of it."""
        if self._provider is not None:
            from opentelemetry.trace import get_current_span  # noqa: PLC0415

            get_current_span().update_name(name)
            get_current_span().set_attributes(_named(attributes))

    @contextmanager
    def span(self, name: str, traceparent: str, kind: Kind = "internal", /, **attributes: str | float) -> Iterator[str]:
        """Time the block as a span within `traceparent`; yield the traceparent that what it causes continues from.

        An error that leaves the block marks the span with its type: what it says, and where, may be of arguments.
        Where nothing is exported, yields `traceparent` as it is.
        """
        if self._provider is None:
            yield traceparent
            return
        from opentelemetry.trace import SpanKind, StatusCode  # noqa: PLC0415 - only where traces are exported
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

        propagator, carrier = TraceContextTextMapPropagator(), {"traceparent": traceparent}
        tracer = self._provider.get_tracer("placet")
        with tracer.start_as_current_span(
            name,
            context=propagator.extract(carrier),
            kind=SpanKind[kind.upper()],
            attributes=_named(attributes),
            record_exception=False,
            set_status_on_exception=False,
        ) as opened:
            propagator.inject(carrier)
            try:
                yield carrier["traceparent"]
            except Exception as error:
                opened.set_status(StatusCode.ERROR, type(error).__name__)
                raise


def _named(attributes: Mapping[str, str | float]) -> dict[str, str | float]:
    return {f"placet.{key}": value for key, value in attributes.items() if value != ""}


TRACING = Tracing()


def set_up_tracing(service: str, endpoint: str) -> None:
    """Export the spans of this process to `endpoint`, an OTLP/HTTP collector such as http://collector:4318."""
    if endpoint:
        from placet.runtime.span_exports import exporter_to  # noqa: PLC0415 - only where traces are exported

        TRACING.export(service, exporter_to(endpoint))
