"""Moves of a random program with tasks: from values, refs and nothing, nested, in bursts, as streams, cancelled.

Each is one step of one program, in its thread.
"""

from __future__ import annotations

import time
from typing import Any

import sundog
from tests.chaos import bodies
from tests.chaos.bodies import Fate
from tests.chaos.contents import SMALL, content, mixed
from tests.chaos.model import Entry
from tests.chaos.program import MISSING, Program, Violation


def make(program: Program) -> None:
    """A task without arguments of weight."""
    size = program.size()
    row = program.task_row(None)
    row.value = content(row.mark, size)
    body = program.dice.choice([bodies.make, bodies.make, bodies.make_few])
    bound = body.options(**program.options(row))
    program.hold(row, bound.remote(program.folder, row.mark, row.fate, size))


def mix(program: Program) -> None:
    """A task of other objects, which arrive as values; perhaps with a large argument by value too."""
    parents = program.some(program.dice.choice([1, 1, 2, 3]))
    parents = [parent for parent in parents if parent.value is not None]
    size = program.size()
    row = program.task_row(None, parents)
    extra = [content(program.mark(), program.size())] if program.chance(0.3) else []
    row.value = content(mixed(row.mark, [*(parent.value for parent in parents), *extra]), size)
    row.argument = extra[0] if extra else None
    bound = bodies.mix.options(**program.options(row))
    refs = [parent.ref for parent in parents]
    program.hold(row, bound.remote(program.folder, row.mark, row.fate, size, *refs, *extra))


def read_elsewhere(program: Program) -> None:
    """A task of other objects, which arrive as refs."""
    parents = [parent for parent in program.some(4) if parent.value is not None]
    size = program.size()
    row = program.task_row(None, parents)
    # What its parents raised it raises too, and would do so for ever.
    row.retry_exceptions = False
    row.value = content(mixed(row.mark, [parent.value for parent in parents]), size)
    bound = bodies.read_inside.options(**program.options(row))
    refs = [parent.ref for parent in parents]
    program.hold(row, bound.remote(program.folder, row.mark, row.fate, size, refs))


def nest(program: Program) -> None:
    """A task that submits tasks, and waits for them."""
    size, count, depth = program.size(), program.dice.randint(1, 3), program.dice.choice([1, 1, 2])
    row = program.task_row(None)
    row.value = bodies.nested(row.mark, size, count, depth)
    bound = bodies.nest.options(**program.options(row))
    program.hold(row, bound.remote(program.folder, row.mark, row.fate, size, count, depth))


def fan_out(program: Program) -> None:
    """A task that returns refs to what it submitted: they end with its worker."""
    parents = [parent for parent in program.some() if parent.value is not None]
    if not parents:
        return
    size, count = program.size(), program.dice.randint(1, 3)
    row = program.task_row(None)
    bound = bodies.fan_out.options(**program.options(row))
    box = [parents[0].ref]
    program.hold(row, bound.remote(program.folder, row.mark, row.fate, size, box, count))
    found = program.read(row)
    if found is not MISSING:
        pid, refs = found
        for number, ref in enumerate(refs):
            mark = f"{row.mark}.{number}"
            value = content(mixed(mark, [parents[0].value]), size)
            since = program.acts.next_number
            child = Entry("task", mark, value, parents=parents, retries=-1, owner_pid=pid, since=since)
            program.hold(child, ref)
    program.drop(row)


def several(program: Program) -> None:
    """A task with three results."""
    size = program.size()
    row = program.task_row(None)
    bound = bodies.several.options(**program.options(row))
    refs = bound.remote(program.folder, row.mark, row.fate, size)
    for number, ref in enumerate(refs):
        entry = Entry(
            "task",
            row.mark,
            content(f"{row.mark}:{number}", size),
            retries=row.retries,
            retry_exceptions=row.retry_exceptions,
            fate=row.fate,
            since=row.since,
        )
        program.hold(entry, ref)


