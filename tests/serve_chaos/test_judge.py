"""The judge of the chaos of Serve: it must be able to fail."""

import pytest

from tests.serve_chaos.judge import LATE_S, Kill, Update, summary, violations
from tests.serve_chaos.load import Asked

UPDATES = [Update(1, 0.0, 1.0), Update(2, 10.0, 12.0)]
REPLICA, PROXY = Kill("replica", 20.0, 20.1), Kill("proxy", 20.0, 20.1)


def answer(status: int, version: int = 0, text: str = "why", began: float = 20.0) -> Asked:
    return Asked(began - 0.5, began, began + 0.2, status, version, text)


@pytest.mark.parametrize(
    "asked, kills",
    [
        (answer(200, 2), []),
        (answer(200, 1, began=11.0), []),
        (answer(200, 2, began=11.0), []),
        (answer(500), [REPLICA]),
        (answer(0), [PROXY]),
        (answer(500, began=20.0 + LATE_S), [REPLICA]),
    ],
)
def test_what_is_allowed(asked: Asked, kills: list[Kill]) -> None:
    assert violations([asked], kills, UPDATES) == []


@pytest.mark.parametrize(
    "asked, kills",
    [
        (answer(200, 1), []),  # an old version after its update
        (answer(200, 2, began=5.0), []),  # one that nobody had deployed yet
        (answer(500), []),
        (answer(500), [PROXY]),
        (answer(500, text=" "), [REPLICA]),  # no cause
        (answer(500, began=25.0 + LATE_S), [REPLICA]),
        (answer(0), [REPLICA]),
        (answer(0, text="TimeoutError('timed out')"), [PROXY]),  # a request that nobody answered
        (answer(0, text="ConnectionRefusedError()"), [PROXY]),
        (answer(404), [REPLICA, PROXY]),
    ],
)
def test_what_is_a_violation(asked: Asked, kills: list[Kill]) -> None:
    assert len(violations([asked], kills, UPDATES)) == 1


def test_the_summary_counts() -> None:
    assert summary([answer(200, 2), answer(0)], [PROXY], UPDATES) == (
        "2 updates, killed 1 proxy; 2 requests (broken: 1, 200: 1), the slowest 0.20 s"
    )
