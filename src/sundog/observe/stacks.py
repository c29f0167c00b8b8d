"""The stacks of a running session: asked of every process, by signal of those that cannot answer, folded by likeness.

Owns the way from a session to `SeenProcess` rows and from those to `StackGroup`s with the lines that are shown. Reads
what processes tell (`wire/looks.py`) and source files; changes nothing. Runs in the caller's
process: a command, a dashboard.
"""

from __future__ import annotations

import linecache
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sundog import event_names, events, machine
from sundog.observe import desks, fault_dumps
from sundog.plain import JsonObject, field, plain
from sundog.printable import printable
from sundog.wire.looks import STACKS, ProcessStacks, RunningCall, Stack, StackFrame, Who
from sundog.wire.requests import LookAt

if TYPE_CHECKING:
    from sundog.wire.requests import AskNode

PATIENCE_S = 1.0
_IDLE = "::IDLE"
_SOURCE_MAX = 80
_IDLE_FILES = (
    "worker/serving.py",
    "worker/async_actor.py",
    "worker/threaded_actor.py",
    "worker/actor_life.py",
)


@plain(frozen=True)
class SeenProcess:
    """One process, and what was seen of it."""

    who: Who
    stacks: ProcessStacks | None
    how: str  # python: the process answered; signal: its fault handler did; "": none
    note: str = ""  # why there is no stack, or less than usual
    stopped: bool = False
    guessed: RunningCall | None = None  # the task that began last, if the process could not say what it runs

    @property
    def calls(self) -> tuple[RunningCall, ...]:
        """What runs there."""
        told = self.stacks.calls if self.stacks is not None else ()
        return told or ((self.guessed,) if self.guessed is not None else ())


@plain()
class StackGroup:
    """Processes whose stacks are equal."""

    title: str
    lines: list[str]
    members: list[SeenProcess] = field(default_factory=list)


def collect(
    ask: AskNode, session_path: str, only: tuple[str, ...] = (), patience_s: float = PATIENCE_S
) -> list[SeenProcess]:
    """Look at the drivers and workers of a session, or at those with these ids.

    Args:
        ask: Asks the session's node.
        session_path: Its folder.
        only: Ids of processes in hexadecimal; all by default.
        patience_s: How long a process may take to answer before its fault handler is asked.
    """
    told, silent = ask(LookAt(STACKS, (), only, patience_s))
    seen = [
        SeenProcess(who, None, "", row) if isinstance(row, str) else SeenProcess(who, row, "python")
        for who, row in told
    ]
    for who in silent:
        found = fault_dumps.ask(session_path, who.pid, who.process_id)
        guessed = _begun(session_path, who.process_id, who.pid)
        if isinstance(found, fault_dumps.Silence):
            seen.append(SeenProcess(who, None, "", found.why, found.stopped, guessed))
        else:
            note = "it does not let Python run; its fault handler wrote this"
            seen.append(SeenProcess(who, found, "signal", note, guessed=_named(guessed, found)))
    return sorted(seen, key=lambda each: (each.who.kind != "driver", each.who.started_s, each.who.pid))


def collect_elsewhere(session_path: str) -> list[SeenProcess]:
    """Look at the workers of a job on another engine, on all its nodes: its driver asks them.

    Raises:
        desks.Unanswered: the driver is gone, or did not get an answer.
    """
    seen = []
    for row in desks.ask(session_path, "stacks"):
        who = Who(row["pid"], row["process"], "worker", f"node {row['node'][:8]}", row["job"], 0.0)
        if not row["text"]:
            seen.append(SeenProcess(who, None, "", row.get("note", "it blocks signals")))
            continue
        found = ProcessStacks(tuple(fault_dumps.parse(row["text"])))
        begun = _begun(session_path, row["process"], row["pid"])
        seen.append(
            SeenProcess(who, found, "signal", f"node {row['node'][:8]}", guessed=_named(begun, found))
        )
    return seen


