"""Tracing in a worker: the hook is run, and what the worker loads from then on runs within spans.

Owns how a loaded function or class is replaced by its traced form: when it is loaded, not when it is called, so a
session that traces nothing pays nothing. Runs in a worker of a session with a tracing hook, main thread.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from sundog.observe import spans

if TYPE_CHECKING:
    from collections.abc import Callable

    from sundog.worker.actor_life import ActorLife
    from sundog.worker.answers import LoadedFn
    from sundog.worker.executor import Executor


def begin(hook: str, executor: Executor, life: ActorLife) -> None:
    """Run the hook. If the hook fails, tasks run anyway, and the worker's log says why nothing is exported."""
    load = executor.load

    def load_traced(fn: LoadedFn) -> Callable[..., object]:
        function = spans.traced_function(load(fn))
        fn.function = function
        if fn.plain is not None:
            fn.plain = (function, *fn.plain[1:])
        return function

    executor.load = load_traced  # type: ignore[method-assign]
    life.loaded_class = spans.trace_class
    try:
        spans.begin(hook)
    except spans.TracingHookError as error:
        print(error, file=sys.stderr, flush=True)
