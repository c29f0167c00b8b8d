"""Small public functions of Serve."""

from __future__ import annotations


def get_trace_context() -> dict[str, str] | None:
    """The OpenTelemetry context of the present request; None, as sundog exports no spans."""
    return None
