"""`sundog timeline`: files that are written whole, and input that makes no sense."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from sundog import events
from tests.cli.conftest import session_folder

Sundog = Callable[..., Result]


@pytest.fixture
def ended(leak_check: Path) -> Path:
    folder = session_folder(leak_check)
    ring = events.Ring(str(folder / "rings" / f"{'cd' * 8}.ring"), 64, "worker")
    for number in range(3):
        start = 10.0 + number
        ring.write(events.TASK, bytes(15) + bytes([number]), ring.name("</script>"), 10.0, start, start + 0.5)
    ring.close()
    return folder


def test_a_trace_and_a_page_are_written(sundog: Sundog, ended: Path, tmp_path: Path) -> None:
    file = str(tmp_path / "t.json")
    assert "3 tasks" in sundog("timeline", "-o", file).output
    assert sum(each.get("cat") == "task" for each in json.loads(Path(file).read_text())) == 3
    [facts] = json.loads(sundog("timeline", "-o", file, "--from", "0.8", "--to", "1.2", "--json").output)
    assert facts["tasks"] == 1
    assert len(json.loads(sundog("timeline", "-o", "-").output)) > 3
    page = str(tmp_path / "t.html")
    sundog("timeline", "--html", "-o", page)
    text = Path(page).read_text()
    assert "http" not in text.replace("http://www.w3.org", "") and text.count("</script>") == 2
    assert [each.name for each in sorted(tmp_path.iterdir())] == ["t.html", "t.json"]


def test_bad_input_gets_one_sentence(sundog: Sundog, ended: Path, leak_check: Path) -> None:
    result = sundog("timeline", "-o", "/no/such/folder/t.json")
    assert (result.exit_code, len(result.output.splitlines())) == (1, 1)
    assert sundog("timeline", "--from", "3", "--to", "2").exit_code == 2
    assert sundog("timeline", "--session", "nonsense").exit_code == 3
    (ended / "rings" / f"{'cd' * 8}.ring").unlink()
    for each in (ended / "records").iterdir():
        each.unlink()
    result = sundog("timeline")
    assert result.exit_code == 1 and "no tasks" in result.output


def test_a_link_that_somebody_put_where_the_file_is_made_is_not_followed(
    sundog: Sundog, ended: Path, tmp_path: Path
) -> None:
    precious = tmp_path / "precious"
    precious.write_text("x")
    (tmp_path / f"t.json.{os.getpid()}.part").symlink_to(precious)
    assert "cannot be written: File exists" in sundog("timeline", "-o", str(tmp_path / "t.json")).output
    assert precious.read_text() == "x"


@pytest.mark.parametrize("address", ["auto", "FOLDER", "nonsense"])
def test_the_session_may_be_given_by_its_address_as_for_ray(
    sundog: Sundog, ended: Path, tmp_path: Path, address: str
) -> None:
    given = str(ended) if address == "FOLDER" else address
    result = sundog("timeline", "--address", given, "-o", str(tmp_path / "t.json"))
    assert result.exit_code == (3 if address == "nonsense" else 0)
    assert ("3 tasks" in result.output) is (address != "nonsense")
