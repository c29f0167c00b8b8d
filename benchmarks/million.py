"""A program of a million tasks, and how long questions about it take: while it runs, and after it.

`python -m benchmarks.million [TASKS]` prints a line for each question, with the seconds of the wall and of the
processor, and ends with status 1 if a figure is wrong or too late. Goals: the first question 10 s, each other one 2 s,
and counts that agree exactly with what ran. The load of the machine is told beside them: of a machine that others use,
the processor's seconds say more.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

FIRST_S, NEXT_S = 10.0, 2.0
FAILING = 100
_PROGRAM = """
import json, sys, time
import sundog as ray
from sundog.owner import context
count, failing = int(sys.argv[1]), int(sys.argv[2])
ray.init(num_cpus=2, logging_level="ERROR", log_to_driver=False)

@ray.remote(max_retries=0)
def nop(number):
    if number < 0:
        raise ValueError(number)

print(context.facts.session["path"], flush=True)
done = failed = 0
while done < count:
    refs = [nop.remote(n if n >= failing else -1) for n in range(done, min(count, done + 10000))]
    done += len(refs)
    for ref in refs if done <= 10000 else ():
        try:
            ray.get(ref)
        except ValueError:
            failed += 1
    if done > 10000:
        ray.get(refs)
    if done >= count // 2 and not sys.argv[3:]:
        print("half", flush=True)
        sys.argv.append("told")
print(json.dumps([done, failed]), flush=True)
sys.stdin.readline()
ray.shutdown()
"""


@dataclass(frozen=True)
class Asked:
    """One question: how long it took, and what it said."""

    words: str
    wall_s: float
    cpu_s: float
    limit_s: float
    output: str

    def text(self) -> str:
        """A line for people."""
        late = "" if self.wall_s <= self.limit_s else f"  LATER than {self.limit_s:.0f} s"
        return f"  {self.words:52} {self.wall_s:6.2f} s  {self.cpu_s:6.2f} s of processor{late}"


def ask(session: str, *words: str, limit_s: float = NEXT_S) -> Asked:
    """Run one command of sundog on a session."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    command = [sys.executable, "-m", "sundog.cli", *words, "--session", session]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    wall = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended.returncode:
        raise RuntimeError(f"sundog {' '.join(words)} ended with {ended.returncode}: {ended.stderr}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    shown = " ".join(os.path.basename(word) for word in words)
    return Asked(f"sundog {shown}", wall, cpu, limit_s, ended.stdout)


def questions(session: str, folder: str, first_s: float) -> list[Asked]:
    """The same questions, the first of which may have to read much."""
    trace = f"{folder}/window.json"
    return [
        ask(session, "summary", "tasks", "--json", limit_s=first_s),
        ask(session, "summary", "tasks", "--json"),
        ask(session, "list", "tasks", "-f", "state=FAILED", "--limit", "1000", "--json"),
        ask(session, "why", "nop"),
        ask(session, "why"),
        ask(session, "timeline", "--from", "1.0", "--to", "1.1", "-o", trace),
    ]


def counts_of(asked: Asked) -> tuple[int, int]:
    """Finished and failed, from the output of `summary tasks --json`."""
    states: dict[str, int] = {}
    for part in json.loads(asked.output):
        for function in part["summary"].values():
            for state, count in function["state_counts"].items():
                states[state] = states.get(state, 0) + count
    return states.get("FINISHED", 0), states.get("FAILED", 0)


def check(asked: list[Asked], count: int) -> list[str]:
    """What is wrong or late."""
    wrong = [f"{each.words} took {each.wall_s:.2f} s" for each in asked if each.wall_s > each.limit_s]
    if counts_of(asked[1]) != (count - FAILING, FAILING):
        wrong.append(f"counts are {counts_of(asked[1])}, not {(count - FAILING, FAILING)}")
    if len(json.loads(asked[2].output)) != FAILING:
        wrong.append(f"{len(json.loads(asked[2].output))} failed tasks are listed, not {FAILING}")
    return wrong


def main(count: int) -> int:
    """Play, ask, print."""
    with tempfile.TemporaryDirectory(prefix="sundog-million-") as folder:
        environment = {**os.environ, "SUNDOG_temp_dir": folder}
        command = [sys.executable, "-c", _PROGRAM, str(count), str(FAILING)]
        program = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert program.stdout is not None and program.stdin is not None
        session = program.stdout.readline().strip()
        program.stdout.readline()
        print(f"while it runs (half of {count:,} tasks are done), load {os.getloadavg()[0]:.1f}:")
        early = questions(session, folder, FIRST_S)
        print("\n".join(each.text() for each in early))
        done, failed = json.loads(program.stdout.readline())
        program.stdin.close()
        program.wait()
        program.stdout.close()
        assert (done, failed) == (count, FAILING), (done, failed)
        index = f"{session}/records/index.sqlite"
        os.unlink(index)
        print(f"after it, with no index, load {os.getloadavg()[0]:.1f}:")
        late = questions(session, folder, FIRST_S)
        print("\n".join(each.text() for each in late))
        sizes = sum(os.path.getsize(f"{session}/records/{name}") for name in os.listdir(f"{session}/records"))
        print(f"records and index: {sizes / 1e6:.0f} MB")
        wrong = [
            f"{each.words} took {each.wall_s:.2f} s while it ran"
            for each in early
            if each.wall_s > each.limit_s
        ]
        wrong += check(late, count)
    print(
        "\n".join(wrong) if wrong else f"counts agree with what ran: {count - FAILING:,} and {FAILING} failed"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000))
