"""What the keys of `sundog top` ask of a session, and what they refuse: the screen without a terminal or a session."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.widgets import DataTable, RichLog, Static

from sundog.cli.top_screen import Confirm, Top
from sundog.wire.looks import CANCEL, Pulse, RunningCall, Who
from sundog.wire.requests import EndWorker, LookAt, Request, Status

TASK, OWNER = "11" * 16, "11" * 8
CALL = RunningCall(TASK, "train", 1.0)
STATUS = {"memory": {"used_bytes": 1, "total_bytes": 2}, "store": {"used_bytes": 0, "limit_bytes": 2}}
DRIVER = Who(os.getpid(), OWNER, "driver", "driver", "01", 1.0, entrypoint="train.py")
BUSY = Who(os.getpid(), "22" * 8, "worker", "leased", "01", 2.0)
IDLE = Who(os.getpid(), "33" * 8, "worker", "idle", "01", 3.0)


@dataclass
class FakeSession:
    """A session of a driver and two workers, one of which runs a task."""

    path: str
    name: str = "session-1"
    refusal: str = ""  # why a task cannot be cancelled
    ended: bool = False
    orders: list[Request[Any]] = field(default_factory=list)

    def ask(self, question: Request[Any], _timeout_s: float = 1.0) -> object:
        if self.ended:
            raise ConnectionError("its node is gone")
        if isinstance(question, Status):
            return STATUS
        if isinstance(question, LookAt) and question.question != CANCEL:
            calls = {BUSY: (CALL,)}
            return [(who, Pulse(calls.get(who, ()), ())) for who in (DRIVER, BUSY, IDLE)], []
        self.orders.append(question)
        return True if isinstance(question, EndWorker) else ([(DRIVER, self.refusal)], [])


class Screen:
    """The screen in the hands of a test."""

    def __init__(self, app: Top, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    async def shows(self, question: Callable[[], object]) -> None:
        """Wait until the screen shows what is asked for."""
        while not question():
            await self.pilot.pause(0.01)

    async def choose(self, row: int) -> None:
        """Move the cursor to a process: in the order in which they were started."""
        self.app.query_one("#workers", DataTable).move_cursor(row=row)
        await self.pilot.pause()

    async def answer(self, key: str) -> None:
        """Answer the question that is asked."""
        await self.shows(lambda: isinstance(self.app.screen, Confirm))
        await self.pilot.press(key)
        await self.shows(lambda: not isinstance(self.app.screen, Confirm))

    def question(self) -> str:
        return str(self.app.screen.query_one("#question", Static).render())

    def head(self) -> str:
        return str(self.app.query_one("#head", Static).render())

    def pane(self) -> str:
        return "\n".join(strip.text for strip in self.app.query_one("#pane", RichLog).lines)

    def told(self) -> list[str]:
        return [each.message for each in self.app._notifications]


def play(session: FakeSession, script: Callable[[Screen], Awaitable[None]]) -> None:
    """Show a session, and do what the script says once the first look is on the screen."""

    async def run() -> None:
        seen: Any = session
        app = Top(seen, interval_s=3600.0)
        async with app.run_test(size=(160, 50)) as pilot:
            screen = Screen(app, pilot)
            await screen.shows(lambda: app.activity is not None or app.paused)
            await script(screen)

    asyncio.run(run())


def test_a_task_is_cancelled_through_its_owner_once_the_user_says_yes(tmp_path: Path) -> None:
    session = FakeSession(str(tmp_path))

    async def script(screen: Screen) -> None:
        await screen.choose(1)
        await screen.pilot.press("c")
        await screen.answer("n")
        assert not session.orders
        await screen.pilot.press("c")
        await screen.shows(lambda: isinstance(screen.app.screen, Confirm))
        assert f"Cancel train in process {BUSY.pid}?" in screen.question()
        await screen.answer("y")
        await screen.shows(lambda: "train: cancelled" in screen.told())

    play(session, script)
    [order] = session.orders
    assert isinstance(order, LookAt)
    assert (order.question, order.arguments, order.only) == (CANCEL, (TASK, False), (OWNER,))


def test_the_reason_why_a_task_cannot_be_cancelled_is_shown(tmp_path: Path) -> None:
    async def script(screen: Screen) -> None:
        await screen.choose(1)
        await screen.pilot.press("c")
        await screen.answer("y")
        await screen.shows(lambda: "train: it has ended" in screen.told())

    play(FakeSession(str(tmp_path), refusal="it has ended"), script)


def test_a_worker_is_ended_once_the_user_says_yes_and_a_driver_never(tmp_path: Path) -> None:
    session = FakeSession(str(tmp_path))

    async def script(screen: Screen) -> None:
        await screen.choose(0)
        await screen.pilot.press("k")
        await screen.shows(lambda: "only a worker can be ended here" in screen.told())
        await screen.choose(2)
        await screen.pilot.press("k")
        await screen.answer("y")
        await screen.shows(lambda: f"process {IDLE.pid} was ended" in screen.told())

    play(session, script)
    [order] = session.orders
    assert isinstance(order, EndWorker) and order.process_id == IDLE.process_id


def test_there_is_nothing_to_cancel_in_an_idle_process(tmp_path: Path) -> None:
    session = FakeSession(str(tmp_path))

    async def script(screen: Screen) -> None:
        await screen.choose(2)
        await screen.pilot.press("c")
        await screen.shows(lambda: "no task of this process can be cancelled" in screen.told())

    play(session, script)
    assert not session.orders


def test_the_pane_shows_what_a_worker_printed_and_says_that_a_driver_has_no_log(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / f"worker-{BUSY.process_id}.out").write_bytes(b"epoch 1\nred \x1b[31m\n")

    async def script(screen: Screen) -> None:
        await screen.choose(1)
        await screen.pilot.press("l")
        await screen.shows(lambda: "epoch 1" in screen.pane())
        assert "\x1b" not in screen.pane(), "what a program prints must not steer the terminal"
        await screen.choose(0)
        await screen.pilot.press("l")
        await screen.shows(lambda: "A driver prints to its own terminal" in screen.pane())
        await screen.pilot.press("escape")
        assert not screen.app.query_one("#pane").display

    play(FakeSession(str(tmp_path)), script)


def test_a_new_order_keeps_the_cursor_on_its_process(tmp_path: Path) -> None:
    async def script(screen: Screen) -> None:
        await screen.choose(2)
        for _ in range(3):  # start, CPU, memory, longest
            await screen.pilot.press("s")
        await screen.shows(lambda: "workers by longest" in screen.told())
        assert screen.app._chosen("workers") == IDLE.process_id
        first = screen.app.query_one("#workers", DataTable).get_row_at(0)
        assert "train" in first, "the process whose call has run longest is first"

    play(FakeSession(str(tmp_path)), script)


def test_while_it_is_paused_no_look_is_taken(tmp_path: Path) -> None:
    async def script(screen: Screen) -> None:
        before = screen.app.activity
        await screen.pilot.press("p")
        screen.app.refresh_figures()
        assert not screen.app._looking and screen.app.activity is before
        await screen.pilot.press("p")
        screen.app.refresh_figures()
        await screen.shows(lambda: screen.app.activity is not before)

    play(FakeSession(str(tmp_path)), script)


def test_the_end_of_the_session_is_said_and_stops_the_looks(tmp_path: Path) -> None:
    session = FakeSession(str(tmp_path), ended=True)

    async def script(screen: Screen) -> None:
        await screen.shows(lambda: "session-1 has ended (its node is gone). q: quit" in screen.head())
        assert screen.app.paused

    play(session, script)
