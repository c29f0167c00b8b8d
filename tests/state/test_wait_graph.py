"""The graph of waits: what can still go on does, and what cannot is found, by example and at random."""

from __future__ import annotations

import random

from sundog.state.wait_facts import (
    ARGUMENTS,
    BEHIND,
    CALL,
    LEASE,
    MAIN,
    SENT,
    Holder,
    Lack,
    Report,
    RunSlot,
    Shortage,
    TaskFact,
    Wait,
)
from sundog.state.wait_graph import NOBODY, Builder, Clause, Graph, Vertex, World, cycle, knot, stuck

DRIVER, ONE, TWO, THREE = (bytes([number]) * 8 for number in range(1, 5))
NO_WORLD = World(lambda owner, key: None, lambda actor: ("", b""))


def task(process: bytes, number: int) -> bytes:
    return process + number.to_bytes(8, "little")


def result(of: bytes) -> bytes:
    return of + (1).to_bytes(4, "little")


def get(of: bytes, runs: bytes = b"", serial: int = 1, since_s: float = 0.0) -> Wait:
    return Wait(serial, "get", runs, f"t{runs[-8:].hex()[:2]}", True, 1, (result(of),), since_s)


def running(what: bytes, *waits: Wait, tasks: tuple[tuple[bytes, TaskFact], ...] = ()) -> Report:
    return Report(waits, (RunSlot(MAIN, 1, (what,)),), tasks=tasks)


def place(*clauses: tuple[int, list[tuple[str, int]]]) -> tuple[Clause, ...]:
    return tuple(Clause(needed, tuple(((name,), weight) for name, weight in of)) for needed, of in clauses)


def found_in(reports: dict[bytes, Report], world: World = NO_WORLD, everyone: bool = False) -> set[Vertex]:
    return stuck(Builder(reports, world, reports if everyone else ()).build())


# ---------------------------------------------------------------------- the reduction
def test_a_vertex_outside_the_graph_goes_on_and_all_that_wait_for_it() -> None:
    assert stuck({("a",): place((1, [("b", 1)])), ("b",): place((1, [("free", 1)]))}) == set()


def test_a_cycle_and_what_waits_for_it_never_go_on() -> None:
    graph: Graph = {
        ("a",): place((1, [("b", 1)])),
        ("b",): place((1, [("a", 1)])),
        ("c",): place((1, [("a", 1)])),
        ("d",): place((1, [("a", 1), ("free", 1)])),
    }
    assert stuck(graph) == {("a",), ("b",), ("c",)}


def test_every_clause_must_be_met_and_weights_add_up() -> None:
    graph: Graph = {
        ("a",): place((3, [("x", 2), ("b", 1)]), (1, [("y", 1)])),
        ("b",): place((1, [("a", 1)])),
        ("c",): place((3, [("x", 2), ("y", 1), ("b", 9)])),
    }
    assert stuck(graph) == {("a",), ("b",)}


def test_a_cycle_is_followed_from_what_waits_for_it_and_leaves_that_out() -> None:
    graph: Graph = {
        ("c",): place((1, [("a", 1)])),
        ("a",): place((1, [("b", 1)])),
        ("b",): place((1, [("a", 1)])),
    }
    never = stuck(graph)
    assert cycle(knot(graph, never, ("c",)), ("c",)) == [("a",), ("b",)]


def slowly_stuck(graph: Graph) -> set[Vertex]:
    """The same question, asked again and again until nothing changes."""
    never = set(graph)
    while True:
        kept = {
            vertex
            for vertex in never
            if any(
                sum(weight for child, weight in clause.of if child not in never) < clause.needed
                for clause in graph[vertex]
            )
        }
        if kept == never:
            return never
        never = kept


def test_random_graphs_are_reduced_as_by_brute_force_and_what_is_left_leads_to_cycles(seeds: range) -> None:
    left_over = 0
    for seed in range(50 * len(seeds)):
        dice = random.Random(seed)
        names: list[Vertex] = [(number,) for number in range(dice.randint(2, 9))]
        graph: Graph = {}
        for vertex in names[: dice.randint(1, len(names))]:
            clauses = []
            for _ in range(dice.choice([1, 1, 2])):
                children = tuple(
                    (each, dice.randint(1, 3)) for each in dice.sample(names, dice.randint(1, len(names)))
                )
                clauses.append(Clause(dice.randint(1, sum(weight for _, weight in children)), children))
            graph[vertex] = tuple(clauses)
        never = stuck(graph)
        assert never == slowly_stuck(graph), f"seed {seed}"
        for vertex in never:
            around = cycle(knot(graph, never, vertex), vertex)
            assert around, f"seed {seed}: {vertex} never goes on, but leads to no cycle"
            assert set(around) <= never
            left_over += 1
    assert left_over > 50, "the random graphs have no deadlocks in them"


# ---------------------------------------------------------------------- tasks and actors
def test_a_task_that_runs_and_waits_for_nothing_known_goes_on() -> None:
    child = task(DRIVER, 1)
    driver = Report((get(child),), tasks=((child, TaskFact(SENT, "f", worker=ONE)),))
    assert found_in({DRIVER: driver, ONE: running(child)}) == set()
    assert found_in({DRIVER: driver}) == set()


def actors_in_a_ring(size: int) -> tuple[dict[bytes, Report], World]:
    """Actor number n runs a call that waits for another call of actor n + 1."""
    workers = [bytes([50 + number]) * 8 for number in range(size)]
    reports = {}
    for number, worker in enumerate(workers):
        runs, calls = task(DRIVER, number + 1), task(worker, 1)
        fact = TaskFact(CALL, "g", actor=workers[(number + 1) % size])
        reports[worker] = running(runs, get(calls, runs), tasks=((calls, fact),))
    return reports, World(lambda owner, key: None, lambda actor: ("worker", actor))


