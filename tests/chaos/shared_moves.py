"""Moves of a random program with what others share: actors by name, refs through three processes, other drivers.

Each is one step of one program, in its thread.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import sundog
from sundog.owner import context
from tests.chaos import bodies
from tests.chaos.contents import SMALL, content, mixed
from tests.chaos.model import Actor, Entry
from tests.chaos.program import MISSING, PATIENCE_S, Program, Violation
from tests.chaos.truth import deaths, has_kept

ROOT = Path(__file__).parents[2]


def create_named(program: Program) -> None:
    """An actor with a name, perhaps one that would outlive its driver; asked for twice, it is the same."""
    if any(actor.name for actor in program.actors):
        return
    key = program.mark()
    restarts = program.dice.choice([0, 3, -1])
    lifetime = program.dice.choice([None, "detached"])
    bound = bodies.Ledger.options(
        name=f"named-{key}",
        lifetime=lifetime,
        max_restarts=restarts,
        get_if_exists=program.chance(0.5),
    )
    actor = Actor(key, bound.remote(program.folder, key), "ledger", restarts, 0, name=f"named-{key}")
    actor.detached = lifetime == "detached"
    program.actors.append(actor)
    program.all_actors.append(actor)


def look_up(program: Program) -> None:
    """An actor found by its name is that actor, unless it is dead."""
    found = [actor for actor in program.actors if actor.name]
    if not found:
        return
    actor = program.dice.choice(found)
    try:
        if program.chance(0.5):
            handle = sundog.get_actor(actor.name)
        else:
            # A dead one's name is free: then this would be another actor, which notes a life of its own.
            if actor.max_restarts >= 0:
                return
            bound = bodies.Ledger.options(name=actor.name, get_if_exists=True)
            handle = bound.remote(program.folder, actor.key)
    except ValueError as error:
        if not _may_be_dead(program, actor):
            raise Violation(f"actor {actor.key} was not found, though it never died: {error}") from error
        return
    if handle._actor_id != actor.handle._actor_id and not _may_be_dead(program, actor):
        raise Violation(f"actor {actor.key} is {actor.handle!r}, but by its name {handle!r}")
    mark = program.mark()
    row = Entry("call", mark, content(mixed(mark, []), SMALL), handle.make.remote(mark, SMALL), actor=actor)
    row.object_id, row.since = row.ref.binary(), program.acts.next_number
    program.read(row)


def _may_be_dead(program: Program, actor: Actor) -> bool:
    return actor.ended or 0 <= actor.max_restarts < deaths(actor, program.acts)


def read_through(program: Program) -> None:
    """A task asks an actor for a ref that a third process owns, and reads it."""
    found = [actor for actor in program.actors if actor.kept]
    if not found:
        return
    actor = program.dice.choice(found)
    name = program.dice.choice(list(actor.kept))
    kept = actor.kept[name]
    # The call of the task may overtake the program's own that brings the ref: they have different callers.
    was_kept = has_kept(actor, name, program.acts)
    call = Entry("call", f"{actor.key}.call", retries=actor.max_task_retries, actor=actor)
    row = program.task_row(None, [kept, call])
    row.retry_exceptions = False  # what its parents raised it raises too, and would do so for ever
    size = program.size()
    row.holds = content(mixed(row.mark, [kept.value]), size)
    bound = bodies.read_through.options(**program.options(row))
    row.ref = bound.remote(program.folder, row.mark, row.fate, size, actor.handle, name)
    row.object_id = row.ref.binary()
    value = program.read(row)
    if value is None:
        if was_kept and not deaths(actor, program.acts):
            raise Violation(f"actor {actor.key} forgot {name}, though it never died")
    elif value is not MISSING:
        row.value = row.holds
        program.accept(row, value)
    row.ref = None


def receive(program: Program) -> None:
    """Another driver joins the session, and works there to its end, or is killed in the middle."""
    if program.guests:
        return
    program.guests += 1
    hasty = program.chance(0.4)
    guest = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.chaos.guest",
            context.facts.session["path"],
            program.folder,
            program.key,
        ],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        # Not `communicate`, which would close its input first; what it prints fits into the pipe.
        guest.wait(program.dice.uniform(0.5, 4.0) if hasty else 2 * PATIENCE_S)
    except subprocess.TimeoutExpired:
        guest.kill()
    text, _ = guest.communicate()
    if guest.returncode == -signal.SIGKILL:
        if not hasty:
            raise Violation(f"a second driver did not end in {2 * PATIENCE_S:.0f} s:\n{text}")
        program.report.kills["guest"] += "begun" in text
        return
    if guest.returncode != 0 and not program.acts.node_killed():
        raise Violation(f"a second driver ended with {guest.returncode}:\n{text}")
    program.report.counts["guests"] += 1
