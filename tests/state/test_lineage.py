"""The lineage machine: what stays, what is held, what runs again, and random histories against a plain model."""

from __future__ import annotations

import random

from sundog.ids import result_id, task_of
from sundog.state.lineage import EVICTED, FREED, Instruction, Lineage

ROOM = 1 << 30


def task(number: int) -> bytes:
    return b"owner---" + number.to_bytes(8, "little")


def result(number: int, index: int = 1) -> bytes:
    return result_id(task(number), index)


def put(number: int) -> bytes:
    return result_id(task(number), 0)


def nothing(oid: bytes) -> bool:
    return False


def keep(
    lineage: Lineage, number: int, needs: list[bytes] | None = None, size: int = 10, why_not: str = ""
) -> list[Instruction]:
    return lineage.keep(task(number), f"f{number}", [result(number)], needs or [], size, why_not)


def test_a_row_stays_while_its_result_is_referenced() -> None:
    lineage = Lineage(ROOM)
    keep(lineage, 1)
    assert lineage.can_make(result(1))
    assert lineage.freed(result(1)) == [("forget", task(1))]
    assert not lineage.rows and not lineage.bytes


def test_an_argument_keeps_its_lineage_and_not_its_value() -> None:
    lineage = Lineage(ROOM)
    keep(lineage, 1)
    assert keep(lineage, 2, [result(1)]) == []
    assert lineage.freed(result(1)) == []
    steps = lineage.plan(result(2), nothing).steps
    assert steps == ((task(1), frozenset([result(1)])), (task(2), frozenset([result(2)])))
    assert {what for _, what in lineage.freed(result(2))} == {task(1), task(2)}
    assert not lineage.rows


def test_what_no_task_can_make_is_held_and_dropped_again() -> None:
    lineage = Lineage(ROOM)
    assert keep(lineage, 2, [put(1)]) == [("hold", put(1))]
    assert ("drop", put(1)) in lineage.freed(result(2))


def test_the_result_of_a_task_that_may_not_run_again_is_held() -> None:
    lineage = Lineage(ROOM)
    keep(lineage, 1, why_not="max_retries=0")
    assert keep(lineage, 2, [result(1)]) == [("hold", result(1))]


def test_values_at_hand_are_not_made_again() -> None:
    lineage = Lineage(ROOM)
    keep(lineage, 1)
    keep(lineage, 2, [result(1)])
    plan = lineage.plan(result(2), lambda oid: oid == result(1))
    assert [step[0] for step in plan.steps] == [task(2)]


def test_a_diamond_runs_each_task_once_and_makers_first() -> None:
    lineage = Lineage(ROOM)
    keep(lineage, 1)
    keep(lineage, 2, [result(1)])
    keep(lineage, 3, [result(1)])
    keep(lineage, 4, [result(2), result(3)])
    order = [step[0] for step in lineage.plan(result(4), nothing).steps]
    assert sorted(order) == [task(n) for n in (1, 2, 3, 4)]
    assert order[0] == task(1) and order[-1] == task(4)


def test_a_plan_that_cannot_be_completed_shows_the_chain_and_runs_nothing() -> None:
    lineage = Lineage(ROOM)
    keep(lineage, 2, [put(1)])
    keep(lineage, 3, [result(2)])
    lineage.freed(result(2))
    plan = lineage.plan(result(3), nothing)
    assert not plan.steps
    assert plan.chain == (result(3), result(2), put(1))


def test_a_task_that_refuses_ends_the_plan_with_its_reason() -> None:
    lineage = Lineage(ROOM)
    keep(lineage, 1)
    plan = lineage.plan(result(1), nothing, lambda oid: "its actor is dead")
    assert (plan.chain, plan.why) == ((result(1),), "its actor is dead")


def test_one_result_that_may_not_be_made_ends_a_plan_that_wants_another_of_its_task() -> None:
    lineage = Lineage(ROOM)
    first, second = result(1), result(1, 2)
    lineage.keep(task(1), "pair", [first, second], [], 100)
    keep(lineage, 2, [first])
    keep(lineage, 3, [result(2), second])
    lineage.freed(result(2))
    lineage.freed(first)

    def refuses(oid: bytes) -> str:
        return FREED if oid == first else ""

    assert lineage.plan(second, nothing, refuses).steps == ((task(1), frozenset([second])),)
    plan = lineage.plan(result(3), nothing, refuses)
    assert (plan.chain, plan.why) == ((result(3), result(2), first), FREED)


