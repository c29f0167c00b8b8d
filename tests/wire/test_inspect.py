"""What a user asked to see of a task: sent along only if something was asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sundog.options import parse_task_options
from sundog.wire import inspect
from sundog.wire.inspect import Inspect, inspect_of


@pytest.fixture(autouse=True)
def _measure_nothing_afterwards() -> Iterator[None]:
    yield
    inspect.measure_everything("")


def test_plain_options_send_nothing_along() -> None:
    assert inspect_of(parse_task_options({"num_cpus": 2})) is None


@pytest.mark.parametrize(
    ("option", "row"),
    [
        ({"post_mortem": True}, Inspect(post_mortem=True)),
        ({"capsule": True}, Inspect(capsule=True)),
        ({"profile": "cpu"}, Inspect(profile="cpu")),
    ],
)
def test_each_option_is_sent_along(option: dict[str, object], row: Inspect) -> None:
    assert inspect_of(parse_task_options(option)) == row


def test_a_process_that_measures_everything_marks_each_task_as_one_of_many() -> None:
    inspect.measure_everything("wall")
    assert inspect_of(parse_task_options({})) == Inspect(profile=f"{inspect.ALL}wall")


def test_a_profile_of_the_tasks_own_comes_before_that_of_everything() -> None:
    inspect.measure_everything("wall")
    assert inspect_of(parse_task_options({"profile": "memory"})) == Inspect(profile="memory")


def test_measuring_everything_ends_with_an_empty_name() -> None:
    inspect.measure_everything("cpu")
    inspect.measure_everything("")
    assert inspect_of(parse_task_options({})) is None
