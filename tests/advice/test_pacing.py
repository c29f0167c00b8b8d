"""Loops that keep to a clock, and methods that wait for other calls."""

import ast
from pathlib import Path

import pytest

from sundog.advice.pacing import is_paced, waits_for_other_calls
from sundog.advice.source import Sources
from sundog.advice.turns import loop_at


@pytest.mark.parametrize(
    ("text", "is_by_clock"),
    [
        ("for x in xs:\n    left = due - time.monotonic()\n    time.sleep(left)\n    ray.get(f.remote(x))", True),
        ("class A:\n    def pace(self):\n        left = self.due - time.time()\n        if left > 0:\n"
         "            time.sleep(left)\nfor x in xs:\n    a.pace()\n    ray.get(f.remote(x))", True),
        ("for x in xs:\n    begin = time.time()\n    ray.get(f.remote(x))\n"
         "    time.sleep(max(0, 1 - (time.time() - begin)))", True),
        ("begin = time.time()\nfor x in xs:\n    ray.get(f.remote(x))\n    time.sleep(0.1)", False),
        ("begin = time.time()\nfor x in xs:\n    ray.get(f.remote(x))\nprint(time.time() - begin)", False),
    ],
)  # fmt: skip
def test_a_loop_that_sleeps_by_the_clock_is_paced(text: str, is_by_clock: bool, tmp_path: Path) -> None:
    file = tmp_path / "prog.py"
    file.write_text(f"import sundog as ray\n{text}\n")
    line = next(n for n, each in enumerate(file.read_text().splitlines(), 1) if "ray.get(" in each)
    found = loop_at(Sources(), f"{file}:{line} in f")
    assert found is not None
    assert is_paced(found) == is_by_clock


@pytest.mark.parametrize(
    ("body", "is_waiting"),
    [
        ("return await self.items.get()", True),
        ("await self.ready.wait()", True),
        ("async with self.limit:\n        return 1", False),
        ("while not self.items:\n        await asyncio.sleep(0.1)", True),
        ("return await asyncio.wait_for(self.items.get(), 3)", True),
        ("return await self.session.get(url)", False),
        ("await asyncio.sleep(1)", False),
    ],
)
def test_a_method_that_awaits_a_queue_or_event_of_its_actor_waits_for_other_calls(
    body: str, is_waiting: bool
) -> None:
    tree = ast.parse(f"async def f(self, url):\n    {body}\n")
    assert waits_for_other_calls(tree.body[0]) == is_waiting
