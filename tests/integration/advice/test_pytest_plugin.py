"""The pytest plugin, in a pytest of its own with a real session; and `sundog diff` and `rehearse` on what it left."""

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

TEST = """
import time
import pytest
import sundog as ray
from sundog.util.state import list_tasks

@ray.remote
def nap(seconds):
    time.sleep(seconds)

@pytest.mark.sundog_baseline("nap", slower=0.5, larger=9.0)
def test_nap():
    ray.init(num_cpus=2)
    seconds = float(open("seconds.txt").read())
    ray.get([nap.remote(seconds) for _ in range(4)])
    # A worker records a task after it has answered.
    while len(list_tasks(filters=[("name", "=", "nap"), ("state", "=", "FINISHED")])) < 4:
        time.sleep(0.01)
    ray.shutdown()

def test_other():
    pass
"""


def run(folder: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *args], cwd=folder, capture_output=True, text=True, check=False, timeout=100
    )


def pytest_(folder: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    plugin = ("-p", "no:sundog", "-p", "sundog.advice.pytest_plugin", "-p", "no:cacheprovider")
    return run(folder, "-m", "pytest", "-q", *plugin, "--rootdir", str(folder), *args)


def test_a_test_whose_session_got_slower_fails_and_the_sessions_can_be_compared(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TEST)
    (tmp_path / "seconds.txt").write_text("0.01")
    first = pytest_(tmp_path)
    assert first.returncode == 0, first.stdout + first.stderr
    stored = json.loads((tmp_path / "sundog-baselines.json").read_text())
    assert stored["nap"]["functions"]["nap"]["count"] == 4
    # Far slower, whatever else the machine did meanwhile.
    slow = max(1.0, 3 * stored["nap"]["functions"]["nap"]["total_s"] / 4)
    (tmp_path / "seconds.txt").write_text(str(slow))
    second = pytest_(tmp_path)
    assert second.returncode == 1, second.stdout
    assert "nap is" in second.stdout
    assert "--sundog-update-baselines" in second.stdout

    listed = run(tmp_path, "-m", "sundog.cli", "session", "list", "--json")
    names = sorted(row["name"] for row in json.loads(listed.stdout))
    assert len(names) == 2, listed.stdout
    diff = run(tmp_path, "-m", "sundog.cli", "diff", *names, "--fail-if", "slower=50%", "--json")
    assert diff.returncode == 1, diff.stdout + diff.stderr
    assert any(text.startswith("nap is") for text in json.loads(diff.stdout)["worse"])
    same = run(tmp_path, "-m", "sundog.cli", "diff", names[0], names[0], "--fail-if", "slower=0%")
    assert (same.returncode, "nap" in same.stdout) == (0, True), same.stderr
    wrong = run(tmp_path, "-m", "sundog.cli", "diff", *names, "--fail-if", "odd")
    assert wrong.returncode == 2
    there = run(
        tmp_path,
        "-m",
        "sundog.cli",
        "rehearse",
        "--cpus",
        "1",
        "--memory",
        "8GB",
        "--session",
        names[1],
        "--json",
    )
    assert there.returncode == 0, there.stderr
    found = json.loads(there.stdout)
    assert found["predicted_s"] > 4 * slow * 0.9
    assert run(tmp_path, "-m", "sundog.cli", "rehearse").returncode == 2


FIXTURES = """
    import time
    import pytest
    import sundog as ray

    @pytest.fixture(scope="module")
    def session():
        ray.init(num_cpus=2)
        yield
        ray.shutdown()

    @ray.remote
    def nap(seconds):
        time.sleep(seconds)

    @ray.remote
    def other():
        return 1

    @pytest.mark.sundog_baseline("first", slower=0.5)
    def test_first(session):
        ray.get([other.remote() for _ in range(3)])

    @pytest.mark.sundog_baseline("second", slower=0.5)
    def test_second(session):
        ray.get([nap.remote(float(open("seconds.txt").read())) for _ in range(2)])

    @pytest.mark.sundog_baseline("nothing")
    def test_nothing(session):
        ray.get(ray.put(1))

    @pytest.mark.sundog_baseline()
    @pytest.mark.parametrize("cpus", [1, 2])
    def test_several(cpus):
        ray.shutdown()
        for _ in range(2):
            with ray.init(num_cpus=cpus):
                ray.get([other.remote(), nap.remote(0)])
"""


def test_a_session_of_a_fixture_is_judged_by_what_each_test_does_in_it(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(dedent(FIXTURES))
    (tmp_path / "seconds.txt").write_text("0.01")
    first = pytest_(tmp_path)
    assert "the test has run no task in its session" in first.stdout and "1 failed, 4 passed" in first.stdout
    assert (
        "compared nothing, and stored the figures of first, second, test_it.py::test_several[1]"
        in first.stdout
    )
    stored = json.loads((tmp_path / "sundog-baselines.json").read_text())
    counts = {
        name: {f: row["count"] for f, row in each["functions"].items()} for name, each in stored.items()
    }
    both = {"other": 2, "nap": 2}
    assert counts == {
        "first": {"other": 3},
        "second": {"nap": 2},
        "test_it.py::test_several[1]": both,
        "test_it.py::test_several[2]": both,
    }
    (tmp_path / "seconds.txt").write_text("2")
    second = pytest_(tmp_path, "-k", "first or second")
    assert "nap is" in second.stdout and "stored the figures" not in second.stdout


def test_processes_that_store_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\nimport sundog as ray\n"
        "@pytest.mark.sundog_baseline()\n@pytest.mark.parametrize('n', range(4))\n"
        "def test_each(n):\n    with ray.init(num_cpus=1):\n        ray.get(ray.remote(abs).remote(n))\n"
    )
    done = pytest_(tmp_path, "-p", "xdist", "-n", "2")
    assert "4 passed" in done.stdout, done.stdout
    stored = json.loads((tmp_path / "sundog-baselines.json").read_text())
    assert sorted(stored) == [f"test_it.py::test_each[{number}]" for number in range(4)]
    assert all(list(each["functions"]) == ["abs"] for each in stored.values())


def test_a_test_that_writes_to_a_shared_array_is_told_of_copy(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import numpy as np\n"
        "def test_with():\n"
        "    import sundog as ray\n"
        "    with ray.init(num_cpus=1):\n"
        "        ray.get(ray.put(np.zeros(10)))[0] = 1\n"
    )
    shown = pytest_(tmp_path)
    assert shown.returncode == 1
    assert "assignment destination is read-only" in shown.stdout
    assert "array = array.copy()" in shown.stdout


def test_a_wrong_mark_or_a_damaged_file_of_baselines_is_told_of_in_one_sentence(tmp_path: Path) -> None:
    body = "    with ray.init(num_cpus=1):\n        ray.get(ray.put(1))\n"
    marks = ['"a", slower="much"', '"a", larger=-1', '"a", faster=1', '"a", 0.5', '"a"']
    (tmp_path / "test_it.py").write_text(
        "import pytest\nimport sundog as ray\n"
        + "".join(
            f"@pytest.mark.sundog_baseline({mark})\ndef test_{number}():\n{body}"
            for number, mark in enumerate(marks)
        )
    )
    (tmp_path / "sundog-baselines.json").write_text("[1]")
    shown = pytest_(tmp_path).stdout
    for words in (
        "slower='much' is not a share; 0.2 allows 20 %",
        "larger=-1 is not a share",
        "sundog_baseline knows slower and larger, not faster",
        "sundog_baseline takes a name; shares are named: slower=0.5",
        "sundog-baselines.json has no names at its top level: correct it or remove it",
    ):
        assert words in shown
    assert (tmp_path / "sundog-baselines.json").read_text() == "[1]" and "During handling" not in shown
