"""`init(logging_…)`: sundog's own messages, and how a program and its workers log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration import drivers

INFEASIBLE = """
@ray.remote(num_cpus=64)
def giant(): pass
waiting = giant.remote()
ray.wait([waiting], timeout=1.0)
"""


def errors_of(program: str, until: str = "") -> str:
    """What a program wrote to its standard error; one that waits in `input()` goes on when it has written `until`."""
    with drivers.running(program) as driver:
        if until:
            drivers.await_true(lambda: until in "".join(driver.errors), f"{until!r} on stderr")
        driver.go_on()
        driver.rest()
        driver.close()
        assert driver.process.returncode == 0, driver.errors
        return "".join(driver.errors)


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ("", "(sundog) WARNING: giant"),
        ("logging_level='error'", None),
        ("logging_level=40", None),
        ("logging_format='<%(levelname)s> %(message)s'", "<WARNING> giant"),
        ("configure_logging=False", "app says giant"),
    ],
)
def test_messages_of_sundog_are_shown_as_the_program_wants(options: str, shown: str | None) -> None:
    text = errors_of(
        drivers.join(
            f"""
            import logging
            logging.basicConfig(format="app says %(message)s")
            ray.init(num_cpus=1, {options})
            """,
            INFEASIBLE,
            "input()",
        ),
        shown or "",
    )
    if shown is None:
        assert "giant" not in text
    else:
        assert shown in text
    assert text.count("giant") == (0 if shown is None else 1)


def test_a_nested_owners_messages_follow_the_level_too() -> None:
    text = errors_of(
        """
        ray.init(num_cpus=1, logging_level="error")
        @ray.remote
        def outer():
            ray.wait([ray.remote(num_cpus=64)(lambda: None).remote()], timeout=1.0)
        ray.get(outer.remote())
        """
    )
    assert "WARNING" not in text


LOGS = """
import logging
@ray.remote
def work():
    logging.getLogger("app").info("in a task", extra={"rows": 3})
    logging.getLogger("app").debug("too fine")
    print("printed")
    return ray.get_runtime_context().get_task_id()
@ray.remote
class Keeper:
    def work(self): logging.getLogger("app").info("in an actor")
logging.info("in the driver")
task_id = ray.get(work.remote())
keeper = Keeper.options(name="bob").remote()
ray.get(keeper.work.remote())
print(task_id)
"""


def test_with_a_logging_config_every_line_says_whose_it_is() -> None:
    with drivers.running(
        drivers.join("ray.init(num_cpus=1, logging_config=ray.LoggingConfig(encoding='JSON'))", LOGS)
    ) as driver:
        out = driver.rest()
        driver.close()
        assert driver.process.returncode == 0, driver.errors
    rows = {row["message"]: row for row in map(json.loads, driver.errors)}
    assert [text for text in rows if text.startswith("Started session_")], (
        "what init() says is such a line too"
    )
    assert set(rows) >= {"in the driver", "in a task", "in an actor"} and len(rows) == 4
    assert set(out) >= {"printed"}  # no prefix: such lines are for programs
    assert rows["in a task"]["task_id"] in out
    assert rows["in a task"]["task_name"] == "work"
    assert rows["in a task"]["rows"] == 3
    assert rows["in an actor"]["actor_name"] == "bob"
    assert rows["in an actor"]["task_name"] == "Keeper.work"
    assert "task_id" not in rows["in the driver"]
    assert len({row["job_id"] for row in rows.values()}) == 1
    assert rows["in the driver"]["worker_id"] not in (
        rows["in a task"]["worker_id"],
        rows["in an actor"]["worker_id"],
    )


def test_what_a_program_logs_to_a_file_of_its_own_still_goes_there(tmp_path: Path) -> None:
    text = errors_of(
        f"""
        import logging
        logging.basicConfig(filename={str(tmp_path / "log")!r}, level=logging.INFO)
        for _ in range(2):
            with ray.init(num_cpus=1, logging_config=ray.LoggingConfig()):
                logging.info("here")
        """
    )
    assert text.count("here") == 2
    assert (tmp_path / "log").read_text().count("here") == 2


def test_lines_of_text_have_the_same_facts() -> None:
    text = errors_of(drivers.join("ray.init(num_cpus=1, logging_config=ray.LoggingConfig())", LOGS))
    (line,) = [line for line in text.splitlines() if "in a task" in line]
    assert " -- in a task rows=3 job_id=" in line
    assert " task_name=work" in line


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("logging_level='loud'", "logging_level must be"),
        ("logging_config={'encoding': 'JSON'}", "logging_config must be a sundog.LoggingConfig"),
        ("logging_format=3", "logging_format must be"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_starts(options: str, words: str) -> None:
    (line,) = drivers.run(
        f"""
        try:
            ray.init(num_cpus=1, {options})
        except (TypeError, ValueError) as error:
            print(error)
        assert not ray.is_initialized()
        """
    )
    assert words in line
