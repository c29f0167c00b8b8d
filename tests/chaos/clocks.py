"""Sessions whose wall clock jumps, by days, forth and back: nothing that is decided may depend on it.

::

    harness ──LD_PRELOAD libfaketime, a file with the offset──► driver ──► node, zygote, workers
    killers ──another offset──► the wall clock of all of them jumps at once; the monotonic clock does not

The machine's own clock is not touched. Owns the preloaded library and the file. Where the library cannot be had such
sessions are left out, and the harness says so.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import re
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

CLOCK = "clock"
_FILE = "FAKETIME_TIMESTAMP_FILE"
# Read again with each look at the clock; monotonic clocks and the times of files stay as they are.
_MODE = {
    "FAKETIME_NO_CACHE": "1",
    "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    "DONT_FAKE_MONOTONIC": "1",
    "NO_FAKE_STAT": "1",
}
_KEPT = re.compile(r"(?:faketime_shm|sem\.faketime_sem)_(\d+)$")
_OFFSETS = ("-1d", "+1d", "-3h", "+3h", "-400d", "+0")


@cache
def _library() -> str:
    """The shared library that shifts the clock; "" if it is not installed."""
    spec = importlib.util.find_spec("libfaketime")
    for folder in (spec.submodule_search_locations if spec is not None else None) or ():
        for found in Path(folder).rglob("libfaketime.so.1"):
            return str(found)
    return ""


@cache
def refusal() -> str:
    """Why there can be no such sessions here; "" if there can."""
    if not _library():
        return "the package libfaketime is not installed"
    probe = subprocess.run(
        [sys.executable, "-c", "import time; print(time.time())"],
        env={**os.environ, "LD_PRELOAD": _library(), "FAKETIME": "-1d", **_MODE},
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        shifted = time.time() - float(probe.stdout) > 80_000
    except ValueError:
        shifted = False
    return "" if shifted else f"libfaketime does not work here: {probe.stderr.strip()[:200]}"


def shifted(folder: str) -> dict[str, str]:
    """The variables with which a program runs on a clock that `turn` can set; its file is made in a folder."""
    path = f"{folder}/clock"
    Path(path).write_text("+0", encoding="ascii")
    return {"LD_PRELOAD": _library(), _FILE: path, **_MODE}


def turn(dice: random.Random) -> bool:
    """Set the clock of this session to another day; False if it has none of its own."""
    path = os.environ.get(_FILE)
    if not path:
        return False
    # In one step: whoever reads half a file would see another time.
    Path(f"{path}.new").write_text(dice.choice(_OFFSETS), encoding="ascii")
    os.replace(f"{path}.new", path)
    return True


def tidy() -> None:
    """Remove what the library keeps in shared memory for programs that are gone: one that is killed cannot do so."""
    for path in Path("/dev/shm").glob("*faketime_s*_*"):
        found = _KEPT.match(path.name)
        if found is not None and not Path("/proc", found[1]).exists():
            with contextlib.suppress(OSError):  # another harness was first, or it is another user's
                path.unlink()
