"""Tracing in a worker: what it loads is traced from then on, and a hook that fails ends nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from sundog.observe import spans
from sundog.worker import tracing


class _Fn:
    """A function that was loaded for plain calls."""

    def __init__(self) -> None:
        self.function: Callable[..., object] | None = None
        self.plain: tuple[Callable[..., object], str, int, bool] = (len, "len", 1, False)


class _Executor:
    def load(self, _fn: _Fn) -> Callable[..., object]:
        return len


class _Life:
    loaded_class: Callable[..., object] | None = None


def test_loaded_functions_are_traced_though_the_hook_failed(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("opentelemetry")  # not in the small environments of other Pythons (make smoke)
    fn, executor, life = _Fn(), _Executor(), _Life()
    try:
        tracing.begin("no_such_module:setup", cast(Any, executor), cast(Any, life))
    finally:
        spans.end_quietly()
    assert "no_such_module" in capsys.readouterr().err
    function = executor.load(fn)
    assert function is fn.function is fn.plain[0] and function("abc", _ray_trace_ctx={}) == 3
    assert fn.plain[1:] == ("len", 1, False) and life.loaded_class is spans.trace_class
