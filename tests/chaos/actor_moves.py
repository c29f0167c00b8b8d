"""Moves of a random program with actors: create, call in order, lend refs, kill, let go.

Each is one step of one program, in its thread. A program calls its actors from one thread, so the order of its
calls is the order in which they must run.
"""

from __future__ import annotations

import time
from typing import Any

import sundog
from tests.chaos import bodies
from tests.chaos.contents import SMALL, content, mixed
from tests.chaos.model import Actor, Entry
from tests.chaos.program import MISSING, Program, Violation
from tests.chaos.truth import deaths

_CLASSES: dict[str, Any] = {
    "ledger": bodies.Ledger,
    "async": bodies.AsyncMaker,
    "threaded": bodies.ThreadedMaker,
    "grouped": bodies.GroupedMaker,
}
_ACTORS_MAX = 3


def create(program: Program) -> None:
    """An actor, with some allowance of restarts and retries."""
    if len(program.actors) >= _ACTORS_MAX:
        return
    kind = program.dice.choice(["ledger", "ledger", "async", "threaded", "grouped"])
    key = program.mark()
    restarts = program.dice.choice([0, 1, 3, -1, -1])
    retries = program.dice.choice([0, 0, 2, -1]) if restarts else 0
    bound = _CLASSES[kind].options(max_restarts=restarts, max_task_retries=retries)
    actor = Actor(key, bound.remote(program.folder, key), kind, restarts, retries)
    program.actors.append(actor)
    program.all_actors.append(actor)


def count(program: Program) -> None:
    """Calls in a row to a ledger, read in any order: each says who served it as which of its life."""
    actor = _one(program, "ledger")
    if actor is None:
        return
    entries = []
    for _ in range(program.dice.choice([1, 5, 40])):
        actor.numbers += 1
        nap_s = program.dice.choice([0, 0, 0, 0.01])
        entries.append(_row(program, actor, actor.handle.add.remote(actor.numbers, nap_s)))
        entries[-1].number = actor.numbers
    program.dice.shuffle(entries)
    for entry in entries:
        found = program.read(entry)
        if found is not MISSING:
            _check_count(program, actor, entry, found)
        entry.ref = None


def _check_count(program: Program, actor: Actor, entry: Entry, found: tuple[int, int, bool]) -> None:
    pid, place, later_life = found
    lines = [line.split() for line in program.acts.lines(f"{actor.key}.calls")]
    numbers = [int(number) for served_by, number in lines if int(served_by) == pid]
    if numbers[place - 1 : place] != [entry.number]:
        raise Violation(
            f"call {entry.number} of actor {actor.key} says it was number {place} in {pid}, of {numbers}"
        )
    lives = [int(line) for line in program.acts.lines(f"{actor.key}.lives")]
    died = deaths(actor, program.acts) or program.acts.overtaken()
    if later_life != (lives.index(pid) > 0) and not (later_life and died):
        raise Violation(f"actor {actor.key} in {pid}, of {lives}, was told reconstructed={later_life}")


def make(program: Program) -> None:
    """Calls that make values from other objects."""
    actor = _one(program)
    if actor is None:
        return
    for _ in range(program.dice.choice([1, 1, 4])):
        parents = [parent for parent in program.some(program.dice.choice([0, 1])) if parent.value is not None]
        mark, size = program.mark(), program.size()
        method = actor.handle.make
        if actor.kind == "grouped":
            method = method.options(concurrency_group=program.dice.choice(["few", "many"]))
        ref = method.remote(mark, size, *(parent.ref for parent in parents))
        entry = _row(program, actor, ref)
        entry.mark, entry.parents = mark, parents
        entry.value = content(mixed(mark, [parent.value for parent in parents]), size)
        program.entries.append(entry)


def cancel_call(program: Program) -> None:
    """Cancel a call: of a quick one either comes, of an endless one of an event loop only the cancel."""
    actor = _one(program)
    if actor is None:
        return
    mark = program.mark()
    endless = actor.kind == "async" and program.chance(0.5)
    ref = actor.handle.doze.remote(mark) if endless else actor.handle.make.remote(mark, SMALL)
    entry = _row(program, actor, ref)
    entry.mark, entry.cancelled = mark, True
    entry.value = None if endless else content(mixed(mark, []), SMALL)
    if endless and program.chance(0.5):
        deadline = time.monotonic() + 0.3
        while time.monotonic() < deadline and not program.acts.runs(mark):
            time.sleep(0.002)
    sundog.cancel(ref)
    if program.read(entry) is not MISSING and endless:
        raise Violation(f"a call that dozes for ever gave a value: {entry}")


def lend(program: Program) -> None:
    """An actor keeps a ref beyond the call that brought it."""
    actor = _one(program, "ledger")
    entries = [entry for entry in program.some() if entry.value is not None]
    if actor is None or not entries:
        return
    name = program.mark()
    actor.handle.keep.remote(name, [entries[0].ref])
    actor.kept[name] = entries[0]


def read_lent(program: Program) -> None:
    """An actor reads what it keeps: the value; nothing, in a life after the one that got it."""
    actor = _one(program, "ledger")
    if actor is None or not actor.kept:
        return
    name = program.dice.choice(list(actor.kept))
    entry = _row(program, actor, actor.handle.read.remote(name), actor.kept[name])
    entry.holds = actor.kept[name].value
    found = program.read(entry)
    if found is None:
        _excuse(program, actor, f"forgot {name}")
    elif found is not MISSING:
        entry.value = actor.kept[name].value
        program.accept(entry, found)


def take_back(program: Program) -> None:
    """An actor gives a ref back, which may be the last there is."""
    actor = _one(program, "ledger")
    if actor is None or not actor.kept:
        return
    name = program.dice.choice(list(actor.kept))
    found = program.read(_row(program, actor, actor.handle.give.remote(name), actor.kept[name]))
    if found is None:
        _excuse(program, actor, f"forgot {name}")
    elif found is not MISSING:
        entry = actor.kept[name]
        if found[0].binary() != entry.object_id:
            raise Violation(f"actor {actor.key} gave {found[0].hex()} for {entry.object_id.hex()}")
        if entry.ref is None:
            program.hold(entry, found[0])
    if program.chance(0.5):
        actor.handle.drop.remote(name)
        del actor.kept[name]


def kill(program: Program) -> None:
    """The program kills an actor, for good or for another life."""
    actor = _one(program)
    if actor is None or not program.chance(0.4):
        return
    for_good = program.chance(0.5)
    if for_good or actor.max_restarts == 0:
        actor.ended = True
        program.actors.remove(actor)
    else:
        actor.kicked += 1
    sundog.kill(actor.handle, no_restart=for_good)


def let_go(program: Program) -> None:
    """The last handle goes; calls on their way are served all the same."""
    actor = _one(program)
    if actor is not None and not actor.detached and program.chance(0.5):
        program.actors.remove(actor)
        actor.handle = None


def _one(program: Program, kind: str = "") -> Actor | None:
    found = [actor for actor in program.actors if not kind or actor.kind == kind]
    return program.dice.choice(found) if found else None


def _row(program: Program, actor: Actor, ref: Any, parent: Entry | None = None) -> Entry:
    return Entry(
        "call",
        f"{actor.key}.call",
        None,
        ref,
        parents=[parent] if parent is not None else [],
        retries=actor.max_task_retries,
        actor=actor,
        object_id=ref.binary(),
        since=program.acts.next_number,
    )


def _excuse(program: Program, actor: Actor, what: str) -> None:
    if not deaths(actor, program.acts):
        raise Violation(f"actor {actor.key} {what}, though it never died")
