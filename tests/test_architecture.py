"""The rules of the house that no linter knows, checked on the syntax trees of our own files.

Import directions are import-linter's (see pyproject.toml). Here: who reads the environment, which modules say
what they are for, how long files and functions may grow, names that say nothing or are used twice, units and
clocks in names, one style of separators, which modules have a test of their name, fakes that have a class, and
how often a type is `Any`. Each finder is first shown a breach. Known breaches are listed in `tests/rules/*.txt`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rules import breaches, cycles, names

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "sundog"
MAX_LINES = 600
CHECKS = breaches.CHECKS | names.CHECKS
# The largest cycle of imports that a package may have, types included; none where it is not named. Only ever fewer.
LARGEST_CYCLE = {
    "advice": 2,
    "engines": 2,
    "node": 3,
    "owner": 2,
    "ray_engine": 3,
    "serve": 6,
    "state": 2,
    "store": 2,
    "util": 2,
    "worker": 4,
}
# Lines of code of the package with `Any`, and its public functions that return it. Only ever fewer.
MAX_ANY_LINES = 296
MAX_RETURNS_ANY = 30
EMPTY_NAMES = {"utils", "helpers", "common", "manager", "misc"}
# Paths that Ray programs import: their names are not ours to choose.
RAY_PATHS = {
    "src/sundog/serve/utils.py",
    "src/sundog/util/helpers.py",
    "src/sundog/util/state/common.py",
}
ENVIRONMENT_NAMES = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}

# A module that begins so has a docstring; parsing it all for that takes long.
_OPENING = re.compile(r'"""[^"\s]')


def our_files() -> list[Path]:
    folders = [PACKAGE, ROOT / "tests", ROOT / "benchmarks", ROOT / "examples"]
    return sorted(path for folder in folders for path in folder.rglob("*.py"))


def environment_uses(source: str) -> Iterator[int]:
    """Yield the line of every use of the process environment, however ``os`` is spelled."""
    if not any(name in source for name in ENVIRONMENT_NAMES):
        return
    tree = ast.parse(source)
    modules = {"os", "posix"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {name.asname for name in node.names if name.name in modules and name.asname}
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=("os" | "posix"), names=names):
                if any(name.name in ENVIRONMENT_NAMES for name in names):
                    yield node.lineno
            case ast.Attribute(value=ast.Name(id=module), attr=attribute):
                if module in modules and attribute in ENVIRONMENT_NAMES:
                    yield node.lineno


def docstring_problem(source: str) -> str | None:
    """Say what is wrong with a module's docstring; an empty file needs none."""
    if not source.strip() or _OPENING.match(source):
        return None
    return None if ast.get_docstring(ast.parse(source)) else "has no docstring"


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos.environ['HOME']",
        "import os\nos.getenv('HOME')",
        "import os as _os\n_os.environ.get('HOME')",
        "from os import environ\n",
        "from os import path, getenv as look\n",
        "def f():\n    import os\n    return dict(os.environ)",
        "import os\nos.putenv('A', 'b')",
    ],
)
def test_a_reader_of_the_environment_is_found_however_it_is_spelled(source: str) -> None:
    assert list(environment_uses(source))


@pytest.mark.parametrize("source", ["import os\nos.getpid()", "from os import path", "config.environ = {}"])
def test_other_uses_of_os_are_left_alone(source: str) -> None:
    assert not list(environment_uses(source))


def test_only_config_reads_the_environment() -> None:
    breaches = [
        f"{named(path)}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path not in (PACKAGE / "config.py", PACKAGE / "early.py")  # early.py: config is too slow for it
        for line in environment_uses(path.read_text())
    ]

    assert not breaches, (
        f"ask sundog.config instead (config.load, user_environ, set_child_environ): {breaches}"
    )


def test_a_module_without_a_docstring_is_found() -> None:
    assert docstring_problem("import os\n") == "has no docstring"
    assert docstring_problem('""""""\nimport os\n') == "has no docstring"
    assert docstring_problem('"""What it owns."""\n') is None


