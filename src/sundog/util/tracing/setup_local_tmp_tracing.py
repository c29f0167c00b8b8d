"""A tracing hook to begin with: each process writes its spans to a file below /tmp/spans, one JSON object a line.

Owns that folder's name. Called in every process of a session that names it as its hook; needs `sundog[otel]`.
"""

from __future__ import annotations

import os

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

spans_dir = "/tmp/spans/"


def setup_tracing() -> None:
    """Write each span to a file of this process as soon as it ends."""
    os.makedirs(spans_dir, exist_ok=True)
    # Created anew, and never through a link that somebody has put there.
    path = f"{spans_dir}{os.getpid()}.txt"
    if os.path.lexists(path):
        os.unlink(path)
    file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8")
    exporter = ConsoleSpanExporter(
        out=file, formatter=lambda span: str(span.to_json(indent=None)) + os.linesep
    )
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