def see_by_signal(session_path: str, pid: int, kind: str) -> SeenProcess:
    """Look at the node or the zygote, for which only their fault handler answers."""
    who = Who(pid, "", kind, "", "", 0.0)
    found = fault_dumps.ask(session_path, pid)
    if isinstance(found, fault_dumps.Silence):
        return SeenProcess(who, None, "", found.why, found.stopped)
    return SeenProcess(who, found, "signal")


def _begun(session_path: str, process_id: str, pid: int) -> RunningCall | None:
    """What a worker runs that cannot say so, as far as its recorder and its title tell."""
    ring = f"{session_path}/rings/{process_id}.ring"
    slots = events.read_slots(ring, most=1)
    if slots is None or slots.info.role != "worker" or not slots.info.current.strip(b"\0"):
        return None
    if machine.title(pid).endswith(_IDLE):
        return None  # the task that began last has ended
    name = event_names.read_names(ring).get(slots.info.current_name, ("", ""))[0]
    return RunningCall(slots.info.current.hex(), name, slots.info.current_at)


def _named(call: RunningCall | None, stacks: ProcessStacks) -> RunningCall | None:
    """The call with the name of the outermost function of the user's, if its frames tell that it runs."""
    for stack in stacks.threads:
        users = [frame for frame in stack.frames if not frame.ours]
        if call is not None and users and stack.frames[-1].ours and stack.frames[-1] is not users[-1]:
            return call._replace(name=call.name or users[-1].function)
    return None


# ---------------------------------------------------------------------- as text
def fold(seen: Iterable[SeenProcess], *, everything: bool = False) -> list[StackGroup]:
    """Groups of processes that look the same, in the order of their first one."""
    groups: dict[tuple[str, ...], StackGroup] = {}
    for each in seen:
        title = _title(each)
        lines = list(_lines(each, everything))
        key = (each.who.kind, title, *lines)
        groups.setdefault(key, StackGroup(title, lines)).members.append(each)
    return list(groups.values())


def heading(group: StackGroup, now: float) -> str:
    """The first line of a group: the kind of process, which pids, what runs and for how long."""
    members = group.members
    pids = ", ".join(str(each.who.pid) for each in members)
    count = f"{len(members)} × " if len(members) > 1 else ""
    ages = [now - call.start_s for each in members for call in each.calls[:1]]
    running = f" for {_span(ages)}" if ages and any(each.calls for each in members) else ""
    return f"{count}{group.title}{running}  (pid {pids})"


def _title(seen: SeenProcess) -> str:
    who = seen.who
    if who.kind in ("node", "zygote"):
        return who.kind
    if who.kind == "driver":
        return f"driver {printable(who.entrypoint)}".rstrip()
    what = "worker"
    if who.actor_class:
        named = f" {who.actor_name!r}" if who.actor_name else ""
        what = printable(f"actor {who.actor_class}{named}")
    if seen.stopped:
        what += ", stopped"
    names = sorted({call.name for call in seen.calls if call.name})
    if len(seen.calls) > 1:
        return printable(f"{what} running {len(seen.calls)} calls of {', '.join(names)}")
    if names:
        return printable(f"{what} running {names[0]}")
    return what if seen.calls or seen.stacks is None or _is_busy(seen) else f"{what}, idle"


def _is_busy(seen: SeenProcess) -> bool:
    assert seen.stacks is not None
    return any(_users(stack) for stack in (*seen.stacks.threads, *seen.stacks.tasks) if not stack.ours)


