"""The host program: one system, up for one group of cases, measuring what the runner asks for.

```
 runner ── {"case": name} | {"stop": true}, one JSON line ──► host ── the adapter's verbs ──► the system
        ◄── {"readings": [...]} | {"error": text} ──────────
```
Its own process, one thread. Answers go over a socket of their own, because systems print to stdout as they
like. Started as `python -m benchmarks.host <system> <fd> <effort as JSON>`; ends with the runner (end of
file).
"""

from __future__ import annotations

import gc
import json
import os
import socket
import sys
import time
import traceback
from dataclasses import asdict
from typing import Any

from benchmarks.cases import all_cases
from benchmarks.sampling import Effort
from benchmarks.systems import System, open_system

SETTLE_S = 0.15


def error_text(exc: BaseException) -> str:
    """The error in one line, with the place in our code that met it."""
    frames = [f for f in traceback.extract_tb(exc.__traceback__) if "benchmarks" in f.filename]
    place = f" (in {frames[-1].name})" if frames else ""
    return f"{type(exc).__name__}: {exc}{place}"


def answer(system: System, name: str, effort: Effort) -> dict[str, Any]:
    """Measure one case; an error becomes the answer, since the next case may still work."""
    case = {case.name: case for case in all_cases()}[name]
    try:
        readings = [asdict(reading) for reading in case.measure(system, effort)]
    except Exception as exc:
        return {"error": error_text(exc)}
    finally:
        # The case's refs and actors go now, not in the middle of the next case.
        gc.collect()
        time.sleep(SETTLE_S)
    return {"readings": readings}


def serve(system: System, channel: socket.socket, effort: Effort) -> None:
    stream = channel.makefile("rw", encoding="utf-8")

    def reply(message: dict[str, Any]) -> None:
        stream.write(json.dumps(message) + "\n")
        stream.flush()

    try:
        system.load()
        system.start()
    except Exception as exc:
        reply({"error": error_text(exc)})
        return
    reply({"version": system.version()})
    for line in stream:
        request = json.loads(line)
        if request.get("stop"):
            break
        reply(answer(system, request["case"], effort))
    system.stop()


def main() -> None:
    name, fd, effort = sys.argv[1:]
    os.set_inheritable(int(fd), False)
    serve(open_system(name), socket.socket(fileno=int(fd)), Effort(**json.loads(effort)))


if __name__ == "__main__":
    main()
