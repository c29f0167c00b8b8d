"""One session of the chaos: programs in threads, killers beside them, and at the end an empty store.

A driver of its own, started by the harness: ``python -m tests.chaos.rounds <seed> <killers>``. Some drivers play two
sessions, one after the other, as a program does that calls `shutdown` and `init` again. Prints each session's folder
when it is up, and the report as the last line.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import itertools
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sundog
from sundog import engines
from sundog.owner.rows import whole
from sundog.wire.requests import ListRows
from tests import leaks
from tests.chaos import actor_moves, bound_moves, killers, object_moves, shared_moves, task_moves
from tests.chaos.acts import Acts
from tests.chaos.members import Members
from tests.chaos.program import Program, SessionOver, Violation
from tests.chaos.report import Report
from tests.chaos.stalls import Watch
from tests.chaos.storms import Storm

STEPS = 35
EMPTY_S = 30.0
STORE_BYTES = 4 << 20  # where spilled files are to be removed: little enough that there are some
_MOVES: list[tuple[Callable[[Program], None], int]] = [
    (object_moves.put, 4),
    (object_moves.read, 4),
    (object_moves.read_many, 1),
    (object_moves.read_impatiently, 1),
    (object_moves.await_some, 1),
    (object_moves.wait, 2),
    (object_moves.drop, 5),
    (object_moves.look_back, 1),
    (object_moves.nest_in_put, 1),
    (object_moves.hand_on, 2),
    (object_moves.put_in_worker, 3),
    (task_moves.make, 4),
    (task_moves.mix, 4),
    (task_moves.read_elsewhere, 3),
    (task_moves.nest, 3),
    (task_moves.fan_out, 2),
    (task_moves.several, 2),
    (task_moves.burst, 1),
    (task_moves.stream, 3),
    (task_moves.cancel, 2),
    (task_moves.cancel_sleeper, 1),
    (actor_moves.create, 3),
    (actor_moves.count, 3),
    (actor_moves.make, 4),
    (actor_moves.lend, 2),
    (actor_moves.read_lent, 2),
    (actor_moves.take_back, 2),
    (actor_moves.kill, 1),
    (actor_moves.let_go, 1),
    (actor_moves.cancel_call, 2),
    (bound_moves.run_late, 1),
    (bound_moves.queue_late, 1),
    (bound_moves.outgrow, 1),
    (bound_moves.in_environment, 2),
    (bound_moves.grouped, 2),
    (shared_moves.create_named, 2),
    (shared_moves.look_up, 2),
    (shared_moves.read_through, 2),
    (shared_moves.receive, 1),
]


class Round:
    """One session and what is done in it; everything random follows from its seed."""

    def __init__(self, seed: str, kinds: list[str], folder: Path) -> None:
        self.seed = seed
        self.dice = random.Random(seed)
        self.folder = folder
        self.report = Report()
        # Some sessions are left in peace; one that is to lose its node is left alone until then.
        mood = "node" if "node" in kinds else self.dice.choices(["peace", "slow", "fast"], [1, 4, 4])[0]
        self.kinds = [] if mood == "peace" else kinds
        self.pause_s = {"slow": (0.05, 0.5), "node": (0.3, 3.0)}.get(mood, (0.01, 0.08))
        self.threads = self.dice.choice([1, 2, 3])
        self.storm = Storm(f"{seed}/storm", self.report) if "storm" in self.kinds else None

    def run(self) -> Report:
        """Play the session."""
        limit = STORE_BYTES if "spill" in self.kinds else None
        crowd: Members | None = None
        with sundog.init(num_cpus=4, log_to_driver=False, object_store_memory=limit) as session:
            print("session", session["session_dir"], flush=True)
            acts = Acts(self.folder, killers.has_lineage())
            programs = [Program(f"{self.seed}/{n}", f"p{n}", acts) for n in range(self.threads)]
            reports = [program.report for program in programs]
            watch = Watch({program.key: program.steps_made for program in programs})
            for program in programs:
                program.watch = watch
            watch.start()
            thread = killers.Killers(
                random.Random(f"{self.seed}/kill"),
                acts,
                self.kinds,
                self.pause_s,
                lambda: sum(report.counts["moves"] for report in reports),
                self.storm.blow if self.storm is not None else None,
            )
            crowd = thread.members
            if crowd is not None:
                crowd.join()
            if self.kinds:
                thread.start()
            players = [threading.Thread(target=self._play, args=(program,)) for program in programs]
            try:
                self._let_play(players)
            finally:
                if self.storm is not None:
                    self.storm.stop()
                watch.stop()
                if self.kinds:
                    thread.stop()
            self.report.stalls.extend(f"seed {self.seed}, {stall}" for stall in watch.found)
            watch.steps.clear()
            if thread.failure is not None:
                self._violation("the killers' thread", thread.failure)
            for program in programs:
                program.forget()
                self.report.add(program.report)
            del programs, players, program
            self.report.counts["sessions"] += 1
            self.report.kills.update(act.kind for act in acts.all())
            if not acts.node_killed() and not self.report.violations:
                self._check_empty(crowd.roots() if crowd is not None else [])
            acts.close()
        if crowd is not None:
            self.report.violations.extend(f"seed {self.seed}: {wrong}" for wrong in crowd.end())
        return self.report

    def _let_play(self, players: list[threading.Thread]) -> None:
        """All programs beside each other; under storms the first on the main thread, which gets the signals."""
        others = players
        if self.storm is not None:
            self.storm.start()
            others = players[1:]
        for player in others:
            player.start()
        if self.storm is not None:
            players[0].run()
        for player in others:
            player.join()

    def _play(self, program: Program) -> None:
        moves, weights = [move for move, _ in _MOVES], [weight for _, weight in _MOVES]
        move = None
        try:
            for step in itertools.count():
                # One that is to lose its node goes on until it has.
                if step >= STEPS and ("node" not in self.kinds or program.acts.node_killed()):
                    break
                move = program.dice.choices(moves, weights)[0]
                if self.storm is not None and threading.current_thread() is threading.main_thread():
                    self.storm.play(move, program)
                else:
                    move(program)
                program.report.counts["moves"] += 1
            move = Program.finish
            program.finish()
            program.report.counts["programs"] += 1
        except SessionOver:
            program.report.counts["programs"] += 1
        except sundog.exceptions.LocalRayletDiedError as error:
            if program.acts.node_killed():
                program.report.counts["programs"] += 1
                program.report.errors[type(error).__name__] += 1
            else:
                self._violation(f"program {program.key} in {move}", error)
        except BaseException as error:
            self._violation(f"program {program.key} in {getattr(move, '__name__', move)}", error)

    def _violation(self, where: str, error: BaseException) -> None:
        text = str(error) if isinstance(error, Violation) else "".join(traceback.format_exception(error))
        self.report.violations.append(f"seed {self.seed}, {where}: {text}")

    # ------------------------------------------------------------------ nothing is left
    def _check_empty(self, roots: list[str]) -> None:
        deadline = time.monotonic() + EMPTY_S
        while left := _left(roots):
            if time.monotonic() > deadline:
                left["leases"] = _leases()
                left["unfinished"] = sundog.api.control(ListRows("tasks"))[0]
                self.report.violations.append(f"seed {self.seed}: kept without a ref: {left}")
                return
            time.sleep(0.02)


def _left(roots: list[str]) -> dict[str, Any]:
    """What the session still keeps, when no ref is left and no task runs; empty when all is well."""
    gc.collect()
    totals, free = sundog.cluster_resources(), sundog.available_resources()
    left: dict[str, Any] = {name: rows for name, rows in _owner_tables().items() if rows}
    if free.get("CPU") != totals["CPU"]:
        left["CPU in use"] = totals["CPU"] - free.get("CPU", 0)
    if segments := _segments_in_use(roots):
        left["segments"] = segments
    alive = [row for row in sundog.api.control(ListRows("actors"))[0] if row["state"] != "DEAD"]
    if alive:
        left["actors"] = [(row["actor_id"], row["class_name"], row["state"], row["pid"]) for row in alive]
    return left


def _owner_tables() -> dict[str, list[str]]:
    """What the driver's owner has in its tables, in words that help to find out why."""
    owner = _owner()
    with owner.lock:
        owner.objects.drain()
        refs = owner.refs
        return {
            "values": [
                f"{oid.hex()} {whole(value)[0]} {whole(value)[2:4]}" for oid, value in owner.ready.items()
            ],
            "tasks": [f"{task.id.hex()} {task.fn.name} state {task.state}" for task in owner.table.values()],
            "owned": [f"{oid.hex()} {row.local} {row.borrowers}" for oid, row in refs.owned.items()],
            "borrowed": [
                f"{oid.hex()} {row.local} {row.registered} {row.pending} {row.debts}"
                for oid, row in refs.borrowed.items()
            ],
            "waiters": [oid.hex() for oid in owner.waiters],
            "dependents": [oid.hex() for oid in owner.dependents],
            "living refs": [repr(each) for each in gc.get_objects() if type(each) is sundog.ObjectRef],
        }