def burst(program: Program) -> None:
    """Many quick tasks at once, so that packets are filled, prefetched and stolen; all are read."""
    retries = program.dice.choice([-1, -1, 3, 0])
    rows = []
    bound = bodies.make.options(max_retries=retries)
    for _ in range(program.dice.choice([20, 60, 200])):
        mark = program.mark()
        row = Entry("task", mark, content(mark, SMALL), retries=retries, since=program.acts.next_number)
        row.ref = bound.remote(program.folder, mark, Fate(), SMALL)
        row.object_id = row.ref.binary()
        rows.append(row)
    program.tasks.extend(rows)
    program.dice.shuffle(rows)
    for row in rows:
        program.read(row)
        row.ref = None


def stream(program: Program) -> None:
    """A generator: read to its end; dropped, closed or cancelled in the middle; or never read."""
    size, count = program.size(), program.dice.randint(1, 8)
    row = program.task_row(None)
    row.kind = "item"
    unread: dict[str, Any] = {"_generator_backpressure_num_objects": 2} if program.chance(0.3) else {}
    bound = bodies.stream.options(**program.options(row), **unread)
    items = bound.remote(program.folder, row.mark, row.fate, size, count)
    enough = program.dice.choice([count + 1, count + 1, count // 2, 0])
    for number in range(enough):
        try:
            ref = next(items)
        except StopIteration:
            if number != count:
                raise Violation(f"a stream of {count} ended after {number} items: {row}") from None
            return
        if number == count:
            # One more than it gives can only be the error that ended it.
            if _read_item(program, row, ref, None) is not MISSING:
                raise Violation(f"a stream of {count} gave another: {row}")
            return
        if _read_item(program, row, ref, content(f"{row.mark}:{number}", size)) is MISSING:
            return
    if enough < count:
        row.cancelled = True
        ending = program.dice.choice(["drop", "close", "cancel"])
        if ending == "close":
            items.close()
        elif ending == "cancel":
            sundog.cancel(items)
            for entry in program.entries:
                if entry.mark == row.mark:
                    entry.cancelled = True  # what it has given cannot be made again


def _read_item(program: Program, row: Entry, ref: Any, expected: Any) -> Any:
    entry = Entry(
        "item",
        row.mark,
        expected,
        ref,
        retries=row.retries,
        retry_exceptions=row.retry_exceptions,
        fate=row.fate,
        since=row.since,
        object_id=ref.binary(),
    )
    found = program.read(entry)
    if found is not MISSING and program.chance(0.3):
        program.entries.append(entry)
    return found


def cancel(program: Program) -> None:
    """Cancel whatever there is: it ends so, or had ended before."""
    tasks = [entry for entry in program.entries if entry.kind == "task" and not entry.fragile]
    if tasks:
        entry = program.dice.choice(tasks)
        force = program.chance(0.3)
        for each in program.entries:
            for relative in each.lineage():  # also one that only tasks hold by now
                if relative.mark == entry.mark:
                    relative.cancelled = True  # several results of one task
        sundog.cancel(entry.ref, force=force, recursive=program.chance(0.7))


def cancel_sleeper(program: Program) -> None:
    """A task that never ends, and its children, end by being cancelled: before, at or after their start."""
    depth = program.dice.choice([0, 0, 1])
    row = Entry("task", program.mark(), retries=-1, cancelled=True, since=program.acts.next_number)
    row.ref = bodies.sleep_long.options(max_retries=-1).remote(program.folder, row.mark, depth)
    row.object_id = row.ref.binary()
    deadline = time.monotonic() + program.dice.choice([0, 0.02, 0.3])
    while time.monotonic() < deadline and not program.acts.runs(row.mark):
        time.sleep(0.002)
    force = program.chance(0.3)
    sundog.cancel(row.ref, force=force, recursive=True)
    if program.read(row) is not MISSING:
        raise Violation(f"a task that sleeps for ever gave a value: {row}")
