"""What goes into a capsule: paces, secrets, digests, outcomes; and what comes out of its file."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

from sundog.capsules import capture, replay
from sundog.capsules.rows import Outcome
from tests.capsules.made import HEADER, contents


def test_a_flood_of_failures_keeps_the_first_twenty_and_then_one_a_second() -> None:
    now = [100.0]
    pace = capture.CapsulePace(lambda: now[0])
    kept = 0
    for _ in range(1000):
        kept += pace.allows("f")
        now[0] += 0.01
    assert kept == 20 + 9
    assert pace.allows("g"), "each function has its own pace"


def test_the_state_of_numpy_is_noted_before_its_first_number_is_drawn() -> None:
    program = """
        import sys
        from sundog.capsules import capture
        assert capture.note_randomness().numpy is None and "numpy" not in sys.modules
        import numpy
        sys.modules.pop("numpy.random", None)  # some versions import it at the first use
        before = capture.note_randomness().numpy
        first = numpy.random.rand()
        numpy.random.set_state(before)
        assert numpy.random.rand() == first
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=120)


def test_the_oldest_capsules_go_when_the_quota_is_spent(tmp_path: Path) -> None:
    for number in range(5):
        kept = capture.keep(str(tmp_path), HEADER._replace(attempt=number), contents(), 1 << 20, 3)
        assert Path(kept).exists()
    assert len(list((tmp_path / "capsules").iterdir())) == 3
    capture.keep(str(tmp_path), HEADER._replace(attempt=9), contents(function=b"x" * 5000), 5600, 3)
    assert [path.stem[-2:] for path in (tmp_path / "capsules").iterdir()] == ["-9"]


def test_outcomes_are_the_same_by_error_and_text_or_by_the_bytes_of_the_result() -> None:
    assert Outcome("E", "a", "x.py:1").is_same(Outcome("E", "a", "x.py:2"))
    assert not Outcome("E", "a").is_same(Outcome("E", "b")) and not Outcome("E", "a").is_same(Outcome())
    first, second = capture.outcome_of_result([1, 2]), capture.outcome_of_result([1, 2])
    assert first.is_same(second) and not first.is_same(capture.outcome_of_result([1, 3]))
    assert "Another outcome. Then it raised E: a. Now it returned [1, 2]" in replay.compare(
        Outcome("E", "a"), first
    )
