"""A tracing hook to begin with: each process writes its spans to a file below /tmp/spans, one JSON object a line.

Owns that folder's name; where another user has taken it, the files are in a private folder beside it. Called in every
process of a session that names it as its hook; needs `sundog[otel]`.
"""

from __future__ import annotations

import os

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from sundog import notices, trust

spans_dir = "/tmp/spans/"


def setup_tracing() -> None:
    """Write each span to a file of this process as soon as it ends."""
    folder, why = trust.make_home(spans_dir.rstrip("/"))
    if why:
        notices.warn(f"Spans go to {folder} and not to {spans_dir}: {why}.")
    file = os.fdopen(trust.create_file(f"{folder}/{os.getpid()}.txt"), "w", encoding="utf-8")
    exporter = ConsoleSpanExporter(
        out=file, formatter=lambda span: str(span.to_json(indent=None)) + os.linesep
    )
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
