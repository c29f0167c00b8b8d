"""Large values passed by value again and again: told once, and only then."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from sundog.owner import by_value

LARGE = by_value.LARGE_BYTES


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    for each in (by_value._values, by_value._functions, by_value._told, by_value._numbers):
        each.clear()


def passed(name: str, value: object, times: int, **kwargs: object) -> None:
    for _ in range(times):
        by_value.note_arguments(name, (value,), dict(kwargs), 2 * LARGE)


def test_the_third_time_is_told_once_with_the_place(capsys: pytest.CaptureFixture[str]) -> None:
    array = np.zeros(LARGE)
    passed("resize", array, 2)
    assert capsys.readouterr().err == ""
    passed("resize", array, 5)
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "numpy.ndarray of 8.0 MiB was passed by value to resize 3 times" in told
    assert f"({__file__}:" in told and "put(value)" in told


@pytest.mark.parametrize("wrap", [lambda x: [x, 1], lambda x: {"x": x}, lambda x: (x,)])
def test_a_value_inside_a_small_container_is_seen(wrap: object, capsys: pytest.CaptureFixture[str]) -> None:
    array = np.zeros(LARGE)
    for _ in range(3):
        by_value.note_arguments("f", (), {"k": wrap(array)}, 2 * LARGE)  # type: ignore[operator]
    assert "passed by value to f 3 times" in capsys.readouterr().err


def test_other_values_other_functions_and_small_ones_are_no_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for _ in range(5):
        passed("f", np.zeros(LARGE), 1)
        passed("f", bytes(2 * LARGE), 1)
        by_value.note_arguments("f", (np.zeros(10),), {}, 2 * LARGE)
        by_value.note_arguments("f", (np.zeros(LARGE),), {}, 100)
    array = np.zeros(LARGE)
    for name in ("a", "b", "c"):
        passed(name, array, 2)
    assert capsys.readouterr().err == ""


def test_nothing_is_kept_alive_and_no_more_than_so_many_are_watched() -> None:
    arrays = [np.zeros(LARGE, dtype=np.int8) for _ in range(by_value._WATCHED_MAX + 5)]
    for array in arrays:
        passed("f", array, 1)
    assert len(by_value._values) == by_value._WATCHED_MAX
    del arrays, array
    assert not by_value._values


def test_a_large_function_is_told_at_its_third_definition_and_a_huge_one_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for _ in range(2):
        by_value.note_function("f", LARGE)
        by_value.note_function("small", 100)
    assert capsys.readouterr().err == ""
    by_value.note_function("f", LARGE)
    assert (
        "f has 1.0 MiB with what it captured from around it and was defined 3 times"
        in capsys.readouterr().err
    )
    by_value.note_function("g", by_value.HUGE_FUNCTION_BYTES)
    by_value.note_function("g", by_value.HUGE_FUNCTION_BYTES)
    assert capsys.readouterr().err.count("g has 9.5 MiB") == 1


def test_the_mark_is_of_the_largest_argument_whatever_else_is_passed() -> None:
    model = {"w": np.zeros(LARGE), "b": np.zeros(8)}
    marks = {by_value.likeness((model, np.full(2000, n)), {"step": n}) for n in range(3)}
    assert len(marks) == 1 and marks != {0.0}
    assert by_value.likeness(({"w": np.ones(LARGE)},), {}) not in marks

    class Model:
        def __init__(self) -> None:
            self.weights = [np.zeros(LARGE)]

    held = Model()
    assert by_value.likeness((held, 1), {}) == by_value.likeness((held, 2), {}) != 0.0
    assert by_value.likeness((1, "a"), {}) == 0.0


class Chunk:
    def __init__(self, x: object) -> None:
        self.x, self.number = x, 3


class Table:
    """Like a table of a library: it has a length, and what it holds is not to be looked at."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return self.rows


DATA = np.random.default_rng(0).random((40_000, 8))


@pytest.mark.parametrize(
    "make",
    [
        lambda n: {"x": DATA[n : n + 1000], "y": DATA[n : n + 1000, 0]},
        lambda n: (DATA[n : n + 1000], n),
        lambda n: Chunk(DATA[n : n + 1000]),
        lambda n: DATA[n : n + 1000].T,
        lambda n: [str(n + each) for each in range(5000)],
        lambda n: [{"row": each, "value": n + each} for each in range(2000)],
        lambda n: Table(5000),
        lambda n: np.zeros(5000),
        lambda n: {"image": np.zeros((50, 60))},
        lambda n: "".join(f"{n + each} " for each in range(2000)),
    ],
)
def test_chunks_that_are_made_for_one_call_each_are_other_values(make: Callable[[int], object]) -> None:
    marks = [by_value.likeness((make(n), "a"), {}) for n in range(0, 20_000, 1000)]
    assert len(set(marks)) == len(marks)


@pytest.mark.parametrize(
    "make",
    [
        lambda n: {"x": DATA, "number": n},
        lambda n: (DATA, n),
        lambda n: Chunk(DATA),
        lambda n: DATA[:30_000],
    ],
)
def test_a_value_in_a_container_that_is_made_for_one_call_is_the_same(make: Callable[[int], object]) -> None:
    assert len({by_value.likeness((make(n),), {}) for n in range(9)}) == 1


def test_an_object_of_a_library_is_the_same_as_long_as_it_lives() -> None:
    table = Table(5000)
    assert len({by_value.likeness((table, n), {}) for n in range(5)}) == 1
