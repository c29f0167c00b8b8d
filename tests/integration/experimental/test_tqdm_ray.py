"""Progress bars: what a worker says, what the driver draws, and that prints stay whole."""

# mypy: disable-error-code="untyped-decorator"
# `ray` is whichever module the fixture gives, so its decorator has no type.
from __future__ import annotations

import builtins
import io
import json
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from sundog.experimental import tqdm_ray
from sundog.util.addresses import get_node_ip_address
from tests.integration import drivers

pytest.importorskip("tqdm")


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> Iterator[tqdm_ray.BarBoard]:
    """A board of the test's own, with a check that it gives `print` back."""
    original = builtins.print
    made = tqdm_ray.BarBoard()
    monkeypatch.setattr(tqdm_ray, "_board", made)
    yield made
    assert builtins.print is original


def state(**changes: Any) -> dict[str, Any]:
    return {
        "__magic_token__": tqdm_ray.RAY_TQDM_MAGIC,
        "x": 0,
        "pos": 0,
        "desc": "work",
        "total": 10,
        "unit": "it",
        "ip": get_node_ip_address(),
        "pid": 4242,
        "uuid": "u1",
        "closed": False,
        **changes,
    }


def lines(board: tqdm_ray.BarBoard) -> dict[str, int]:
    return {key: abs(bar.pos) for key, (_, bar) in board._bars.items()}


def test_a_bar_in_the_driver_is_drawn(board: tqdm_ray.BarBoard, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(tqdm_ray.tqdm(range(3), desc="here", flush_interval_s=0)) == [0, 1, 2]
    shown = capsys.readouterr().err
    assert "here" in shown
    assert "3.00/3.00" in shown or "3/3" in shown
    assert not board._bars


def test_a_bar_can_be_driven_by_hand(board: tqdm_ray.BarBoard, capsys: pytest.CaptureFixture[str]) -> None:
    with tqdm_ray.tqdm(total=5, flush_interval_s=0) as bar:
        bar.set_description("steps")
        bar.update(4)
        bar.refresh()
        assert (bar.n, bar.total) == (4, 5)
    bar.close()
    assert "steps" in capsys.readouterr().err
    with pytest.raises(ValueError, match="without an iterable"):
        next(iter(tqdm_ray.tqdm(total=1)))


def test_updates_within_the_interval_are_not_shown_but_the_last_is(
    board: tqdm_ray.BarBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(board, "process_state_update", lambda s: seen.append((s["x"], s["closed"])))
    for _ in tqdm_ray.tqdm(range(100), flush_interval_s=1000):
        pass
    assert seen == [(1, False), (100, True)]


def test_a_line_of_a_worker_becomes_a_bar(
    board: tqdm_ray.BarBoard, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tqdm_ray.show_line(json.dumps(state(x=2)))
    assert tqdm_ray.show_line(json.dumps(state(x=7, desc="later")))
    assert tqdm_ray.show_line(json.dumps(state(x=10, desc="later", closed=True)))
    shown = capsys.readouterr().err
    assert "(pid=4242) work" in shown and "(pid=4242) later" in shown


@pytest.mark.parametrize(
    "text", ["", "plain text", "{not json __ray_tqdm_magic_token__", '{"a": "__ray_tqdm_magic_token__"}']
)
def test_other_lines_are_left_to_be_printed(board: tqdm_ray.BarBoard, text: str) -> None:
    assert not tqdm_ray.show_line(text)


def test_bars_of_one_process_stay_together(board: tqdm_ray.BarBoard) -> None:
    board.process_state_update(state(uuid="a0", pid=1))
    board.process_state_update(state(uuid="b0", pid=2))
    board.process_state_update(state(uuid="a1", pid=1, pos=1))
    assert lines(board) == {"a0": 0, "a1": 1, "b0": 2}
    board.process_state_update(state(uuid="a0", pid=1, closed=True))
    assert lines(board) == {"a1": 0, "b0": 1}
    for key, pid in (("a1", 1), ("b0", 2)):
        board.process_state_update(state(uuid=key, pid=pid, closed=True))
    assert lines(board) == {}


def test_print_is_wrapped_only_while_bars_are_on_screen(
    board: tqdm_ray.BarBoard, capsys: pytest.CaptureFixture[str]
) -> None:
    board.process_state_update(state())
    assert builtins.print is tqdm_ray.safe_print
    print("between")
    elsewhere = io.StringIO()
    print("to a file", file=elsewhere)
    board.process_state_update(state(closed=True))
    assert builtins.print is not tqdm_ray.safe_print
    assert capsys.readouterr().out == "between\n"
    assert elsewhere.getvalue() == "to a file\n"


def test_without_the_package_bars_are_skipped_with_one_warning(
    board: tqdm_ray.BarBoard, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from sundog.util.debug import reset_log_once

    reset_log_once("tqdm_ray.no_tqdm")
    tqdm_ray._drawing_class.cache_clear()
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    board.process_state_update(state())
    board.process_state_update(state(x=1))
    assert caplog.text.count("pip install tqdm") == 1


def test_a_worker_describes_its_bar_on_stdout(ray: ModuleType) -> None:
    @ray.remote
    def work() -> list[str]:
        import contextlib
        import io

        from sundog.experimental.tqdm_ray import tqdm

        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            for _ in tqdm(range(3), desc="remote", flush_interval_s=0):
                pass
        return said.getvalue().splitlines()

    said = [json.loads(line) for line in ray.get(work.remote())]
    assert [(s["x"], s["closed"]) for s in said] == [(1, False), (2, False), (3, False), (3, True)]
    assert {s["desc"] for s in said} == {"remote"}


def test_a_bar_of_a_task_is_drawn_in_the_driver() -> None:
    program = """
        @ray.remote
        def work():
            from sundog.experimental.tqdm_ray import tqdm

            for _ in tqdm(range(20), desc="resize", flush_interval_s=0.0):
                pass
            print("worked")

        ray.init(num_cpus=1)
        ray.get(work.remote())
        ray.shutdown()
        """
    with drivers.running(program) as driver:
        output = driver.rest()
        assert driver.end() == 0
    assert any("worked" in line for line in output)
    assert not any(tqdm_ray.RAY_TQDM_MAGIC in line for line in output)
    assert any("resize" in line and "20.0/20.0" in line for line in driver.errors)
