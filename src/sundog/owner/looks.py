"""Answers of this process to commands that look at it: stacks, pulse, references, retention paths (`wire/looks.py`).

Owns the table from question to answer. Each answer is made by a short thread of its own: the thread that reads the
sockets may be the one to be looked at, and goes on meanwhile. Loaded with the first question. Runs in drivers and
workers.
"""

from __future__ import annotations

import _thread
from collections.abc import Callable
from typing import TYPE_CHECKING

from sundog.owner.awaits import awaited_objects
from sundog.owner.stacks import stacks_here
from sundog.wire import looks
from sundog.wire.control import Look, Looked

if TYPE_CHECKING:
    from sundog.owner.core import Owner


def answer(owner: Owner, message: Look) -> None:
    """Begin to answer (locked: the reader calls this)."""
    try:
        _thread.start_new_thread(_answer, (owner, message))
    except RuntimeError:
        _answer(owner, message)  # the system allows no more threads, so answer in this thread


def _answer(owner: Owner, message: Look) -> None:
    try:
        row = _ANSWERS[message.question](owner, *message.arguments)
    except Exception as error:
        row = f"{type(error).__name__}: {error}"  # the text takes the place of the answer and is shown
    with owner.lock:
        if owner.closed is None:
            owner.control.send(Looked(message.token, row))


def _stacks(owner: Owner) -> looks.ProcessStacks:
    return stacks_here(owner.call_of, awaited_objects(owner.objects))


def _pulse(owner: Owner) -> looks.Pulse:
    from sundog.owner.pulse import pulse

    return pulse(owner)


def _memory(owner: Owner, most: int) -> looks.MemoryReport:
    from sundog.owner.holdings import report

    return report(owner, most)


def _retention(owner: Owner, names: tuple[str, ...]) -> list[looks.Retention]:
    from sundog.owner.retention import explain

    exported = {oid.hex(): exporter for oid, exporter in owner.segments.viewed().items()}
    return explain(names, exported, owner.actor_here and owner.actor_here())


def _cancel(owner: Owner, task_id: str, force: bool) -> str:
    """Cancel one of our tasks for a user at a terminal; says why if there is nothing to cancel."""
    from sundog.owner.rows import DONE

    with owner.lock:
        task = owner.table.get(bytes.fromhex(task_id))
        if task is None or task.state == DONE:
            return "it has ended already"
        owner.cancels.cancel_task(task, force=force, recursive=True)
    return ""


_ANSWERS: dict[str, Callable[..., object]] = {
    looks.STACKS: _stacks,
    looks.PULSE: _pulse,
    looks.MEMORY: _memory,
    looks.RETENTION: _retention,
    looks.CANCEL: _cancel,
}