def test_calls_of_sequential_actors_in_a_ring_never_end() -> None:
    for size in (1, 2, 5):
        reports, world = actors_in_a_ring(size)
        assert sum(vertex[0] == "wait" for vertex in found_in(reports, world)) == size


def test_one_actor_of_the_ring_with_room_for_another_call_lets_all_go_on() -> None:
    reports, world = actors_in_a_ring(3)
    worker, report = next(iter(reports.items()))
    reports[worker] = report._replace(
        slots=(RunSlot("", 2, report.slots[0].running),), queued=(), exclusive=False
    )
    assert found_in(reports, world) == set()


def test_a_threaded_actor_is_full_only_when_each_of_its_threads_waits_in_the_ring() -> None:
    reports, world = actors_in_a_ring(2)
    (one, report), (two, other) = reports.items()
    queued = other.tasks[0][0]
    second = task(DRIVER, 9)
    full = report._replace(
        waits=(*report.waits, get(task(one, 1), second, 2)),
        slots=(RunSlot("", 2, (report.slots[0].running[0], second)),),
        queued=((queued, ""),),
        exclusive=False,
    )
    assert found_in({one: full, two: other}, world)
    assert found_in({one: full._replace(waits=full.waits[:1]), two: other}, world) == set()


def test_a_wait_for_two_of_three_goes_on_when_two_can_come() -> None:
    runs, calls = task(DRIVER, 1), [task(ONE, number) for number in (1, 2, 3)]
    blocked = TaskFact(CALL, "g", actor=ONE)
    world = World(lambda owner, key: None, lambda actor: ("worker", actor))
    for stuck_calls, ends in ((1, True), (2, False)):
        wait = Wait(1, "wait", runs, "f", True, 2, tuple(result(call) for call in calls), 0.0)
        tasks = tuple((call, blocked) for call in calls[:stuck_calls])
        assert (found_in({ONE: running(runs, wait, tasks=tasks)}, world) == set()) is ends


def test_arguments_and_calls_made_later_stand_in_the_cycle_too() -> None:
    runs = task(DRIVER, 1)
    late, early, argument = task(ONE, 3), task(ONE, 2), task(ONE, 1)
    tasks = (
        (late, TaskFact(BEHIND, "late", ahead=early)),
        (early, TaskFact(ARGUMENTS, "early", needs=(result(argument),))),
        (argument, TaskFact(CALL, "me", actor=ONE)),
    )
    world = World(lambda owner, key: None, lambda actor: ("worker", actor))
    never = found_in({ONE: running(runs, get(late, runs), tasks=tasks)}, world)
    assert {("task", each) for each in (late, early, argument, runs)} <= never


def test_a_thread_beside_the_task_may_wait_without_holding_it_up() -> None:
    runs, call = task(DRIVER, 1), task(ONE, 1)
    world = World(lambda owner, key: None, lambda actor: ("worker", actor))
    beside = get(call, runs)._replace(holds_slot=False)
    assert (
        found_in({ONE: running(runs, beside, tasks=((call, TaskFact(CALL, "g", actor=ONE)),))}, world)
        == set()
    )


# ---------------------------------------------------------------------- resources
def short_of(*holders: Holder, short: int = 1) -> World:
    shortage = Shortage(((Lack("GPU", 1.0, short, holders),),))
    return World(lambda owner, key: shortage, lambda actor: ("lease", b""))


def nested(world: World) -> set[Vertex]:
    runs, child = task(DRIVER, 1), task(ONE, 1)
    report = running(runs, get(child, runs), tasks=((child, TaskFact(LEASE, "inner", key=1)),))
    return found_in({ONE: report}, world)


def test_a_task_that_waits_for_one_that_needs_what_it_holds_never_ends() -> None:
    assert nested(short_of(Holder("task", ONE, 1)))


def test_somebody_else_who_may_give_enough_back_lets_it_go_on() -> None:
    assert nested(short_of(Holder("task", ONE, 1), Holder("task", TWO, 1))) == set()
    assert nested(short_of(Holder("task", ONE, 1), Holder("task", TWO, 1), short=2))


def test_a_holder_that_is_not_known_yet_may_give_back() -> None:
    assert nested(short_of(Holder("task", b"", 1))) == set()


def test_an_idle_holder_is_no_deadlock_while_anybody_is_awake_who_could_remove_it() -> None:
    child = task(DRIVER, 1)
    driver = Report((get(child),), tasks=((child, TaskFact(LEASE, "f", key=1)),))
    idle = Report((), (RunSlot(MAIN, 1, ()),))
    for holder in (Holder("group", b"g" * 16, 1), Holder("actor", ONE, 1)):
        world = short_of(holder)
        reports = {DRIVER: driver, ONE: idle}
        assert NOBODY in found_in(reports, world, everyone=True)
        assert found_in(reports, world) == set()
        assert found_in({**reports, DRIVER: driver._replace(others=1)}, world, everyone=True) == set()
        assert found_in({**reports, TWO: running(task(DRIVER, 2))}, world, everyone=True) == set()
        assert found_in({**reports, THREE: Report()}, world, everyone=True) == set()


def test_what_was_sent_to_a_worker_that_then_blocked_needs_another_one() -> None:
    runs, child = task(DRIVER, 1), task(ONE, 1)
    report = running(runs, get(child, runs), tasks=((child, TaskFact(SENT, "inner", key=1, worker=ONE)),))
    assert found_in({ONE: report}, short_of(Holder("task", ONE, 1)))
    assert found_in({ONE: report}, NO_WORLD) == set()
