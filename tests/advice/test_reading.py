"""Reading: finding tasks by their numbers, folded ones too."""

from sundog.advice.reading import Finder
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
