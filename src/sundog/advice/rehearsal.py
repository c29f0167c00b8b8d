"""A recorded run on another machine: `sundog rehearse`.

Owns the change of the machine and what is said about it. The playing is the simulator's, which also follows the memory
monitor's rule there: above the threshold the task that started last is killed and runs again, unless it is alone. Pure.
"""

from __future__ import annotations

from sundog.advice.report import chart
from sundog.advice.run import Run
from sundog.advice.simulator import CannotPlay, play
from sundog.plain import field, plain

THRESHOLD = 0.95  # the monitor kills above this share of the memory (`memory_usage_threshold`)
_COLUMNS = 60
_GIB = 1 << 30


@plain()
class Rehearsal:
    """What the run would be like there."""

    session: str
    measured_s: float
    predicted_s: float
    cpus: float
    memory_bytes: int
    peak_bytes: int
    curve: list[float]  # bytes, at equal intervals of the run
    killed: list[tuple[str, int]] = field(default_factory=list)  # function, how many attempts
    too_large: list[str] = field(default_factory=list)  # functions that do not fit even alone
    error: float = 0.0  # the simulator's error for the unchanged run

    def as_dict(self) -> dict[str, object]:
        """The forecast as plain values, for JSON."""
        return {
            "session": self.session,
            "measured_s": round(self.measured_s, 6),
            "predicted_s": round(self.predicted_s, 6),
            "cpus": self.cpus,
            "memory_bytes": self.memory_bytes,
            "peak_bytes": self.peak_bytes,
            "memory_curve": [round(each) for each in self.curve],
            "killed": [{"function": name, "attempts": count} for name, count in self.killed],
            "too_large": list(self.too_large),
            "simulation_error": round(self.error, 4),
        }

    def lines(self) -> list[str]:
        """For a terminal."""
        found = [
            f"{self.session} took {self.measured_s:.2f} s; with {self.cpus:g} CPUs and "
            f"{self.memory_bytes / _GIB:.1f} GiB it would take {self.predicted_s:.2f} s",
            f"memory: {chart(self.curve)}  at most {self.peak_bytes / _GIB:.2f} GiB "
            f"({self.peak_bytes / max(1, self.memory_bytes):.0%})",
        ]
        for name, count in self.killed:
            found.append(f"killed for memory, and run again: {name}, {count} attempt{'s' * (count != 1)}")
        for name in self.too_large:
            found.append(f"does not fit even alone, and would fail with OutOfMemoryError: {name}")
        if not self.killed and not self.too_large:
            found.append("No task would be killed for memory.")
        if abs(self.error) > 0.15:
            found.append(
                f"The simulator is off by {self.error:+.0%} for the run as it was: take this with care."
            )
        return found


def rehearse(run: Run, *, cpus: float | None = None, memory_bytes: int | None = None) -> Rehearsal:
    """Play a run with other CPUs or memory.

    Args:
        run: as it was.
        cpus: CPUs of the other machine, each with a core of its own; None: as it was.
        memory_bytes: its memory; None: as it was.

    Raises:
        ValueError: no CPU or no memory.
        sundog.advice.simulator.CannotPlay: the run cannot be played, or tasks of it would never start there.
    """
    if (cpus is not None and cpus <= 0) or (memory_bytes is not None and memory_bytes <= 0):
        raise ValueError("cpus and memory must be above 0")
    there = cpus if cpus is not None else run.cpus
    memory = memory_bytes if memory_bytes is not None else run.memory_bytes
    cores = max(1, int(cpus)) if cpus is not None else run.cores
    resources = dict(run.resources)
    if memory_bytes is not None and "memory" in resources:
        resources["memory"] = float(memory_bytes)
    _check_requests(run, {**resources, "CPU": float(there)})
    as_it_was = play(run).length_s
    other = run.changed(
        cpus=float(there), cores=cores, resources=resources, memory_limit=int(memory * THRESHOLD)
    )
    played = play(other)
    scale = run.length_s / as_it_was if as_it_was > 0 else 1.0
    killed: dict[str, int] = {}
    for key in played.killed:
        killed[run.nodes[key].name] = killed.get(run.nodes[key].name, 0) + 1
    return Rehearsal(
        run.name,
        run.length_s,
        played.length_s * scale,
        there,
        memory,
        max((each for _, each in played.peak_bytes), default=run.base_bytes),
        _curve(played.peak_bytes, played.length_s, run.base_bytes),
        sorted(killed.items(), key=lambda each: -each[1]),
        sorted({run.nodes[key].name for key in played.too_large}),
        as_it_was / run.length_s - 1.0 if run.length_s > 0 else 0.0,
    )


def _check_requests(run: Run, there: dict[str, float]) -> None:
    """Refuse a machine on which tasks would wait for ever: they ask for more than it has in all."""
    asked = {
        f"{node.name} ({amount:g} {name})"
        for node in run.nodes
        for name, amount in node.resources.items()
        if name in there and amount > there[name]
    }
    if asked:
        raise CannotPlay(f"more is asked for than that machine has, by {', '.join(sorted(asked))}")


def _curve(points: list[tuple[float, int]], length_s: float, base: int) -> list[float]:
    """The highest memory in each of equal stretches."""
    found = [0.0] * _COLUMNS
    level, at = float(base), 0
    for column in range(_COLUMNS):
        end = (column + 1) * length_s / _COLUMNS
        top = level
        while at < len(points) and points[at][0] <= end:
            level = float(points[at][1])
            top = max(top, level)
            at += 1
        found[column] = top
    return found
