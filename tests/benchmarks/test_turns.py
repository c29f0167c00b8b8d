"""The order of a benchmark run."""

from __future__ import annotations

from benchmarks.cases import Case
from benchmarks.sampling import Effort, Reading
from benchmarks.systems import System
from benchmarks.turns import HEADLINE, START_UP, plan

BOTH = frozenset({"tasks", "actors"})
FEATURES = {"sundog": BOTH, "ray": BOTH, "ppe": frozenset({"tasks"})}
SYSTEMS = ("sundog", "ray", "ppe")


def nothing(system: System, effort: Effort) -> list[Reading]:
    return []


def case(name: str, group: str, needs: str = "tasks", once: bool = False) -> Case:
    return Case(name, group, frozenset(needs.split()), nothing, once=once)


def test_systems_alternate_within_a_group_and_rotate_between_rounds() -> None:
    turns = plan([case("a", "g")], SYSTEMS, 2, start_up=False, one_group=False, features=FEATURES.__getitem__)
    assert [(t.round, t.system) for t in turns] == [
        (0, "sundog"),
        (0, "ray"),
        (0, "ppe"),
        (1, "ray"),
        (1, "ppe"),
        (1, "sundog"),
    ]


def test_a_system_gets_only_the_cases_that_exist_there() -> None:
    cases = [case("a", "g"), case("b", "g", "actors"), case("c", "h", "actors")]
    turns = plan(cases, SYSTEMS, 1, start_up=False, one_group=False, features=FEATURES.__getitem__)
    of_ppe = [t for t in turns if t.system == "ppe"]
    assert [[c.name for c in t.cases] for t in of_ppe] == [["a"]]


def test_start_up_comes_first_for_every_system_in_every_round() -> None:
    turns = plan([case("a", "g")], SYSTEMS, 2, start_up=True, one_group=False, features=FEATURES.__getitem__)
    assert [t.group for t in turns] == ([START_UP] * 3 + ["g"] * 3) * 2


def test_a_case_measured_once_is_due_in_the_first_round_only() -> None:
    cases = [case("a", "g"), case("long", "g", once=True)]
    turns = plan(cases, ("ray",), 2, start_up=False, one_group=False, features=FEATURES.__getitem__)
    assert [[c.name for c in t.cases] for t in turns] == [["a", "long"], ["a"]]


def test_in_one_group_the_sizes_come_first_because_a_cold_put_must_be_cold() -> None:
    cases = [case("a", "tasks"), case("cold", "sizes"), case("b", "actors")]
    (turn,) = plan(cases, ("ray",), 1, start_up=False, one_group=True, features=FEATURES.__getitem__)
    assert turn.group == HEADLINE
    assert [c.name for c in turn.cases] == ["cold", "a", "b"]
