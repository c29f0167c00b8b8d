"""The search for deadlocks: whom it asks, when it believes, and what it says."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sundog.state.deadlock_text import WaitingParty, compose
from sundog.state.inquiry import ANSWER_S, CONFIRM_S, LAST_PAUSE_S, Ask, Break, Search, Surroundings
from sundog.state.wait_facts import CALL, Frame, Holder, Lack, Report, Shortage, TaskFact
from sundog.state.wait_graph import World
from tests.state.test_wait_graph import DRIVER, ONE, THREE, TWO, actors_in_a_ring, get, running, task


class Play:
    """A search among processes whose answers the test sets; time passes only when it says so."""

    def __init__(
        self, reports: Mapping[bytes, Report], world: World, everyone: frozenset[bytes] = frozenset()
    ) -> None:
        self.reports = dict(reports)
        self.search = Search(
            Surroundings(world, lambda: everyone, lambda process: WaitingParty(process[0], ""))
        )
        self.now = 0.0
        self.asked: list[bytes] = []
        self.silent: set[bytes] = set()

    def stall(self, *processes: bytes) -> None:
        for process in processes:
            self.search.on_stalled(process, 1, self.now)

    def run(self, seconds: float) -> list[Break]:
        """Let time pass; what the search wants broken."""
        broken: list[Break] = []
        until = self.now + seconds
        while (due := self.search.next_in_s(self.now)) is not None and self.now + due <= until:
            self.now += due
            todo = self.search.tick(self.now)
            while todo:
                step = todo.pop(0)
                if isinstance(step, Break):
                    broken.append(step)
                    report = self.reports[step.process]
                    left = tuple(wait for wait in report.waits if wait.serial != step.serial)
                    self.reports[step.process] = report._replace(waits=left)
                    continue
                self.asked.append(step.process)
                if step.process not in self.silent:
                    todo += self.answer(step)
        self.now = until
        return broken

    def answer(self, ask: Ask) -> list[Ask | Break]:
        report = self.reports.get(ask.process, Report())
        return self.search.on_told(ask.process, ask.number, report, self.now)


def test_nobody_is_asked_while_nobody_stalls() -> None:
    play = Play(*actors_in_a_ring(2))
    assert play.run(100) == [] and play.asked == []


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_ring_of_waits_is_broken_once_at_the_wait_that_came_last(size: int) -> None:
    reports, world = actors_in_a_ring(size)
    reports = {
        process: report._replace(waits=(report.waits[0]._replace(since_s=float(number)),))
        for number, (process, report) in enumerate(reports.items())
    }
    play = Play(reports, world)
    play.stall(*reports)
    broken = play.run(2 * CONFIRM_S)
    assert [(each.process, each.serial) for each in broken] == [(list(reports)[-1], 1)]
    assert len(broken[0].links) == size


def test_a_wait_for_what_runs_already_is_not_the_one_that_closed_the_circle() -> None:
    """ONE asks TWO, whose answer needs ONE again; by the clocks ONE came to its get last, for its thread was slow."""
    first, second, third = task(DRIVER, 1), task(ONE, 1), task(TWO, 1)
    play = Play(
        {
            ONE: running(
                first, get(second, first, since_s=9.0), tasks=((second, TaskFact(CALL, "g", actor=TWO)),)
            ),
            TWO: running(
                second, get(third, second, since_s=1.0), tasks=((third, TaskFact(CALL, "h", actor=ONE)),)
            ),
        },
        World(lambda owner, key: None, lambda actor: ("worker", actor)),
    )
    play.stall(ONE, TWO)
    assert [each.process for each in play.run(2 * CONFIRM_S)] == [TWO]


def test_one_round_is_not_enough() -> None:
    play = Play(*actors_in_a_ring(2))
    play.stall(*play.reports)
    assert play.run(CONFIRM_S) == []
    assert play.run(CONFIRM_S)


def test_a_wait_that_ended_and_began_again_between_the_rounds_is_not_believed_yet() -> None:
    play = Play(*actors_in_a_ring(2))
    play.stall(*play.reports)
    assert play.run(CONFIRM_S) == []
    process, report = next(iter(play.reports.items()))
    play.reports[process] = report._replace(waits=(report.waits[0]._replace(serial=2),))
    assert play.run(CONFIRM_S) == []
    assert play.run(CONFIRM_S)


def test_a_process_that_does_not_answer_counts_as_one_that_goes_on() -> None:
    play = Play(*actors_in_a_ring(2))
    play.silent = {next(iter(play.reports))}
    play.stall(*play.reports)
    assert play.run(10 * ANSWER_S) == []
    play.silent = set()
    assert play.run(2 * LAST_PAUSE_S), "and it is asked again"


def test_the_owner_of_a_task_is_asked_where_it_is() -> None:
    """ONE waits for a task of TWO's, which is a call of actor ONE."""
    runs, call = task(DRIVER, 1), task(TWO, 1)
    play = Play(
        {
            ONE: running(runs, get(call, runs)),
            TWO: Report((), tasks=((call, TaskFact(CALL, "g", actor=ONE)),)),
        },
        World(lambda owner, key: None, lambda actor: ("worker", actor)),
    )
    play.stall(ONE)
    broken = play.run(2 * CONFIRM_S)
    assert TWO in play.asked and [each.process for each in broken] == [ONE]