def _lines(seen: SeenProcess, everything: bool) -> Iterable[str]:
    if seen.note:
        yield f"  {printable(seen.note)}"
    if seen.stacks is None:
        return
    stacks = [*seen.stacks.threads, *seen.stacks.tasks]
    shown = [stack for stack in stacks if everything or (not stack.ours and _users(stack))]
    folded: dict[tuple[str, ...], list[Stack]] = {}
    for stack in shown:
        folded.setdefault(tuple(_stack_lines(stack, everything)), []).append(stack)
    for lines, alike in folded.items():
        # One thread alone, the main one, needs no name.
        if len(shown) > 1 or alike[0].loop or alike[0].name != "MainThread":
            yield f"  {_names(alike)}"
        yield from lines
    if seen.stacks.tasks_omitted:
        yield f"  … and {seen.stacks.tasks_omitted} more asyncio tasks"


def _names(alike: Sequence[Stack]) -> str:
    what = "asyncio task" if alike[0].loop else "thread"
    names = printable(
        ", ".join(each.name.removeprefix("thread ") for each in alike[:4]) + (", …" if len(alike) > 4 else "")
    )
    call = alike[0].call
    runs = f", running {printable(call.name)}" if call is not None and alike[0].loop else ""
    return f"{what} {names}{runs}" if len(alike) == 1 else f"{len(alike)} × {what}{runs} ({names})"


def _users(stack: Stack) -> list[StackFrame]:
    """The frames that are not sundog's; none where a worker waits for work in the standard library."""
    if stack.call is None and stack.frames:
        outer = [frame for frame in stack.frames if frame.ours]
        if outer and outer[0].file.endswith(_IDLE_FILES):
            return []
    return [frame for frame in stack.frames if not frame.ours]


def _stack_lines(stack: Stack, everything: bool) -> Iterable[str]:
    """The frames, the most recent call first; those of sundog in a row are one line."""
    if stack.waits_for:
        yield f"    waits for {printable(stack.waits_for)}"
    folded: list[StackFrame] = []
    frames = stack.frames
    if not everything:
        # Leave out the frames that run a call or start a thread.
        while frames and (frames[-1].ours or _begins_thread(frames[-1])):
            frames = frames[:-1]
    for frame in frames:
        if frame.ours and not everything:
            folded.append(frame)
            continue
        yield from _folded(folded)
        folded = []
        yield _frame_line(frame)
    yield from _folded(folded)
    if stack.omitted:
        yield f"    … {stack.omitted} frames in the middle are left out"


def _begins_thread(frame: StackFrame) -> bool:
    return frame.file.endswith("threading.py") and frame.function.startswith(
        ("Thread.run", "Thread._bootstrap")
    )


def _folded(frames: Sequence[StackFrame]) -> Iterable[str]:
    if frames:
        name = frames[-1].function  # what the user's code called
        more = f", {len(frames) - 1} frames deeper" if len(frames) > 1 else ""
        yield f"    [sundog] {name}{more}"


def _frame_line(frame: StackFrame) -> str:
    source = linecache.getline(frame.file, frame.line).strip()[:_SOURCE_MAX]
    text = f"    {frame.function} ({frame.file}:{frame.line})"
    return printable(f"{text}  {source}" if source else text)


def _span(ages: Sequence[float]) -> str:
    from sundog.observe.words import in_words

    low, high = in_words(max(0.0, min(ages))), in_words(max(0.0, max(ages)))
    return low if low == high else f"{low} to {high}"


def as_dict(seen: SeenProcess) -> JsonObject:
    """One process as JSON can hold it."""
    wall_s = time.time()
    row: JsonObject = {**seen.who._asdict(), "how": seen.how, "note": seen.note, "stopped": seen.stopped}
    row["running"] = [call._asdict() | {"for_s": wall_s - call.start_s} for call in seen.calls]
    stacks = [*seen.stacks.threads, *seen.stacks.tasks] if seen.stacks is not None else []
    row["stacks"] = [
        {
            "name": stack.name,
            "asyncio": stack.loop,
            "sundog": stack.ours,
            "task_id": stack.call.task_id if stack.call is not None else None,
            "waits_for": stack.waits_for or None,
            "frames": [frame._asdict() for frame in stack.frames],
            "omitted": stack.omitted,
        }
        for stack in stacks
    ]
    return row