def test_every_module_opens_with_what_it_is_for() -> None:
    problems = [
        f"{named(path)} {problem}" for path in our_files() if (problem := docstring_problem(path.read_text()))
    ]

    assert not problems, f"say what it owns, what it refuses, and which process runs it: {problems}"


def test_no_file_grows_past_six_hundred_lines() -> None:
    lengths = {named(path): len(path.read_text().splitlines()) for path in our_files()}

    too_long = {name: lines for name, lines in lengths.items() if lines > MAX_LINES}
    assert not too_long, f"split them by noun: {too_long}"


def test_no_module_has_a_name_that_says_nothing() -> None:
    empty = {named(path) for path in our_files() if EMPTY_NAMES & {path.stem, path.parent.name}} - RAY_PATHS

    assert not empty, f"name them after what they hold: {empty}"


def test_every_file_of_the_package_is_seen() -> None:
    """Guards the tests above: with a wrong root they would pass on nothing at all."""
    assert PACKAGE / "config.py" in our_files()
    assert Path(__file__) in our_files()


def lines(count: int) -> str:
    return "".join(f"    a{number} = {number}\n" for number in range(count))


def test_a_function_of_more_than_sixty_lines_is_found_wherever_it_is() -> None:
    source = f"class A:\n  def m(self):\n    def inner():\n{lines(61).replace('    ', '      ')}"

    assert [name for name, _ in breaches.long_functions(source)] == ["A.m", "A.m.inner"]
    assert not list(breaches.long_functions(f"def f():\n{lines(59)}"))


@pytest.mark.parametrize(
    "line", ["# ---- titles", "# === titles ===", "    # -- titles --------------", "#####"]
)
def test_a_separator_of_another_style_is_found(line: str) -> None:
    assert list(breaches.odd_separators(line)) == [1]


def test_a_separator_of_the_house_is_left_alone() -> None:
    assert not list(breaches.odd_separators(breaches.separator(4, "from the node (locked)")))
    assert not list(breaches.odd_separators("x = 1  # -- no separator\n# a list:\n# - first\n"))


def test_a_module_of_rows_needs_no_test_and_one_with_a_function_does() -> None:
    assert not breaches.has_logic('class Row:\n    """A row."""\n    def empty(self) -> int: ...\n')
    assert breaches.has_logic("class Row:\n    def double(self) -> int:\n        return 2\n")


def test_a_class_name_that_stands_in_two_modules_is_found() -> None:
    files = {"a.py": "class Row:\n    class Inner: ...\n", "b.py": "class Row: ...\nclass Inner: ...\n"}

    assert names.doubled_classes(files) == {"Row": ["a.py", "b.py"]}


@pytest.mark.parametrize("name", ["_SECONDS", "WAIT_SECONDS", "_BYTES_MAX", "S_MAX", "LOOK_MSEC"])
def test_a_constant_that_says_its_unit_in_another_way_is_found(name: str) -> None:
    assert [found for found, _ in names.odd_units(f"{name} = 3.0\n")] == [name]


def test_a_unit_at_the_end_of_a_constant_is_left_alone() -> None:
    assert not list(names.odd_units("_MAX_S = 1.0\nLINE_MAX_BYTES = 4\n_BYTES_PER_S = 4e9\nCOUNT = 3\n"))


def test_a_wall_clock_that_is_called_now_is_found() -> None:
    source = "class A:\n    def f(self, now=None):\n        now = time.time() if now is None else now\n"

    assert [name for name, _ in names.wall_clocks_called_now(source)] == ["A.f"]
    assert not list(
        names.wall_clocks_called_now("def f():\n    now = time.monotonic()\n    wall_s = time.time()\n")
    )


