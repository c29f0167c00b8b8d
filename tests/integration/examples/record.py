"""Write down what real Ray prints for each example: the files in expected/ that sundog is held against.

    python -m tests.integration.examples.record /path/to/python-with-ray [name …]

Only ever run on Ray: a file written from sundog's own output would be a check that cannot fail.
"""

import subprocess
import sys

from tests.integration.examples import programs


def main(python: str, names: list[str]) -> None:
    """Run each program on that Python's Ray and keep what it printed."""
    which = subprocess.run(
        [python, "-c", "import ray; print(ray.__name__, ray.__version__)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    if not which.startswith("ray "):
        raise SystemExit(f"{python} does not have Ray itself but {which}")
    for name in names or programs.NAMES:
        done = programs.run([python], name, limit_s=120)
        if done.returncode != 0:
            raise SystemExit(f"{name} failed on {which} with {done.returncode}:\n{done.stderr}")
        (programs.EXPECTED / f"{name}.txt").write_text(programs.comparable(name, done.stdout))
        print(f"{name}: {len(done.stdout.splitlines())} lines from {which}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
