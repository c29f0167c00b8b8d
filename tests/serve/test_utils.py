"""Small public functions of Serve."""

from __future__ import annotations

from sundog.serve.context import RequestContext, request_context
from sundog.serve.utils import get_trace_context


def test_a_request_has_no_trace_context_as_no_spans_are_exported() -> None:
    before = request_context.set(RequestContext(request_id="one", route="/"))
    try:
        assert get_trace_context() is None
    finally:
        request_context.reset(before)
