"""The report in its forms."""

import json

from rich.console import Console

from sundog.advice.findings import Finding
from sundog.advice.report import DoctorReport, chart


def report(*findings: Finding, **fields: object) -> DoctorReport:
    made = DoctorReport("session_x", 2.0, 2.1, 5, 4.0, 2, 0.5, [("work", 1.5)], [1.0, 2.0], list(findings))
    for name, value in fields.items():
        setattr(made, name, value)
    return made


FOUND = Finding(
    "get-in-loop",
    "get in a loop",
    "/x.py",
    3,
    5,
    1.5,
    1.0,
    1.0,
    "five <gets>",
    "Get once.",
    "--- a\n+++ b\n-old\n+new\n",
)


def test_the_text_says_line_cost_change_and_prediction() -> None:
    text = str(report(FOUND))
    for part in (
        "/x.py:3, 5 times, cost 1.50 s",
        "Get once.",
        "predicted: 1.00 s instead of 2.00 s (50% less)",
        "+new",
    ):
        assert part in text


def test_a_run_without_faults_says_so() -> None:
    assert "Nothing worth changing was found." in str(report())
    assert "nothing to examine" in str(report(is_whole=False))


def test_a_run_that_cannot_be_played_is_not_called_faultless() -> None:
    unplayed = report(played_s=0.0)
    for text in (str(unplayed), unplayed._repr_html_()):
        assert "cannot play this run" in text and "Nothing worth" not in text


def test_an_unsure_simulator_says_so() -> None:
    assert "with care" in str(report(played_s=3.0))


def test_a_machine_that_others_used_is_told() -> None:
    assert "Other programs, and the runtime itself, used 80% of the cores" in str(report(others=0.8))
    assert "Other programs" not in str(report(others=0.1))


def test_a_notebook_gets_html_with_nothing_unescaped() -> None:
    page = report(FOUND)._repr_html_()
    assert "five &lt;gets&gt;" in page
    assert "<span style='color:green'>+new</span>" in page


def test_a_terminal_gets_the_same_facts() -> None:
    console = Console(width=120, record=True, file=open("/dev/null", "w"))
    console.print(report(FOUND).rich())
    assert "Get once." in console.export_text()


def test_json_has_every_field() -> None:
    found = json.loads(json.dumps(report(FOUND).as_dict()))
    assert found["findings"][0]["predicted_s"] == 1.0
    assert found["simulation_error"] == 0.05


def test_a_name_cannot_forge_a_line() -> None:
    assert "\x1b" not in str(report(critical_path=[("a\x1b[2J", 1.0)]))


def test_bars_are_as_high_as_their_values() -> None:
    assert chart([0, 1, 2, 4]) == " ▂▄█"
    assert chart([]) == ""
