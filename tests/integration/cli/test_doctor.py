"""`sundog doctor` and `sundog run --doctor` on a real program."""

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """import time
import ray

ray.init(num_cpus=4)

@ray.remote
def nap(x):
    time.sleep(0.15)
    return x

out = [ray.get(nap.remote(x)) for x in range(8)]
print(sum(out))
"""


def sundog(*args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "sundog.cli", *args], capture_output=True, text=True, check=False, timeout=100
    )


def test_a_program_is_run_and_examined_and_its_session_can_be_examined_again(tmp_path: Path) -> None:
    script = tmp_path / "prog.py"
    script.write_text(PROGRAM)
    done = sundog("run", "--doctor", str(script))
    assert (done.returncode, done.stdout) == (0, "28\n"), done.stderr
    assert "critical path:" in done.stderr
    asked = sundog("doctor", "--json")
    assert asked.returncode == 0, asked.stderr
    report = json.loads(asked.stdout)
    assert (report["tasks"], report["cpus"]) == (8, 4.0)
    assert report["critical_path"]
    # Whether a change is worth saying depends on the machine; if it is said, it is this one, here.
    for each in report["findings"]:
        assert each["file"] == str(script)
    assert [each["line"] for each in report["findings"] if each["kind"] == "get-in-loop"] in ([11], [])
    plain = sundog("doctor")
    assert plain.stdout.startswith("session_")
    assert "\x1b" not in plain.stdout
    assert sundog("doctor", "--fail-over", "100%").returncode == 0
    assert sundog("doctor", "--fail-over", "lots").returncode == 2
    nothing = sundog("doctor", "--session", "no-such-session")
    assert (nothing.returncode, "there is no session" in nothing.stderr) == (3, True)
