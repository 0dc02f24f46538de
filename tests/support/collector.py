"""A collector of traces, OTLP over HTTP, in this process."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """Keeps the spans that services send."""

    def __init__(self) -> None:
        #: Each with the service that made it.
        self.spans: list[tuple[str, Span]] = []
        self.url = ""

    def take(self, body: bytes) -> None:
        """Read one request of an exporter."""
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            names = {each.key: each.value.string_value for each in resource.resource.attributes}
            found = [span for scope in resource.scope_spans for span in scope.spans]
            self.spans += [(names["service.name"], span) for span in found]

    def services_of(self, trace_id: str) -> set[str]:
        """Return which services made spans of a trace."""
        return {service for service, span in list(self.spans) if span.trace_id.hex() == trace_id}

    def names_of(self, trace_id: str) -> set[str]:
        """Return the names of the spans of a trace."""
        return {span.name for _, span in list(self.spans) if span.trace_id.hex() == trace_id}

    def traces_of(self, attribute: str, value: str) -> set[str]:
        """Return the traces of the spans that say `attribute` is `value`."""
        return {
            span.trace_id.hex()
            for _, span in list(self.spans)
            if any((each.key, each.value.string_value) == (f"placet.{attribute}", value) for each in span.attributes)
        }


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector while the block runs."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            collector.take(gzip.decompress(body) if self.headers["content-encoding"] == "gzip" else body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.url = f"http://127.0.0.1:{server.server_port}"
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
