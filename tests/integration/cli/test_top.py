"""`sundog top` on a real session: driven by textual's pilot, and once in a real terminal."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pexpect
import pytest
from textual.widgets import DataTable, RichLog, Static

from sundog.cli.top_screen import Confirm, Top
from sundog.observe import sessions
from tests.integration.gates import Gate, await_true
from tests.integration.terminals import Screen

TIMEOUT_S = 120.0


async def until(question: Callable[[], Any], pause: Callable[..., Awaitable[None]]) -> Any:
    """Wait for what the screen shows."""
    for _ in range(int(TIMEOUT_S / 0.05)):
        found = question()
        if found:
            return found
        await pause(0.05)
    raise AssertionError("the screen did not show it")


def cells(app: Top, name: str) -> list[list[str]]:
    table: DataTable[str] = app.query_one(f"#{name}", DataTable)
    return [table.get_row_at(index) for index in range(table.row_count)]


def pane(app: Top) -> str:
    return "\n".join(strip.text for strip in app.query_one("#pane", RichLog).lines)


async def choose(app: Top, pid: str) -> None:
    """Move the cursor to the row of a worker."""
    table: DataTable[str] = app.query_one("#workers", DataTable)
    table.move_cursor(row=next(i for i, row in enumerate(cells(app, "workers")) if row[0] == pid))


async def drive(app: Top, pids: dict[str, str]) -> None:
    """Look at the two tasks that wait, cancel the first, kill the worker of the second."""
    async with app.run_test(size=(160, 50)) as pilot:

        def function(name: str) -> dict[str, str]:
            from sundog.cli.top_rows import FUNCTION_COLUMNS

            rows = [dict(zip(FUNCTION_COLUMNS, row)) for row in cells(app, "functions")]
            return next((row for row in rows if row["function"] == name), {})

        await until(lambda: function("quick").get("done") == "5", pilot.pause)
        await until(lambda: function("waits").get("running") == "2", pilot.pause)
        await until(lambda: [r for r in cells(app, "workers") if r[0] == pids["first"]], pilot.pause)
        head = str(app.query_one("#head", Static).render())
        assert "2 running" in head and "objects" in head and "cores" in head
        await pilot.press("p")
        await choose(app, pids["first"])
        await pilot.press("d")
        await until(lambda: "waits (" in pane(app), pilot.pause)
        await pilot.press("l")
        await until(lambda: "a line of first" in pane(app), pilot.pause)
        await pilot.press("escape", "s")
        assert not app.query_one("#pane").display
        await choose(app, pids["first"])
        await pilot.press("c")
        await until(lambda: isinstance(app.screen, Confirm), pilot.pause)
        await pilot.press("y")
        await choose(app, pids["second"])
        await pilot.press("k")
        await until(lambda: isinstance(app.screen, Confirm), pilot.pause)
        await pilot.press("n")  # not yet
        await pilot.press("k")
        await until(lambda: isinstance(app.screen, Confirm), pilot.pause)
        await pilot.press("y", "p")
        await until(lambda: function("waits").get("failed") == "2", pilot.pause)
        await pilot.press("q")


def test_the_screen_shows_what_runs_and_its_keys_look_cancel_and_kill(
    ray: ModuleType, tmp_path: Path
) -> None:
    gate = Gate(tmp_path)

    @ray.remote(max_retries=0)
    def waits(name: str) -> None:
        print("a line of", name, flush=True)
        gate.enter(name)

    @ray.remote
    def quick() -> None:
        return None

    ray.get([quick.remote() for _ in range(5)])
    first, second = waits.remote("first"), waits.remote("second")
    await_true(lambda: gate.inside("first") and gate.inside("second"), "both run")
    pids = {path.name.split("-")[1]: path.name.split("-")[2] for path in tmp_path.glob("in-*")}
    app = Top(sessions.open_session(), 0.1)

    asyncio.run(drive(app, pids))
    with pytest.raises(ray.exceptions.TaskCancelledError):
        ray.get(first)
    with pytest.raises(ray.exceptions.WorkerCrashedError, match="a user ended it with `sundog top`"):
        ray.get(second)


def test_it_opens_and_quits_in_a_real_terminal_and_says_when_there_is_none(ray: ModuleType) -> None:
    ray.get(ray.remote(lambda: os.getpid()).options(name="in_terminal").remote())
    command = [sys.executable, "-m", "sundog.cli", "top", "--interval", "0.2"]
    terminal: Any = Screen(command, (40, 150))
    try:
        terminal.expect("in_terminal")
        terminal.send("q")
        terminal.expect(pexpect.EOF)
        terminal.wait()
        assert terminal.exitstatus == 0
    finally:
        terminal.close(force=True)
    piped = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    assert piped.returncode == 1
    assert "needs a terminal. Without one, use: sundog status -v" in piped.stderr
