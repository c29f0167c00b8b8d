"""The full-screen view of `sundog top`: two tables, a pane for stacks and logs, and the keys.

Owns the screen and what the keys do; figures are `observe.activity`'s, cells `top_rows`'. A look at the session, and
whatever else waits, runs in a thread of textual's, so that keys are answered at once. Refuses to end a process without
asking. Runs in the terminal's process; needs textual, which `top.py` checks.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, RichLog, Static

from sundog.cli import top_rows
from sundog.observe.activity import Activity, Watcher
from sundog.printable import printable
from sundog.wire.looks import CANCEL
from sundog.wire.requests import EndWorker, LookAt

if TYPE_CHECKING:
    from sundog.observe.activity import WorkerActivity
    from sundog.observe.sessions import Opened
    from sundog.wire.looks import RunningCall

_TAIL = 200
_CANCEL_S = 5.0
_REASON = "a user ended it with `sundog top`"


class Confirm(ModalScreen[bool]):
    """Asks before something that cannot be undone."""

    CSS = "Confirm { align: center middle; } #question { width: 70; padding: 1 2; border: thick $error; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes"),
        Binding("n,escape", "dismiss(False)", "No"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """One box of the screen."""
        yield Static(f"{self._question}\n\ny: yes   n: no", id="question", markup=False)


class Top(App[None]):
    """Watches one session.

    Args:
        session: A running one.
        interval_s: Between two looks.
    """

    CSS = """
    #head { height: auto; padding: 0 1; }
    #workers, #functions { height: 1fr; }
    #pane { height: 2fr; display: none; border-top: solid $accent; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("s", "sort", "Sort"),
        Binding("d", "stack", "Stack"),
        Binding("l", "logs", "Logs"),
        Binding("c", "cancel", "Cancel task"),
        Binding("k", "kill", "Kill process"),
        Binding("p", "pause", "Pause"),
        Binding("escape", "close", "Close pane"),
        Binding("tab", "focus_next", "Other table", show=False),
    ]

    def __init__(self, session: "Opened", interval_s: float) -> None:
        super().__init__()
        self.session = session
        self.interval_s = interval_s
        self.paused = False
        self.activity: Activity | None = None
        self._watcher = Watcher(session.ask, session.path)
        self._sorts = {"workers": "start", "functions": "active"}
        self._looking = False

    def compose(self) -> ComposeResult:
        """The page from top to bottom."""
        yield Static("", id="head", markup=False)
        with Vertical():
            yield DataTable(id="functions", cursor_type="row", zebra_stripes=True)
            yield DataTable(id="workers", cursor_type="row", zebra_stripes=True)
            yield RichLog(id="pane", wrap=False, markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Fill the page, and again and again."""
        self._table("functions").add_columns(*top_rows.FUNCTION_COLUMNS)
        self._table("workers").add_columns(*top_rows.WORKER_COLUMNS)
        self._table("workers").focus()
        self.set_interval(self.interval_s, self.refresh_figures)
        self.refresh_figures()

    # ------------------------------------------------------------------ looking
    def refresh_figures(self) -> None:
        """Look at the session, unless the look before still waits for an answer."""
        if not self.paused and not self._looking:
            self._looking = True
            self.run_worker(self._look, thread=True, exit_on_error=False)

    def _look(self) -> None:
        """In a thread."""
        try:
            found = self._watcher.look()
        except (OSError, EOFError, LookupError) as error:
            text = f"{printable(self.session.name)} has ended ({error}). q: quit"
            self.call_from_thread(self._say, text, stop=True)
            return
        finally:
            self._looking = False
        self.call_from_thread(self._show, found)

    def _say(self, text: str, *, stop: bool = False) -> None:
        self.paused = self.paused or stop
        self.query_one("#head", Static).update(text)

    def _show(self, activity: Activity) -> None:
        self.activity = activity
        self.query_one("#head", Static).update(top_rows.headline(self.session.name, activity))
        self._fill("functions", top_rows.function_rows(activity, self._sorts["functions"]))
        self._fill("workers", top_rows.worker_rows(activity, self._sorts["workers"]))

    def _fill(self, name: str, rows: list[tuple[str, tuple[str, ...]]]) -> None:
        """New rows; the cursor stays on the row that it was on."""
        table = self._table(name)
        chosen, offset = self._chosen(name), table.scroll_offset
        table.clear()
        for key, cells in rows:
            table.add_row(*cells, key=key)
        keys = [key for key, _ in rows]
        if chosen in keys:
            table.move_cursor(row=keys.index(chosen), scroll=False)
        table.scroll_to(offset.x, offset.y, animate=False)
        table.border_title = f"{name} by {self._sorts[name]}"

    def _table(self, name: str) -> "DataTable[str]":
        found: DataTable[str] = self.query_one(f"#{name}", DataTable)
        return found

    def _chosen(self, name: str) -> str:
        table = self._table(name)
        if not table.row_count or not table.is_valid_row_index(table.cursor_row):
            return ""
        return str(table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value)

    def _worker(self) -> "WorkerActivity | None":
        chosen = self._chosen("workers")
        workers = self.activity.workers if self.activity is not None else []
        return next((each for each in workers if each.who.process_id == chosen), None)

    # ------------------------------------------------------------------ keys
    def action_sort(self) -> None:
        """Sort the table that has the focus by the next column."""
        name = "functions" if self._table("functions").has_focus else "workers"
        known = list(top_rows.FUNCTION_SORTS if name == "functions" else top_rows.WORKER_SORTS)
        self._sorts[name] = known[(known.index(self._sorts[name]) + 1) % len(known)]
        if self.activity is not None:
            self._show(self.activity)
        self.notify(f"{name} by {self._sorts[name]}")

    def action_pause(self) -> None:
        """Stop looking, or continue."""
        self.paused = not self.paused
        self.notify("paused" if self.paused else "continued")

    def action_close(self) -> None:
        """Close the pane."""
        self.query_one("#pane").display = False

    def action_stack(self) -> None:
        """The stacks of the process under the cursor."""
        self._of_worker(self._stack_lines)

    def action_logs(self) -> None:
        """What the process under the cursor printed last."""
        self._of_worker(self._log_lines)

    def _of_worker(self, lines: "Callable[[WorkerActivity], list[str]]") -> None:
        worker = self._worker()
        if worker is None:
            self.notify("no process is chosen", severity="warning")
            return

        def work() -> None:
            found = lines(worker)
            self.call_from_thread(self._open_pane, found)

        self.run_worker(work, thread=True, exit_on_error=False)

    def _open_pane(self, lines: list[str]) -> None:
        pane = self.query_one("#pane", RichLog)
        pane.clear()
        pane.display = True
        for line in lines:
            pane.write(line)

    def _stack_lines(self, worker: "WorkerActivity") -> list[str]:
        import time

        from sundog.observe import stacks

        seen = stacks.collect(self.session.ask, self.session.path, (worker.who.process_id,))
        lines = []
        for group in stacks.fold(seen):
            lines += [stacks.heading(group, time.time()), *group.lines]
        return lines or [f"process {worker.who.pid} has ended"]

    def _log_lines(self, worker: "WorkerActivity") -> list[str]:
        from sundog.observe.log_reading import read_tail
        from sundog.util.state.logs import worker_path

        if worker.who.kind == "driver":
            return ["A driver prints to its own terminal: sundog keeps no log of it."]
        lines = []
        for suffix in ("out", "err"):
            path = worker_path(self.session.path, worker.who.process_id, suffix)
            text = b"".join(read_tail(path, _TAIL)).decode("utf-8", "backslashreplace")
            lines += [f"-- {suffix} of pid {worker.who.pid}", *map(printable, text.splitlines())]
        return lines

    def action_cancel(self) -> None:
        """Cancel the task that the process under the cursor has run longest."""
        worker = self._worker()
        calls = [call for call in worker.calls if call.task_id] if worker is not None else []
        if worker is None or not calls:
            self.notify("no task of this process can be cancelled", severity="warning")
            return
        call = min(calls, key=lambda each: each.start_s)
        question = f"Cancel {printable(call.name)} in process {worker.who.pid}?"
        self.push_screen(Confirm(question), lambda yes: self._cancel(call) if yes else None)

    def _cancel(self, call: "RunningCall") -> None:
        def work() -> None:
            owner = call.task_id[:16]
            told, _ = self.session.ask(LookAt(CANCEL, (call.task_id, False), (owner,), _CANCEL_S))
            why = told[0][1] if told else "its owner does not answer"
            text = f"{printable(call.name)}: {why or 'cancelled'}"
            self.call_from_thread(self.notify, text, severity="warning" if why else "information")

        self.run_worker(work, thread=True, exit_on_error=False)

    def action_kill(self) -> None:
        """End the process under the cursor."""
        worker = self._worker()
        if worker is None or worker.who.kind != "worker":
            self.notify("only a worker can be ended here", severity="warning")
            return
        question = f"End process {worker.who.pid}? What it runs fails, or is tried again."
        self.push_screen(Confirm(question), lambda yes: self._kill(worker) if yes else None)

    def _kill(self, worker: "WorkerActivity") -> None:
        def work() -> None:
            ended = self.session.ask(EndWorker(worker.who.process_id, _REASON))
            text = f"process {worker.who.pid} {'was ended' if ended else 'had ended already'}"
            self.call_from_thread(self.notify, text)

        self.run_worker(work, thread=True, exit_on_error=False)
