"""A progress bar for what may take long: shown on a terminal, on standard error, once a second has passed.

Owns the moment from which it is shown. What is piped stays as it is. Runs in the terminal's process, main thread.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PATIENCE_S = 1.0


@contextmanager
def bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Give a function to call with how much is done, and how much there is in all."""
    from rich.console import Console
    from rich.progress import Progress

    began = time.monotonic()
    progress = Progress(console=Console(stderr=True), transient=True)
    task = progress.add_task(what, total=None)
    shown = False

    def advance(done: int, total: int) -> None:
        nonlocal shown
        if not shown and time.monotonic() - began > _PATIENCE_S:
            shown = True
            progress.start()
        if shown:
            progress.update(task, completed=done, total=total)

    try:
        yield advance
    finally:
        if shown:
            progress.stop()
