"""A rush of work on a cluster without workers: its autoscaler starts nodes, and ends them when all is done.

Says where it is on standard output, and goes on when a line comes on its standard input. Ends when no node but the
head is left.
"""

import sys
import time

import sundog as ray


@ray.remote
def work(number: int) -> int:
    """A second of work."""
    time.sleep(1)
    return number


def workers() -> int:
    """How many nodes there are beside the head."""
    return len([node for node in ray.nodes() if node["Alive"]]) - 1


def await_workers(wanted: int) -> None:
    """Wait for so many nodes."""
    until = time.monotonic() + 240
    while workers() != wanted:
        if time.monotonic() > until:
            raise TimeoutError(f"there are {workers()} nodes, not {wanted}")
        time.sleep(0.1)


context = ray.init(engine="ray", log_to_driver=False)
print("session", context["session_dir"], flush=True)
print("before", workers(), flush=True)
refs = [work.remote(number) for number in range(16)]
print("queued", flush=True)
sys.stdin.readline()
await_workers(2)
print("scaled", workers(), flush=True)
print("sum", sum(ray.get(refs)), flush=True)
await_workers(0)
print("after", workers(), flush=True)
ray.shutdown()
