"""Questions of the page: pages of lists, and answers that are shared."""

from __future__ import annotations

from pathlib import Path

from sundog.dashboard.source import FAILED, PageSource, Wanted, _where, page_of
from sundog.observe.sessions import Opened


def test_rows_are_filtered_by_every_word_sorted_and_cut() -> None:
    rows = [{"name": f"task {number}", "size": number % 5, "none": None} for number in range(20)]
    page = page_of(rows, Wanted(text="task 1", sort="size", first=1, most=3))
    assert page.total == 12  # a word is looked for in every column
    assert [row["size"] for row in page.rows] == [4, 3, 3]
    assert [row["size"] for row in page_of(rows, Wanted(sort="size", descending=False, most=4)).rows] == [
        0,
        0,
        0,
        0,
    ]


def test_values_of_different_kinds_can_be_sorted() -> None:
    rows: list[dict[str, object]] = [{"a": "x"}, {"a": None}, {"a": 3}, {}]
    assert [row.get("a") for row in page_of(rows, Wanted(sort="a", descending=False)).rows] == [
        None,
        None,
        3,
        "x",
    ]


def test_a_filter_never_becomes_part_of_the_question() -> None:
    where, values = _where(Wanted(text="x' OR 1=1 --", state=FAILED))
    assert "x'" not in where and "x'" in values
    assert where.count("?") == len(values)


def test_an_answer_is_shared_for_a_moment(tmp_path: Path) -> None:
    source = PageSource(Opened("s", str(tmp_path)))
    made = []

    def make() -> int:
        made.append(1)
        return len(made)

    assert [source._shared("x", make, 60.0) for _ in range(3)] == [1, 1, 1]
    assert source._shared("x", make, 0.0) == 2


def test_an_ended_session_answers_from_its_files(tmp_path: Path) -> None:
    source = PageSource(Opened("s", str(tmp_path)))
    assert source.activity().functions == []
    assert source.stacks() == [] and source.paused() == [] and source.memory() is None
    assert source.tasks(Wanted()).total == 0
    assert source.listing("actors", Wanted()).total == 0
    assert source.read_stream().total == 0
    assert isinstance(source.why("nobody"), str)
