"""What outlives the driver that began it: detached actors, and Serve in a session of `sundog start`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
import sundog as ray

ray.init(address="auto", namespace="n")

@ray.remote
def task():
    return "task"

@ray.remote(num_cpus=0)
class Child:
    def say(self):
        return "actor"

@ray.remote(lifetime="detached", name="lasting", num_cpus=0)
class Lasting:
    async def both(self):
        child = Child.remote()
        return [await task.remote(), await child.say.remote()]

if sys.argv[1] == "make":
    Lasting.remote().__ray_ready__.remote().future().result()
else:
    print(ray.get(ray.get_actor("lasting").both.remote(), timeout=120))
"""


def test_a_detached_actor_makes_tasks_and_actors_after_its_driver_has_ended(
    tmp_path: Path, leak_check: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    sundog = [sys.executable, "-m", "sundog.cli"]
    subprocess.run([*sundog, "start", "--head", "--num-cpus", "2"], check=True, capture_output=True)
    try:
        subprocess.run([sys.executable, str(program), "make"], check=True, capture_output=True)
        again = subprocess.run(
            [sys.executable, str(program), "use"], check=True, capture_output=True, text=True
        )
    finally:
        subprocess.run([*sundog, "stop"], check=False, capture_output=True)
    assert "['task', 'actor']" in again.stdout