@pytest.mark.parametrize(
    ("which", "advice"),
    [
        ("long_functions", "split them: a function past 60 lines is two"),
        ("untested_modules", "write tests/FOLDER/test_MODULE.py: real tests of what the module does"),
        ("doubled_classes", "rename one of the two classes after what only it is"),
        (
            "odd_units",
            "the unit stands at the end of a constant's name, in its short form: WAIT_MAX_S, LINE_BYTES",
        ),
        ("wall_clocks", "call a reading of the wall clock wall_s; now is the monotonic clock"),
    ],
)
def test_there_is_no_breach_that_is_not_known(which: str, advice: str) -> None:
    new = CHECKS[which]() - breaches.known(which)

    assert not new, f"{advice}: {sorted(new)}"


@pytest.mark.parametrize("which", sorted(CHECKS))
def test_a_mended_breach_leaves_the_list(which: str) -> None:
    mended = breaches.known(which) - CHECKS[which]()

    assert not mended, f"good; now run: python -m tests.rules   (mended: {sorted(mended)})"


def test_separators_have_one_style() -> None:
    odd = [
        f"{path.relative_to(breaches.ROOT)}:{number}"
        for path in breaches.sources("src", "tests", "benchmarks", "examples")
        for number in breaches.odd_separators(path.read_text())
    ]

    assert not odd, f"write {breaches.separator(0, 'title')!r}: {odd}"


def test_a_cycle_through_a_function_and_an_import_for_types_is_found() -> None:
    known = dict.fromkeys(("a.b", "a.c", "a.d"))
    source = "if TYPE_CHECKING:\n    from a.b import B\ndef f():\n    from a import c\n    import a.d, os\n"

    assert cycles.imports(source, known) == {"a.b", "a.c", "a.d"}
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": set[str]()}
    assert sorted(map(sorted, cycles.components(graph))) == [["a", "b", "c"], ["d"]]


@pytest.mark.parametrize("folder", sorted(each.name for each in PACKAGE.iterdir() if each.is_dir()))
def test_no_cycle_of_imports_grows(folder: str) -> None:
    largest = next(iter(cycles.cycles_of(folder)), [])

    assert len(largest) <= LARGEST_CYCLE.get(folder, 0), (
        f"give a part what it needs by name, with a Protocol for what is above it: {largest}"
    )


def test_a_line_with_any_is_found_and_prose_is_left_alone() -> None:
    source = '"""Any thread."""\nfrom typing import Any\n# Any process.\nx: "Any"\ny: dict[str, Any] = {}\n'

    assert breaches.any_lines(source) == {2, 5}
    methods = "class A:\n  def m(self) -> Any: ...\n  def _m(self) -> Any: ...\ndef f() -> Any: ...\ndef g() -> int: 1"
    assert list(breaches.returns_any(methods)) == ["A.m", "f"]


def test_any_is_not_used_more_often() -> None:
    """`object` fits a value that is only passed on; a TypeVar, a Protocol or a row fits one that is used."""
    sources = {named(path): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
    lines = {name: len(breaches.any_lines(source)) for name, source in sources.items()}
    returns = [f"{name}:{each}" for name, source in sources.items() for each in breaches.returns_any(source)]

    assert sum(lines.values()) <= MAX_ANY_LINES, {name: count for name, count in lines.items() if count}
    assert len(returns) <= MAX_RETURNS_ANY, returns


def test_a_fake_without_a_class_is_found_and_prose_is_left_alone() -> None:
    source = (
        '"""No Mock."""\nimport types\nx = types.SimpleNamespace(a=1)\ny = Mock()\nz = "SimpleNamespace"\n'
    )

    assert breaches.nameless_fakes(source) == {3, 4}


def test_every_fake_has_a_class() -> None:
    found = [
        f"{named(path)}:{number}"
        for path in breaches.sources("tests")
        for number in sorted(breaches.nameless_fakes(path.read_text()))
    ]

    assert not found, (
        f"write a small class with typed fields; FOLDER/fakes.py has those of its folder: {found}"
    )


def test_no_question_to_sqlite_numbers_its_places() -> None:
    """Python 3.12 warns of each value that goes to such a place (seven times slower), and 3.14 refuses it."""
    breaches = [
        f"{named(path)}:{number}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"\?\d+\b.*\?\d+\b", line)
    ]
    assert not breaches, f"write ? for each value, in their order: {breaches}"
