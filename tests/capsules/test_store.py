"""Which capsule a word means."""

from __future__ import annotations

from pathlib import Path

from sundog.capsules import capture, store
from sundog.capsules.rows import Outcome
from tests.capsules.made import HEADER, contents


def test_a_word_is_an_id_its_beginning_or_a_function_and_the_newest_comes_first(tmp_path: Path) -> None:
    for number, (task, name) in enumerate([("aa11", "f"), ("aa22", "g"), ("bb33", "f")]):
        header = HEADER._replace(task_id=task, name=name, function=name, made_s=float(number))
        capture.keep(str(tmp_path), header, contents(), 1 << 20, 10)
    (tmp_path / "capsules" / "broken.capsule").write_bytes(b"nothing")

    def found(word: str) -> list[str]:
        return [each.header.task_id for each in store.find([str(tmp_path)], word)]

    assert found("") == ["bb33", "aa22", "aa11"] and found("f") == ["bb33", "aa11"]
    assert found("aa22") == ["aa22"] and found("aa") == ["aa22", "aa11"] and found("zz") == []
    assert store.capsules_of(str(tmp_path / "nowhere")) == []


def test_a_task_of_that_name_comes_before_one_that_ran_the_function_under_another(tmp_path: Path) -> None:
    for number, name in enumerate(["split", "renamed"]):
        header = HEADER._replace(task_id=f"aa{number}", name=name, function="split", made_s=float(number))
        capture.keep(str(tmp_path), header, contents(), 1 << 20, 10)
    assert [each.header.name for each in store.find([str(tmp_path)], "split")] == ["split", "renamed"]


def test_without_a_word_the_last_failure_is_meant_and_not_a_later_success(tmp_path: Path) -> None:
    for number, outcome in enumerate([Outcome("ValueError", "no"), Outcome(text="3")]):
        header = HEADER._replace(task_id=f"aa{number}", outcome=outcome, made_s=float(number))
        capture.keep(str(tmp_path), header, contents(), 1 << 20, 10)
    assert [each.header.task_id for each in store.find([str(tmp_path)], "")] == ["aa0", "aa1"]
