"""What a worker does for a user who wants to see more: stops, capsules; never at the cost of the task."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sundog import notices
from sundog.capsules import store
from sundog.config import Config
from sundog.wire import lanes as wire
from sundog.wire.inspect import Inspect
from tests.worker.whole import WholeWorker, error_in, whole_worker


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[WholeWorker]:
    (tmp_path / "capsules").mkdir(mode=0o700)
    with whole_worker(tmp_path, Config(record_enabled=False)) as made:
        yield made


def broken(x: int) -> None:
    raise ValueError(f"no {x}")


def doubled(x: int) -> int:
    return 2 * x


def _stops(worker: WholeWorker) -> list[BaseException]:
    return worker.executor.breakpoints.stopped  # type: ignore[no-any-return]


def _kept(tmp_path: Path) -> list[Any]:
    return [found.header for found in store.capsules_of(str(tmp_path))]


def test_a_failure_leaves_a_capsule_with_its_outcome(worker: WholeWorker, tmp_path: Path) -> None:
    worker.run(worker.knows(broken), 3)
    [header] = _kept(tmp_path)
    assert (header.name, header.kind, header.outcome.error, header.outcome.text) == (
        "broken",
        "task",
        "ValueError",
        "no 3",
    )
    assert _stops(worker) == []


def test_a_task_that_asks_for_it_stops_at_its_exception(worker: WholeWorker) -> None:
    reply = worker.run(worker.knows(broken), 3, extra={wire.EXTRA_INSPECT: Inspect(post_mortem=True)})
    assert [str(error) for error in _stops(worker)] == ["no 3"]
    assert isinstance(error_in(reply), ValueError)  # the outcome is the same


def test_the_setting_stops_all_of_them(tmp_path: Path) -> None:
    config = Config(record_enabled=False, debug_post_mortem=True, capsule_on_failure=False)
    with whole_worker(tmp_path, config) as worker:
        worker.run(worker.knows(broken), 3)
        assert len(_stops(worker)) == 1 and _kept(tmp_path) == []


def test_a_debugger_that_cannot_start_is_told_and_the_task_fails_as_it_would_have(
    worker: WholeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(notices, "warn", told.append)

    class NoRoom:
        """No socket can be made."""

        def post_mortem(self, _error: BaseException) -> None:
            raise OSError("no descriptor is left")

    worker.executor.breakpoints = NoRoom()
    reply = worker.run(worker.knows(broken), 3, extra={wire.EXTRA_INSPECT: Inspect(post_mortem=True)})
    assert isinstance(error_in(reply), ValueError)
    assert told == ["broken() cannot be stopped at its exception: OSError: no descriptor is left"]


def test_functions_that_are_captured_leave_a_capsule_though_they_succeed(
    worker: WholeWorker, tmp_path: Path
) -> None:
    number = worker.knows(doubled)
    worker.executor.inspection.capture(("doubled",))
    assert pickle.loads(worker.run(number, 4)[2]) == 8
    [header] = _kept(tmp_path)
    assert (header.outcome.error, header.outcome.text, header.randomness) == ("", "8", True)
    worker.executor.inspection.capture(())
    worker.run(number, 5)
    assert len(_kept(tmp_path)) == 1 and "run" not in vars(worker.executor)


def test_something_may_be_called_before_each_task(worker: WholeWorker) -> None:
    called: list[bool] = []
    worker.executor.inspection.arm(lambda: called.append(True))
    number = worker.knows(doubled)
    worker.run(number, 1)
    worker.executor.inspection.arm(None)
    worker.run(number, 1)
    assert called == [True]


def test_a_cancel_and_the_end_of_an_actor_are_no_failures(worker: WholeWorker, tmp_path: Path) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    worker.run(worker.knows(interrupted))
    assert _kept(tmp_path) == []


def test_a_capsule_that_cannot_be_written_does_not_change_the_outcome(
    worker: WholeWorker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(worker.executor.inspection.capsules, "failed", full)
    assert isinstance(error_in(worker.run(worker.knows(broken), 3)), ValueError)


def test_the_exit_of_a_task_leaves_a_capsule(worker: WholeWorker, tmp_path: Path) -> None:
    def leaves() -> None:
        raise SystemExit(3)

    worker.executor.run(worker.lane, worker.item(worker.knows(leaves)))
    [header] = _kept(tmp_path)
    assert (header.outcome.error, header.outcome.text) == ("SystemExit", "3")


def test_a_run_that_is_captured_leaves_a_capsule_before_it_begins(
    worker: WholeWorker, tmp_path: Path
) -> None:
    def looks(folder: str, file: str) -> None:
        with open(file, "w") as out:
            out.writelines(found.header.outcome.error for found in store.capsules_of(folder))
        raise KeyboardInterrupt

    asked = {wire.EXTRA_INSPECT: Inspect(capsule=True)}
    worker.run(worker.knows(looks), str(tmp_path), str(tmp_path / "seen"), extra=asked)
    assert (tmp_path / "seen").read_text() == "did not end"
    [header] = _kept(tmp_path)
    assert header.outcome.error == "KeyboardInterrupt" and worker.executor.inspection._before == {}


@pytest.mark.parametrize("returns", [2, "dynamic"])
def test_a_generator_that_raises_leaves_its_own_error(
    worker: WholeWorker, tmp_path: Path, returns: int | str
) -> None:
    def items() -> Iterator[int]:
        yield 1
        raise ValueError("after one")

    worker.run(worker.knows(items), extra={wire.EXTRA_RETURNS: returns})
    [header] = _kept(tmp_path)
    assert (header.outcome.error, header.outcome.text) == ("ValueError", "after one")
    assert header.options["num_returns"] == str(returns)


def test_a_generator_that_is_captured_is_known_by_its_items(worker: WholeWorker, tmp_path: Path) -> None:
    def items(number: int) -> Iterator[int]:
        yield from range(number)

    asked = {wire.EXTRA_RETURNS: "dynamic", wire.EXTRA_INSPECT: Inspect(capsule=True)}
    worker.run(worker.knows(items), 3, extra=asked)
    worker.run(worker.knows(items), 9, task=2, extra={**asked, wire.EXTRA_RETURNS: 2})
    assert sorted(header.outcome.text for header in _kept(tmp_path)) == ["2 items: 0, 1", "3 items: 0, 1, 2"]
    assert worker.executor.inspection._before == {}
