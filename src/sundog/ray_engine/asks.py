"""The pipe beside each worker's ring: through it a task on its node asks the worker to profile itself.

A thread of the worker waits in it, so a worker that is busy or idle answers alike, and waiting costs nothing. Owns the
pipe, its rows and the thread that reads it. Runs in workers; `ask` runs in a task on their node.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import threading

END: list[object] = []  # sent instead of a question: stop listening
_PIPE = ".ask"


def listen(ring: str) -> None:
    """Begin a profile of this worker whenever its pipe says so.

    Raises:
        OSError: the pipe cannot be made.
    """
    path = f"{ring}{_PIPE}"
    with contextlib.suppress(FileExistsError):
        os.mkfifo(path, 0o600)
    # Open for reading and writing: the pipe always has a writer, so a read waits and never sees the end.
    pipe = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    threading.Thread(target=_listen, args=(pipe,), name="sundog-asks", daemon=True).start()


def _listen(pipe: int) -> None:
    with open(pipe, encoding="utf-8", buffering=1) as file:
        for line in file:
            if json.loads(line) == END:
                return
            # On an error the asking process waits in vain for a file, and continues without it.
            with contextlib.suppress(Exception):
                _begin(json.loads(line))


def _begin(spec: list[object]) -> None:
    from sundog.profiling import recorder
    from sundog.wire.profiles import ProfileSpec

    asked = ProfileSpec(*spec)  # type: ignore[arg-type]
    recorder.start(asked, "worker", os.path.dirname(os.path.dirname(asked.folder)))


def ask(ring: str, spec: list[object]) -> bool:
    """Ask the worker of a ring to profile itself; whether it is there."""
    try:
        pipe = os.open(f"{ring}{_PIPE}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT):
            return False
        raise
    try:
        os.write(pipe, json.dumps(spec).encode() + b"\n")
    finally:
        os.close(pipe)
    return True
