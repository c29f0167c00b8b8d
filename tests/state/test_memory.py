"""Whom the memory monitor ends: pure decisions, and a simulated machine that must never be filled."""

from __future__ import annotations

import random

import pytest

from sundog.state import memory
from sundog.state.memory import ASK, FREEZE, HELPLESS, THAW, Candidate, End, Monitor, Retire, choose

GB = 1 << 30
MB = 1 << 20


def task(name: str, at: float, own: int = 100 * MB, **facts: bool) -> Candidate:
    return Candidate(name.encode(), own, at, **facts)


def above(monitor: Monitor, now: float) -> list[memory.MemoryInstruction]:
    return monitor.look(99 * GB, 100 * GB, now)


def below(monitor: Monitor, now: float) -> list[memory.MemoryInstruction]:
    return monitor.look(50 * GB, 100 * GB, now)


def test_below_the_threshold_nothing_happens() -> None:
    monitor = Monitor(0.95)
    assert below(monitor, 0.0) == []
    assert monitor.state == memory.CALM


def test_above_it_everything_is_stopped_before_anybody_is_chosen() -> None:
    monitor = Monitor(0.95)
    assert above(monitor, 0.0) == [FREEZE, ASK]
    assert above(monitor, 0.1) == [], "one question at a time"


def test_idle_workers_go_first_and_all_together() -> None:
    monitor = Monitor(0.95)
    above(monitor, 0.0)
    idle = [task("i1", 0, idle=True), task("i2", 0, idle=True), task("small", 0, own=MB, idle=True)]
    assert monitor.told([*idle, task("busy", 5)], 95 * GB, 0.0) == [Retire((b"i1", b"i2"))]


def test_an_idle_worker_that_does_not_go_is_passed_over() -> None:
    monitor = Monitor(0.95)
    above(monitor, 0.0)
    candidates = [task("i1", 0, idle=True), task("busy", 5), task("other", 4)]
    monitor.told(candidates, 95 * GB, 0.0)
    assert above(monitor, 0.1) == []
    assert above(monitor, 0.3) == [ASK], "and what is stopped stays so"
    (end,) = monitor.told(candidates, 95 * GB, 0.3)
    assert isinstance(end, End) and end.worker == b"busy"


def test_what_can_be_tried_again_goes_before_what_cannot_though_it_is_older() -> None:
    end = choose([task("precious", 9, retriable=False), task("cheap", 1), task("cheaper", 2)], 95 * GB)
    assert end.worker == b"cheaper"
    assert "last of the 2 tasks (of 3) that can be tried again" in end.why


def test_the_most_recently_started_goes_when_nothing_can_be_tried_again() -> None:
    end = choose([task("a", 1, retriable=False), task("b", 2, retriable=False)], 95 * GB)
    assert end.worker == b"b"
    assert "last of the 2 running tasks, of which none can" in end.why


def test_one_at_a_time_and_the_next_only_when_the_last_is_dead() -> None:
    monitor = Monitor(0.95)
    above(monitor, 0.0)
    monitor.told([task("a", 1), task("b", 2)], 95 * GB, 0.0)
    assert above(monitor, 1.0) == []
    assert not monitor.died(b"someone else")
    assert monitor.died(b"b")
    assert above(monitor, 1.0) == []  # what it held may still be counted for a moment
    assert above(monitor, 1.0 + memory.SETTLING_S) == [ASK]


def test_one_that_the_kernel_cannot_end_does_not_stand_in_the_way_for_ever() -> None:
    monitor = Monitor(0.95)
    above(monitor, 0.0)
    monitor.told([task("a", 1), task("stuck", 2)], 95 * GB, 0.0)
    assert above(monitor, memory.ENDING_PATIENCE_S) == [ASK]
    (end,) = monitor.told([task("a", 1), task("stuck", 2)], 95 * GB, 3.0)
    assert isinstance(end, End) and end.worker == b"a"


def test_what_was_stopped_goes_on_as_soon_as_there_is_room() -> None:
    monitor = Monitor(0.95)
    above(monitor, 0.0)
    monitor.told([task("a", 1), task("b", 2)], 95 * GB, 0.0)
    monitor.died(b"b")
    assert below(monitor, 0.1) == [THAW]
    assert below(monitor, 0.2) == []


def test_with_nothing_to_end_it_says_so_and_does_not_ask_at_every_look() -> None:
    monitor = Monitor(0.95)
    above(monitor, 0.0)
    assert monitor.told([], 95 * GB, 0.0) == [THAW, HELPLESS]
    assert above(monitor, 0.5) == []
    assert above(monitor, memory.HELPLESS_S) == [FREEZE, ASK]


@pytest.mark.parametrize(
    ("others", "own", "retry"),
    [
        ([task("other", 0)], 60 * GB, memory.FREE),
        ([], 10 * GB, memory.COUNTED),
        ([], 60 * GB, memory.NEVER),
        ([task("actor", 0, lasting=True, retriable=False)], 10 * GB, memory.COUNTED),
        ([task("blocked parent", 0, lasting=True)], 60 * GB, memory.NEVER),
    ],
    ids=[
        "others will end",
        "alone but small",
        "alone and large",
        "an actor never ends",
        "its parent waits for it",
    ],
)
def test_a_task_is_tried_again_for_free_only_while_others_can_make_room(
    others: list[Candidate], own: int, retry: str
) -> None:
    assert choose([task("victim", 9, own=own), *others], 95 * GB).retry == retry


