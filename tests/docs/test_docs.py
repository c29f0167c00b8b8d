"""The documentation is held against the code: what is missing, stale or dead in it fails here.

Each check is a pure function from text to what is wrong with it, and is first shown a breach.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from sundog import config, exceptions
from sundog.cli import COMMANDS
from tests.docs import settings

ROOT = settings.ROOT
PACKAGE = settings.PACKAGE
ARCHITECTURE = ROOT / "docs" / "ARCHITECTURE.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md")])

_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
_TICKED = re.compile(r"`([^`]+)`")


# ---------------------------------------------------------------------- finders
def anchors(page: str) -> set[str]:
    """The names by which a page's headings can be linked to, as Git forges make them."""
    found = set()
    for heading in _HEADING.findall(_FENCE.sub("", page)):
        words = re.sub(r"[^\w\- ]", "", heading.replace("`", "").strip().lower())
        found.add(words.replace(" ", "-"))
    return found


def dead_links(path: Path) -> list[str]:
    """The links of a page that lead to no file, or to no heading of it. Other sites are not visited."""
    dead = []
    for link in _LINK.findall(_FENCE.sub("", path.read_text(encoding="utf-8"))):
        if "://" in link or link.startswith("mailto:"):
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            dead.append(link)
    return dead


def section(page: str, heading: str) -> str:
    """The text below a heading, up to the next one of the same rank."""
    rank = heading.split(" ", 1)[0]
    _, found, rest = page.partition(f"\n{heading}\n")
    assert found, f"there is no heading {heading!r}"
    return rest.partition(f"\n{rank} ")[0]


def files_in_table(text: str) -> list[str]:
    """What stands in backticks in the last column of a table's rows."""
    rows = [line for line in text.splitlines() if line.startswith("| ") and line.endswith(" |")]
    return [name for row in rows for name in _TICKED.findall(row.rstrip(" |").rpartition(" | ")[2])]


def find_file(name: str) -> Path | None:
    """A file by the name it has in the architecture page; None if there is none."""
    return next((root / name for root in (PACKAGE, ROOT) if (root / name).is_file()), None)


def not_drawn(tree: str, names: list[str]) -> list[str]:
    """The names that do not stand as whole words in a drawing."""
    words = set(re.findall(r"\w+", tree))
    return [name for name in names if name not in words]


def public_errors() -> list[str]:
    """The exception classes that `sundog.exceptions` defines for users."""
    members = inspect.getmembers(exceptions, inspect.isclass)
    return [
        name
        for name, cls in members
        if issubclass(cls, BaseException) and cls.__module__ == exceptions.__name__ and name[0] != "_"
    ]


# ---------------------------------------------------------------------- links
def test_a_dead_link_is_found_and_a_live_one_is_not(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# Top\n## What `x` is, and why\n```\n# no heading\n```\n")
    page = tmp_path / "page.md"
    live = ["other.md", "other.md#top", "other.md#what-x-is-and-why", "#here", "https://example.org/none"]
    dead = ["gone.md", "other.md#no-heading", "#there"]
    page.write_text("# Here\n" + " ".join(f"[a]({link})" for link in live + dead))
    assert dead_links(page) == dead


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_between_pages_leads_somewhere(page: Path) -> None:
    assert dead_links(page) == []


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = set(_LINK.findall((folder / "README.md").read_text(encoding="utf-8")))
    assert {path.name for path in folder.glob("[0-9]*.md")} <= listed


# ---------------------------------------------------------------------- settings
def test_a_missing_and_a_changed_setting_change_the_table() -> None:
    known = config.describe()
    table = settings.make_table(known, set())
    assert settings.make_table(known[1:], set()) != table
    assert settings.make_table([known[0]._replace(default="other"), *known[1:]], set()) != table
    assert settings.make_table(known, {known[0].name}) != table


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="markers"):
        settings.put_table("# Settings\n", "| |")


def test_the_reading_of_a_setting_is_found_however_the_config_is_reached() -> None:
    source = "a(config.one, self.config.two, owner.config.three, config_module.load().four, other.five)"
    source += (
        """; b(spec["config"]["six"], spec["other"]["seven"], settings["eight"], config.engine_asked())"""
    )
    assert settings.attributes_of_settings(source) == {
        "one",
        "two",
        "three",
        "four",
        "six",
        "eight",
        "engine",
    }


def test_the_page_of_settings_says_what_the_code_says() -> None:
    said = settings.PAGE.read_text(encoding="utf-8")
    assert said == settings.current_page(), "run: python -m tests.docs.settings"


# ---------------------------------------------------------------------- commands
def test_every_command_is_on_the_page_of_commands() -> None:
    page = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"`sundog {name}" not in page] == []


def test_the_readme_names_only_commands_that_there_are() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`sundog ([a-z-]+)", readme)) - set(COMMANDS) == set()


@pytest.mark.parametrize("page", ["README.md", "docs/benchmarks.md"])
def test_the_benchmarks_have_their_places(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert 0 < text.find("<!-- bench:start -->") < text.find("<!-- bench:end -->")


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 132


# ---------------------------------------------------------------------- architecture
def test_files_are_taken_from_the_last_column_of_a_table_alone() -> None:
    table = "| behaviour | file |\n|---|---|\n| `get` | `api.py`, `gone.py` |\nsee `not.py`\n"
    assert files_in_table(table) == ["api.py", "gone.py"]
    assert find_file("api.py") == PACKAGE / "api.py"
    assert find_file("gone.py") is None


def test_every_file_of_where_to_find_what_exists() -> None:
    page = ARCHITECTURE.read_text(encoding="utf-8")
    names = files_in_table(section(page, "## Where to find what"))
    assert len(names) > 50, "the table was not read"
    assert [name for name in names if find_file(name) is None] == []


# ---------------------------------------------------------------------- errors
def test_an_error_that_is_not_drawn_is_found() -> None:
    assert not_drawn("RayError\n├── ActorDiedError", ["RayError", "DiedError"]) == ["DiedError"]


def test_every_public_error_is_in_the_tree() -> None:
    assert "RayError" in public_errors()
    assert not_drawn(exceptions.__doc__ or "", public_errors()) == []
