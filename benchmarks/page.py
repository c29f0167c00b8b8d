"""How quick the dashboard's page is, in a real browser, and what the head process costs: `python -m benchmarks.page`.

::

    a session with a head process ── 1,000 tasks ── Chromium: first view, later views, updates ── the head at rest

Prints one JSON object a figure. Needs `sundog[default]`, and what `make browser` installs.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import sundog
from sundog.engines import heads
from sundog.owner import context
from tests.browser.browsers import browser

VISITS = 5
REST_S = 30.0
_TICKS = os.sysconf("SC_CLK_TCK")


def tell(what: str, value: float, unit: str) -> None:
    """One figure."""
    print(json.dumps({"what": what, "value": round(value, 3), "unit": unit}), flush=True)


def head_pid() -> int:
    """The head process: a child of the node."""
    node = int(context.facts.session["node_pid"])
    for pid in Path(f"/proc/{node}/task/{node}/children").read_text().split():
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
        if b"sundog::head" in words or b"sundog.head.program" in words:
            return int(pid)
    raise RuntimeError("this session has no head process")


def processor_s(pid: int) -> float:
    """Processor seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def until(page: Any, text: str, selector: str) -> float:
    """Seconds until a text is there."""
    began = time.perf_counter()
    while text not in page.text(selector):
        time.sleep(0.005)
    return time.perf_counter() - began


def at_rest(pid: int, what: str) -> None:
    """Processor and memory of the head process while nothing happens."""
    before = processor_s(pid)
    time.sleep(REST_S)
    tell(f"head process, {what}: share of a core", 100 * (processor_s(pid) - before) / REST_S, "%")
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    page_mb = os.sysconf("SC_PAGE_SIZE") / 1e6
    tell(f"head process, {what}: memory", int(fields[1]) * page_mb, "MB")


def main() -> None:
    sundog.init(num_cpus=2, include_dashboard=True, dashboard_port=0, log_to_driver=False)

    @sundog.remote
    def resize(number: int) -> int:
        return number

    sundog.get([resize.remote(number) for number in range(1000)])
    info = heads.read_head(str(context.facts.session["path"]))
    assert info is not None
    pid = head_pid()
    before = -1.0
    while processor_s(pid) - before > 0.1:  # it starts
        before = processor_s(pid)
        time.sleep(3.0)
    at_rest(pid, "nobody looks")
    port = int(info.url.rpartition(":")[2])
    with browser(port) as page:
        times = []
        for visit in range(VISITS + 1):
            began = time.perf_counter()
            page.open(f"/?token={info.token}" if not visit else "/")
            until(page, "resize", "[data-functions]")
            times.append(time.perf_counter() - began)
        tell("first view with data, first visit", times[0], "s")
        tell("first view with data, median of later visits", statistics.median(times[1:]), "s")
        shown, updates = 1000, []
        for _ in range(VISITS):
            sundog.get([resize.remote(number) for number in range(100)])
            shown += 100
            updates.append(until(page, f"{shown:,}", "[data-functions]"))
        tell("update after a task ended, median", statistics.median(updates), "s")
        tell("update after a task ended, largest", max(updates), "s")
        at_rest(pid, "one browser looks")
    sundog.shutdown()


if __name__ == "__main__":
    main()
