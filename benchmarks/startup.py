"""The start-up program: a fresh process that imports a system, gets one result, and stops.

Its own process, one thread. Started as `python -m benchmarks.startup <system>`; prints one JSON line after
the first result, waits for a line on stdin (meanwhile the runner looks at the idle system), stops the
system, and prints a second one. Imports next to nothing itself: a module loaded here would be one the
system gets for free.
"""

import sys
import time


def main() -> None:
    from benchmarks.systems import open_system
    from benchmarks.work import small_value

    system = open_system(sys.argv[1])
    began = time.perf_counter()
    system.load()
    loaded = time.perf_counter()
    system.start()
    system.get(system.remote(small_value).remote())
    first = time.perf_counter()
    answer(import_s=loaded - began, first_result_s=first - loaded, version=system.version())
    sys.stdin.readline()
    stopping = time.perf_counter()
    system.stop()
    answer(shutdown_s=time.perf_counter() - stopping)


def answer(**fields: object) -> None:
    import json

    # The prefix tells our lines from whatever the system prints to the same stdout.
    sys.stdout.write("\nstartup " + json.dumps(fields) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
