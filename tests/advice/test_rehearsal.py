"""A run on another machine, played by hand."""

import pytest

from sundog.advice.rehearsal import rehearse
from sundog.advice.simulator import CannotPlay
from tests.advice.runs import Script

GIB = 1 << 30


def four_naps(peak_bytes: int = 0) -> Script:
    script = Script(cpus=2)
    script.get(*[script.submit("nap", 1.0, start_s=float(n // 2), peak_bytes=peak_bytes) for n in range(4)])
    return script


def test_more_cpus_make_it_shorter_and_fewer_longer() -> None:
    run = four_naps().run()
    assert rehearse(run, cpus=4).predicted_s == pytest.approx(1.0)
    assert rehearse(run, cpus=1).predicted_s == pytest.approx(4.0)


def test_tasks_that_do_not_fit_together_are_killed_and_run_again() -> None:
    run = four_naps(peak_bytes=6 * GIB).run()
    found = rehearse(run, memory_bytes=8 * GIB)
    [(name, count)] = found.killed
    assert (name, count > 0) == ("nap", True)
    assert found.predicted_s > 3.0
    assert found.peak_bytes <= 8 * GIB
    assert "run again: nap" in "\n".join(found.lines())


def test_a_task_that_does_not_fit_alone_is_named() -> None:
    found = rehearse(four_naps(peak_bytes=6 * GIB).run(), memory_bytes=4 * GIB)
    assert found.too_large == ["nap"]


def test_enough_memory_kills_nobody() -> None:
    found = rehearse(four_naps(peak_bytes=GIB).run(), memory_bytes=32 * GIB)
    assert (found.killed, found.too_large) == ([], [])
    assert max(found.curve) == 2 * GIB
    assert found.as_dict()["peak_bytes"] == 2 * GIB


def test_no_machine_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        rehearse(four_naps().run(), cpus=0)


def test_a_machine_on_which_tasks_would_never_start_is_refused() -> None:
    script = Script(cpus=4)
    script.get(script.submit("wide", 1.0, resources={"CPU": 3.0}), script.submit("nap", 1.0))
    with pytest.raises(CannotPlay, match=r"more is asked for than that machine has, by wide \(3 CPU\)"):
        rehearse(script.run(), cpus=2)
    assert rehearse(script.run(), cpus=3).predicted_s > 0
