"""A job on three nodes of `ray.cluster_utils.Cluster`: the clock of one is 100 s ahead, another is killed.

It goes on, step by step, when a line comes on its standard input, and says on standard output where it is. Runs as a
program of its own: `python three_nodes.py FOLDER`.
"""

import os
import pathlib
import signal
import sys
import time
from typing import Any

import numpy
from ray.cluster_utils import Cluster

import sundog as ray

FOLDER = pathlib.Path(sys.argv[1])
STORE = 100_000_000
SMALL = {"num_cpus": 1, "object_store_memory": STORE}
AHEAD_S = 100
# Every Python process of that node begins with the file sitecustomize.py in the folder, which sets its clock.
LATE = {"PYTHONPATH": str(FOLDER), "CLOCK_AHEAD_S": str(AHEAD_S)}


@ray.remote(resources={"ahead": 0.01})
def clock() -> float:
    """What time it is there."""
    return time.time()


@ray.remote(resources={"ahead": 0.01}, max_retries=0)
def halve(x: int) -> int:
    """Fails for odd numbers."""
    if x % 2:
        raise ValueError(f"{x} is odd")
    return x // 2


@ray.remote(resources={"ahead": 0.01})
def hang(until: str) -> str:
    """Runs until there is a file."""
    while not os.path.exists(until):
        time.sleep(0.05)
    return "released"


@ray.remote(resources={"ahead": 0.01})
def ponder(secret: int) -> int:
    """Stops at a breakpoint."""
    breakpoint()  # noqa: T100
    return secret + 1


@ray.remote(max_retries=3)
def make(i: int) -> numpy.ndarray:
    """A large object, which stays on the node that makes it."""
    with open(FOLDER / f"made-{i}", "a") as file:
        file.write(f"{ray.get_runtime_context().get_node_id()} {time.time()}\n")
    return numpy.full(100_000, i)


@ray.remote(max_retries=3)
def total(x: numpy.ndarray) -> int:
    """Needs such an object."""
    time.sleep(0.05)
    return int(x[0])


def say(*words: object) -> None:
    """Tell where this program is, and wait until it may go on."""
    print(*words, flush=True)
    sys.stdin.readline()


def kill(node: Any) -> None:
    """SIGKILL for all processes of a node, as when a machine loses its power."""
    raylet = node.all_processes["raylet"][0].process.pid
    children = pathlib.Path(f"/proc/{raylet}/task/{raylet}/children").read_text().split()
    for pid in [raylet, *map(int, children)]:
        os.kill(pid, signal.SIGKILL)


def main() -> None:
    """The job."""
    head = {
        **SMALL,
        "include_dashboard": False,
        "_system_config": {"health_check_period_ms": 500, "health_check_initial_delay_ms": 500},
    }
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.add_node(**SMALL, resources={"ahead": 1}, env_vars=LATE)
    doomed = cluster.add_node(**SMALL, resources={"doomed": 1})
    context = ray.init(engine="ray", address=cluster.address, log_to_driver=False)
    say("session", context["session_dir"])

    before = time.time()
    say("clock", round(ray.get(clock.remote()) - before))
    try:
        ray.get(halve.remote(3))
    except ValueError as error:
        say("failed", str(error).splitlines()[-1].strip())
    hung = hang.remote(str(FOLDER / "released"))
    say("hung")
    (FOLDER / "released").touch()
    say(ray.get(hung))
    paused = ponder.remote(41)
    say("paused")
    say("pondered", ray.get(paused))

    made = [make.options(resources={"doomed": 0.01}).remote(i) for i in range(10)]
    ray.wait(made, num_returns=10, fetch_local=False)
    made += [make.options(scheduling_strategy="SPREAD").remote(i) for i in range(10, 30)]
    ray.wait(made, num_returns=30, fetch_local=False)
    kill(doomed)
    say("killed", doomed.node_id, time.time())
    # What had to be made there has to be made elsewhere: a node that can is added.
    cluster.add_node(**SMALL, resources={"doomed": 1})
    say("total", sum(ray.get([total.remote(each) for each in made])))
    ray.shutdown()
    cluster.shutdown()


main()
