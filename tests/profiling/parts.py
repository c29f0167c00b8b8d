"""Parts of profiles, for tests."""

from __future__ import annotations

from sundog.profiling.rows import Part, Profile, ProfileFrame, Samples

F = ProfileFrame("f", "/x/f.py", 1)
HOT = ProfileFrame("hot", "/x/f.py", 7)
G = ProfileFrame("g", "/x/g.py", 2)


def sampled(pid: int) -> Part:
    """What a worker may have found."""
    stacks = {("f", (F, HOT)): (3.0, 300), ("f", (F,)): (0.5, 50), ("g", (G,)): (1.0, 100)}
    return Part(pid, "worker", "s", Samples("cpu", 450, 0.1, 5.0, stacks))


def profile(kind: str, *parts: Part) -> Profile:
    """A profile of these."""
    return Profile("/p/1-cpu", kind, "x.py", 1.0, list(parts))