def _leases() -> list[str]:
    """The leases that the driver has not given back, and who else serves one."""
    owner = _owner()
    with owner.lock:
        lanes = [
            f"{lane.pid}: inflight {list(lane.inflight)}, blocked {lane.blocked}, reclaim {lane.reclaim}"
            for lane in owner.dispatch.leases.values()
        ]
    rows = sundog.api.control(ListRows("workers"))[0]
    return lanes + [f"{row['pid']} {row['state']}" for row in rows if row["state"] != "idle"]


def _segments_in_use(roots: list[str]) -> list[str]:
    """Segments that hold an object, by name ``<owner>-<maker>-<n>``; free ones have ``free`` for an owner.

    What a worker made and an owner freed is handed back with the next task for that worker: on its way, it
    counts as free. What workers owe each other in this manner cannot be seen from here, and is left out.
    """
    owner = _owner()
    with owner.lock:
        lanes: list[Any] = [*owner.dispatch.lanes.values(), *owner.actors.links.values()]
        handed_back = {name for lane in lanes for name, _ in lane.freed}
    found = []
    names = [name for root in (owner.segments.shm_root, *roots) for name in os.listdir(root)]
    for name in names:
        parts = [*name.split("-"), ""]
        if name.startswith((".", "free-")) or name in handed_back:
            continue
        if parts[0] in (owner.me.hex(), parts[1]):
            found.append(name)
    return found


def _owner() -> Any:
    engine = engines.current()
    assert engine is not None
    return engine.owner


def main(seed: str, kinds: str) -> None:
    """Play one session as this process."""
    # Crashes by SIGSEGV and SIGABRT shall not fill the disk.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    before = leaks.Snapshot.take(str(Path(tempfile.gettempdir()) / "nothing-names-this"))
    kills = [kind for kind in kinds.split(",") if kind]
    report = Report()
    for number in range(random.Random(f"{seed}/driver").choice([1, 1, 2])):
        with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
            report.add(Round(f"{seed}/{number}", kills, Path(folder)).run())
        kills = [
            kind for kind in kills if kind != "node"
        ]  # what follows a lost node is to be played to its end
    # Shared memory is the harness's to judge: it knows the session's name, and others come and go on a machine.
    found = [leak for leak in leaks.find(before, leaks.GRACE_S * 2) if not leak.startswith("shared memory")]
    if found:
        report.violations.append(f"seed {seed}: left behind in or below the driver: {found}")
    with contextlib.suppress(BrokenPipeError):
        print("report", report.to_json(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
