"""Moves of a random program with objects: put, read, pass on in containers, keep views, wait, drop.

Each is one step of one program, in its thread.
"""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import numpy as np

import sundog
from tests.chaos import bodies
from tests.chaos.contents import content
from tests.chaos.model import Entry
from tests.chaos.program import MISSING, Program, Unanswered, Violation


def put(program: Program) -> None:
    """An object of the driver's."""
    mark, size = program.mark(), program.size()
    value = content(mark, size)
    program.hold(Entry("put", mark, value), sundog.put(value))


def read(program: Program) -> None:
    """Read one; keep a view of it, perhaps beyond its ref."""
    for entry in program.some():
        found = program.read(entry)
        if isinstance(found, np.ndarray) and program.chance(0.3):
            program.views.append((found, entry.value))
            if program.chance(0.5):
                program.drop(entry)


def read_many(program: Program) -> None:
    """One get of several refs gives all values in order, or the error of one of them."""
    entries = program.some(8)
    if not entries:
        return
    program.report.counts["reads"] += 1
    try:
        found = program.patiently(
            lambda patience_s: sundog.get([entry.ref for entry in entries], timeout=patience_s),
            lambda: f"a get of {len(entries)} refs",
        )
    except sundog.exceptions.RayError as error:
        # Whose error it is cannot be told from here: it must be true of one of them.
        program.judge(Entry("many", "", parents=entries), error)
    else:
        for entry, value in zip(entries, found, strict=True):
            program.accept(entry, value)


def read_impatiently(program: Program) -> None:
    """A get with a short timeout gives what a get gives, or times out."""
    for entry in program.some():
        try:
            found = sundog.get(entry.ref, timeout=program.dice.choice([0, 0.001, 0.02]))
        except sundog.exceptions.GetTimeoutError:
            continue
        except sundog.exceptions.RayError as error:
            program.judge(entry, error)
        else:
            program.accept(entry, found)


def await_some(program: Program) -> None:
    """Refs can be awaited in an event loop of the program's own."""
    entries = program.some(4)

    async def gather(patience_s: float) -> list[Any]:
        waiting = asyncio.gather(*(_awaited(entry.ref) for entry in entries), return_exceptions=True)
        try:
            return await asyncio.wait_for(waiting, patience_s)
        except TimeoutError as error:
            raise Unanswered from error

    results = program.patiently(
        lambda patience_s: asyncio.run(gather(patience_s)), lambda: f"{len(entries)} refs that were awaited"
    )
    for entry, found in zip(entries, results, strict=True):
        program.report.counts["reads"] += 1
        if isinstance(found, BaseException):
            program.judge(entry, found)
        else:
            program.accept(entry, found)


async def _awaited(ref: Any) -> Any:
    return await ref


def wait(program: Program) -> None:
    """`wait` parts its refs in two, keeps their order, and gives as many as were asked for."""
    refs = [entry.ref for entry in program.some(6)]
    if not refs:
        return
    count = program.dice.randint(1, len(refs))
    fetch_local = program.chance(0.7)

    def ask(patience_s: float) -> tuple[list[Any], list[Any]]:
        found = sundog.wait(refs, num_returns=count, timeout=patience_s, fetch_local=fetch_local)
        if len(found[0]) < count:
            raise Unanswered
        return found

    ready, pending = program.patiently(ask, lambda: f"a wait for {count} of {len(refs)} refs")
    if len(ready) != count:
        raise Violation(f"wait for {count} of {len(refs)} refs gave {len(ready)}")
    order = [ref for ref in refs if ref in ready], [ref for ref in refs if ref in pending]
    if order != (ready, pending) or len(ready) + len(pending) != len(refs):
        raise Violation(f"wait gave {ready} and {pending} of {refs}")


def drop(program: Program) -> None:
    """Forget refs."""
    for entry in program.some(program.dice.choice([1, 1, 4])):
        program.drop(entry)


def look_back(program: Program) -> None:
    """Views kept so far still hold what they held; then let some go."""
    program.check_views()
    del program.views[: len(program.views) // 2]


def nest_in_put(program: Program) -> None:
    """A ref lives on inside another object, while the program has no other."""
    for entry in program.some():
        outer = sundog.put({"inside": [entry.ref]})
        entry.ref = None
        gc.collect()
        found = sundog.get(outer)["inside"][0]  # a put of ours needs nobody's answer
        _same_ref(entry, found)
        entry.ref = found


def hand_on(program: Program) -> None:
    """A ref goes through a task in a container, and comes back as the same object."""
    for entry in program.some():
        row = program.task_row(None)
        bound = bodies.hand_on.options(**program.options(row))
        program.hold(row, bound.remote(program.folder, row.mark, row.fate, {"inside": [entry.ref]}))
        found = program.read(row)
        if found is not MISSING:
            _same_ref(entry, found["inside"][0])
            entry.ref = found["inside"][0]
        if program.chance(0.7):
            program.drop(row)


def put_in_worker(program: Program) -> None:
    """An object that a worker owns, and that ends with it."""
    size = program.size()
    row = program.task_row(None)
    bound = bodies.put_inside.options(**program.options(row))
    program.hold(row, bound.remote(program.folder, row.mark, row.fate, size))
    found = program.read(row)
    if found is not MISSING:
        pid, (ref,) = found
        program.hold(Entry("put", row.mark, content(row.mark, size), owner_pid=pid), ref)
    if program.chance(0.7):
        program.drop(row)


def _same_ref(entry: Entry, found: Any) -> None:
    if found.binary() != entry.object_id:
        raise Violation(f"ref {entry.object_id.hex()} came back as {found.hex()}")
