"""A cycle of waits in words: which task waits where, for what, and why that cannot come.

Owns: the sentences of ``DeadlockError`` and its facts. Refuses: reading files; the lines of source that go with the
stacks are handed in by the process that raises.
``links`` runs in the node program, ``compose`` in the process whose get raises.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sundog.plain import NamedTuple
from sundog.state.wait_facts import BEHIND, Holder, Lack, Wait
from sundog.state.wait_graph import NOBODY, Builder, Vertex

if TYPE_CHECKING:
    from sundog.plain import JsonObject


class WaitingParty(NamedTuple):
    """A process as people know it."""

    pid: int
    actor: str = ""  # class of its actor


def links(
    builder: Builder, cycle: Sequence[Vertex], who: Callable[[bytes], WaitingParty]
) -> list[JsonObject]:
    """One dict for each wait of a cycle that begins with a wait: name, task_id, pid, waits_for, why, stack."""
    return [_link(builder, cycle, number, who) for number, each in enumerate(cycle) if each[0] == "wait"]


def _link(
    builder: Builder, cycle: Sequence[Vertex], number: int, who: Callable[[bytes], WaitingParty]
) -> JsonObject:
    vertex = cycle[number]
    wait = builder.waits[vertex]
    process: Any = vertex[1]
    segment: list[Vertex] = []
    for each in [*cycle[number + 1 :], *cycle[: number + 1]]:
        segment.append(each)
        if each[0] == "wait":
            break
    words = _Words(builder, who)
    return {
        "name": words.waiter(wait, process),
        "task_id": wait.runs.hex() or None,
        "pid": who(process).pid,
        "verb": wait.verb,
        "waits_for": words.task(segment[0]),
        "why": "; ".join(words.why(segment)),
        "since_s": wait.since_s,
        "stack": [tuple(frame) for frame in wait.stack],
    }


class _Words:
    def __init__(self, builder: Builder, who: Callable[[bytes], WaitingParty]) -> None:
        self.builder = builder
        self.who = who
        self.names = {task: fact.name for task, fact in builder.facts.items()}
        for wait in builder.waits.values():
            if wait.runs:
                self.names[wait.runs] = wait.name

    def waiter(self, wait: Wait, process: bytes) -> str:
        if wait.runs:
            return self.task(("task", wait.runs))
        return f"the driver (pid {self.who(process).pid})"

    def task(self, vertex: Vertex) -> str:
        task: Any = vertex[1]
        name = self.names.get(task) or f"task {task.hex()}"
        worker = self.builder.running.get(task, b"")
        fact = self.builder.facts.get(task)
        if fact is not None and fact.actor and not worker:
            worker = self.builder.world.actor_place(fact.actor)[1]
        actor = self.who(worker).actor if worker else ""
        return f"{actor}.{name}()" if actor and "." not in name else f"{name}()"

    def process(self, process: bytes) -> str:
        found = self.who(process)
        return f"actor {found.actor} (pid {found.pid})" if found.actor else f"pid {found.pid}"

    def why(self, segment: Sequence[Vertex]) -> list[str]:
        """What stands between a wait and the next one, link by link."""
        if len(segment) == 2:
            return [f"{self.task(segment[0])} runs in {self.process(segment[1][1])} and waits itself"]  # type: ignore[arg-type]
        words = []
        for here, following in itertools.pairwise(segment):
            words += self._step(here, following)
        return words

    def _step(self, here: Vertex, following: Vertex) -> list[str]:
        pair = (here[0], following[0])
        if pair == ("slot", "task"):
            return [f"it cannot begin: {self._slot(here, following)}"]
        if pair == ("task", "task"):
            fact = self.builder.facts[here[1]]  # type: ignore[index]
            if fact.where == BEHIND:
                return [f"{self.task(here)} comes after {self.task(following)} of the same caller"]
            return [f"{self.task(here)} waits for its argument, the result of {self.task(following)}"]
        if here[0] == "place" and following[0] == "holder":
            return [self._lack(here, following)]
        if following == NOBODY:
            return ["nothing of this session runs that could give it back"]
        return []

    def _slot(self, slot: Vertex, running: Vertex) -> str:
        process: Any = slot[1]
        found = next(each for each in self.builder.reports[process].slots if each.name == slot[2])
        many = "one call" if found.limit == 1 else f"{found.limit} calls"
        return f"{self.process(process)} runs {many} at a time, and {self.task(running)} has not ended"

    def _lack(self, place: Vertex, holder: Vertex) -> str:
        shortage = self.builder.shortages["lease", place[1], place[2]]
        number: Any = place[3]
        lacks = shortage.places[number]
        lack: Lack = next(
            each
            for each in lacks
            if any((found.kind, found.key) == (holder[1], holder[2]) for found in each.holders)
        )
        holders = dict.fromkeys(self._holder(each) for each in lack.holders)
        amount = f"{lack.asked:g} {lack.resource}"
        return f"it cannot begin: it needs {amount}, and {' and '.join(holders)} of it"

    def _holder(self, holder: Holder) -> str:
        units = f"{holder.units / 10_000:g}"
        if holder.kind == "group":
            return f"placement group {holder.key.hex()} has {units}"
        return f"{self.process(holder.key)} has {units}" if holder.key else f"a starting worker has {units}"


def compose(found: Sequence[JsonObject], source: Callable[[str, int], str]) -> str:
    """The message of the error: the cycle, what to do, and the stack of each member."""
    count = len(found)
    first = (
        "This wait would never end: it waits for a result that needs this wait to end first."
        if count == 1
        else f"These {count} waits would never end: each waits for the next, the last for the first."
    )
    lines = [first]
    for number, each in enumerate(found, 1):
        lines.append(
            f"  {number}. {each['name']}, pid {each['pid']}: {each['verb']}() of {each['waits_for']}"
        )
        lines += [f"     - {why}" for why in each["why"].split("; ") if why]
    lines.append(
        f"The {found[0]['verb']}() of {found[0]['name']} closed the cycle, so this call raises; the other waits "
        f"continue. {_advice(found)}"
    )
    for number, each in enumerate(found, 1):
        lines.append(f"Where {number}. waits, pid {each['pid']}:")
        for file, line, function in each["stack"]:
            lines.append(f'  File "{file}", line {line}, in {function}')
            text = source(file, line).strip()
            if text:
                lines.append(f"    {text}")
    tasks = [each["task_id"] for each in found if each["task_id"]]
    lines.append(f"Why: sundog why {tasks[0]}" if tasks else "See: sundog status")
    return "\n".join(lines)


def _advice(found: Sequence[JsonObject]) -> str:
    why = " ".join(each["why"] for each in found)
    if "it needs" in why:
        return "Do not wait while holding a resource that the other task needs, or ask for less of it."
    if "at a time" in why:
        return "Return the ref instead of waiting for it inside the call, or give the actor max_concurrency."
    return "Return the ref instead of waiting for it inside the task."
