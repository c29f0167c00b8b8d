"""What was done to a job for its limit: a file between node and supervisor, and one sentence."""

from __future__ import annotations

from pathlib import Path

from sundog.system import job_verdicts
from sundog.system.job_verdicts import Verdict


def test_a_verdict_survives_its_file_and_is_one_sentence(tmp_path: Path) -> None:
    folder = str(tmp_path)
    tmp_path.chmod(0o700)
    assert job_verdicts.read(folder) is None
    job_verdicts.write(folder, Verdict(200_000_000, 1, False, 260_000_000, "pid 7, grow(): 180.0 MB"))
    found = job_verdicts.read(folder)
    assert found is not None and found.text() == (
        "1 of its workers was ended because the job used 260 MB, more than its limit of 200 MB (--memory); the "
        "largest user was pid 7, grow(): 180.0 MB."
    )
    job_verdicts.write(folder, Verdict(1_000_000, 3, True, 2_000_000))
    found = job_verdicts.read(folder)
    assert found is not None and found.text().startswith("It was ended because the job used 2 MB")
    assert [each.name for each in tmp_path.iterdir()] == ["memory.json"]
    (tmp_path / "memory.json").write_text('{"other": 1}')
    assert job_verdicts.read(folder) is None
    job_verdicts.write(f"{folder}/none", Verdict(1))  # a program that joined has no folder