def test_an_idle_holder_has_everybody_asked_and_one_who_is_awake_ends_the_suspicion() -> None:
    child = task(DRIVER, 1)
    shortage = Shortage(((Lack("CPU", 1.0, 1, (Holder("group", b"g" * 16, 1),)),),))
    driver = Report((get(child),), tasks=((child, TaskFact("lease", "f", key=1)),))
    world = World(lambda owner, key: shortage, lambda actor: ("", b""))
    play = Play({DRIVER: driver, THREE: running(task(DRIVER, 7))}, world, frozenset({DRIVER, THREE}))
    play.stall(DRIVER)
    assert play.run(5) == [] and THREE in play.asked
    play.reports[THREE] = Report((), (running(b"").slots[0]._replace(running=()),))
    assert [each.process for each in play.run(2 * LAST_PAUSE_S)] == [DRIVER]


def test_the_death_of_a_process_voids_a_round_and_its_suspicions() -> None:
    play = Play(*actors_in_a_ring(2))
    play.stall(*play.reports)
    assert play.run(CONFIRM_S) == []
    gone = next(iter(play.reports))
    play.search.on_gone(gone)
    del play.reports[gone]
    assert play.run(5) == []


def test_a_long_honest_wait_is_looked_at_less_and_less_often() -> None:
    child = task(DRIVER, 1)
    play = Play({DRIVER: Report((get(child),))}, World(lambda owner, key: None, lambda actor: ("", b"")))
    play.stall(DRIVER)
    play.run(3600)
    assert 60 < len(play.asked) < 2 * 3600 / LAST_PAUSE_S + 20


def test_late_and_unknown_answers_change_nothing() -> None:
    play = Play(*actors_in_a_ring(1))
    assert play.search.on_told(ONE, 7, Report(), 0.0) == []
    play.stall(*play.reports)
    assert play.search.on_told(next(iter(play.reports)), 7, Report(), 0.0) == []
    assert play.run(2 * CONFIRM_S)


def test_the_text_names_each_wait_its_reason_and_its_stack() -> None:
    reports, world = actors_in_a_ring(2)
    process, report = next(iter(reports.items()))
    reports[process] = report._replace(
        waits=(report.waits[0]._replace(stack=(Frame("program.py", 7, "body"),), since_s=5.0),)
    )
    play = Play(reports, world)
    play.stall(*reports)
    (broken,) = play.run(2 * CONFIRM_S)
    text = compose(broken.links, lambda file, line: f"line {line} of {file}")
    assert "These 2 waits would never end" in text
    assert "runs one call at a time" in text
    assert 'File "program.py", line 7, in body\n    line 7 of program.py' in text
    assert broken.links[0]["stack"] == [("program.py", 7, "body")]
