"""Reading: finding tasks by their numbers, folded ones too."""

from sundog.advice.reading import Finder, _further
from tests.advice.runs import Script


def test_a_task_is_found_by_its_number() -> None:
    script = Script()
    for _ in range(4):
        script.submit("a", 1.0)
    finder = Finder(script.nodes)
    found = finder.of(b"driver..", 2)
    assert found is not None
    assert found.key == 2
    assert finder.of(b"driver..", 9) is None
    assert finder.of(b"nobody..", 2) is None


def test_a_folded_task_is_found_by_any_of_its_numbers() -> None:
    script = Script()
    script.submit("a", 1.0, number=1, last_number=10, count=10)
    script.submit("a", 1.0, number=11, last_number=20, count=10)
    finder = Finder(script.nodes)
    found = finder.of(b"driver..", 15)
    assert found is not None
    assert found.key == 1
    assert [node.key for node in finder.between(b"driver..", 5, 12)] == [0, 1]


def test_makers_of_further_arguments_follow_at_the_same_distance_until_the_arguments_were_there() -> None:
    script = Script()
    for n in range(20):
        script.submit("part", 0.1, start_s=0.1 * n)
    finder = Finder(script.nodes)
    found = _further(finder, b"driver..", [0, 2, 4], 1.31)
    assert [node.key for node in found if node is not None] == [6, 8, 10, 12]


def test_a_task_whose_recorded_makers_ended_last_has_no_further_ones() -> None:
    script = Script()
    for n in range(20):
        script.submit("part", 0.1, start_s=0.1 * n)
    assert not _further(Finder(script.nodes), b"driver..", [0, 2, 4], 0.5)
    assert not _further(Finder(script.nodes), b"driver..", [0, 2, 3], 1.31)
