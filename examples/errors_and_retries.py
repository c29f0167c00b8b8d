"""What goes wrong, and how it arrives: errors, retries, restarts, time limits, cancellation."""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import ray


class NotRipe(Exception):
    pass


@ray.remote
class Attempts:
    def __init__(self) -> None:
        self.count = 0

    def next(self) -> int:
        self.count += 1
        return self.count


@ray.remote(max_retries=3, retry_exceptions=[NotRipe])
def pick(attempts: "ray.actor.ActorHandle") -> str:
    attempt = ray.get(attempts.next.remote())
    if attempt < 3:
        raise NotRipe(f"attempt {attempt}")
    return f"picked at attempt {attempt}"


@ray.remote
def divide(a: int, b: int) -> float:
    return a / b


@ray.remote
def add(a: float, b: float) -> float:
    return a + b


@ray.remote(max_retries=0)
def vanish() -> None:
    os._exit(3)


@ray.remote
def sleep_long() -> None:
    while True:
        time.sleep(0.05)


@ray.remote(max_restarts=1, max_task_retries=1)
class Phoenix:
    """Dies once: a file remembers that it did, since the actor itself starts afresh."""

    def __init__(self, mark: str) -> None:
        self.mark = Path(mark)
        self.calls = 0

    def work(self) -> str:
        self.calls += 1
        if not self.mark.exists():
            self.mark.touch()
            os._exit(1)
        return f"alive, call {self.calls} of this life"


def work_until_it_cannot(phoenix: "ray.actor.ActorHandle") -> None:
    """A kill takes a moment to arrive; a call made in that moment may still be answered."""
    while True:
        ray.get(phoenix.work.remote())
        time.sleep(0.05)


OUTCOMES: list[str] = []


def attempt(what: str, action: Callable[[], object], *expected: type[BaseException]) -> None:
    try:
        outcome = action()
    except expected as error:
        matched = [kind.__name__ for kind in expected if isinstance(error, kind)]
        OUTCOMES.append(f"{what}: raised {' and '.join(matched)}")
    else:
        OUTCOMES.append(f"{what}: {outcome}")


def main() -> None:
    ray.init()
    errors = ray.exceptions
    attempt("a retried task", lambda: ray.get(pick.remote(Attempts.remote())))
    attempt("a task that fails", lambda: ray.get(divide.remote(1, 0)), ZeroDivisionError, errors.RayTaskError)
    failed = divide.remote(1, 0)
    attempt("a task fed by it", lambda: ray.get(add.remote(failed, 1.0)), errors.RayTaskError)
    attempt("a task that vanishes", lambda: ray.get(vanish.remote()), errors.WorkerCrashedError)

    endless = sleep_long.remote()
    attempt("a get with a limit", lambda: ray.get(endless, timeout=0.1), errors.GetTimeoutError)
    ray.cancel(endless)
    attempt("a cancelled task", lambda: ray.get(endless), errors.TaskCancelledError)

    with tempfile.TemporaryDirectory() as folder:
        phoenix = Phoenix.remote(os.path.join(folder, "died"))
        attempt("an actor that dies once", lambda: ray.get(phoenix.work.remote()))
        ray.kill(phoenix)
        attempt("a killed actor", lambda: work_until_it_cannot(phoenix), errors.RayActorError)
    ray.shutdown()
    # Only now: while it runs, the system has remarks of its own to make about what dies.
    print("What happened:", *OUTCOMES, sep="\n")


if __name__ == "__main__":
    main()
