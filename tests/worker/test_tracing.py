"""Tracing in a worker: what it loads is traced from then on, and a hook that fails ends nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sundog.observe import spans
from sundog.worker import tracing


def test_loaded_functions_are_traced_though_the_hook_failed(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("opentelemetry")  # not in the small environments of other Pythons (make smoke)
    fn = SimpleNamespace(function=None, plain=(len, "len", 1, False))
    executor: Any = SimpleNamespace(load=lambda _fn: len)
    life: Any = SimpleNamespace(loaded_class=None)
    try:
        tracing.begin("no_such_module:setup", executor, life)
    finally:
        spans.end_quietly()
    assert "no_such_module" in capsys.readouterr().err
    function = executor.load(cast(Any, fn))
    assert function is fn.function is fn.plain[0] and function("abc", _ray_trace_ctx={}) == 3
    assert fn.plain[1:] == ("len", 1, False) and life.loaded_class is spans.trace_class
