"""The driver's side of the records: the session's folder, Home, and the sweep at the end.

Owns the folder's lock, which tells that the session lives, and the order of the end: what is on each node is swept,
what is missing is asked of Ray, then Home closes the records. Runs in the driver, in the thread that calls `init()`,
`timeline()` or `shutdown()`.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from sundog import config, notices, trust
from sundog.engines import sessions
from sundog.profiling.rows import begin
from sundog.ray_engine import faults, profiles, pushes, sweeping, told
from sundog.ray_engine.desk import Desk
from sundog.ray_engine.home import Home
from sundog.ray_engine.process import node_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from sundog.plain import JsonObject
    from sundog.ray_engine.process import ClusterProcess

JOB_SETTING = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # the variable by which Ray informs the driver of a submitted job
_NODE_S = 20.0  # how long a node may take to send what is left there
_HOME_S = 60.0

paths: list[str] = []
"""The folders of the sessions that this process has been the driver of."""


def _submission_id() -> str:
    """The id under which this driver was submitted to the cluster; empty if it was started by hand."""
    told = json.loads(config.user_environ().get(JOB_SETTING) or "{}")
    return str((told.get("metadata") or {}).get("job_submission_id") or "")


class Gathering:
    """Records of one job on its way home."""

    def __init__(self, ray: ModuleType, process: ClusterProcess) -> None:
        self.ray = ray
        self.identity = process.identity
        settings = config.load()
        made, self._lock = sessions.make_session(settings)
        self.path: str = made["path"]
        with open(f"{self.path}/session.json", "w", encoding="utf-8") as file:
            # No program can join this session: without the file it would count as a starting session.
            facts = {"engine": "ray", "driver_pid": os.getpid(), "job": self.identity.job}
            json.dump({**facts, "submission_id": _submission_id()}, file)
        with open(f"{process.folder}/{pushes.HERE}", "w", encoding="utf-8"):
            pass
        # In the background: Ray needs long for the first actor of a job, and no code waits for Home.
        self._made: Future[object] = Future()
        threading.Thread(
            target=self._make_home, args=(process.folder, settings), name="sundog-home", daemon=True
        ).start()
        self._desk = Desk(
            self.path,
            {
                "stacks": self.stacks,
                "pauses": self.pauses,
                "status": self.status,
                "tasks": self.tasks,
                "look": self.look,
                "profile": self.profile,
            },
        )
        paths.append(self.path)
        self._measured = profiles.of_driver(self.path)
        notices.note(f"Records of this job: sundog timeline --session {os.path.basename(self.path)}")

    def _make_home(self, folder: str, settings: config.Config) -> None:
        """Make Home: an actor without a shim, a CPU or events of its own."""
        try:
            made = self.ray.remote(num_cpus=0)(Home).options(
                name=pushes.home_name(self.identity.job),
                namespace=pushes.HOME_NAMESPACE,
                scheduling_strategy=self._strategies()(self.identity.node, soft=False),
                enable_task_events=False,
                max_concurrency=4,
            )
            self._made.set_result(made.remote(self.path, self.identity.facts(), folder, settings))
        except BaseException as error:
            self._made.set_exception(error)

    @property
    def home(self) -> object:
        """Home, as soon as it is made.

        Raises:
            Exception: it could not be made.
        """
        return self._made.result(_HOME_S)

    @staticmethod
    def _strategies() -> Callable[..., object]:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        made: Callable[..., object] = NodeAffinitySchedulingStrategy
        return made

    # ------------------------------------------------------------------ while it runs
    def flush(self) -> None:
        """Bring home what is recorded so far: of this node at once, of others by a task there."""
        self._sweep()
        self._home("read")
        self.look()

    def look(self) -> None:
        """Have Home note the nodes, actors and workers as they are now."""
        self._home("look_at_nodes")
        self._home("look_at_residents")

    def stacks(self) -> list[dict[str, object]]:
        """Where the workers of this job are, on all nodes: the ids of each, and what its fault handler wrote."""
        nodes = [self.identity.node, *self.others()]
        asked = [self.on_node(node, faults.stacks_of, self.folder_of(node)) for node in nodes]
        return [row for ref in asked for row in self.ray.get(ref, timeout=_NODE_S)]

    def profile(self, pids: list[int], kind: str, what: str, rate_hz: float, seconds: float) -> str:
        """Profile workers of this job, all or those with these pids, on all nodes; the name of the profile."""
        name = f"{time.strftime('%H%M%S')}-{kind}-{os.urandom(2).hex()}"
        begin(f"{self.path}/profiles/{name}", kind, what)
        nodes = [self.identity.node, *self.others()]
        arguments = (pids, kind, rate_hz, seconds, name)
        asked = [
            (node, self.on_node(node, profiles.take, self.folder_of(node), *arguments)) for node in nodes
        ]
        for node, ref in asked:
            profiles.keep(self.path, node, self.ray.get(ref, timeout=seconds + _HOME_S))
        return name

    def pauses(self) -> list[JsonObject]:
        """The tasks of this job that stand at a breakpoint, with the way to each."""
        found: list[JsonObject] = self._home("pauses")
        return found

    def status(self) -> JsonObject:
        """What the cluster has, and what waits there."""
        return {"node": self.identity.node, "driver_pid": os.getpid(), **self._home("status")}

    def tasks(self) -> list[JsonObject]:
        """The tasks that have not ended."""
        self._home("read")
        found: list[JsonObject] = self._home("unfinished")
        return found

    def _home(self, verb: str, *args: object) -> Any:
        return self.ray.get(getattr(self.home, verb).remote(*args), timeout=_HOME_S)

    def others(self) -> list[str]:
        """The living nodes on which Home does not read by itself."""
        return [
            each["NodeID"]
            for each in self.ray.nodes()
            if each["Alive"] and each["NodeID"] != self.identity.node
        ]

    def on_node(self, node: str, function: object, *args: object) -> object:
        """Run a function of ours on a node, as a task without a CPU; returns the ref."""
        task = self.ray.remote(num_cpus=0, max_retries=0, enable_task_events=False)(function)
        where = self._strategies()(node, soft=False)
        return task.options(scheduling_strategy=where).remote(*args)

    def folder_of(self, node: str) -> str:
        """Where the processes of this job on a node have their rings."""
        return node_folder(self.identity.session_dir, self.identity.job, node)

    def _sweep(self) -> None:
        others = self.others()
        if not others:
            return
        known = self._home("positions")
        asked = [(node, self.on_node(node, sweeping.sweep, self.folder_of(node), known)) for node in others]
        until = time.monotonic() + _NODE_S
        for node, ref in asked:
            try:
                found, capsules, measured = self.ray.get(ref, timeout=max(0.1, until - time.monotonic()))
                self._home("take", found)
            except Exception as error:
                if node not in self.others():
                    continue  # the process is gone
                notices.warn(f"Node {node[:8]} did not send its last records: {type(error).__name__}.")
                continue
            self._keep(capsules)
            profiles.keep(self.path, node, measured)

    def _keep(self, capsules: dict[str, bytes]) -> None:
        """Write the capsules of a node into the session's folder, under the tasks' whole ids."""
        from sundog.ray_engine import capsules as own

        for data in capsules.values():
            own.keep(self.path, data, lambda unique: str(self._home("id_of", unique)))

    # ------------------------------------------------------------------ the end
    def stop(self) -> None:
        """The last records; never raises, for it is part of `shutdown()`."""
        self._desk.close()
        try:
            if self.ray.is_initialized():
                self._close()
        except Exception as error:
            notices.warn(f"The last records of this job did not arrive: {type(error).__name__}: {error}")
        finally:
            os.close(self._lock)

    def _close(self) -> None:
        if self._measured is not None:
            self._measured.stop()
            time.sleep(profiles.LATER_S)  # the last parts of workers are written within this time
        self._sweep()
        self._home("read")
        _, capsules, measured = sweeping.sweep(self.folder_of(self.identity.node), {})
        self._keep(capsules)
        profiles.keep(self.path, self.identity.node, measured)
        gone = [each for each in self.ray.nodes() if not each["Alive"]]
        missing = []
        if gone or self._home("wanting"):
            with contextlib.suppress(Exception):  # Ray's events may be switched off
                missing = told.ended_attempts(self.identity.job)
        self.look()
        added = self._home("close", missing)
        self.ray.kill(self.home)
        if added:
            notices.warn(
                f"{added} rows of the timeline come from Ray: sundog's own records were lost with a process or node."
            )
        trust.remove(self.folder_of(self.identity.node))
