"""`@remote(profile=…)` on functions, classes and methods, in real workers."""

from __future__ import annotations

from types import ModuleType

import pytest

from sundog.owner import context
from sundog.profiling import merge, rows


def test_functions_and_methods_are_profiled_on_request(ray: ModuleType) -> None:
    @ray.remote(profile="wall")
    def nap(seconds: float) -> None:
        import time

        time.sleep(seconds)

    @ray.remote
    class Counter:
        async def lines(self, number: int) -> int:
            total = 0
            for each in range(number):
                total += each
            return total

        def large(self, size: int) -> int:
            return len(bytearray(size))

    path = str(context.facts.session["path"])
    ray.get(nap.remote(0.2))
    counter = Counter.options(profile="line").remote()
    assert ray.get([counter.lines.remote(10), counter.lines.remote(20)]) == [45, 190]
    ray.get(counter.large.options(profile="memory").remote(8 << 20))
    found = {each.kind: each for each in rows.profiles_of(path)}
    assert merge.by_function(found["wall"].parts)[0].seconds > 0.1
    hits = [hits for each in merge.lines_of(found["line"].parts) for hits, _ in each.lines.values()]
    assert 30 in hits
    assert merge.memory_of(found["memory"].parts).calls["Counter.large"][1] >= 8 << 20
    for wrong in ("gpu", "line:", "cpu:f"):
        with pytest.raises(ValueError, match="not allowed"):
            nap.options(profile=wrong)
