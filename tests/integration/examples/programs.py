"""The example programs, how one is run, and what of its output is compared.

Shared by the test (sundog against what Ray printed) and by `record` (which makes Ray print it).
"""

import re
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
EXAMPLES = REPOSITORY / "examples"
EXPECTED = Path(__file__).resolve().parent / "expected"

NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))

# Programs whose point is the time they take: the figures differ on every run, the lines do not.
_TIMED = {"profile_loops"}
# Programs in which processes die: Ray remarks upon it on stdout, before the line where the result begins.
_REMARKED_UPON = {"errors_and_retries": "What happened:\n"}


def run(command: list[str], name: str, *, limit_s: float) -> "subprocess.CompletedProcess[str]":
    """Run one example with this command in front of its path, from its own folder as its reader would."""
    return subprocess.run(
        [*command, f"{name}.py"],
        cwd=EXAMPLES,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )


def comparable(name: str, output: str) -> str:
    """The output without what cannot be the same twice."""
    if name in _TIMED:
        return re.sub(r"\d+\.\d+ s", "… s", output)
    if name in _REMARKED_UPON:
        return output[output.index(_REMARKED_UPON[name]) :]
    return output