def test_a_chain_of_a_hundred_thousand_tasks_is_planned_and_dropped() -> None:
    lineage = Lineage(ROOM)
    length = 100_000
    keep(lineage, 0)
    for number in range(1, length):
        keep(lineage, number, [result(number - 1)])
        lineage.freed(result(number - 1))
    steps = lineage.plan(result(length - 1), nothing).steps
    assert [step[0] for step in steps] == [task(number) for number in range(length)]
    lineage.freed(result(length - 1))
    assert not lineage.rows and not lineage.bytes


def test_beyond_its_bytes_the_oldest_row_is_emptied_and_says_so() -> None:
    lineage = Lineage(25)
    keep(lineage, 1, [put(9)])
    keep(lineage, 2)
    assert set(keep(lineage, 3)) == {("forget", task(1)), ("drop", put(9))}
    assert lineage.plan(result(1), nothing).why == EVICTED
    assert lineage.can_make(result(3)) and lineage.bytes == 20
    lineage.freed(result(1))
    assert task(1) not in lineage.rows


def test_a_task_that_ran_again_keeps_who_needs_it() -> None:
    lineage = Lineage(ROOM)
    keep(lineage, 1, [put(9)])
    keep(lineage, 2, [result(1)])
    lineage.freed(result(1))
    lineage.revived(result(1))
    steps = keep(lineage, 1, [put(9)])
    assert steps[0] == ("hold", put(9)) and ("drop", put(9)) in steps
    lineage.freed(result(1))
    assert lineage.can_make(result(1)), "task 2 still needs it"
    lineage.freed(result(2))
    assert not lineage.rows


def test_random_histories_leave_nothing_and_never_lose_a_way_back(seeds: range) -> None:
    for seed in seeds:
        _History(seed).run(300)


class _History:
    """Tasks that finish, results that are dropped, plans that are made; the model knows who refers to what."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.lineage = Lineage(self.dice.choice([ROOM, 400]))
        self.live: list[bytes] = []
        self.holds: dict[bytes, int] = {}
        self.kept: set[bytes] = set()
        self.count = 0

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.dice.choice([self.finish, self.finish, self.free, self.plan])()
            assert self.lineage.bytes <= self.lineage.max_bytes
            assert all(count > 0 for count in self.holds.values())
        while self.live:
            self.free()
        assert not self.lineage.rows and not self.holds and not self.kept and not self.lineage.bytes

    def do(self, steps: list[Instruction]) -> None:
        for kind, what in steps:
            if kind == "forget":
                self.kept.discard(what)
                continue
            left = self.holds.get(what, 0) + (1 if kind == "hold" else -1)
            assert left >= 0, "dropped what was not held"
            if left:
                self.holds[what] = left
            else:
                del self.holds[what]

    def finish(self) -> None:
        self.count += 1
        needs = self.dice.sample(self.live, min(len(self.live), self.dice.randrange(3)))
        needs += [put(self.count + 10**6)] * self.dice.randrange(2)
        self.do(
            keep(
                self.lineage, self.count, needs, self.dice.randrange(1, 60), self.dice.choice(["", "", "no"])
            )
        )
        if self.lineage.can_make(result(self.count)):
            self.kept.add(task(self.count))
        self.live.append(result(self.count))

    def free(self) -> None:
        if self.live:
            oid = self.live.pop(self.dice.randrange(len(self.live)))
            if oid not in self.holds:
                self.do(self.lineage.freed(oid))
            else:
                self.live.append(oid)  # a row holds it, so its value stays
                self.free_a_reader()

    def free_a_reader(self) -> None:
        loose = [oid for oid in self.live if oid not in self.holds]
        self.live.remove(oid := self.dice.choice(loose))
        self.do(self.lineage.freed(oid))

    def plan(self) -> None:
        if not self.live:
            return
        wanted = self.dice.choice(self.live)
        at_hand = {oid for oid in (*self.live, *self.holds) if oid != wanted}
        plan = self.lineage.plan(wanted, at_hand.__contains__)
        if plan.chain:
            assert plan.chain[0] == wanted and plan.why
            return
        done = set(at_hand)
        for task_id, results in plan.steps:
            assert task_id in self.kept
            assert all(need in done for need in self.lineage.needs_of(task_id)), "a maker came too late"
            done |= results
        assert wanted in done and task_of(wanted) == plan.steps[-1][0]
