"""Random graphs of tasks with failures, retries, nested submission, actors and killed workers.

Each seed is one graph, computed twice: by sundog, and by a plain recursion. Every get equals the model's value,
or raises an error that is true: the user's own where the model fails, a system error only where workers were
killed and no retry was allowed. Bodies count their runs in files: with max_retries=0 none ran twice.
"""

# mypy: disable-error-code="untyped-decorator"
from __future__ import annotations

import os
import random
import signal
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import sundog

NODES = 40


class Broken(Exception):
    """What a node of a graph raises when it is meant to fail."""


@dataclass
class Plan:
    """One node of a graph."""

    number: int
    kind: str  # task | nested | actor
    parents: list[int]
    fails: int  # how many attempts fail before one succeeds; -1: all of them
    retries: int
    retry_exceptions: bool
    children: int = 0
    values: dict[str, Any] = field(default_factory=dict)

    def succeeds(self) -> bool:
        """Whether its own body ends well, within its retries."""
        if self.fails == 0:
            return True
        return self.fails > 0 and self.retry_exceptions and self.retries >= self.fails


def note_run(folder: str, number: int) -> int:
    """Count a run of a body; returns how many there were before."""
    path = Path(folder) / str(number)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        before = os.fstat(fd).st_size
        os.write(fd, b"x")
    finally:
        os.close(fd)
    return before


@sundog.remote
def leaf(value: int) -> int:
    """A task that another task submits."""
    return value + 1


def body(folder: str, number: int, fails: int, children: int, parents: tuple[int, ...]) -> int:
    """What every node does: count, perhaps fail, perhaps submit, and sum up."""
    before = note_run(folder, number)
    if fails < 0 or before < fails:
        raise Broken(number)
    total = number + sum(parents)
    if children:
        total += sum(sundog.get([leaf.options(max_retries=-1).remote(i) for i in range(children)]))
    return total


@sundog.remote
def task(folder: str, number: int, fails: int, children: int, *parents: int) -> int:
    """A node as a task; refs among its arguments arrive as values."""
    return body(folder, number, fails, children, parents)


@sundog.remote(num_cpus=0)
class Adder:
    """A node as a call of an actor."""

    def add(self, folder: str, number: int, *parents: int) -> int:
        """The same sum."""
        return body(folder, number, 0, 0, parents)


class Graph:
    """A random graph, its model, and its run."""

    def __init__(self, seed: int) -> None:
        dice = random.Random(seed)
        self.kills = dice.random() < 0.5
        self.plans: list[Plan] = []
        for number in range(NODES):
            parents = sorted(dice.sample(range(number), min(number, dice.choice([0, 1, 1, 2, 3]))))
            kind = dice.choices(["task", "nested", "actor"], [6, 2, 2])[0]
            fails = dice.choices([0, 1, 2, -1], [80, 8, 4, 3])[0] if kind == "task" else 0
            # A failed attempt and a killed worker draw on one budget: with kills, enough of it or none.
            retries = dice.choice([0, 20]) if self.kills else dice.choice([0, 1, 2, 3])
            plan = Plan(number, kind, parents, fails, retries, dice.random() < 0.7)
            plan.children = dice.randint(1, 3) if kind == "nested" else 0
            self.plans.append(plan)
        self.dice = dice

    def expected(self, number: int, known: dict[int, int | None]) -> int | None:
        """The value of a node in the model; None if it fails, by itself or through a parent."""
        if number not in known:
            plan = self.plans[number]
            parents = [self.expected(parent, known) for parent in plan.parents]
            if not plan.succeeds() or any(parent is None for parent in parents):
                known[number] = None
            else:
                known[number] = (
                    number
                    + sum(p for p in parents if p is not None)
                    + sum(i + 1 for i in range(plan.children))
                )
        return known[number]

    def submit(self, folder: str) -> list[Any]:
        """Submit every node; refs of parents are arguments."""
        actors = [Adder.remote() for _ in range(2)]
        refs: list[Any] = []
        for plan in self.plans:
            parents = [refs[parent] for parent in plan.parents]
            if plan.kind == "actor":
                refs.append(self.dice.choice(actors).add.remote(folder, plan.number, *parents))
                continue
            bound = task.options(max_retries=plan.retries, retry_exceptions=plan.retry_exceptions)
            refs.append(bound.remote(folder, plan.number, plan.fails, plan.children, *parents))
        return refs

    def check(self, refs: list[Any], folder: Path) -> None:
        """Compare every node with the model."""
        known: dict[int, int | None] = {}
        lost: set[int] = set()
        for plan, ref in zip(self.plans, refs, strict=True):
            want = self.expected(plan.number, known)
            try:
                found = sundog.get(ref, timeout=50)
            except Broken:
                assert want is None, f"node {plan.number} failed, the model did not"
            except sundog.exceptions.WorkerCrashedError:
                allowed = self.kills and plan.kind != "actor" and plan.retries == 0
                inherited = any(parent in lost for parent in plan.parents)
                assert allowed or inherited, f"node {plan.number} crashed, with {plan.retries} retries"
                lost.add(plan.number)
            else:
                assert want == found, f"node {plan.number}: {found}, but the model says {want}"
        for plan in self.plans:
            path = folder / str(plan.number)
            runs = path.stat().st_size if path.exists() else 0
            if plan.retries == 0 or plan.kind == "actor":
                assert runs <= 1, f"node {plan.number} ran {runs} times without a retry"
            if known[plan.number] is not None and plan.number not in lost:
                assert runs >= 1


class Killer(threading.Thread):
    """Kills a plain worker now and then."""

    def __init__(self, seed: int, count: int) -> None:
        super().__init__(daemon=True)
        self.dice = random.Random(seed)
        self.count = count
        self.done = threading.Event()

    def run(self) -> None:
        for _ in range(self.count):
            if self.done.wait(self.dice.uniform(0.005, 0.05)):
                return
            workers = [
                row["pid"]
                for row in sundog.api.control("list", "workers", False)
                if row["worker_type"] == "WORKER" and row["state"] in ("idle", "leased")
            ]
            if workers:
                try:
                    os.kill(self.dice.choice(workers), signal.SIGKILL)
                except ProcessLookupError:
                    continue


@pytest.mark.timeout(300)  # many histories in one test
def test_random_graphs_agree_with_the_model(seeds: range, leak_check: Path, tmp_path: Path) -> None:
    for seed in seeds:
        print(f"seed {seed}", flush=True)
        folder = tmp_path / str(seed)
        folder.mkdir()
        graph = Graph(seed)
        with sundog.init(num_cpus=3, log_to_driver=False):
            killer = Killer(seed, 6 if graph.kills else 0)
            killer.start()
            try:
                refs = graph.submit(str(folder))
                graph.check(refs, folder)
            finally:
                killer.done.set()
                killer.join()
