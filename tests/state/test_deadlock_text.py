"""A deadlock in words: each link names the process, what it waits for, and why that cannot come."""

from __future__ import annotations

from sundog.state.deadlock_text import WaitingParty, compose, links
from sundog.state.wait_facts import (
    ARGUMENTS,
    CALL,
    LEASE,
    MAIN,
    Frame,
    Holder,
    Lack,
    Report,
    RunSlot,
    Shortage,
    TaskFact,
    Wait,
)
from sundog.state.wait_graph import Builder, World, cycle, knot, stuck

DRIVER, ONE, TWO = (bytes([number]) * 8 for number in range(1, 4))
PIDS = {DRIVER: WaitingParty(100), ONE: WaitingParty(101, "Left"), TWO: WaitingParty(102, "Right")}
FRAME = Frame("/home/me/x.py", 12, "ask")


def task(process: bytes, number: int) -> bytes:
    return process + number.to_bytes(8, "little")


def get(of: bytes, runs: bytes = b"", name: str = "f") -> Wait:
    return Wait(1, "get", runs, name, True, 1, (of + (1).to_bytes(4, "little"),), 3.0, (FRAME,))


def found(reports: dict[bytes, Report], world: World) -> list[dict[str, object]]:
    builder = Builder(reports, world)
    graph = builder.build()
    bad = stuck(graph)
    start = next(each for each in bad if each[0] == "wait")
    way = cycle(knot(graph, bad, start), start)
    first = next(number for number, each in enumerate(way) if each[0] == "wait")
    return links(builder, [*way[first:], *way[:first]], PIDS.__getitem__)


def two_actors() -> list[dict[str, object]]:
    """A method of Left waits for one of Right, which waits for another of Left."""
    left, right, back = task(DRIVER, 1), task(ONE, 1), task(TWO, 1)
    world = World(lambda owner, key: None, lambda actor: ("worker", {b"L": ONE, b"R": TWO}[actor]))
    reports = {
        ONE: Report(
            (get(right, left, "go"),),
            (RunSlot(MAIN, 1, (left,)),),
            tasks=((right, TaskFact(CALL, "help", actor=b"R")),),
        ),
        TWO: Report(
            (get(back, right, "help"),),
            (RunSlot(MAIN, 1, (right,)),),
            tasks=((back, TaskFact(CALL, "again", actor=b"L")),),
        ),
    }
    return found(reports, world)


def test_each_wait_of_a_cycle_is_one_link_with_its_process_and_stack() -> None:
    one, two = sorted(two_actors(), key=lambda each: str(each["pid"]))
    assert (one["pid"], one["name"], one["verb"]) == (101, "Left.go()", "get")
    assert (two["pid"], two["name"]) == (102, "Right.help()")
    assert one["stack"] == [("/home/me/x.py", 12, "ask")] and one["since_s"] == 3.0


def test_a_busy_actor_is_named_as_what_stands_in_the_way() -> None:
    whys = " ".join(str(each["why"]) for each in two_actors())
    assert "actor Left (pid 101) runs one call at a time, and Left.go() has not ended" in whys


def test_a_held_resource_is_named_with_its_holder() -> None:
    outer, inner = task(DRIVER, 1), task(ONE, 1)
    lack = Lack("GPU", 1.0, 10_000, (Holder("task", ONE, 10_000),))
    world = World(lambda owner, key: Shortage(((lack,),)), lambda actor: ("", b""))
    (link,) = found(
        {
            ONE: Report(
                (get(inner, outer),),
                (RunSlot(MAIN, 1, (outer,)),),
                tasks=((inner, TaskFact(LEASE, "g", key="shape")),),
            )
        },
        world,
    )
    assert "it cannot begin: it needs 1 GPU, and actor Left (pid 101) has 1 of it" in str(link["why"])


def test_a_missing_argument_is_named_with_the_task_that_makes_it() -> None:
    outer, inner, before = task(DRIVER, 1), task(ONE, 1), task(ONE, 2)
    (link,) = found(
        {
            ONE: Report(
                (get(inner, outer),),
                (RunSlot(MAIN, 1, (outer,)),),
                tasks=(
                    (inner, TaskFact(ARGUMENTS, "g", needs=(before + (1).to_bytes(4, "little"),))),
                    (before, TaskFact(ARGUMENTS, "h", needs=(outer + (1).to_bytes(4, "little"),))),
                ),
            )
        },
        World(lambda owner, key: None, lambda actor: ("", b"")),
    )
    assert "g() waits for its argument, the result of h()" in str(link["why"])


def link(name: str, why: str, task_id: str | None = "ab") -> dict[str, object]:
    return {
        "name": name, "task_id": task_id, "pid": 5, "verb": "get", "waits_for": "g()", "why": why, "since_s": 1.0,
        "stack": [("x.py", 3, "f")],
    }  # fmt: skip


def test_the_message_tells_the_cycle_the_line_and_the_next_command() -> None:
    text = compose([link("f()", "one; two"), link("g()", "")], lambda file, line: "    ray.get(x)\n")
    assert text.startswith("These 2 waits would never end")
    assert "  1. f(), pid 5: get() of g()\n     - one\n     - two\n  2. g()" in text
    assert '  File "x.py", line 3, in f\n    ray.get(x)' in text
    assert text.endswith("Why: sundog why ab")


def test_a_cycle_of_a_driver_alone_points_to_the_status() -> None:
    text = compose([link("the driver (pid 5)", "", None)], lambda file, line: "")
    assert text.startswith("This wait would never end") and text.endswith("See: sundog status")


def test_the_advice_fits_the_reason() -> None:
    def said(why: str) -> str:
        return compose([link("f()", why)], lambda file, line: "")

    assert "ask for less of it" in said("it cannot begin: it needs 1 GPU")
    assert "max_concurrency" in said("actor A runs one call at a time")
    assert "inside the task" in said("")