def test_the_limit_leaves_room_to_act_in_a_small_control_group() -> None:
    assert Monitor(0.95).limit(100 * GB) == 95 * GB
    assert Monitor(0.95).limit(512 * MB) == 448 * MB
    assert Monitor(0.95).limit(128 * MB) == 96 * MB
    assert Monitor(1.0).limit(128 * MB) == 128 * MB, "asked for no limit"
    assert Monitor(0.95, min_free_bytes=GB).limit(100 * GB) == 99 * GB
    assert Monitor(0.95, min_free_bytes=50 * GB).limit(100 * GB) == 95 * GB


def test_random_allocations_never_fill_the_machine_and_all_tasks_end(seeds: range) -> None:
    """Tasks grow at the speed of two cores, the monitor looks when it says it will; who is ended gives back slowly."""
    for seed in seeds:
        _play(random.Random(seed))


def _play(dice: random.Random) -> None:
    total, fill = 2 * GB, 8e9
    monitor = Monitor(0.95)
    waiting = [dice.randint(50, 700) * MB for _ in range(20)]
    running: dict[bytes, list[float]] = {}  # name → [own, goal, started, seconds to hold]
    dying: dict[
        bytes, tuple[float, float, float]
    ] = {}  # name → when it was ended, when it is gone, what it held
    now, numbers, look_at, slots = 0.0, 0, 0.0, dice.randint(1, 20)
    step = 0.002
    while waiting or running or dying:
        now += step
        assert now < 600, "it does not end"
        for name in [name for name, (_, gone, _) in dying.items() if gone <= now]:
            del dying[name]
            if monitor.died(name):
                look_at = now
        if not monitor.frozen:
            while waiting and len(running) < slots:
                numbers += 1
                running[str(numbers).encode()] = [0.0, waiting.pop(), now, dice.random() * 0.2]
            busy = [row for row in running.values() if row[0] < row[1]]
            for row in busy:
                row[0] = min(row[1], row[0] + fill * step / len(busy))
            for name in [name for name, row in running.items() if row[0] >= row[1]]:
                running[name][3] -= step
                if running[name][3] <= 0:
                    del running[name]
        leaving = sum(held * (gone - now) / (gone - ended) for ended, gone, held in dying.values())
        used = int(sum(row[0] for row in running.values()) + leaving)
        assert used < total, "the kernel would have acted"
        if now >= look_at:
            steps = monitor.look(used, total, now)
            if ASK in steps:
                steps = monitor.told(
                    [Candidate(n, int(r[0]), r[2]) for n, r in running.items()], monitor.limit(total), now
                )
            for each in steps:
                if isinstance(each, End):
                    assert not dying, "what the last one holds is still on its way"
                    own, goal, _, _ = running.pop(each.worker)
                    dying[each.worker] = (now, now + dice.choice((0.02, 0.2)), own)
                    waiting.append(int(goal))
                    slots = max(1, slots - 1)  # as admission would
            free = max(0, monitor.limit(total) - used)
            look_at = now + (0.01 if monitor.frozen else memory.next_look_s(free, 0.25, fill))


def test_memory_that_a_dead_process_gives_back_late_costs_no_second_one() -> None:
    monitor = Monitor(0.95)
    above(monitor, 0.0)
    monitor.told([task("cheap", 1), task("precious", 2, retriable=False)], 95 * GB, 0.0)
    assert monitor.died(b"cheap")
    assert above(monitor, 0.01) == []
    assert below(monitor, 0.05) == [THAW]


def test_room_for_a_moment_while_a_process_still_leaves_costs_no_second_one() -> None:
    monitor = Monitor(0.95)
    above(monitor, 0.0)
    running = [task("cheap", 1, own=70 * GB), task("precious", 2, retriable=False)]
    (end,) = monitor.told(running, 95 * GB, 0.0)
    assert isinstance(end, End) and end.worker == b"cheap"
    assert below(monitor, 0.01) == [THAW]  # a part of it is free already
    assert above(monitor, 0.02) == [FREEZE], "taken by the other, but most is yet to come"
    assert above(monitor, 0.03) == []
    assert monitor.died(b"cheap")
    assert above(monitor, 0.04) == []
    assert monitor.look(29 * GB, 100 * GB, 0.05) == [THAW]
    assert above(monitor, 0.06) == [FREEZE, ASK], "all of it came, and that was not enough"


def test_when_what_was_ended_is_free_and_not_enough_the_next_is_sought_at_once() -> None:
    monitor = Monitor(0.95)
    above(monitor, 0.0)
    monitor.told([task("a", 1, own=2 * GB), task("b", 2, own=2 * GB)], 95 * GB, 0.0)
    assert monitor.died(b"b")
    assert monitor.look(99 * GB - GB // 2, 100 * GB, 0.01) == [], "most of it is still counted"
    assert monitor.look(97 * GB, 100 * GB, 0.02) == [ASK]
