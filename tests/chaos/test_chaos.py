"""A short run of the chaos with every test run; `make chaos` is the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos import killers
from tests.chaos.harness import Harness

LENGTH_S = 12.0


@pytest.mark.timeout(900)  # whole sessions, each played to its end however loaded the machine is
def test_random_programs_get_the_models_value_or_a_true_error_whatever_is_killed(leak_check: Path) -> None:
    lines: list[str] = []
    report = Harness(20, killers.by_default(), lines.append).run(LENGTH_S)
    assert not report.violations, "\n".join([*lines, report.text()])
    # A run that did nothing would also have violated nothing; on a starved machine it is three sessions.
    assert report.counts["values"] > 20 and sum(report.kills.values()) > 5, report.text()
    assert report.kills["node"] and report.kills["driver"], report.text()
