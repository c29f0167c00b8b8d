"""Moves of a random program with tasks under bounds: of time, of memory, of an environment, of a placement group.

Each is one step of one program, in its thread. A move that reserves resources gives them back before it ends, and in
between waits for nothing but what runs in them: otherwise two programs could wait for each other.
"""

from __future__ import annotations

from typing import Any

import sundog
from sundog.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from sundog.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from tests.chaos import bodies
from tests.chaos.contents import SMALL, content, mixed
from tests.chaos.model import Actor, Entry
from tests.chaos.program import MISSING, Program, Unanswered, Violation

_FLAVOURS = ["sweet", "sour"]
_CAP_BYTES = 60_000_000
_AMPLE_S = 120.0


def run_late(program: Program) -> None:
    """A task that sleeps for ever ends by its `timeout_s`, whether it listens or not; a quick one does not notice."""
    if program.chance(0.5):
        row = program.task_row(None)
        row.value, row.timeout_s = content(row.mark, SMALL), _AMPLE_S
        bound = bodies.make.options(**program.options(row), timeout_s=row.timeout_s)
        program.hold(row, bound.remote(program.folder, row.mark, row.fate, SMALL))
        return
    row = _row(program, retries=program.dice.choice([0, 2, -1]))
    row.timeout_s, row.late = program.dice.choice([0.05, 0.3]), True
    bound = bodies.oversleep.options(max_retries=row.retries, timeout_s=row.timeout_s)
    row.ref = bound.remote(program.folder, row.mark, program.chance(0.2))
    _ends_in_error(program, row)


def queue_late(program: Program) -> None:
    """A task that is not begun in time raises, and is never begun: one that cannot begin, and one that just might."""
    row = _row(program, retries=-1)
    if program.chance(0.4):
        never = _row(program, retries=-1)
        never.cancelled = True
        never.ref = bodies.sleep_long.options(max_retries=-1).remote(program.folder, never.mark, 0)
        row.queue_timeout_s = 0.1
        bound = bodies.mix.options(max_retries=-1, queue_timeout_s=row.queue_timeout_s)
        row.ref = bound.remote(program.folder, row.mark, bodies.Fate(), SMALL, never.ref)
        _ends_in_error(program, row)
        sundog.cancel(never.ref)
        _ends_in_error(program, never)
        return
    row.value, row.queue_timeout_s = content(row.mark, SMALL), program.dice.choice([0.001, 0.01, 0.1])
    bound = bodies.make.options(max_retries=-1, queue_timeout_s=row.queue_timeout_s)
    program.hold(row, bound.remote(program.folder, row.mark, bodies.Fate(), SMALL))


def outgrow(program: Program) -> None:
    """A task that passes the memory it asked for ends by that."""
    row = _row(program, retries=program.dice.choice([0, 1]))
    row.outgrows = True
    bound = bodies.grow.options(max_retries=row.retries, memory=_CAP_BYTES, enforce_memory=True)
    row.ref = bound.remote(program.folder, row.mark, 3 * _CAP_BYTES)
    _ends_in_error(program, row)


def in_environment(program: Program) -> None:
    """A task sees the variables of its runtime environment."""
    flavour = program.dice.choice(_FLAVOURS)
    row = program.task_row(None)
    row.value = content(f"{row.mark}:{flavour}", SMALL)
    environment = {"env_vars": {"CHAOS_FLAVOUR": flavour}}
    bound = bodies.taste.options(**program.options(row), runtime_env=environment)
    program.hold(row, bound.remote(program.folder, row.mark, row.fate, SMALL))


def grouped(program: Program) -> None:
    """Tasks and an actor in a placement group, which may be removed under them."""
    bundles: list[dict[str, float]] = program.dice.choice([[{"CPU": 1}], [{"CPU": 0.5}, {"CPU": 0.5}]])
    group = placement_group(bundles, strategy=program.dice.choice(["PACK", "SPREAD"]))
    try:
        program.patiently(lambda patience_s: _placed(group, patience_s), lambda: f"a group of {bundles}")
        strategy = PlacementGroupSchedulingStrategy(group)
        rows = [_in_group(program, strategy) for _ in range(program.dice.randint(1, 5))]
        calls = _actor_in_group(program, strategy) if program.chance(0.4) else []
        if program.chance(0.5):
            for row in [*rows, *calls]:
                row.group_removed = True
                if row.actor is not None:
                    row.actor.ended = True
            remove_placement_group(group)
        for row in [*rows, *calls]:
            program.read(row)
            row.ref = None
            if row.actor is not None:
                row.actor.handle = None
    finally:
        remove_placement_group(group)


def _placed(group: PlacementGroup, patience_s: float) -> None:
    if not group.wait(patience_s):
        raise Unanswered


def _in_group(program: Program, strategy: Any) -> Entry:
    size = program.size()
    row = program.task_row(None)
    row.value = content(row.mark, size)
    bound = bodies.make.options(**program.options(row), scheduling_strategy=strategy)
    row.ref = bound.remote(program.folder, row.mark, row.fate, size)
    row.object_id = row.ref.binary()
    return row


def _actor_in_group(program: Program, strategy: Any) -> list[Entry]:
    key = program.mark()
    bound = bodies.AsyncMaker.options(max_restarts=-1, max_task_retries=-1, scheduling_strategy=strategy)
    actor = Actor(key, bound.remote(program.folder, key), "async", -1, -1)
    program.all_actors.append(actor)
    rows = []
    for _ in range(3):
        mark = program.mark()
        ref = actor.handle.make.remote(mark, SMALL)
        row = Entry("call", mark, content(mixed(mark, []), SMALL), ref, retries=-1, actor=actor)
        row.object_id, row.since = ref.binary(), program.acts.next_number
        rows.append(row)
    return rows


def _row(program: Program, retries: int) -> Entry:
    row = Entry("task", program.mark(), retries=retries, since=program.acts.next_number)
    program.tasks.append(row)
    return row


def _ends_in_error(program: Program, row: Entry) -> None:
    row.object_id = row.ref.binary()
    if program.read(row) is not MISSING:
        raise Violation(f"a task that cannot end well gave a value: {row}")
    row.ref = None
